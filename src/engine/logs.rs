//! Logs that may explain a problem: for people, after the judgment. No verdict ever depends on them.

use crate::assess::etcd::member_trouble;
use crate::checks::{Check, must_run};
use crate::model::{Kind, Reason, Role, Target, Verdict};
use crate::snapshot::logs::{Log, Source};
use crate::snapshot::{ContainerState, Node, Service, Snapshot};

/// Maximum number of logs per round.
pub(crate) const LOGS: usize = 8;

/// Selects the logs to read after a round that did not pass: services and static pods that do not run as they should, on nodes that answer,
/// and the components that should have created a missing object. etcd and the kubelet come first, since others fail without them; at most
/// [`LOGS`].
pub(crate) fn wanted(snapshot: &Snapshot, verdicts: &[(&'static Check, Verdict)]) -> Vec<Log> {
    let nodes = || snapshot.nodes.iter().filter(|node| !node.out_of_scope && !node.leaving);
    let mut logs: Vec<Log> = nodes().flat_map(services).chain(nodes().flat_map(containers)).collect();
    let problems = verdicts.iter().flat_map(|(_, verdict)| verdict.problems());
    for log in problems.flat_map(|(target, problem)| makers(snapshot, target, problem.reason)) {
        if !logs.contains(&log) {
            logs.push(log);
        }
    }
    logs.sort_by_key(|log| !matches!(&log.of, Source::Service(id) if id == "etcd" || id == "kubelet"));
    logs.truncate(LOGS);
    logs
}

/// Returns the logs of the components that create a missing object: the kubelet creates static pods, Talos' controllers render them and
/// apply manifests. Any control plane may be the one that applies them, so all are read.
fn makers(snapshot: &Snapshot, target: &Target, reason: Reason) -> Vec<Log> {
    let of = |sources: &[Source], node: &str| {
        let log = |of: &Source| Log { node: node.to_owned(), of: of.clone() };
        sources.iter().map(log).collect::<Vec<_>>()
    };
    let machine = target.node.as_deref().unwrap_or(&target.name);
    let kubelet = || Source::Service("kubelet".to_owned());
    match reason {
        Reason::StaticPodMissing => of(&[kubelet(), Source::Controllers], machine),
        Reason::StaticPodNotRendered => of(&[Source::Controllers], machine),
        Reason::NodeNotReady | Reason::NodeNotRegistered if target.kind == Kind::Node => of(&[kubelet()], machine),
        Reason::ManifestsNotApplied => {
            let answers = |node: &&Node| node.role == Role::ControlPlane && node.talos.contact.is_ok();
            let control_planes = snapshot.nodes.iter().filter(answers);
            control_planes.flat_map(|node| of(&[Source::Controllers], &node.name)).collect()
        }
        _ => Vec::new(),
    }
}

fn services(node: &Node) -> impl Iterator<Item = Log> {
    let failed = node.talos.services.iter().flatten().filter(|service| has_failed(node, service));
    failed.map(|service| Log { node: node.name.clone(), of: Source::Service(service.id.clone()) })
}

fn has_failed(node: &Node, service: &Service) -> bool {
    let needed = must_run(node.role, &service.id);
    match service.state.as_str() {
        // Talos probes etcd only every 20 seconds, and calls it healthy in between.
        "Running" if service.id == "etcd" && member_trouble(node).is_some() => true,
        "Running" => service.healthy.map_or(needed, |healthy| !healthy),
        "Finished" | "Skipped" => needed,
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

/// Whether the container has failed after it ran: one that never ran has no log.
fn has_run_and_failed(container: &ContainerState) -> bool {
    !container.ready && (container.running || container.restarts > 0 || container.exit_code.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::About;
    use crate::snapshot::{GapKind, PodState, StaticPodStatus};
    use crate::testing::fixture;

    fn service(id: &str, state: &str, healthy: Option<bool>) -> Service {
        Service {
            id: id.to_owned(),
            state: state.to_owned(),
            healthy,
            health_message: String::new(),
            last_event: None,
            running_since: None,
            failures: Vec::new(),
        }
    }

    fn shown(snapshot: &Snapshot) -> Vec<String> {
        wanted(snapshot, &fixture::verdicts(snapshot)).iter().map(|log| format!("{}: {}", log.node, log.of)).collect()
    }

    #[test]
    fn nothing_is_read_of_a_healthy_cluster() {
        assert_eq!(shown(&fixture::healthy()), [""; 0]);
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
            service("ext-once", "Finished", None),
        ]);
        let crashed = ContainerState { name: "kube-scheduler".into(), restarts: 3, ..ContainerState::default() };
        let never_ran = ContainerState { name: "kube-apiserver".into(), ..ContainerState::default() };
        let state = PodState { containers: vec![crashed, never_ran], ..PodState::default() };
        node.talos.static_pod_statuses =
            Ok(vec![StaticPodStatus { namespace: "kube-system".into(), name: "kube-scheduler-a".into(), state }]);
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
        assert_eq!(shown(&snapshot), [""; 0]);
    }

    /// The log may explain any problem of a service that a check reports: a service that was stopped has ended without an error.
    #[test]
    fn every_service_that_fails_a_check_is_read() {
        let states = [
            ("Finished", Some(false)),
            ("Skipped", Some(false)),
            ("Failed", Some(false)),
            ("Waiting", Some(false)),
            ("Preparing", None),
            ("Running", Some(false)),
            ("Running", None),
        ];
        let mut failed = 0;
        for name in ["cp-1", "w-1"] {
            let services: Vec<String> =
                fixture::healthy().talos_of(name).services.iter().flatten().map(|it| it.id.clone()).collect();
            for (id, (state, healthy)) in services.iter().flat_map(|id| states.map(|state| (id, state))) {
                let mut snapshot = fixture::healthy();
                let service = snapshot.service_mut(name, id);
                (service.state, service.healthy) = (state.to_owned(), healthy);
                let is_it = |about: &Option<About>| *about == Some(About::Service(id.clone()));
                let fails = fixture::verdicts(&snapshot).iter().any(|(_, verdict)| {
                    verdict.problems().any(|(target, problem)| target.name == name && is_it(&problem.about))
                });
                assert!(!fails || shown(&snapshot).contains(&format!("{name}: service {id}")), "{name} {id} {state}");
                failed += usize::from(fails);
            }
        }
        assert!(failed > 20, "{failed}");
    }

    #[test]
    fn etcd_that_gives_no_answer_is_read_before_talos_misses_it() {
        let read = |change: fn(&mut Snapshot)| {
            let mut snapshot = fixture::healthy();
            change(&mut snapshot);
            shown(&snapshot)
        };
        let etcd = ["cp-3: service etcd"];
        assert_eq!(read(|it| it.talos_of("cp-3").etcd_status = fixture::gap(GapKind::TimedOut)), etcd);
        assert_eq!(read(|it| it.etcd_status_mut("cp-3").leader = 0), etcd);
        assert_eq!(read(|it| it.talos_of("cp-3").etcd_status = fixture::gap(GapKind::Forbidden)), [""; 0]);
    }

    #[test]
    fn who_should_have_made_what_is_missing_is_read() {
        let mut snapshot = fixture::healthy();
        snapshot.talos_of("cp-2").static_pods.as_mut().unwrap().push("default-own".to_owned());
        assert_eq!(shown(&snapshot), ["cp-2: service kubelet", "cp-2: controller-runtime"]);
        let mut snapshot = fixture::healthy();
        snapshot.talos_of("cp-2").static_pods.as_mut().unwrap().retain(|id| !id.contains("kube-scheduler"));
        assert!(shown(&snapshot).contains(&"cp-2: controller-runtime".to_owned()), "{:?}", shown(&snapshot));
    }

    #[test]
    fn it_is_bounded() {
        let mut snapshot = fixture::healthy();
        snapshot.nodes[0].talos.services =
            Ok((0..LOGS + 5).map(|n| service(&format!("ext-{n}"), "Failed", None)).collect());
        assert_eq!(shown(&snapshot).len(), LOGS);
    }
}
