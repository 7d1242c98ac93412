//! etcd through Talos: the node's own member, never another one.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use talos_api::google::protobuf::Empty;
use talos_api::machine::etcd_member_alarm::AlarmType;
use talos_api::machine::{EtcdAlarmListResponse, EtcdMemberListRequest, EtcdMemberListResponse, EtcdStatusResponse};

use super::call::{Caller, Route, SMALL};
use super::machine::{malformed, only};
use super::resources::Type;
use crate::observe::dial::cause::clean;
use crate::snapshot::{AlarmKind, EtcdAlarm, EtcdMember, EtcdSpec, EtcdStatus, Observed};

const ETCD_SPECS: Type = Type { namespace: "etcd", name: "EtcdSpecs.etcd.talos.dev" };

impl Caller {
    pub(super) async fn etcd_status(&self, to: &Route<'_>) -> Observed<EtcdStatus> {
        status(self.ask(to, SMALL, Empty {}, |mut of, request| async move { of.etcd_status(request).await }).await?)
    }

    pub(super) async fn etcd_members(&self, to: &Route<'_>) -> Observed<Vec<EtcdMember>> {
        let request = EtcdMemberListRequest { query_local: true };
        members(
            self.ask(to, SMALL, request, |mut of, request| async move { of.etcd_member_list(request).await }).await?,
        )
    }

    pub(super) async fn etcd_alarms(&self, to: &Route<'_>) -> Observed<Vec<EtcdAlarm>> {
        alarms(self.ask(to, SMALL, Empty {}, |mut of, request| async move { of.etcd_alarm_list(request).await }).await?)
    }

    pub(super) async fn etcd_spec(&self, to: &Route<'_>) -> Observed<Option<EtcdSpec>> {
        self.one(to, ETCD_SPECS, "etcd").await?.map(etcd_spec).transpose()
    }
}

fn status(reply: EtcdStatusResponse) -> Observed<EtcdStatus> {
    let part = only("EtcdStatus", reply.messages, |it| it.metadata.as_ref())?;
    let status = part.member_status.filter(|status| status.member_id != 0);
    let status = status.ok_or_else(|| malformed("EtcdStatus: an answer without a member"))?;
    let size = |bytes: i64| u64::try_from(bytes).map_err(|_| malformed("EtcdStatus: a negative size"));
    Ok(EtcdStatus {
        member_id: status.member_id,
        leader: status.leader,
        raft_term: status.raft_term,
        raft_index: status.raft_index,
        raft_applied_index: status.raft_applied_index,
        is_learner: status.is_learner,
        db_size: size(status.db_size)?,
        db_size_in_use: size(status.db_size_in_use)?,
        quota: None,
        errors: status.errors,
        version: status.protocol_version,
        storage_version: status.storage_version,
        earlier: None,
        slower: Duration::ZERO,
    })
}

fn members(reply: EtcdMemberListResponse) -> Observed<Vec<EtcdMember>> {
    let part = only("EtcdMemberList", reply.messages, |it| it.metadata.as_ref())?;
    if part.members.is_empty() || part.members.iter().any(|member| member.id == 0) {
        // An etcd that answers is a member itself.
        return Err(malformed("EtcdMemberList: no members, or one without an id"));
    }
    let members = part.members.into_iter().map(|member| EtcdMember {
        id: member.id,
        name: member.hostname,
        peer_urls: member.peer_urls,
        client_urls: member.client_urls,
        is_learner: member.is_learner,
    });
    Ok(members.collect())
}

fn alarms(reply: EtcdAlarmListResponse) -> Observed<Vec<EtcdAlarm>> {
    let part = only("EtcdAlarmList", reply.messages, |it| it.metadata.as_ref())?;
    let alarms = part.member_alarms.into_iter().map(|alarm| EtcdAlarm {
        member_id: alarm.member_id,
        kind: match AlarmType::try_from(alarm.alarm) {
            Ok(AlarmType::Nospace) => AlarmKind::NoSpace,
            Ok(AlarmType::Corrupt) => AlarmKind::Corrupt,
            Ok(AlarmType::None) | Err(_) => AlarmKind::Other(alarm.alarm),
        },
    });
    Ok(alarms.collect())
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    #[serde(default)]
    image: String,
    extra_args: BTreeMap<String, Argument>,
}

/// The value of an argument: a list since Talos 1.13; etcd uses the last of several values.
#[derive(Deserialize)]
#[serde(untagged)]
enum Argument {
    Text(String),
    Number(i64),
    List(Vec<String>),
}

fn etcd_spec(mut spec: Spec) -> Observed<EtcdSpec> {
    let arguments = spec.extra_args.keys().map(|name| name.trim_start_matches('-').to_owned()).collect();
    let number = |text: String| {
        text.trim().parse().map_err(|_| malformed(&clean(&format!("`quota-backend-bytes` is `{text}`"))))
    };
    let quota = match spec.extra_args.remove("quota-backend-bytes") {
        None => None,
        Some(Argument::Number(quota)) => Some(quota),
        Some(Argument::Text(text)) => Some(number(text)?),
        Some(Argument::List(mut texts)) => texts.pop().map(number).transpose()?,
    };
    Ok(EtcdSpec { quota, image: spec.image, arguments })
}

#[cfg(test)]
mod tests {
    use talos_api::machine::{self, EtcdAlarm as Alarms, EtcdMemberAlarm, EtcdMemberStatus, EtcdMembers};

    use super::*;
    use crate::observe::talos::resources::Resource;
    use crate::snapshot::GapKind;

    #[test]
    fn a_status_without_a_member_is_no_status() {
        let kind = |messages| status(EtcdStatusResponse { messages }).unwrap_err().kind;
        let part = |member_status| machine::EtcdStatus { metadata: None, member_status };
        let good = EtcdMemberStatus { member_id: 7, db_size: 4096, ..Default::default() };
        assert_eq!(kind(vec![]), GapKind::Malformed);
        assert_eq!(kind(vec![part(None)]), GapKind::Malformed);
        assert_eq!(kind(vec![part(Some(EtcdMemberStatus::default()))]), GapKind::Malformed);
        assert_eq!(kind(vec![part(Some(good.clone())), part(Some(good.clone()))]), GapKind::Malformed);
        let negative = EtcdMemberStatus { db_size: -1, ..good.clone() };
        assert_eq!(kind(vec![part(Some(negative))]), GapKind::Malformed);
        let read = status(EtcdStatusResponse { messages: vec![part(Some(good))] }).unwrap();
        assert_eq!((read.member_id, read.leader, read.db_size), (7, 0, 4096));
    }

    #[test]
    fn a_member_list_has_members() {
        let list = |members| members_of(vec![EtcdMembers { members, ..Default::default() }]);
        assert_eq!(members_of(vec![]).unwrap_err().kind, GapKind::Malformed);
        assert_eq!(list(vec![]).unwrap_err().kind, GapKind::Malformed);
        assert_eq!(list(vec![machine::EtcdMember::default()]).unwrap_err().kind, GapKind::Malformed);
        let unstarted = machine::EtcdMember { id: u64::MAX, ..Default::default() };
        assert_eq!(list(vec![unstarted]).unwrap()[0].id, u64::MAX);
    }

    fn members_of(messages: Vec<EtcdMembers>) -> Observed<Vec<EtcdMember>> {
        members(EtcdMemberListResponse { messages })
    }

    #[test]
    fn no_alarms_and_unknown_alarms() {
        let read = |alarms_: &[i32]| {
            let member_alarms = alarms_.iter().map(|alarm| EtcdMemberAlarm { member_id: 1, alarm: *alarm }).collect();
            let messages = vec![Alarms { metadata: None, member_alarms }];
            alarms(EtcdAlarmListResponse { messages }).unwrap().into_iter().map(|it| it.kind).collect::<Vec<_>>()
        };
        assert_eq!(read(&[]), []);
        assert_eq!(read(&[1, 2, 9]), [AlarmKind::NoSpace, AlarmKind::Corrupt, AlarmKind::Other(9)]);
        assert_eq!(alarms(EtcdAlarmListResponse { messages: vec![] }).unwrap_err().kind, GapKind::Malformed);
    }

    #[test]
    fn quotas_before_and_since_talos_1_13() {
        let of = |yaml: &str| Resource::literal("EtcdSpecs", "etcd", yaml).spec().and_then(etcd_spec);
        let spec = |arguments: &str| of(&format!("name: cp-1\nextraArgs:{arguments}\n"));
        let unreadable = |spec: Observed<EtcdSpec>| {
            let gap = spec.unwrap_err();
            assert_eq!(gap.kind, GapKind::Malformed);
            gap.text
        };
        for (arguments, quota) in [
            (" {}", None),
            ("\n    election-timeout: \"5000\"", None),
            ("\n    quota-backend-bytes: \"4294967296\"", Some(1 << 32)),
            ("\n    quota-backend-bytes: 4294967296", Some(1 << 32)),
            ("\n    quota-backend-bytes:\n        - \"1\"\n        - \"4294967296\"", Some(1 << 32)),
            ("\n    quota-backend-bytes: []", None),
            ("\n    quota-backend-bytes: \"-1\"", Some(-1)),
        ] {
            assert_eq!(spec(arguments).map(|spec| spec.quota), Ok(quota), "{arguments}");
        }
        assert_eq!(unreadable(spec("\n    quota-backend-bytes: 4GiB")), "`quota-backend-bytes` is `4GiB`");
        unreadable(spec("\n    quota-backend-bytes:\n        of: 1"));
        unreadable(of("name: cp-1\n"));
    }

    #[test]
    fn the_image_and_the_names_of_the_arguments() {
        let of = |yaml: &str| Resource::literal("EtcdSpecs", "etcd", yaml).spec().and_then(etcd_spec).unwrap();
        let spec = of(
            "name: cp-1\nimage: registry.k8s.io/etcd:v3.6.12\nextraArgs:\n    --enable-v2: \"true\"\n    election-timeout:\n        - \"5000\"\n",
        );
        assert_eq!(spec.image, "registry.k8s.io/etcd:v3.6.12");
        assert_eq!(spec.arguments, ["enable-v2", "election-timeout"]);
        assert_eq!(of("name: cp-1\nextraArgs: {}\n").image, "", "which is judged where it is needed");
    }
}
