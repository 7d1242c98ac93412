//! Version, services and files of a machine.

use jiff::Timestamp;
use talos_api::common::{Data, Metadata};
use talos_api::google::protobuf::Empty;
use talos_api::machine::machine_service_client::MachineServiceClient;
use talos_api::machine::{FileInfo, ListRequest, ServiceInfo, ServiceListResponse, VersionResponse};
use tonic::{Request, Response, Status, Streaming};

use super::call::{Caller, Failure, LIST, Route, SMALL};
use crate::observe::dial::cause::clean;
use crate::observe::dial::http2::Http2;
use crate::observe::exact;
use crate::snapshot::{Gap, GapKind, Observed, Service, ServiceEvent, Version};
use crate::text::sanitize::without_secrets;

/// Limits for the entries of a directory, and for their total size in bytes.
const MOST: usize = 10_000;
const MOST_BYTES: usize = 1 << 20;
const ETCD_DATA: &str = "/var/lib/etcd";

/// Creates a client. `largest` is the size limit of a message, in bytes.
pub(super) fn client(live: Http2, largest: usize) -> MachineServiceClient<Http2> {
    let origin = live.origin();
    MachineServiceClient::with_origin(live, origin).max_decoding_message_size(largest)
}

pub(super) fn malformed(text: &str) -> Gap {
    Gap::new(GapKind::Malformed, text.to_owned())
}

/// Returns the only part of an answer from one node. Several parts would come from other nodes, and none is not an
/// answer.
pub(super) fn only<T>(what: &str, parts: Vec<T>, metadata: impl Fn(&T) -> Option<&Metadata>) -> Observed<T> {
    let count = parts.len();
    match <[T; 1]>::try_from(parts) {
        Ok([part]) => failed(metadata(&part)).map_or(Ok(part), Err),
        Err(_) => Err(malformed(&format!("{what}: {count} answers where there must be one"))),
    }
}

/// Returns an error that is embedded in an answer.
pub(super) fn failed(metadata: Option<&Metadata>) -> Option<Gap> {
    let metadata = metadata?;
    let status = metadata.status.as_ref().filter(|status| status.code != 0);
    match status {
        Some(status) => {
            Some(super::refusal::gap(&Status::new(status.code.into(), status.message.as_str()), true, None))
        }
        None if metadata.error.is_empty() => None,
        None => Some(Gap::new(GapKind::ServerError, clean(&metadata.error))),
    }
}

/// Collects a stream, up to `most` bytes.
pub(super) async fn bytes(mut stream: Streaming<Data>, most: usize, too_large: &str) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    while let Some(chunk) = stream.message().await? {
        if let Some(gap) = failed(chunk.metadata.as_ref()) {
            return Err(Failure::Gap(gap));
        }
        bytes.extend_from_slice(&chunk.bytes);
        if bytes.len() > most {
            return Err(Failure::Gap(Gap::new(GapKind::TooLarge, too_large.to_owned())));
        }
    }
    Ok(bytes)
}

impl Caller {
    /// Calls a machine for an answer of one message with at most `largest` bytes.
    pub(super) async fn ask<Q, P, F>(
        &self,
        to: &Route<'_>,
        largest: usize,
        message: Q,
        method: impl Fn(MachineServiceClient<Http2>, Request<Q>) -> F,
    ) -> Observed<P>
    where
        Q: Clone + 'static,
        F: Future<Output = Result<Response<P>, Status>>,
    {
        let largest = self.at_most(largest);
        self.call(to, message, |live, request| {
            let reply = method(client(live, largest), request);
            async { Ok(reply.await?.into_inner()) }
        })
        .await
    }

    pub(super) async fn version(&self, to: &Route<'_>) -> Observed<Version> {
        version(self.ask(to, SMALL, Empty {}, |mut of, request| async move { of.version(request).await }).await?)
    }

    pub(super) async fn services(&self, to: &Route<'_>) -> Observed<Vec<Service>> {
        services(self.ask(to, LIST, Empty {}, |mut of, request| async move { of.service_list(request).await }).await?)
    }

    /// Returns whether etcd's folder contains no member.
    pub(super) async fn etcd_data_absent(&self, to: &Route<'_>) -> Observed<bool> {
        let request = ListRequest { root: ETCD_DATA.to_owned(), recurse: false, recursion_depth: 1 };
        let entries = self.call(to, request, |live, request: Request<ListRequest>| async move {
            let mut stream = match client(live, SMALL).list(request).await {
                Ok(reply) => reply.into_inner(),
                Err(status) if absent(status.message()) => return Ok(None),
                Err(status) => return Err(Failure::from(status)),
            };
            let mut entries: Vec<FileInfo> = Vec::new();
            let mut bytes = 0;
            loop {
                match stream.message().await {
                    Ok(Some(entry)) => {
                        if let Some(gap) = failed(entry.metadata.as_ref()) {
                            return Err(Failure::Gap(gap));
                        }
                        bytes += entry.name.len() + entry.relative_name.len() + entry.error.len();
                        if entries.len() == MOST || bytes > MOST_BYTES {
                            let text = format!("{ETCD_DATA}: more than {MOST} entries or 1 MiB");
                            return Err(Failure::Gap(Gap::new(GapKind::TooLarge, text)));
                        }
                        entries.push(FileInfo { metadata: None, ..entry });
                    }
                    Ok(None) => return Ok(Some(entries)),
                    Err(status) if entries.is_empty() && absent(status.message()) => return Ok(None),
                    Err(status) => return Err(Failure::from(status)),
                }
            }
        });
        entries.await?.map_or(Ok(true), |entries| etcd_data_absent(&entries))
    }
}

fn absent(message: &str) -> bool {
    message.contains("no such file or directory")
}

fn version(reply: VersionResponse) -> Observed<Version> {
    let part = only("Version", reply.messages, |it| it.metadata.as_ref())?;
    let tag = part.version.map(|version| version.tag).filter(|tag| !tag.is_empty());
    Ok(Version {
        tag: tag.ok_or_else(|| malformed("Version: an answer without a version"))?,
        mode: part.platform.map(|platform| platform.mode).unwrap_or_default(),
    })
}

fn services(reply: ServiceListResponse) -> Observed<Vec<Service>> {
    let part = only("ServiceList", reply.messages, |it| it.metadata.as_ref())?;
    if part.services.is_empty() {
        // machined, which answers, is in the list itself.
        return Err(malformed("ServiceList: an empty list"));
    }
    part.services.into_iter().map(service).collect::<Observed<_>>().map(exact)
}

fn service(info: ServiceInfo) -> Observed<Service> {
    if info.id.is_empty() || info.state.is_empty() {
        return Err(malformed("ServiceList: a service without id or state"));
    }
    let events = info.events.map(|events| events.events).unwrap_or_default();
    let run = events.iter().rev().take_while(|event| event.state == "Running");
    let began = run.last().filter(|_| info.state == "Running");
    let health = info.health.filter(|health| !health.unknown);
    Ok(Service {
        running_since: began.and_then(|event| timestamp(event.ts)),
        failures: events.iter().filter(|it| it.msg.contains(RESTARTS)).filter_map(|it| timestamp(it.ts)).collect(),
        last_event: events.last().map(|event| ServiceEvent {
            message: without_secrets(&event.msg),
            state: event.state.clone(),
            at: timestamp(event.ts),
        }),
        healthy: health.as_ref().map(|health| health.healthy),
        health_message: health.map(|health| without_secrets(&health.last_message)).unwrap_or_default(),
        id: info.id,
        state: info.state,
    })
}

/// Part of a message of Talos's runner: `Error running Containerd(etcd), going to restart forever: …`.
const RESTARTS: &str = "going to restart forever";

fn timestamp(value: Option<talos_api::google::protobuf::Timestamp>) -> Option<Timestamp> {
    let value = value?;
    Timestamp::new(value.seconds, value.nanos).ok()
}

fn etcd_data_absent(entries: &[FileInfo]) -> Observed<bool> {
    if entries.is_empty() {
        return Err(malformed("List: an empty answer"));
    }
    for entry in entries {
        let name = entry.name.trim_end_matches('/');
        if entry.relative_name == "member" || name == "/var/lib/etcd/member" {
            return Ok(false);
        }
        let root = entry.relative_name == "." || name == ETCD_DATA;
        let tells = root && absent(&entry.error);
        if !tells && !entry.error.is_empty() {
            return Err(Gap::new(GapKind::ServerError, clean(&format!("{name}: {}", entry.error))));
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use talos_api::google::protobuf::Timestamp as Moment;
    use talos_api::machine::{self, ServiceEvents, ServiceHealth, ServiceList};

    use super::*;

    fn event(state: &str, seconds: i64) -> machine::ServiceEvent {
        machine::ServiceEvent { msg: String::new(), state: state.into(), ts: Some(Moment { seconds, nanos: 0 }) }
    }

    fn info(state: &str, events: &[(&str, i64)], health: Option<ServiceHealth>) -> ServiceInfo {
        let events = events.iter().map(|(state, seconds)| event(state, *seconds)).collect();
        ServiceInfo { id: "etcd".into(), state: state.into(), events: Some(ServiceEvents { events }), health }
    }

    #[test]
    fn the_newest_uninterrupted_run_counts() {
        let events = [("Running", 1), ("Waiting", 2), ("Running", 3), ("Running", 4)];
        let since = |state: &str, events: &[(&str, i64)]| service(info(state, events, None)).unwrap().running_since;
        assert_eq!(since("Running", &events), Timestamp::from_second(3).ok());
        assert_eq!(since("Running", &events[..2]), None);
        assert_eq!(since("Waiting", &events), None);
        assert_eq!(since("Running", &[]), None);
    }

    #[test]
    fn failures_after_which_a_service_was_started_again_are_kept() {
        let mut told = info("Running", &[("Running", 1), ("Waiting", 2), ("Running", 3)], None);
        let words = "Error running Containerd(etcd), going to restart forever: task \"etcd\" failed: exit code 1";
        words.clone_into(&mut told.events.as_mut().unwrap().events[1].msg);
        assert_eq!(service(told).unwrap().failures, [Timestamp::from_second(2).unwrap()]);
    }

    #[test]
    fn health_is_unknown_unless_it_was_reported() {
        let healthy = |health| service(info("Running", &[], health)).unwrap().healthy;
        assert_eq!(healthy(None), None);
        assert_eq!(healthy(Some(ServiceHealth { unknown: true, healthy: true, ..Default::default() })), None);
        assert_eq!(healthy(Some(ServiceHealth { healthy: true, ..Default::default() })), Some(true));
        let failed = ServiceHealth { last_message: "context deadline exceeded".into(), ..Default::default() };
        assert_eq!(healthy(Some(failed)), Some(false));
    }

    #[test]
    fn what_a_service_says_tells_no_secrets() {
        let mut told = info("Running", &[("Running", 1)], None);
        told.health = Some(ServiceHealth { last_message: "GET /?token=hunter2: 401".into(), ..Default::default() });
        told.events.as_mut().unwrap().events[0].msg = "exited: --password hunter2".to_owned();
        let told = service(told).unwrap();
        assert_eq!(told.health_message, "GET /?token ***");
        assert_eq!(told.last_event.unwrap().message, "exited: --password ***");
    }

    #[test]
    fn answers_of_nobody_of_several_or_of_an_error_are_no_answers() {
        let kind = |messages| services(ServiceListResponse { messages }).unwrap_err().kind;
        assert_eq!(kind(vec![]), GapKind::Malformed);
        assert_eq!(kind(vec![ServiceList::default()]), GapKind::Malformed);
        assert_eq!(kind(vec![ServiceList::default(), ServiceList::default()]), GapKind::Malformed);
        let metadata = Some(Metadata { error: "rpc error".into(), ..Default::default() });
        assert_eq!(kind(vec![ServiceList { metadata, services: vec![] }]), GapKind::ServerError);
        assert_eq!(version(VersionResponse::default()).unwrap_err().kind, GapKind::Malformed);
        let nothing = VersionResponse { messages: vec![machine::Version::default()] };
        assert_eq!(version(nothing).unwrap_err().kind, GapKind::Malformed);
    }

    #[test]
    fn etcd_has_data_when_there_is_a_member_folder() {
        let entry = |relative: &str, error: &str| FileInfo {
            name: format!("/var/lib/etcd/{relative}"),
            relative_name: relative.into(),
            error: error.into(),
            ..Default::default()
        };
        assert_eq!(etcd_data_absent(&[entry(".", ""), entry("member", "")]), Ok(false));
        assert_eq!(etcd_data_absent(&[entry(".", ""), entry("lost+found", "")]), Ok(true));
        assert_eq!(etcd_data_absent(&[entry(".", "lstat /var/lib/etcd: no such file or directory")]), Ok(true));
        assert_eq!(etcd_data_absent(&[entry(".", "permission denied")]).unwrap_err().kind, GapKind::ServerError);
        assert_eq!(etcd_data_absent(&[]).unwrap_err().kind, GapKind::Malformed);
    }
}
