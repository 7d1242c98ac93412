//! Machines and their kubelets.

use super::evidence::{Sign, by_subject, names, same_subject};
use super::{Cause, Diagnosis, Evidence};
use crate::checks::sources::{
    KUBERNETES_NETWORK, KUBERNETES_NODES, KUBERNETES_TLS, TALOS_SCALE_DOWN, TALOS_TROUBLESHOOTING,
    TALOS_TROUBLESHOOTING_CONTROL_PLANE,
};
use crate::checks::{Hint, Kind, Reason, Step, Target};
use crate::snapshot::Role;

use Step::{Change, Do, Look};

/// All that is found wrong with a machine that takes part in nothing, and the margin that etcd lacks without it. What people
/// have decided about it is no consequence.
pub(super) fn consequences<'a>(evidence: &Evidence<'a>, target: &'a Target) -> Vec<Sign<'a>> {
    let decided = |reason| {
        use Reason::{Cordoned, CordonedByTalos, StaleDiscoveryMember, StaleMember, StaleNodeObject, Uninitialised};
        matches!(
            reason,
            Cordoned | CordonedByTalos | StaleDiscoveryMember | StaleMember | StaleNodeObject | Uninitialised
        )
    };
    let own = evidence.about(target).filter(|sign| !decided(sign.problem.reason));
    let margin = evidence.of_check("etcd.tolerance", &[Reason::NoTolerance, Reason::MarginUnmet]);
    own.chain(margin.filter(|sign| is_named(&sign.problem.observed, &target.name))).collect()
}

/// `2 of 3 voters up (cp-3 is not)` names cp-3, and not cp.
fn is_named(text: &str, name: &str) -> bool {
    text.split(|c: char| !(c.is_alphanumeric() || matches!(c, '-' | '.' | '_'))).any(|word| word == name)
}

/// One diagnosis for each machine that Talos misses for this reason and nobody else explains.
fn lost(
    evidence: &Evidence<'_>,
    reasons: &'static [Reason],
    make: fn(&Evidence<'_>, &Sign<'_>) -> Option<Diagnosis>,
) -> Vec<Diagnosis> {
    let signs = evidence.of_check("talos.nodes.reachable", reasons).filter(Sign::is_root);
    signs
        .filter_map(|sign| {
            let diagnosis = make(evidence, &sign)?.rests_on(&sign);
            let others = consequences(evidence, sign.target);
            let heard = others.iter().filter(|it| matches!(it.check, "k8s.nodes.ready" | "k8s.api.servers"));
            let diagnosis = heard.fold(diagnosis, |it, sign| {
                it.sees(sign.target.clone(), format!("{}: {}", sign.check, sign.problem.observed))
            });
            Some(diagnosis.explains(others.iter().copied()))
        })
        .collect()
}

pub(super) const DOWN: Cause = Cause {
    id: "node-down",
    title: "a machine is down or cut off",
    explain: "A working endpoint cannot reach the machine, and nothing shows that it lives. It is switched off, has crashed, \
hangs, lost its network, or has another address now. Kubernetes takes some 50 seconds to miss it; if it never does, only the \
Talos API is filtered. What ran there is gone with it, and so are its vote in etcd and its API \
server if it is a control plane.\n\n\
Nothing can be seen of it from here: look at its console, its hypervisor, or the switch that it hangs on. If it will not come \
back, remove it properly, etcd first.",
    source: TALOS_TROUBLESHOOTING,
    remedy: &[
        Look("talosctl -n NODE version"),
        Look("kubectl describe node NODENAME"),
        Do("Look at the machine's console and power. Switch it on, or mend its network; it rejoins by itself."),
        Do("If a control plane is lost for good, remove its etcd member first, then its Node:"),
        Look("talosctl -n CP etcd members"),
        Change("talosctl -n CP etcd remove-member MEMBER-ID"),
        Change("kubectl delete node NODENAME"),
    ],
    recognise: |evidence| {
        lost(evidence, &[Reason::NodeUnreachable], |evidence, sign| {
            if lives(evidence, sign.target) {
                return None;
            }
            let unheard = evidence.about(sign.target).any(|it| it.check == "k8s.nodes.ready");
            let also = if unheard {
                ", and Kubernetes does not hear from it either"
            } else if evidence.passed("k8s.nodes.ready", sign.target) {
                ", and Kubernetes has not missed it so far"
            } else {
                ""
            };
            let role = role(evidence, sign.target);
            Some(Diagnosis::new(
                DOWN.id,
                format!("{role}{} does not answer: {}{also}", sign.target, sign.problem.observed),
            ))
        })
    },
};

/// The machine was seen to live while it was silent to Talos. Being Ready is none: Kubernetes says so of the dead for 50 s.
fn lives(evidence: &Evidence<'_>, target: &Target) -> bool {
    let Some(kubernetes) = &evidence.snapshot.kubernetes else { return false };
    let memory = &evidence.snapshot.memory;
    let silent_before = memory.rounds > 0 && !memory.answered.contains(&target.name);
    let lease = kubernetes.node_leases.as_ref().ok().and_then(|leases| leases.by_name.get(&target.name));
    let renewed = silent_before && lease.is_some_and(|lease| lease.moved_within.is_some());
    let serves = kubernetes.servers.get(&target.name).is_some_and(Result::is_ok);
    // Another cluster's leases tell nothing of this one.
    serves || (renewed && evidence.passed("k8s.nodes.ready", target))
}

/// `control plane `, as far as it is known.
fn role(evidence: &Evidence<'_>, target: &Target) -> &'static str {
    match evidence.node(target).map(|node| node.role) {
        Some(Role::ControlPlane) => "control plane ",
        Some(Role::Worker) => "worker ",
        _ => "",
    }
}

pub(super) const CUT_OFF: Cause = Cause {
    id: "talos-api-cut-off",
    title: "a machine lives, and its Talos API cannot be reached",
    explain: "Its API server answers at the machine's own address, or its kubelet has renewed its lease while Talos was silent, so it \
runs and has a network. Only the Talos API cannot be reached: a \
firewall filters port 50000 between the endpoint and it, or its apid does not run.\n\n\
Workloads are not affected. Everything that only Talos can tell of the machine is undetermined, and it cannot be upgraded.",
    source: TALOS_TROUBLESHOOTING,
    remedy: &[
        Look("talosctl -n NODE version"),
        Look("kubectl describe node NODENAME"),
        Do("Open port 50000 between the control planes and to the workers; try another endpoint with `-e`."),
    ],
    recognise: |evidence| {
        lost(evidence, &[Reason::NodeUnreachable], |evidence, sign| {
            let headline =
                format!("{} lives, and its Talos API does not answer: {}", sign.target, sign.problem.observed);
            lives(evidence, sign.target).then(|| Diagnosis::new(CUT_OFF.id, headline))
        })
    },
};

pub(super) const HANGS: Cause = Cause {
    id: "node-hangs",
    title: "a machine accepts connections and does not answer",
    explain: "The kernel of the machine still accepts connections, and no program behind them answers: it is frozen, paused by its \
hypervisor, out of memory, or its disk has stopped. With machined alone, its containers go on, and nobody can tell Talos anything. \
Others may still count the machine as present.\n\n\
It does not heal by itself as a rule. Look at the console before you reset it: what is shown there is lost afterwards.",
    source: TALOS_TROUBLESHOOTING,
    remedy: &[
        Look("talosctl -n NODE version"),
        Look("kubectl describe node NODENAME"),
        Do("Look at the console and at the hypervisor (is it paused, is its disk full?)."),
        Do("Then reset it by its power button, its hypervisor or its management controller."),
    ],
    recognise: |evidence| {
        lost(evidence, &[Reason::NodeFrozen], |evidence, sign| {
            let role = role(evidence, sign.target);
            let what = if lives(evidence, sign.target) {
                "its machined hangs, while its containers go on"
            } else {
                "it hangs"
            };
            let headline = format!("{role}{} accepts connections and does not answer: {what}", sign.target);
            Some(Diagnosis::new(HANGS.id, headline))
        })
    },
};

pub(super) const REMOVED: Cause = Cause {
    id: "node-removed-but-listed",
    title: "a machine was removed, and a list still names it",
    explain: "A source still names a machine that the others have forgotten and that does not answer. A Node object stays until \
somebody deletes it, and keeps pods and volumes bound to something that is gone. Talos' discovery forgets a machine by itself \
within 30 minutes.\n\n\
Make sure that the machine is gone before you delete its Node: one that is merely switched off would have to register anew.",
    source: TALOS_SCALE_DOWN,
    remedy: &[
        Look("kubectl describe node NODENAME"),
        Look("talosctl -n CP get members"),
        Do("Delete the Node of a machine that is gone for good. Discovery needs nothing but time."),
        Change("kubectl delete node NODENAME"),
    ],
    recognise: |evidence| {
        let groups = by_subject(evidence.of(&[Reason::StaleNodeObject, Reason::StaleDiscoveryMember]));
        groups
            .iter()
            .map(|signs| {
                let lister = match signs[0].problem.reason {
                    Reason::StaleNodeObject => "Kubernetes",
                    _ => "discovery",
                };
                let target = signs[0].target;
                let headline = format!("{target} is gone, and {lister} still lists it: {}", signs[0].problem.observed);
                let own = evidence.about(target).filter(|sign| sign.check != "k8s.nodes.schedulable");
                Diagnosis::new(REMOVED.id, headline).rests_on_all(signs).explains(own)
            })
            .collect()
    },
};

pub(super) const SCALED_DOWN: Cause = Cause {
    id: "autoscaler-removes-nodes",
    title: "workers are being removed, so fewer are there than expected",
    explain: "Nodes that an autoscaler has marked for deletion, or that are being deleted, are not counted. Together with them the \
expected number would be met: the cluster is shrinking, nothing has broken.\n\n\
With an autoscaler the number of workers is not constant: expect the least number, or allow some to be missing.",
    source: KUBERNETES_NODES,
    remedy: &[
        Look("kubectl get nodes -o wide"),
        Do("Ask again once it has finished, or give `--expect-workers` the number that the autoscaler keeps at least."),
        Do("`--max-unready-workers N` allows for workers that come and go."),
    ],
    recognise: |evidence| {
        let workers = || evidence.snapshot.nodes.iter().filter(|node| node.role == Role::Worker);
        let leaving: Vec<Target> = workers().filter(|node| node.leaving).map(Target::node).collect();
        let staying = workers().filter(|node| !node.leaving).count();
        let Some(expected) = evidence.snapshot.asked.expect_workers else { return Vec::new() };
        let signs = evidence.of(&[Reason::NodeMissing]).filter(|sign| sign.target.kind == Kind::Cluster);
        let signs: Vec<_> = signs.filter(|sign| sign.problem.expected.contains("worker")).collect();
        if leaving.is_empty() || signs.is_empty() || staying >= expected || staying + leaving.len() < expected {
            return Vec::new();
        }
        let headline =
            format!("{} of {expected} expected workers are being removed: {}", leaving.len(), names(&leaving));
        let diagnosis = Diagnosis::new(SCALED_DOWN.id, headline).then(Hint::run("{kubectl} get nodes -o wide", []));
        let diagnosis = leaving.into_iter().fold(diagnosis, |it, node| it.sees(node, "is being removed"));
        vec![diagnosis.rests_on_all(&signs)]
    },
};

pub(super) const KUBELET: Cause = Cause {
    id: "kubelet-not-running",
    title: "the kubelet of a machine does not run",
    explain: "Talos reaches the machine and says that its kubelet is not running or not healthy. No pod there is started or \
reported any more; Kubernetes notices after some 50 seconds and calls the node NotReady. On a control plane nobody restarts the \
API server either.\n\n\
It crashes because of a wrong `extraArgs` or `extraConfig` in the machine configuration, cannot pull its image, or waits for \
something that its service names.",
    source: TALOS_TROUBLESHOOTING_CONTROL_PLANE,
    remedy: &[
        Look("talosctl -n NODE service kubelet"),
        Look("talosctl -n NODE logs kubelet"),
        Do("Mend what the log names in the machine configuration; Talos starts the kubelet anew."),
        Change("talosctl -n NODE service kubelet restart"),
    ],
    recognise: |evidence| {
        evidence
            .of_check("talos.nodes.kubelet", &[Reason::KubeletUnhealthy])
            .map(|sign| {
                let headline = format!("the kubelet of {} does not run: {}", sign.target, sign.problem.observed);
                let follows = evidence.about(sign.target).filter(|it| {
                    use Reason::{NodeLeaseStale, NodeNotReady, NodeNotRegistered, StatusStale};
                    matches!(it.problem.reason, NodeLeaseStale | NodeNotReady | NodeNotRegistered | StatusStale)
                });
                let diagnosis = Diagnosis::new(KUBELET.id, headline).rests_on(&sign).explains(follows);
                match sign.target.address.as_deref() {
                    Some(address) => {
                        diagnosis.then(Hint::remedy("{talosctl} -n {} service kubelet restart", [address]))
                    }
                    None => diagnosis,
                }
            })
            .collect()
    },
};

pub(super) const NO_NETWORK: Cause = Cause {
    id: "network-plugin-missing",
    title: "no network plugin works, so nodes stay NotReady",
    explain: "The kubelets say that no network plugin (CNI) is initialised. With `cni: none` Talos installs none, and nodes stay \
NotReady until somebody installs one; with flannel, its pods do not start. Pods that need a network, DNS among them, wait for it.\n\n\
The machines themselves are well.",
    source: KUBERNETES_NETWORK,
    remedy: &[
        Look("kubectl -n kube-system get pods -o wide"),
        Look("talosctl -n CP get manifests"),
        Do("Install the network plugin of your choice, or look at the logs of the one that is installed."),
    ],
    recognise: |evidence| {
        let signs: Vec<_> = evidence.of(&[Reason::CniMissing]).collect();
        if signs.is_empty() {
            return Vec::new();
        }
        let total = evidence.snapshot.nodes.iter().filter(|node| node.sources.kubernetes).count();
        let headline = format!(
            "no network plugin works on {} of {total} nodes ({}), which stay NotReady",
            signs.len(),
            names(signs.iter().map(|sign| sign.target))
        );
        let dns = evidence.of_check("k8s.dns", &[Reason::DnsNoEndpoints]);
        vec![
            Diagnosis::new(NO_NETWORK.id, headline)
                .then(Hint::run("{kubectl} -n kube-system get pods -o wide", []))
                .rests_on_all(&signs)
                .explains(dns),
        ]
    },
};

pub(super) const UNAPPROVED: Cause = Cause {
    id: "kubelet-certificate-unapproved",
    title: "a kubelet waits for its serving certificate, and nothing can be read from it",
    explain: "With `rotate-server-certificates` a kubelet asks Kubernetes for the certificate of its own API, and somebody has to \
approve the request: Kubernetes does not by itself. Until then Talos cannot read the static pods from the kubelet, \
logs and metrics of the node's pods cannot be had, and everything else runs on.\n\n\
Approve the request if the kubelet is one that you know, and install an approver so that the next renewal is not missed.",
    source: KUBERNETES_TLS,
    remedy: &[
        Look("kubectl get csr"),
        Look("kubectl describe csr NAME"),
        Change("kubectl certificate approve NAME"),
        Do("Install an approver of kubelet serving certificates, or switch `rotate-server-certificates` off."),
    ],
    recognise: |evidence| {
        let pending = evidence.of_check("k8s.nodes.csrs", &[Reason::CsrPending]);
        pending
            .filter_map(|sign| {
                // Without this consequence a request that waits is a warning that speaks for itself.
                let stale: Vec<_> =
                    evidence.of(&[Reason::StatusStale]).filter(|it| same_subject(it.target, sign.target)).collect();
                let first = stale.first()?;
                let headline = format!(
                    "{} waits for somebody to approve its serving certificate, so its static pods cannot be read: {}",
                    first.target, sign.problem.observed
                );
                let diagnosis = Diagnosis::new(UNAPPROVED.id, headline).rests_on(&sign);
                let seen = diagnosis.sees(first.target.clone(), first.problem.observed.clone());
                Some(seen.explains(stale.iter().copied()))
            })
            .collect()
    },
};
