//! The end of a service's or a container's log.

use talos_api::common::ContainerDriver;
use talos_api::machine::{ContainerInfo, ContainersRequest, ContainersResponse, LogsRequest};
use tokio::time::Instant;
use tonic::Request;

use super::TalosClient;
use super::call::{Caller, LIST, Lane, Route};
use super::machine::{bytes, client, malformed, only};
use crate::model::log_line;
use crate::observe::dial::cause::clean;
use crate::snapshot::logs::{LINES, Source};
use crate::snapshot::{Contact, Gap, GapKind, Observed};

/// Size limit for an answer, in bytes.
const LARGEST: usize = 256 << 10;
/// Number of lines of a log that are read: the cause of a failure may be followed by many irrelevant lines.
const LINES_READ: i32 = 200;
/// Limit for the informative lines that are kept in addition to the last [`LINES`].
const TELLING: usize = 5;
/// Number of lines of machined's log that are searched for an installer: users check soon after an upgrade.
const LINES_OF_INSTALLERS: i32 = 1000;
/// The containerd namespace of pods.
const PODS: &str = "k8s.io";

impl TalosClient {
    /// Reads the end of a log, through the endpoint and address at which the node answered.
    pub(crate) async fn log(&self, contact: &Contact, of: &Source, until: Instant) -> Observed<Vec<String>> {
        let link = self.links.iter().find(|link| link.address.shown == contact.endpoint);
        let link = link.ok_or_else(Gap::not_asked)?;
        let to = Route { link, node: Some(&contact.address), lane: Lane::Normal, until };
        let request = match of {
            Source::Service(id) => request("system", id.clone(), ContainerDriver::Containerd),
            Source::Controllers => request("system", of.name().to_owned(), ContainerDriver::Containerd),
            Source::Container { pod, container } => {
                let all = self.caller.containers(&to).await?;
                let id = running_or_first(&all, pod, container);
                let id = id.ok_or_else(|| Gap::new(GapKind::NotAsked, "the container is not there any more"))?;
                request(PODS, id.to_owned(), ContainerDriver::Cri)
            }
        };
        self.caller.log(&to, request).await
    }
}

fn request(namespace: &str, id: String, driver: ContainerDriver) -> LogsRequest {
    LogsRequest { namespace: namespace.to_owned(), id, driver: driver.into(), follow: false, tail_lines: LINES_READ }
}

/// Finds the container to read. Several of one name are restarts of the same container, so the running one is chosen. If none is running,
/// any will do, because Talos does not report their age.
fn running_or_first<'a>(all: &'a [ContainerInfo], pod: &str, container: &str) -> Option<&'a str> {
    let id = format!("kube-system/{pod}:{container}");
    let is_it =
        |info: &&ContainerInfo| info.id.strip_prefix(&id).is_some_and(|rest| rest.is_empty() || rest.starts_with(':'));
    let running = all.iter().filter(is_it).find(|info| info.status == "CONTAINER_RUNNING");
    running.or_else(|| all.iter().find(is_it)).map(|info| info.id.as_str())
}

impl Caller {
    async fn containers(&self, to: &Route<'_>) -> Observed<Vec<ContainerInfo>> {
        let request = ContainersRequest { namespace: PODS.to_owned(), driver: ContainerDriver::Cri.into() };
        let reply = self.ask(to, LIST, request, |mut of, request| async move { of.containers(request).await });
        let ContainersResponse { messages } = reply.await?;
        Ok(only("Containers", messages, |it| it.metadata.as_ref())?.containers)
    }

    async fn log(&self, to: &Route<'_>, request: LogsRequest) -> Observed<Vec<String>> {
        lines(&self.log_bytes(to, request).await?)
    }

    async fn log_bytes(&self, to: &Route<'_>, request: LogsRequest) -> Observed<Vec<u8>> {
        self.call(to, request, |live, request: Request<LogsRequest>| async move {
            bytes(client(live, LARGEST).logs(request).await?.into_inner(), LARGEST, "Logs: more than 256 KiB").await
        })
        .await
    }

    pub(super) async fn installed(&self, to: &Route<'_>) -> Observed<Option<String>> {
        let request = LogsRequest {
            tail_lines: LINES_OF_INSTALLERS,
            ..request("system", "machined".to_owned(), ContainerDriver::Containerd)
        };
        Ok(installed(&String::from_utf8_lossy(&self.log_bytes(to, request).await?)))
    }
}

/// Returns the installer that completed last, if none failed after it. Talos keeps this log in memory, so it covers only the present boot.
/// It contains `starting upgrade: installer_image=IMAGE, …` (1.13) or `starting upgrade {…, "installer_image": "IMAGE", …}` (1.14), and
/// `upgrade completed …` at the end.
fn installed(log: &str) -> Option<String> {
    let (mut begun, mut done) = (None, None);
    for line in log.lines() {
        if line.contains("starting upgrade") {
            begun = image(line);
            done = None;
        } else if line.contains("upgrade completed") {
            done = begun.take();
        }
    }
    done.map(clean)
}

fn image(line: &str) -> Option<&str> {
    let rest = line.split_once("installer_image")?.1.trim_start_matches(['"', ':', '=', ' ']);
    rest.split(['"', ',', ' ']).next().filter(|image| !image.is_empty())
}

/// Returns the last lines, preceded by earlier ones that show why something failed, each once. Invalid UTF-8 is replaced, and blank lines
/// are dropped.
fn lines(bytes: &[u8]) -> Observed<Vec<String>> {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<String> = text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect();
    if lines.is_empty() {
        return Err(malformed("the log is empty"));
    }
    let (before, last) = lines.split_at(lines.len().saturating_sub(LINES));
    let mut telling: Vec<&String> = Vec::new();
    for line in before.iter().rev().filter(|line| log_line::is_telling(line)) {
        let is_known = |other: &&String| log_line::message(other) == log_line::message(line);
        if telling.len() < TELLING && !telling.iter().any(is_known) && !last.iter().any(|it| is_known(&it)) {
            telling.push(line);
        }
    }
    Ok(telling.into_iter().rev().chain(last).cloned().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn container(id: &str, status: &str) -> ContainerInfo {
        ContainerInfo { id: id.to_owned(), status: status.to_owned(), ..ContainerInfo::default() }
    }

    #[test]
    fn the_container_that_runs_is_read_else_the_first() {
        let mut all = vec![
            container("kube-system/a", "SANDBOX_READY"),
            container("kube-system/a:b2:000", "CONTAINER_RUNNING"),
            container("kube-system/a:b:111", "CONTAINER_EXITED"),
            container("kube-system/a:b:222", "CONTAINER_EXITED"),
        ];
        assert_eq!(running_or_first(&all, "a", "b"), Some("kube-system/a:b:111"));
        all.push(container("kube-system/a:b", "CONTAINER_RUNNING"));
        assert_eq!(running_or_first(&all, "a", "b"), Some("kube-system/a:b"));
        assert_eq!(running_or_first(&all, "a", "c"), None);
    }

    #[test]
    fn the_last_installer_that_ended_well_is_what_the_next_boot_brings() {
        let old = "[talos] 2026/11/23 starting upgrade: installer_image=reg.example/a/b:v1.13.1, disk=/dev/sda";
        let new = r#"INFO starting upgrade {"component": "machined", "installer_image": "reg.example/c:v1.14.1", "disk": "/dev/sda"}"#;
        let (done, failed) = ("upgrade completed successfully: exit_code=0", "upgrade failed: exit_code=1");
        let of = |lines: &[&str]| installed(&lines.join("\n"));
        assert_eq!(of(&[old, "upgrade progress", done, "other"]).as_deref(), Some("reg.example/a/b:v1.13.1"));
        assert_eq!(
            of(&[old, done, new, r#"INFO upgrade completed {"exit_code": 0}"#]).as_deref(),
            Some("reg.example/c:v1.14.1")
        );
        for nothing in [
            &[old][..],
            &[old, failed],
            &[old, done, new],
            &[old, done, new, failed],
            &[done],
            &["starting upgrade", done],
        ] {
            assert_eq!(of(nothing), None, "{nothing:?}");
        }
    }

    #[test]
    fn only_the_last_lines_count() {
        let text = (0..LINES + 2).map(|n| format!("line {n}")).collect::<Vec<_>>().join("\n\n");
        let shown = lines(text.as_bytes()).unwrap();
        assert_eq!((shown.len(), shown[0].as_str()), (LINES, "line 2"));
        assert_eq!(lines(b"a\xffb\nend").unwrap(), ["a\u{fffd}b", "end"]);
        // A message that the kubelet repeats is kept once, and of many the last ones are kept.
        let rejected = |n: usize| format!(r#"{{"ts":{n},"msg":"Could not process manifest file","err":"e{}"}}"#, n % 8);
        let text: Vec<String> = (0..40).map(rejected).chain((0..LINES).map(|n| format!("line {n}"))).collect();
        let shown = lines(text.join("\n").as_bytes()).unwrap();
        assert_eq!(shown.len(), LINES + TELLING);
        assert_eq!((&shown[0], &shown[TELLING - 1], shown[TELLING].as_str()), (&rejected(35), &rejected(39), "line 0"));
        assert!(lines(b"\n \n").is_err());
    }
}
