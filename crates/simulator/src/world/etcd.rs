//! etcd.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use serde::Deserialize;

use super::Process;

/// One etcd cluster: the state on which its members agree.
#[derive(Clone, Debug, Default)]
pub struct EtcdCluster {
    pub id: u64,
    pub members: Vec<Member>,
    pub alarms: Vec<Alarm>,
    /// The member that leads while it runs.
    pub elected: Option<u64>,
    pub raft_term: u64,
    pub raft_index: u64,
    /// `--quota-backend-bytes` of all members, as set in the machine configuration.
    pub quota: Option<i64>,
    /// Storage version of all members, as after `etcdctl downgrade enable`. `None`: that of the oldest member.
    pub storage: Option<String>,
    /// etcd's own authentication; `None`: disabled.
    pub auth: Option<EtcdAuth>,
}

/// Users of etcd's own authentication. Client certificates do not identify users, as without `--client-cert-auth`.
#[derive(Clone, Debug, Default)]
pub struct EtcdAuth {
    /// Users by name.
    pub users: BTreeMap<String, EtcdUser>,
    /// The user of each valid token. Expired tokens are removed.
    pub tokens: BTreeMap<String, String>,
    /// Number of tokens that were created.
    pub made: u64,
}

/// An etcd user.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct EtcdUser {
    pub name: String,
    pub password: String,
    /// Whether the user has the role `root`, which permits everything; other users have no role.
    #[serde(default)]
    pub root: bool,
}

/// An etcd member.
#[derive(Clone, Debug, Default)]
pub struct Member {
    pub id: u64,
    /// Empty if the member was added but has never started.
    pub name: String,
    /// The machine of the member; `None` if that machine no longer exists.
    pub machine: Option<IpAddr>,
    pub peer_urls: Vec<String>,
    pub client_urls: Vec<String>,
    pub learner: bool,
    pub process: Process,
    /// Number of log entries that the member has not applied yet.
    pub behind: u64,
    /// In bytes.
    pub db_size: i64,
    pub db_size_in_use: i64,
    /// Version without `v`.
    pub version: String,
}

/// An alarm, which every member reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alarm {
    pub member: u64,
    pub kind: AlarmKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum AlarmKind {
    NoSpace,
    Corrupt,
}

/// Error message of a member without a leader.
pub(crate) const NO_LEADER: &str = "etcdserver: no leader";

impl EtcdCluster {
    /// The leader: of the running voters the elected one, or else the first, as long as more than half of the voters are running.
    #[must_use]
    pub fn leader(&self) -> Option<&Member> {
        let voters = || self.members.iter().filter(|member| !member.learner);
        let running = || voters().filter(|member| member.process == Process::Running);
        let elected = running().find(|member| self.elected == Some(member.id));
        (running().count() * 2 > voters().count()).then(|| elected.or_else(|| running().next()))?
    }

    /// The storage version, which increases once no member is older. Members before 3.6 do not report it.
    #[must_use]
    pub fn storage_version(&self, member: &Member) -> String {
        if member.minor() < 6 {
            return String::new();
        }
        let versions = self.members.iter().filter(|member| !member.version.is_empty());
        let oldest = versions.map(Member::minor).min().unwrap_or_default();
        self.storage.clone().unwrap_or_else(|| format!("3.{oldest}.0"))
    }

    /// The errors in the status of a member: a missing leader, and the alarms of all members.
    #[must_use]
    pub fn errors(&self, member: &Member) -> Vec<String> {
        let no_leader = self.leader().is_none().then(|| NO_LEADER.to_owned());
        // Before 3.7, a space follows each alarm.
        let end = if member.minor() < 7 { " " } else { "" };
        no_leader.into_iter().chain(self.alarms.iter().map(|alarm| format!("{alarm}{end}"))).collect()
    }
}

impl EtcdAuth {
    #[must_use]
    pub fn of(users: impl IntoIterator<Item = EtcdUser>) -> Self {
        let users = users.into_iter().map(|user| (user.name.clone(), user)).collect();
        Self { users, ..Self::default() }
    }
}

impl Member {
    /// Minor version of etcd 3.
    pub(crate) fn minor(&self) -> u8 {
        self.number(1)
    }

    fn number(&self, at: usize) -> u8 {
        self.version.split('.').nth(at).and_then(|number| number.parse().ok()).unwrap_or_default()
    }

    /// The users that may read status, members and alarms once authentication is enabled.
    pub(crate) fn confides(&self) -> Confides {
        match (self.minor(), self.number(2)) {
            (5, 31) | (6, ..12) => Confides::StatusInRoot,
            (..5, _) | (5, ..31) => Confides::InAll,
            _ => Confides::InUsers,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Confides {
    InAll,
    /// Status only for root, and the rest for everyone.
    StatusInRoot,
    InUsers,
}

/// etcd's format.
impl fmt::Display for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            AlarmKind::NoSpace => "NOSPACE",
            AlarmKind::Corrupt => "CORRUPT",
        };
        write!(f, "memberID:{} alarm:{kind}", self.member)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(processes: &[Process], learner: bool) -> EtcdCluster {
        let members =
            processes.iter().zip(1..).map(|(process, id)| Member { id, process: *process, ..Member::default() });
        let mut members: Vec<_> = members.collect();
        members.last_mut().unwrap().learner = learner;
        EtcdCluster { members, ..EtcdCluster::default() }
    }

    #[test]
    fn more_than_half_of_the_voters_elect_a_leader() {
        use Process::{Frozen, Running, Stopped};
        let leader = |processes: &[Process], learner| cluster(processes, learner).leader().map(|member| member.id);
        assert_eq!(leader(&[Stopped, Running, Running], false), Some(2));
        assert_eq!(leader(&[Stopped, Frozen, Running], false), None);
        assert_eq!(leader(&[Stopped, Running], false), None);
        assert_eq!(leader(&[Running, Stopped], true), Some(1));
        assert_eq!(leader(&[Stopped, Running], true), None);
    }

    #[test]
    fn the_storage_is_of_the_oldest_member() {
        let mut cluster = cluster(&[Process::Running; 3], false);
        for (member, version) in cluster.members.iter_mut().zip(["3.7.1", "3.6.12", "3.5.32"]) {
            version.clone_into(&mut member.version);
        }
        let told = |cluster: &EtcdCluster, at: usize| cluster.storage_version(&cluster.members[at]);
        assert_eq!([told(&cluster, 0), told(&cluster, 1), told(&cluster, 2)], ["3.5.0", "3.5.0", ""]);
        cluster.members[2].version = "3.7.1".to_owned();
        assert_eq!(told(&cluster, 0), "3.6.0");
        cluster.members[1].version = "3.7.1".to_owned();
        assert_eq!(told(&cluster, 0), "3.7.0");
        cluster.storage = Some("3.6.0".to_owned());
        assert_eq!(told(&cluster, 0), "3.6.0");
    }

    #[test]
    fn a_status_tells_the_alarms_of_all_members() {
        let mut cluster = cluster(&[Process::Stopped, Process::Running], false);
        cluster.alarms = vec![Alarm { member: 1, kind: AlarmKind::NoSpace }];
        let told = |cluster: &EtcdCluster| cluster.errors(&cluster.members[1]);
        assert_eq!(told(&cluster), ["etcdserver: no leader", "memberID:1 alarm:NOSPACE "]);
        cluster.members[1].version = "3.7.1".to_owned();
        assert_eq!(told(&cluster), ["etcdserver: no leader", "memberID:1 alarm:NOSPACE"]);
    }
}
