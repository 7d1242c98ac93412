//! Problems that upgrades and the passing of time leave behind.

use std::collections::BTreeMap;

use super::symptoms::{Sign, first_names};
use super::{Cause, Recognized, Symptoms};
use crate::model::reason::sources::{
    KUBERNETES_DEPRECATIONS, KUBERNETES_DISRUPTIONS, KUBERNETES_RESOURCES, TALOS_PKI, TALOS_TIME, TALOS_UPGRADE,
};
use crate::model::{About, CheckId, Hint, Kind, Reason, Role, Severity, Step, Target};
use crate::snapshot::{Gap, GapKind, Node, Service};
use crate::text::host;

use Step::{Change, Do, Look};

pub(super) const HALF_DONE: Cause = Cause {
    id: "upgrade-half-done",
    title: "an upgrade of Talos stopped halfway",
    impact: "cordoned machines take no pods, and the other machines still run the old version",
    explain: "The machines run different versions of Talos, and one that finished booting long ago is still cordoned by Talos, \
which does that during an upgrade. So an upgrade was interrupted: it never reached the other machines, or the cordoned one \
rolled back to its old version.\n\n\
Look at that machine first. If it is healthy, uncordon it and continue the upgrade; mixed versions that are at most one minor \
version apart work for a while.",
    source: TALOS_UPGRADE,
    remedy: &[
        Look("talosctl -n NODE version"),
        Look("talosctl -n NODE dmesg"),
        Do("If it runs and no upgrade is in progress:"),
        Change("kubectl uncordon NODENAME"),
        Do("Then continue the upgrade, one machine at a time."),
    ],
    recognize: half_done,
};

fn half_done(symptoms: &Symptoms<'_>) -> Vec<Recognized> {
    let mut versions: BTreeMap<&str, usize> = BTreeMap::new();
    for node in symptoms.snapshot.nodes.iter().filter(|node| !node.leaving) {
        let own = node.talos.contact.as_ref().ok().filter(|contact| contact.answered_by_other.is_none());
        if let Some(contact) = own {
            *versions.entry(contact.version.tag.as_str()).or_default() += 1;
        }
    }
    if versions.len() < 2 {
        return Vec::new();
    }
    let mixed: Vec<String> = versions.iter().map(|(tag, nodes)| format!("{nodes} on {tag}")).collect();
    let left: Vec<_> = symptoms
        .of(&[Reason::CordonedByTalos])
        .filter(|sign| {
            let node = symptoms.node(sign.target);
            // A cordon is expected while the machine is being upgraded.
            node.is_some_and(|node| matches!(&node.talos.machine_status, Ok(Some(it)) if it.stage == "running"))
        })
        .collect();
    if left.is_empty() {
        return Vec::new();
    }
    let targets: Vec<_> = left.iter().map(|sign| sign.target).collect();
    let who = match left.as_slice() {
        [one] => {
            let own = symptoms.node(one.target).and_then(|node| node.talos.contact.as_ref().ok());
            let own = own.map_or("", |contact| contact.version.tag.as_str());
            format!("{} runs {own} and is", one.target)
        }
        _ => format!("{} are", first_names(&targets, 3)),
    };
    let headline = format!("an upgrade stopped halfway: {}, and {who} still cordoned by Talos", mixed.join(", "));
    let recognized = Recognized::new(HALF_DONE.id, headline).rests_on_all(&left);
    let addresses = targets.iter().filter_map(|target| target.address.as_deref());
    let recognized =
        addresses.fold(recognized, |it, address| it.then(Hint::run("{talosctl} -n {} version", [address])));
    let nodes = symptoms.snapshot.nodes.iter();
    vec![nodes.fold(recognized, |it, node| match &node.talos.contact {
        Ok(contact) => it.sees(node.target(), format!("Talos {}", contact.version.tag)),
        Err(_) => it,
    })]
}

pub(super) const UNSUPPORTED_JUMP: Cause = Cause {
    id: "unsupported-jump",
    title: "the planned upgrade is too large for one step",
    impact: "the upgrade would be refused or fail; nothing has changed yet",
    explain: "There is no supported upgrade from the current versions to the target. The installer or `talosctl upgrade-k8s` \
would refuse it, or Talos and Kubernetes would run in versions that do not support each other. Nothing is wrong with the \
cluster as it is.\n\n\
Upgrade through the versions in between, each with its latest patch, and Talos and Kubernetes in the order that the problem \
shows.",
    source: TALOS_UPGRADE,
    remedy: &[
        Look("talosctl -n NODE version"),
        Look("kubectl get nodes -o wide"),
        Do(
            "Upgrade to the latest patch of the next minor version first, and check again with `--upgrade-talos` and that version.",
        ),
    ],
    recognize: |symptoms| {
        const SIGNS: &[Reason] = &[Reason::UpgradePathUnsupported, Reason::VersionsIncompatible, Reason::EtcdTooOld];
        let mut alike: Vec<((CheckId, String), Vec<Sign<'_>>)> = Vec::new();
        for sign in failed(symptoms, SIGNS) {
            let key = (sign.check, advice(&sign));
            match alike.iter_mut().find(|(known, _)| *known == key) {
                Some((_, signs)) => signs.push(sign),
                None => alike.push((key, vec![sign])),
            }
        }
        alike.iter().map(|((_, advice), signs)| unsupported(advice, signs)).collect()
    },
};

/// Returns the upgrade path that the problem proposes.
fn advice(sign: &Sign<'_>) -> String {
    let advice = sign.problem.hints.iter().find_map(|hint| match hint {
        Hint::Likely(advice) => Some(advice.clone()),
        _ => None,
    });
    advice.unwrap_or_else(|| format!("required: {}", sign.problem.expected))
}

/// Describes an obstacle that is overcome by the same step on all these machines.
fn unsupported(advice: &str, signs: &[Sign<'_>]) -> Recognized {
    let first = &signs[0];
    let observed = &first.problem.observed;
    let what = match first.target.kind {
        Kind::Cluster => observed.clone(),
        _ => format!("{}: {observed}", first_names(&targets(signs), 3)),
    };
    // The headline ends with the upgrade path, which the reader needs first.
    let headline = format!("this upgrade is not supported in one step: {what}; {advice}");
    let recognized = Recognized::new(UNSUPPORTED_JUMP.id, headline);
    // machined has no information about Kubernetes' versions.
    if first.check == CheckId::UpgradeKubernetesPath || first.target.kind == Kind::Cluster {
        return rests_on_each(recognized.then(Hint::run("{kubectl} get nodes -o wide", [])), signs);
    }
    let of_talos = signs.iter().filter(|sign| sign.check != CheckId::UpgradeEtcd);
    let addresses = of_talos.filter_map(|sign| sign.target.address.as_deref());
    let version = |it: Recognized, address: &str| it.then(Hint::run("{talosctl} -n {} version", [address]));
    rests_on_each(addresses.take(MACHINES).fold(recognized, version), signs)
}

pub(super) const API_REMOVED: Cause = Cause {
    id: "api-removed",
    title: "clients use an API that the target version of Kubernetes has removed",
    impact: "these clients would fail after the upgrade; nothing has changed yet",
    explain: "An API server has recorded requests for an API that the target version removes. After the upgrade the clients \
that send them get 404: often an old release of a controller, a Helm chart or a job. The upgrade itself succeeds, but they \
stop working.\n\n\
The records cover the time since each API server was started. Once the clients are upgraded, restart the API servers or wait \
for the next restart, and check again.",
    source: KUBERNETES_DEPRECATIONS,
    remedy: &[
        Look("kubectl get --raw /metrics"),
        Do("Find the client in the audit log: its requests are annotated with `k8s.io/deprecated`."),
        Do("Upgrade it to a release that uses the newer API."),
    ],
    recognize: |symptoms| {
        let signs = failed(symptoms, &[Reason::RemovedApiRequested]);
        let Some(first) = signs.first() else { return Vec::new() };
        let who = first_names(&targets(&signs), 3);
        let headline = format!("clients use APIs that the upgrade removes, seen on {who}: {}", first.problem.observed);
        vec![rests_on_each(Recognized::new(API_REMOVED.id, headline), &signs)]
    },
};

pub(super) const DRAIN_BLOCKED: Cause = Cause {
    id: "drain-blocked",
    title: "PodDisruptionBudgets block the drain of a machine",
    impact: "the drain would block, and the upgrade would stop there; nothing has changed yet",
    explain: "The API server would refuse to evict pods of the machine, so a drain waits until it gives up. `talosctl upgrade` \
gives up after 5 minutes, when the new version is already installed and the machine cordoned.\n\n\
A budget that allows 0 disruptions usually allows one again when all replicas are ready; a budget that requires all replicas \
never does. Two budgets that select the same pod always block its eviction.",
    source: KUBERNETES_DISRUPTIONS,
    remedy: &[
        Look("kubectl get poddisruptionbudgets -A"),
        Look("kubectl describe poddisruptionbudget NAME -n NAMESPACE"),
        Do(
            "Repair the pods that are not ready. If all are ready, add a replica or relax the budget during the upgrade.",
        ),
    ],
    recognize: |symptoms| {
        let signs = failed(symptoms, &[Reason::EvictionBlocked, Reason::SeveralBudgets]);
        let Some(first) = signs.first() else { return Vec::new() };
        let who = first_names(&targets(&signs), 3);
        let on = if targets(&signs).len() > 1 { format!("; on {}", first.target) } else { String::new() };
        let headline = format!("{who} cannot be drained{on}: {}", first.problem.observed);
        let recognized = rests_on_each(Recognized::new(DRAIN_BLOCKED.id, headline), &signs);
        // Advice about this particular budget comes before general advice.
        let hints = signs.iter().flat_map(|sign| &sign.problem.hints);
        let likely = hints.filter(|hint| matches!(hint, Hint::Likely(_))).take(1).cloned();
        let recognized = likely.fold(recognized, Recognized::then);
        vec![recognized.then(Hint::run("{kubectl} get poddisruptionbudgets -A", []))]
    },
};

pub(super) const NO_ROOM: Cause = Cause {
    id: "no-room",
    title: "the other machines have no room for the pods of a drained machine",
    impact: "pods would stay Pending after the drain; nothing has changed yet",
    explain: "By their resource requests, the pods of the machine do not fit on the other machines. They would stay Pending \
until it is back, and budgets that wait for them would block the drain of the next machine.\n\n\
Requests count, not usage: workloads that request far more than they use can fill an idle cluster.",
    source: KUBERNETES_RESOURCES,
    remedy: &[
        Look("kubectl describe nodes"),
        Do("Add a machine during the upgrade, scale down what is not needed, or lower requests that are too high."),
    ],
    recognize: |symptoms| {
        let signs = failed(symptoms, &[Reason::PodsDoNotFit]);
        let Some(first) = signs.first() else { return Vec::new() };
        let who = first_names(&targets(&signs), 3);
        let headline = format!("the other machines have no room for the pods of {who}: {}", first.problem.observed);
        let all = targets(&signs);
        let names = all.iter().take(MACHINES).map(|target| target.name.as_str());
        let recognized = rests_on_each(Recognized::new(NO_ROOM.id, headline), &signs);
        vec![names.fold(recognized, |it, name| it.then(Hint::pods_on(name)))]
    },
};

/// Maximum number of machines for which observations are shown and commands are proposed.
const MACHINES: usize = 3;

/// Returns failures with these reasons that follow from no other problem.
fn failed<'a>(symptoms: &Symptoms<'a>, reasons: &'static [Reason]) -> Vec<Sign<'a>> {
    symptoms.of(reasons).filter(|sign| sign.is_root() && sign.problem.severity == Severity::Fail).collect()
}

/// Rests on the first signs, and explains all of them.
fn rests_on_each(recognized: Recognized, signs: &[Sign<'_>]) -> Recognized {
    recognized.rests_on_all(signs.iter().take(MACHINES)).explains(signs.iter().copied())
}

fn targets<'a>(signs: &[Sign<'a>]) -> Vec<&'a Target> {
    let mut targets: Vec<&Target> = signs.iter().map(|sign| sign.target).collect();
    targets.dedup();
    targets
}

pub(super) const CLOCK: Cause = Cause {
    id: "clock-not-synchronized",
    title: "a machine cannot synchronize its clock",
    impact: "the kubelet, and on a control plane etcd, do not start before the clock is synchronized; what already runs keeps running",
    explain: "Talos starts neither etcd nor the kubelet before the clock is synchronized, because certificates and leases \
depend on it. This machine cannot reach any of its time servers, or their time is implausible.\n\n\
NTP uses UDP port 123. Since Talos 1.14 the default servers are queried with authentication (NTS), which also needs TCP port \
4460. A firewall that allows only UDP port 123 breaks exactly the machines that were upgraded.",
    source: TALOS_TIME,
    remedy: &[
        Look("talosctl -n NODE get timestatus"),
        Look("talosctl -n NODE get timeservers"),
        Look("talosctl -n NODE logs controller-runtime"),
        Do(
            "Set time servers that the machine can reach in `machine.time.servers`, or open the firewall for the current ones.",
        ),
    ],
    recognize: |symptoms| {
        let signs = symptoms.of_check(CheckId::TalosTime, &[Reason::TimeNotSynced]);
        signs
            .filter(|sign| sign.is_root() && sign.problem.severity == Severity::Fail)
            .map(|sign| {
                let stage = symptoms.node(sign.target).map(|node| &node.talos.machine_status);
                let booting = matches!(stage, Some(Ok(Some(status))) if status.stage == "booting");
                let so = if booting { ", so it does not finish booting" } else { "" };
                let headline = format!("{} cannot synchronize its clock{so}", sign.target);
                let waiting: Vec<&str> = symptoms.node(sign.target).map(waiting_for_time).unwrap_or_default();
                let others = symptoms.about(sign.target).filter(|it| match &it.problem.about {
                    Some(About::Service(id)) => waiting.contains(&id.as_str()),
                    _ if it.problem.reason == Reason::ClockSkew => true,
                    _ => it.problem.reason == Reason::ServiceBlocksBoot && !waiting.is_empty(),
                });
                Recognized::new(CLOCK.id, headline).rests_on(&sign).explains(others)
            })
            .collect()
    },
};

/// Returns the services that wait for the clock, according to Talos's event of each waiting service.
fn waiting_for_time(node: &Node) -> Vec<&str> {
    let waits = |service: &&Service| {
        service.state == "Waiting" && service.last_event.as_ref().is_some_and(|event| event.message.contains(TIME_SYNC))
    };
    node.talos.services.iter().flatten().filter(waits).map(|service| service.id.as_str()).collect()
}

/// Talos's own name for that condition.
const TIME_SYNC: &str = "time sync";

pub(super) const RENEWAL_BROKEN: Cause = Cause {
    id: "certificate-renewal-broken",
    title: "a machine no longer renews its Talos certificate",
    impact: "Talos cannot query or manage the machine; its pods keep running",
    explain: "Machines renew the certificate of their Talos API on their own, long before it expires. This one presents a \
certificate that is not valid now, while others are valid by the same clock. So the renewal on this machine fails, or its \
clock was far off when the certificate was issued.\n\n\
A worker gets its certificate from trustd on a control plane (port 50001). A firewall between them, or an address that is \
missing from the control plane's certificate, breaks the renewal silently until the last certificate expires.",
    source: TALOS_PKI,
    remedy: &[
        Look("talosctl -n CP get timestatus"),
        Look("talosctl -n CP logs controller-runtime"),
        Look("talosctl -n CP service trustd"),
        Do("Open port 50001 from the machine to the control planes, fix its clock, and reboot it."),
    ],
    recognize: renewal_broken,
};

fn renewal_broken(symptoms: &Symptoms<'_>) -> Vec<Recognized> {
    let mut found = at_endpoints(symptoms);
    found.extend(behind_endpoints(symptoms));
    found
}

/// Recognizes a machine whose certificate the endpoint no longer accepts, while it accepts others by the same clock.
fn behind_endpoints(symptoms: &Symptoms<'_>) -> Vec<Recognized> {
    let accepted = symptoms.snapshot.nodes.iter().find_map(|node| {
        let contact = node.talos.contact.as_ref().ok()?;
        (contact.answered_by_other.is_none() && host(&contact.endpoint) != node.address).then_some(node)
    });
    let Some(accepted) = accepted else { return Vec::new() };
    let control_plane = symptoms.snapshot.control_planes().find(|node| node.talos.contact.is_ok());
    symptoms
        .of_check(CheckId::TalosNodesReachable, &[Reason::NodeUnreachable])
        .filter(|sign| symptoms.node(sign.target).is_some_and(is_not_accepted))
        .map(|sign| {
            let (target, observed) = (sign.target, &sign.problem.observed);
            let headline =
                format!("{target} does not renew its Talos certificate, so no endpoint reaches it: {observed}");
            // A worker requests its certificate from trustd on the control planes.
            let is_worker = symptoms.node(target).is_some_and(|node| node.role == Role::Worker);
            let logs = match control_plane.filter(|_| is_worker) {
                Some(node) => Hint::run("{talosctl} -n {} logs trustd", [node.address.as_str()]),
                None => Hint::run("{talosctl} -n {} logs controller-runtime", [accepted.address.as_str()]),
            };
            let diagnosis = Recognized::new(RENEWAL_BROKEN.id, headline).then(logs).rests_on(&sign);
            diagnosis.sees(accepted.target(), "its certificate is accepted")
        })
        .collect()
}

/// Returns whether the endpoint reached the machine but rejected its certificate as expired. The text comes from Go's `crypto/x509`,
/// relayed by apid.
fn is_not_accepted(node: &Node) -> bool {
    let says = |gap: &Gap| {
        // A certificate that is not valid yet is the fault of a clock.
        gap.text.contains("x509: certificate has expired or is not yet valid") && !gap.text.contains(" is before ")
    };
    node.talos.contact.as_ref().is_err_and(says)
}

fn at_endpoints(symptoms: &Symptoms<'_>) -> Vec<Recognized> {
    let Some(talos) = &symptoms.snapshot.talos else { return Vec::new() };
    // An accepted certificate shows that the local clock is right.
    let Some(valid) = talos.endpoints.iter().find(|endpoint| endpoint.version.is_ok()) else { return Vec::new() };
    let ended = |address: &str| {
        let endpoint = talos.endpoints.iter().find(|endpoint| endpoint.address == address);
        endpoint.is_some_and(|it| it.version.as_ref().is_err_and(|gap| gap.kind == GapKind::PeerCertificateExpired))
    };
    symptoms
        .of_check(CheckId::TalosEndpoints, &[Reason::ServerCertificateExpired])
        .filter(|sign| sign.is_root() && ended(&sign.target.name))
        .map(|sign| {
            let headline = format!(
                "{} does not renew its Talos certificate: {}, while that of {} is valid",
                sign.target, sign.problem.observed, valid.address
            );
            let diagnosis = Recognized::new(RENEWAL_BROKEN.id, headline).rests_on(&sign);
            diagnosis.then(Hint::run("{talosctl} -n {} logs controller-runtime", [host(&valid.address)]))
        })
        .collect()
}
