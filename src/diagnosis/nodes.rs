//! Machines: their existence, reachability and identity.

use super::symptoms::{Sign, first_names};
use super::{Cause, Recognized, Symptoms};
use crate::assess::workloads::{Renewal, renewal_of, says_ready};
use crate::assess::{is_going_down, is_older, is_silent_altogether};
use crate::model::Role;
use crate::model::reason::sources::{
    KUBERNETES_NODES, TALOS_CONNECTIVITY, TALOS_HOSTNAME, TALOS_SCALE_DOWN, TALOS_TROUBLESHOOTING,
};
use crate::model::{About, CheckId, Hint, Kind, Reason, Step, Target};
use crate::snapshot::{Gap, Leases, Node, Snapshot, Sources};
use crate::text::excerpt;

use Step::{Change, Do, Look};

/// Returns all problems of a machine that takes part in nothing, and the margin that etcd lacks, or may lack, without it. Results of
/// decisions that people made or have yet to make are not consequences, a silent machine does not make any version wrong, and an alarm of
/// etcd outlives the machine of its member.
pub(super) fn consequences<'a>(symptoms: &Symptoms<'a>, target: &'a Target) -> Vec<Sign<'a>> {
    let is_apart = |reason| {
        use Reason::{
            AlarmCorrupt, AlarmNospace, Cordoned, CordonedByTalos, CsrDenied, CsrNotIssued, CsrPending,
            StaleDiscoveryMember, StaleMember, StaleNodeObject,
        };
        matches!(
            reason,
            AlarmCorrupt
                | AlarmNospace
                | Cordoned
                | CordonedByTalos
                | CsrDenied
                | CsrNotIssued
                | CsrPending
                | StaleDiscoveryMember
                | StaleMember
                | StaleNodeObject
                | Reason::Uninitialized
                | Reason::VersionSkew
                | Reason::VersionUnexpected
                | Reason::VersionsMixed
        )
    };
    let own = symptoms.about(target).filter(|sign| !is_apart(sign.problem.reason));
    let votes = symptoms.machine(target).is_some_and(|node| is_voter(symptoms, node));
    own.chain(margin(symptoms).filter(|_| votes)).collect()
}

/// Returns the problems of the margin that etcd lacks, or may lack, without one of its voters.
fn margin<'a>(symptoms: &Symptoms<'a>) -> impl Iterator<Item = Sign<'a>> {
    symptoms.of_check(CheckId::EtcdTolerance, &[Reason::NoTolerance, Reason::MarginUnmet, Reason::NoAnswer])
}

/// Returns whether a control plane lists the machine as a voting member, so that its vote is missing while it takes part in nothing.
pub(super) fn is_voter(symptoms: &Symptoms<'_>, node: &Node) -> bool {
    let lists = symptoms.snapshot.nodes.iter().map(|node| &node.talos.etcd_members);
    lists.flatten().flatten().any(|member| !member.is_learner && member.could_be(node))
}

/// Maximum number of machines that a headline names.
pub(super) const NAMES: usize = 5;
/// If more machines than this have the same problem, they get one diagnosis together.
pub(super) const EACH: usize = 3;

/// A machine that Talos cannot reach, and the headline if it is the only one.
struct Lost<'a> {
    sign: Sign<'a>,
    headline: String,
}

/// Diagnoses each machine that Talos misses for one of these reasons, unless another cause explains it; many machines get one diagnosis,
/// with `what` in its headline.
fn lost<'a>(
    cause: &'static str,
    what: &str,
    symptoms: &Symptoms<'a>,
    reasons: &'static [Reason],
    headline: fn(&Symptoms<'a>, &Sign<'a>) -> Option<String>,
) -> Vec<Recognized> {
    let signs = symptoms.of_check(CheckId::TalosNodesReachable, reasons);
    // A machine that answers is not lost, even if one of its answers is.
    let answers = |sign: &Sign<'_>| symptoms.node(sign.target).is_some_and(|node| node.talos.contact.is_ok());
    let mut lost: Vec<_> = signs
        .filter(|sign| sign.is_root() && symptoms.is_open(sign) && !answers(sign))
        .filter_map(|sign| Some(Lost { sign, headline: headline(symptoms, &sign)? }))
        .collect();
    if lost.len() <= EACH {
        let one = |it: &Lost<'a>| with_lost(symptoms, Recognized::new(cause, it.headline.as_str()), it);
        return lost.iter().map(one).collect();
    }
    let is_worker = |it: &Lost<'_>| symptoms.node(it.sign.target).is_none_or(|node| node.role != Role::ControlPlane);
    lost.sort_by_key(is_worker);
    let all = symptoms.snapshot.nodes.iter().filter(|node| !node.leaving).count();
    let control_planes = lost.iter().filter(|it| !is_worker(it)).count();
    let among = match control_planes {
        0 => String::new(),
        1 => ", a control plane among them".to_owned(),
        n => format!(", {n} control planes among them"),
    };
    let targets: Vec<_> = lost.iter().map(|it| it.sign.target).collect();
    let headline = format!("{} of {all} machines {what}{among}: {}", lost.len(), first_names(&targets, EACH));
    vec![lost.iter().fold(Recognized::new(cause, headline), |it, one| with_lost(symptoms, it, one))]
}

fn with_lost<'a>(symptoms: &Symptoms<'a>, recognized: Recognized, lost: &Lost<'a>) -> Recognized {
    let recognized = recognized.rests_on(&lost.sign);
    let others = consequences(symptoms, lost.sign.target);
    let heard = others.iter().filter(|it| matches!(it.check, CheckId::K8sNodesReady | CheckId::K8sApiServers));
    let recognized = heard.fold(recognized, |it, sign| {
        it.sees(sign.target.clone(), format!("{}: {}", sign.check, sign.problem.observed))
    });
    recognized.explains(others)
}

pub(super) const UNTRUSTED: Cause = Cause {
    id: "node-certificate-refused",
    title: "a machine runs, but the endpoint does not accept its Talos certificate",
    impact: "Talos cannot query or manage the machine; its pods may be running",
    explain: "The endpoint has reached the machine's Talos API, which presented a certificate that the endpoint rejects. So \
the machine has power and a network. It was set up with the secrets of another cluster, or its address now belongs to a \
machine of another cluster. Or its certificate was not renewed, or is not valid for this address.\n\n\
Until this is resolved, Talos cannot query the machine, and it may not even be the expected machine that answers.",
    source: TALOS_TROUBLESHOOTING,
    remedy: &[
        Look("talosctl -n NODE version"),
        Look("kubectl describe node NODENAME"),
        Do("Find out which machine has this address, and which cluster's secrets it was set up with."),
        Do(
            "If it is the right machine, check its clock and trustd on the control planes (port 50001), which renews its certificate.",
        ),
    ],
    recognize: |symptoms| {
        let what = "present certificates that the endpoint does not accept";
        lost(UNTRUSTED.id, what, symptoms, &[Reason::NodeUnreachable], |symptoms, sign| {
            let refused = |node: &&Node| node.talos.contact.as_ref().is_err_and(Gap::is_refused_certificate);
            symptoms.node(sign.target).filter(refused)?;
            let (role, observed) = (role(symptoms, sign.target), excerpt::of(&sign.problem.observed));
            Some(format!("{role}{} runs, but the endpoint does not accept its certificate: {observed}", sign.target))
        })
    },
};

pub(super) const REFUSES: Cause = Cause {
    id: "talos-api-refused",
    title: "a machine refuses connections to its Talos API",
    impact: "Talos cannot query or manage the machine; its pods may be running",
    explain: "A refusal is an answer: the machine, or a firewall in front of it, is on. Nothing listens on port 50000 there. The \
machine is booting, its apid does not run, or it has no certificate: a worker requests one from trustd on the control planes \
(port 50001). Or another machine has this address now, or a firewall rejects connections.\n\n\
Facts that only Talos reports about the machine are undetermined. Its kubelet and pods are checked through Kubernetes as \
usual.",
    source: TALOS_TROUBLESHOOTING,
    remedy: &[
        Look("kubectl describe node NODENAME"),
        Look("talosctl -n NODE version"),
        Do(
            "A machine that boots listens within a minute or two. If it does not, look at its console for what apid waits for.",
        ),
        Do("If apid waits for its certificate, look at trustd on a control plane:"),
        Look("talosctl -n CP logs trustd"),
    ],
    recognize: |symptoms| {
        let what = "refuse connections to their Talos API";
        lost(REFUSES.id, what, symptoms, &[Reason::NodeUnreachable], |symptoms, sign| {
            let refused = |node: &&Node| node.talos.contact.as_ref().is_err_and(Gap::is_refused_connection);
            symptoms.node(sign.target).filter(refused)?;
            if lives(symptoms, sign.target) {
                return None;
            }
            let unheard = symptoms.about(sign.target).any(|it| it.check == CheckId::K8sNodesReady);
            let also = if unheard { "; its kubelet has stopped reporting to Kubernetes" } else { "" };
            let role = role(symptoms, sign.target);
            let what =
                "refuses connections to its Talos API (port 50000): the machine, or a firewall in front of it, is on";
            Some(format!("{role}{} {what}{also}", sign.target))
        })
    },
};

/// Describes the only source of a machine that neither Talos, Kubernetes nor etcd lists. It may have been removed.
fn stated_alone(snapshot: &Snapshot, node: &Node) -> Option<&'static str> {
    let asked = &snapshot.asked;
    // `sources` goes by names, and only the address of a machine that never answered may be known.
    let mut members = snapshot.control_planes().flat_map(|it| it.talos.etcd_members.iter().flatten());
    if members.any(|member| member.could_be(node)) {
        return None;
    }
    match node.sources {
        Sources { discovery: false, kubernetes: false, etcd: false, flags: false, talosconfig: true } => {
            Some(if asked.names(node) {
                "; only `--nodes` names it: check the address, or whether the machine was removed"
            } else {
                "; only the talosconfig lists it: if it was removed, take it out of `nodes` there"
            })
        }
        Sources { discovery: false, kubernetes: false, etcd: false, flags: true, .. } => {
            Some("; only an option names it: if it was removed, leave it out there")
        }
        _ => None,
    }
}

pub(super) const DOWN: Cause = Cause {
    id: "node-down",
    title: "a machine is down or cut off",
    impact: "if the machine is down, so are its pods; after 5 minutes Kubernetes replaces those that can run elsewhere",
    explain: "A working endpoint cannot reach the machine, which refuses nothing, and nothing shows that it is alive. It is powered off, has crashed, \
hangs, lost its network, or has a new address. Kubernetes takes about 50 seconds to notice; if it keeps reporting the node as \
Ready, only the Talos API is filtered. If the machine is down, so are its pods and, on a control plane, its etcd member and its \
API server. Kubernetes replaces the pods of a StatefulSet only once the Node is deleted or marked out of service.\n\n\
Look at its console, its hypervisor, or the switch that it is connected to. If it will not come back, remove it properly, its \
etcd member first.",
    source: TALOS_TROUBLESHOOTING,
    remedy: &[
        Look("talosctl -n NODE version"),
        Look("kubectl describe node NODENAME"),
        Do("Look at the machine's console and power. Power it on, or repair its network; it rejoins on its own."),
        Do(
            "Only if the machine is permanently lost. If it was a control plane, remove its etcd member first, by its ID; then its Node:",
        ),
        Look("talosctl -n CP etcd members"),
        Look("talosctl -n CP etcd snapshot db.snapshot"),
        Change("talosctl -n CP etcd remove-member MEMBER-ID"),
        Change("kubectl delete node NODENAME"),
    ],
    recognize: |symptoms| {
        let silent = silent_without_talos(symptoms);
        let lost = lost(DOWN.id, "do not answer", symptoms, &[Reason::NodeUnreachable], |symptoms, sign| {
            if lives(symptoms, sign.target) {
                return None;
            }
            let unheard = symptoms.about(sign.target).any(|it| it.check == CheckId::K8sNodesReady);
            let also = if unheard {
                "; its kubelet has stopped reporting to Kubernetes: check its power, console and network"
            } else if symptoms.passed(CheckId::K8sNodesReady, sign.target) {
                "; Kubernetes still reports it Ready, which may be up to 50s old"
            } else {
                ""
            };
            let role = role(symptoms, sign.target);
            let observed = excerpt::of(&sign.problem.observed);
            let node = symptoms.node(sign.target);
            let stated = node.and_then(|node| stated_alone(symptoms.snapshot, node)).unwrap_or_default();
            // An address in the error contains the port already.
            let of = if observed.contains(":50000") { "" } else { " on its Talos API (port 50000)" };
            Some(format!("{role}{} does not answer{of}: {observed}{also}{stated}", sign.target))
        });
        lost.into_iter().chain(silent).collect()
    },
};

/// Recognizes control planes that have fallen silent, if Talos is not queried. A worker has nothing else than its kubelet to fall silent.
fn silent_without_talos<'a>(symptoms: &Symptoms<'a>) -> Vec<Recognized> {
    use Reason::{NodeLeaseStale, NodeNotReady};
    let signs = symptoms.of_check(CheckId::K8sNodesReady, &[NodeNotReady, NodeLeaseStale]);
    let silent = signs.filter(|sign| {
        let node = symptoms.node(sign.target);
        sign.is_root() && node.is_some_and(|node| is_silent_altogether(symptoms.snapshot, node))
    });
    let one = |sign: Sign<'a>| {
        let others = consequences(symptoms, sign.target);
        let of_server = others.iter().find(|it| it.check == CheckId::K8sApiServers);
        let server = of_server.map_or_else(String::new, |it| format!(": {}", excerpt::of(&it.problem.observed)));
        let headline = format!(
            "control plane node {} is silent: its kubelet has stopped reporting, and its API server does not answer{server}",
            sign.target
        );
        let recognized = Recognized::new(DOWN.id, headline).rests_on(&sign);
        let recognized = of_server.iter().fold(recognized, |it, server| {
            it.sees(server.target.clone(), format!("{}: {}", server.check, server.problem.observed))
        });
        recognized.explains(others)
    };
    silent.map(one).collect()
}

pub(super) const NOT_JOINED: Cause = Cause {
    id: "machine-not-joined",
    title: "a machine is on, but has not joined the cluster",
    impact: "no pod can run on this machine; the rest of the cluster is not affected",
    explain: "The machine refuses connections to its Talos API, so it has power and a network, but Kubernetes has no Node \
for it. \
A new machine looks like this until it has joined; if it lasts, the machine cannot join.\n\n\
The Talos API of a worker starts once it has a certificate. The worker requests it from trustd on the control planes (port 50001), \
through the cluster endpoint of its machine configuration. Its kubelet needs the same endpoint to register the Node. So both \
usually fail for the same reason: the endpoint is wrong, or cannot be reached from the machine's network. Another reason is \
a machine configuration with the token of another cluster. The machine's console shows which.\n\n\
A machine that was removed and now runs something else looks the same until discovery forgets it, within 30 minutes.",
    source: TALOS_TROUBLESHOOTING,
    remedy: &[
        Look("talosctl -n CP service trustd"),
        Look("talosctl -n CP logs trustd"),
        Do(
            "Check that the machine's network can reach the cluster endpoint on port 6443, and the control planes on port 50001.",
        ),
        Do(
            "Look at the machine's console. Compare `cluster.controlPlane.endpoint` and `machine.token` of its configuration with those of a machine that has joined.",
        ),
    ],
    recognize: |symptoms| {
        let what = "are on, but have not joined the cluster";
        let mut made = lost(NOT_JOINED.id, what, symptoms, &[Reason::NodeUnreachable], |symptoms, sign| {
            let is_refused = symptoms.node(sign.target)?.talos.contact.as_ref().is_err_and(Gap::is_refused_connection);
            let has_no_node = symptoms.about(sign.target).any(|it| it.problem.reason == Reason::NodeNotRegistered);
            let role = role(symptoms, sign.target);
            let what = "is on (it refuses connections), but its Talos API does not run and its kubelet has not joined";
            (is_refused && has_no_node).then(|| format!("{role}{} {what}", sign.target))
        });
        let answers = symptoms.snapshot.control_planes().find(|node| node.talos.contact.is_ok());
        if let Some(node) = answers {
            let trustd = ["{talosctl} -n {} service trustd", "{talosctl} -n {} logs trustd"];
            let kubernetes = symptoms.snapshot.kubernetes.as_ref();
            let server = kubernetes.and_then(|it| Some(it.credentials.as_ref().ok()?.server.as_str()));
            let endpoint = server.map_or_else(String::new, |server| format!(" ({server} in this kubeconfig)"));
            let likely = format!(
                "the machine's network cannot reach the cluster endpoint of its configuration{endpoint}; its console shows what it waits for"
            );
            for recognized in &mut made {
                let looks = trustd.map(|command| Hint::run(command, [node.address.as_str()]));
                recognized.next = looks.into_iter().chain([Hint::likely(likely.clone())]).collect();
            }
        }
        made
    },
};

/// Returns whether the machine's kubelet renews its lease, although discovery has forgotten the machine, which takes it half an hour.
fn reports<'a>(symptoms: &Symptoms<'a>, target: &'a Target) -> bool {
    let leases = symptoms.snapshot.kubernetes.iter().flat_map(|kubernetes| &kubernetes.node_leases);
    let renews = |leases: &Leases| renewal_of(leases, &target.name) == Some(Renewal::Renewed);
    let is_forgotten = symptoms.about(target).any(|sign| sign.problem.reason == Reason::StaleNodeObject);
    is_forgotten && symptoms.passed(CheckId::K8sNodesReady, target) && leases.into_iter().any(renews)
}

fn serves(symptoms: &Symptoms<'_>, target: &Target) -> bool {
    let kubernetes = symptoms.snapshot.kubernetes.as_ref();
    kubernetes.is_some_and(|it| it.servers.get(&target.name).is_some_and(Result::is_ok))
}

/// Returns whether the machine showed signs of life while it was silent to Talos. The Ready condition does not count: it outlasts the
/// machine by 50 s.
fn lives<'a>(symptoms: &Symptoms<'a>, target: &'a Target) -> bool {
    let Some(kubernetes) = &symptoms.snapshot.kubernetes else { return false };
    let memory = &symptoms.snapshot.memory;
    let silent_before = memory.rounds > 0 && !memory.answered.contains(&target.name);
    let lease = kubernetes.node_leases.as_ref().ok().and_then(|leases| leases.by_name.get(&target.name));
    let renewed = silent_before && lease.is_some_and(|lease| lease.moved_within.is_some());
    // Another cluster's leases are not evidence about this one.
    serves(symptoms, target)
        || reports(symptoms, target)
        || (renewed && symptoms.passed(CheckId::K8sNodesReady, target))
}

/// Returns `control plane node ` or `worker `, if the role is known.
fn role(symptoms: &Symptoms<'_>, target: &Target) -> &'static str {
    match symptoms.node(target).map(|node| node.role) {
        Some(Role::ControlPlane) => "control plane node ",
        Some(Role::Worker) => "worker ",
        _ => "",
    }
}

pub(super) const CUT_OFF: Cause = Cause {
    id: "talos-api-cut-off",
    title: "a machine is alive, but its Talos API cannot be reached",
    impact: "Talos cannot query or manage the machine; its pods keep running",
    explain: "Its API server answers at the machine's own address, or its kubelet has renewed its lease while Talos did not \
answer. So it runs and has a network. Only the Talos API cannot be reached: a firewall filters port 50000 between the endpoint \
and the machine, or its apid does not run.\n\n\
Workloads are not affected. Facts that only Talos reports about the machine are undetermined, and the machine cannot be \
upgraded.",
    source: TALOS_CONNECTIVITY,
    remedy: &[
        Look("talosctl -n NODE version"),
        Look("kubectl describe node NODENAME"),
        Do("Open port 50000 between the control planes and to the workers; try another endpoint with `-e`."),
    ],
    recognize: |symptoms| {
        let what = "are alive, but their Talos APIs do not answer";
        lost(CUT_OFF.id, what, symptoms, &[Reason::NodeUnreachable], |symptoms, sign| {
            lives(symptoms, sign.target).then(|| {
                format!(
                    "{} is alive, but its Talos API does not answer: {}",
                    sign.target,
                    excerpt::of(&sign.problem.observed)
                )
            })
        })
    },
};

pub(super) const HANGS: Cause = Cause {
    id: "node-hangs",
    title: "a machine accepts connections and does not answer",
    impact: "Talos cannot manage the machine; if all of it hangs, Kubernetes replaces its pods after about 5 minutes",
    explain: "The kernel of the machine still accepts connections, but no program answers. The machine is frozen, paused by \
its hypervisor, out of memory, or its disk has stopped responding. If only machined hangs, the containers keep running, but \
the machine cannot be managed. Kubernetes may still report it as Ready.\n\n\
It usually does not recover on its own. Look at the console before you reset the machine: its output is lost afterwards.",
    source: TALOS_TROUBLESHOOTING,
    remedy: &[
        Look("talosctl -n NODE version"),
        Look("kubectl describe node NODENAME"),
        Do("Look at the console and at the hypervisor (is it paused, is its disk full?)."),
        Do("Then reset it with its power button, its hypervisor or its management controller (BMC)."),
    ],
    recognize: |symptoms| {
        let what = "accept connections and do not answer";
        lost(HANGS.id, what, symptoms, &[Reason::NodeFrozen], |symptoms, sign| {
            let role = role(symptoms, sign.target);
            let what = match () {
                () if serves(symptoms, sign.target) => "its apid or machined hangs; its API server still works",
                () if lives(symptoms, sign.target) => "its apid or machined hangs; its kubelet still works",
                () => "it hangs",
            };
            Some(format!("{role}{} accepts connections and does not answer: {what}", sign.target))
        })
    },
};

pub(super) const GOING_DOWN: Cause = Cause {
    id: "machine-going-down",
    title: "a machine is rebooting, upgrading, shutting down or being reset",
    impact: "the machine takes no part in the cluster until it is back",
    explain: "The machine is in a stage in which Talos stops its services on purpose. Its kubelet, etcd and API server are not \
broken, and restarting them does not help. An administrator or an upgrade requested it.\n\n\
A reboot or an upgrade takes a few minutes, then everything recovers on its own. Until then, etcd has one member fewer: do not \
reboot other control planes. If the stage does not change, something keeps the machine from stopping, such as a pod that does \
not terminate or a volume that cannot be unmounted.",
    source: TALOS_TROUBLESHOOTING,
    remedy: &[
        Look("talosctl -n NODE get machinestatus"),
        Look("talosctl -n NODE dmesg"),
        Do("Wait until it is back. If it stays in this stage for more than 10 minutes, look at its console."),
    ],
    recognize: |symptoms| {
        let signs = symptoms.of_check(CheckId::TalosNodesBooted, &[Reason::StageNotRunning]);
        signs
            .filter_map(|sign| {
                let node = symptoms.node(sign.target).filter(|node| is_going_down(node))?;
                let stage = &node.talos.machine_status.as_ref().ok()?.as_ref()?.stage;
                let role = role(symptoms, sign.target);
                let headline = format!("{role}{} is {}", sign.target, doing(stage));
                let cordon = symptoms.about(sign.target).filter(|it| it.problem.reason == Reason::CordonedByTalos);
                let margin = margin(symptoms).filter(|_| is_voter(symptoms, node));
                Some(Recognized::new(GOING_DOWN.id, headline).rests_on(&sign).explains(cordon).explains(margin))
            })
            .collect()
    },
};

/// Describes a stage in a sentence. `resetting` would read as if the machine reset others.
fn doing(stage: &str) -> &str {
    if stage == "resetting" { "being reset" } else { stage }
}

pub(super) const RENAMED: Cause = Cause {
    id: "machine-renamed",
    title: "a machine registers under a different name than before",
    impact: "the old Node keeps its pods and volumes, and they do not come back under the new name on their own",
    explain: "A Node has stopped reporting, and a machine with another name answers at its address. A machine without a \
configured hostname makes one up (`talos-…`), and may make up another after an upgrade or a reinstallation. To Kubernetes it is a \
new node: pods, volumes and labels stay with the old Node, and a cloud provider that knows the machine by its old name never \
initializes the new one.\n\n\
Deleting the old Node alone does not help. Give the machine its name back. It then registers as before, and you can delete the \
Node with the made-up name.",
    source: TALOS_HOSTNAME,
    remedy: &[
        Look("talosctl -n NODE get hostnamestatus -o yaml"),
        Look("kubectl get nodes -o wide"),
        Do(
            "Give the machine its name back, since Talos 1.12 with a HostnameConfig (before: `machine.network.hostname`):",
        ),
        Change(
            r#"talosctl -n NODE patch machineconfig --patch '{"apiVersion":"v1alpha1","kind":"HostnameConfig","auto":"off","hostname":"NODENAME"}'"#,
        ),
        Do("Once it has registered under its old name, delete the Node with the made-up name."),
    ],
    recognize: |symptoms| {
        let signs = symptoms.of(&[Reason::StaleNodeObject, Reason::AnsweredByOtherNode]);
        signs.filter(|sign| symptoms.is_open(sign)).filter_map(|sign| renamed(symptoms, &sign)).collect()
    },
};

/// Recognizes a Node that stopped reporting while a machine with another name answers at its address.
fn renamed<'a>(symptoms: &Symptoms<'a>, stale: &Sign<'a>) -> Option<Recognized> {
    let node = symptoms.node(stale.target)?;
    let name = node.talos.contact.as_ref().ok()?.answered_by_other.as_deref()?;
    let new = symptoms.snapshot.nodes.iter().find(|other| other.is_called(name) && !std::ptr::eq(*other, node));
    // etcd knows the machine by its old name until it restarts there, so the Node is not reported as stale.
    if stale.problem.reason == Reason::AnsweredByOtherNode && !is_same_machine(symptoms.snapshot, node, new?) {
        return None;
    }
    let does = if new.is_some_and(|new| new.sources.kubernetes) { "registers as" } else { "calls itself" };
    let why = if name.starts_with("talos-") { "its hostname is not configured" } else { "its hostname has changed" };
    let headline = format!("the machine at {} now {does} {name}, and no longer {}; {why}", node.address, node.name);
    let of_old = symptoms.about(stale.target).filter(|sign| sign.target.name == node.name);
    let follows = |sign: &Sign<'_>| matches!(sign.problem.reason, Reason::Uninitialized | Reason::NodeAddress);
    let of_new = symptoms.about(stale.target).filter(follows);
    let recognized = Recognized::new(RENAMED.id, headline)
        .sees(stale.target.clone(), stale.problem.observed.as_str())
        .explains([*stale].into_iter().chain(of_old).chain(of_new))
        .then(Hint::run("{talosctl} -n {} get hostnamestatus -o yaml", [&node.address]))
        .then(Hint::run("{kubectl} get nodes -o wide", []));
    let patch = if is_older(node, (1, 12, 0)) {
        format!(r#"{{"machine":{{"network":{{"hostname":"{}"}}}}}}"#, node.name)
    } else {
        format!(r#"{{"apiVersion":"v1alpha1","kind":"HostnameConfig","auto":"off","hostname":"{}"}}"#, node.name)
    };
    Some(recognized.then(Hint::remedy("{talosctl} -n {} patch machineconfig --patch {}", [&node.address, &patch])))
}

/// Returns whether two Nodes are the same machine, by its ID, and the kubelet no longer reports to the first one.
fn is_same_machine(snapshot: &Snapshot, old: &Node, new: &Node) -> bool {
    let objects = snapshot.kubernetes.as_ref().and_then(|kubernetes| kubernetes.nodes.as_ref().ok());
    let object = |node: &Node| objects?.iter().find(|object| node.is_called(&object.name));
    match (object(old), object(new)) {
        (Some(old), Some(new)) => {
            !says_ready(old) && says_ready(new) && !new.machine_id.is_empty() && old.machine_id == new.machine_id
        }
        _ => false,
    }
}

pub(super) const REMOVED: Cause = Cause {
    id: "node-removed-but-listed",
    title: "a machine was removed or has long been off, but is still listed",
    impact: "none for workloads: a list is out of date",
    explain: "A source still lists a machine that the others have forgotten and that does not answer. Talos discovery forgets \
a machine after half an hour without contact, whether it was removed or is only powered off; from here the two look the same. \
A Node object stays until it is deleted, and keeps pods and volumes bound to the machine.\n\n\
Find out which of the two it is before you delete anything: a machine that is powered on again recovers on its own, and its \
pods keep their volumes.",
    source: TALOS_SCALE_DOWN,
    remedy: &[
        Look("kubectl describe node NODENAME"),
        Look("talosctl -n CP get members"),
        Do(
            "Look at its console, its hypervisor or your inventory: was it removed, or is it off? If it is off, power it on.",
        ),
        Do("Delete the Node only if the machine is permanently gone. The discovery entry expires on its own."),
        Change("kubectl delete node NODENAME"),
    ],
    recognize: |symptoms| {
        let signs = symptoms.of(&[Reason::StaleNodeObject, Reason::StaleDiscoveryMember]);
        // Discovery may be what is wrong about a machine whose kubelet reports.
        let gone = signs.filter(|sign| symptoms.is_open(sign) && !reports(symptoms, sign.target));
        let groups = symptoms.by_subject(gone);
        groups
            .iter()
            .map(|signs| {
                let lister = match signs[0].problem.reason {
                    Reason::StaleNodeObject => "Kubernetes",
                    _ => "discovery",
                };
                let target = signs[0].target;
                let headline = format!(
                    "{target} was removed or has long been off, but {lister} still lists it: {}",
                    signs[0].problem.observed
                );
                let own = symptoms.about(target).filter(|sign| sign.check != CheckId::K8sNodesSchedulable);
                let stays = (lister == "Kubernetes").then_some(
                    "none, unless StatefulSet pods or volumes are bound to this Node: they stay until it is deleted",
                );
                Recognized::new(REMOVED.id, headline).rests_on_all(signs).explains(own).with_impact(stays)
            })
            .collect()
    },
};

pub(super) const SCALED_DOWN: Cause = Cause {
    id: "autoscaler-removes-nodes",
    title: "fewer workers than expected, because some are being removed",
    impact: "none, if the scale-down is intended",
    explain: "Nodes that an autoscaler has marked for deletion, or that are being deleted, are not counted. With them, the \
number would be as expected: the cluster is being scaled down, nothing is broken.\n\n\
With an autoscaler the number of workers is not constant: pass the minimum, or tolerate some that are missing.",
    source: KUBERNETES_NODES,
    remedy: &[
        Look("kubectl get nodes -o wide"),
        Do("Run again when scaling has finished, or pass the autoscaler's minimum with `--expect-workers`."),
        Do("`--max-unready-workers N` tolerates workers that come and go."),
    ],
    recognize: |symptoms| {
        let workers = || symptoms.snapshot.nodes.iter().filter(|node| node.role == Role::Worker && node.is_talos);
        let leaving: Vec<Target> = workers().filter(|node| node.leaving).map(Node::target).collect();
        let is_gone =
            |target: &Target| symptoms.about(target).any(|sign| sign.problem.reason == Reason::StaleDiscoveryMember);
        let staying = workers().filter(|node| !node.leaving && !is_gone(&node.target())).count();
        let Some(expected) = symptoms.snapshot.asked.expect_workers else { return Vec::new() };
        let signs = symptoms.of(&[Reason::NodeMissing]).filter(|sign| sign.target.kind == Kind::Cluster);
        let signs: Vec<_> = signs.filter(|sign| sign.problem.about == Some(About::Role(Role::Worker))).collect();
        // If no worker is missing, there is nothing to explain.
        if leaving.is_empty() || staying + leaving.len() < expected {
            return Vec::new();
        }
        let names = first_names(&leaving.iter().collect::<Vec<_>>(), NAMES);
        let headline = format!("{} of {expected} expected workers are being removed: {names}", leaving.len());
        let diagnosis = Recognized::new(SCALED_DOWN.id, headline).then(Hint::run("{kubectl} get nodes -o wide", []));
        let diagnosis = leaving.into_iter().fold(diagnosis, |it, node| it.sees(node, "is being removed"));
        vec![diagnosis.rests_on_all(&signs)]
    },
};
