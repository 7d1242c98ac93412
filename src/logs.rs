//! Logs that may tell why something is wrong: for people, after the judgement. No verdict ever depends on them.

use std::fmt;

use crate::snapshot::{ContainerState, Node, Observed, Service, Snapshot};

/// Most logs of a round, and lines of a log.
pub(crate) const LOGS: usize = 8;
pub(crate) const LINES: usize = 20;

/// A log on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Log {
    /// Name of the node.
    pub(crate) node: String,
    pub(crate) of: Source,
}

/// Whose log it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A Talos service.
    Service(String),
    /// A container of a static pod, which is in `kube-system`.
    Container { pod: String, container: String },
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Service(id) => write!(f, "service {id}"),
            Self::Container { pod, container } => write!(f, "container {container} of {pod}"),
        }
    }
}

/// The last lines of a log, or why there are none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tail {
    pub(crate) log: Log,
    pub(crate) lines: Observed<Vec<String>>,
}

/// What is worth reading after a round that was not fine: services and static pods that do not run as they should, on nodes that
/// answer. etcd and the kubelet first, since others fail for want of them; at most [`LOGS`].
pub(crate) fn wanted(snapshot: &Snapshot) -> Vec<Log> {
    let nodes = || snapshot.nodes.iter().filter(|node| !node.out_of_scope && !node.leaving);
    let mut logs: Vec<Log> = nodes().flat_map(services).chain(nodes().flat_map(containers)).collect();
    logs.sort_by_key(|log| !matches!(&log.of, Source::Service(id) if id == "etcd" || id == "kubelet"));
    logs.truncate(LOGS);
    logs
}

fn services(node: &Node) -> impl Iterator<Item = Log> {
    let failed = node.talos.services.iter().flatten().filter(|service| has_failed(service));
    failed.map(|service| Log { node: node.name.clone(), of: Source::Service(service.id.clone()) })
}

fn has_failed(service: &Service) -> bool {
    match service.state.as_str() {
        "Running" => service.healthy == Some(false),
        "Finished" | "Skipped" => false,
        _ => true,
    }
}

fn containers(node: &Node) -> impl Iterator<Item = Log> {
    node.talos.static_pod_statuses.iter().flatten().flat_map(|pod| {
        let failed = pod.state.containers.iter().filter(|container| has_run_and_failed(container));
        failed.map(|container| Log {
            node: node.name.clone(),
            of: Source::Container { pod: pod.name.clone(), container: container.name.clone() },
        })
    })
}

/// One that never ran has logged nothing.
fn has_run_and_failed(container: &ContainerState) -> bool {
    !container.ready && (container.running || container.restarts > 0 || container.exit_code.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::fixture;
    use crate::snapshot::{PodState, StaticPodStatus};

    fn service(id: &str, state: &str, healthy: Option<bool>) -> Service {
        Service {
            id: id.to_owned(),
            state: state.to_owned(),
            healthy,
            health_message: String::new(),
            last_event: None,
            running_since: None,
        }
    }

    fn shown(snapshot: &Snapshot) -> Vec<String> {
        wanted(snapshot).iter().map(|log| format!("{}: {}", log.node, log.of)).collect()
    }

    #[test]
    fn nothing_is_read_of_a_healthy_cluster() {
        assert_eq!(wanted(&fixture::healthy()), []);
    }

    #[test]
    fn what_others_need_comes_first() {
        let mut snapshot = fixture::healthy();
        let node = &mut snapshot.nodes[0];
        node.talos.services = Ok(vec![
            service("ext-tool", "Failed", None),
            service("kubelet", "Running", Some(false)),
            service("auditd", "Running", None),
            service("etcd", "Running", Some(true)),
            service("cri", "Finished", None),
        ]);
        let crashed = ContainerState { name: "kube-scheduler".into(), restarts: 3, ..ContainerState::default() };
        let never_ran = ContainerState { name: "kube-apiserver".into(), ..ContainerState::default() };
        let state = PodState { containers: vec![crashed, never_ran], ..PodState::default() };
        node.talos.static_pod_statuses = Ok(vec![StaticPodStatus { name: "kube-scheduler-a".into(), state }]);
        let name = node.name.clone();
        assert_eq!(
            shown(&snapshot),
            [
                format!("{name}: service kubelet"),
                format!("{name}: service ext-tool"),
                format!("{name}: container kube-scheduler of kube-scheduler-a"),
            ]
        );
        snapshot.nodes[0].out_of_scope = true;
        assert_eq!(wanted(&snapshot), []);
    }

    #[test]
    fn it_is_bounded() {
        let mut snapshot = fixture::healthy();
        snapshot.nodes[0].talos.services =
            Ok((0..LOGS + 5).map(|n| service(&format!("ext-{n}"), "Failed", None)).collect());
        assert_eq!(wanted(&snapshot).len(), LOGS);
    }
}
