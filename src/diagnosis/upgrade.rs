//! What upgrades and the passing of time leave behind.

use std::collections::BTreeMap;

use super::{Cause, Diagnosis, Evidence};
use crate::checks::sources::{TALOS_PKI, TALOS_TROUBLESHOOTING, TALOS_UPGRADE};
use crate::checks::{Hint, Reason, Severity, Step, Target, host};
use crate::snapshot::GapKind;

use Step::{Change, Do, Look};

pub(super) const HALF_DONE: Cause = Cause {
    id: "upgrade-half-done",
    title: "an upgrade of Talos stopped half way",
    explain: "The machines run different versions of Talos, and one that has long finished booting is still cordoned by Talos itself, \
which it does while it is being upgraded. So an upgrade was interrupted: the rest of the machines was never reached, or the one \
that is cordoned fell back to its old version.\n\n\
Look at that machine first. If it is well, lift the cordon and go on with the upgrade; mixed versions within one minor are fine \
for a while.",
    source: TALOS_UPGRADE,
    remedy: &[
        Look("talosctl -n NODE version"),
        Look("talosctl -n NODE dmesg"),
        Change("kubectl uncordon NODENAME"),
        Do("Then go on with the upgrade, one machine after the other."),
    ],
    recognise: half_done,
};

fn half_done(evidence: &Evidence<'_>) -> Vec<Diagnosis> {
    let mut versions: BTreeMap<&str, usize> = BTreeMap::new();
    for node in evidence.snapshot.nodes.iter().filter(|node| !node.leaving) {
        let own = node.talos.contact.as_ref().ok().filter(|contact| contact.answered_by_other.is_none());
        if let Some(contact) = own {
            *versions.entry(contact.version.tag.as_str()).or_default() += 1;
        }
    }
    if versions.len() < 2 {
        return Vec::new();
    }
    let mixed: Vec<String> = versions.iter().map(|(tag, nodes)| format!("{nodes} on {tag}")).collect();
    let left: Vec<_> = evidence
        .of(&[Reason::CordonedByTalos])
        .filter(|sign| {
            let node = evidence.node(sign.target);
            // While it is being upgraded, a cordon is as it should be.
            node.is_some_and(|node| matches!(&node.talos.machine_status, Ok(Some(it)) if it.stage == "running"))
        })
        .collect();
    left.iter()
        .map(|sign| {
            let own = evidence.node(sign.target).and_then(|node| node.talos.contact.as_ref().ok());
            let own = own.map_or("", |contact| contact.version.tag.as_str());
            let headline = format!(
                "an upgrade stopped half way: {}, and {} runs {own} and is still cordoned by Talos",
                mixed.join(", "),
                sign.target
            );
            let diagnosis = Diagnosis::new(HALF_DONE.id, headline).rests_on(sign);
            let diagnosis = match sign.target.address.as_deref() {
                Some(address) => diagnosis.then(Hint::run("{talosctl} -n {} version", [address])),
                None => diagnosis,
            };
            let nodes = evidence.snapshot.nodes.iter();
            nodes.fold(diagnosis, |it, node| match &node.talos.contact {
                Ok(contact) => it.sees(Target::node(node), format!("Talos {}", contact.version.tag)),
                Err(_) => it,
            })
        })
        .collect()
}

pub(super) const CLOCK: Cause = Cause {
    id: "clock-not-synchronised",
    title: "a machine cannot synchronise its clock",
    explain: "Talos starts neither etcd nor the kubelet before its clock is right, because certificates and leases depend on it. This \
machine reaches none of its time servers, or they are too far off to be believed.\n\n\
Time goes over UDP port 123; since Talos 1.14 the default servers are asked with authentication, over TCP port 4460 first. A firewall \
that lets only the old way through stops exactly the machines that were upgraded.",
    source: TALOS_TROUBLESHOOTING,
    remedy: &[
        Look("talosctl -n NODE get timestatus"),
        Look("talosctl -n NODE get timeservers"),
        Look("talosctl -n NODE logs controller-runtime"),
        Do("Name time servers that the machine can reach in `machine.time.servers`, or open the way to those it has."),
    ],
    recognise: |evidence| {
        let signs = evidence.of_check("talos.time", &[Reason::TimeNotSynced]);
        signs
            .filter(|sign| sign.is_root() && sign.problem.severity == Severity::Fail)
            .map(|sign| {
                let stage = evidence.node(sign.target).map(|node| &node.talos.machine_status);
                let booting = matches!(stage, Some(Ok(Some(status))) if status.stage == "booting");
                let so = if booting { ", so it does not get any further" } else { "" };
                let headline = format!("{} cannot synchronise its clock{so}", sign.target);
                // What waits for the clock says so.
                let others = evidence.about(sign.target).filter(|it| it.problem.observed.contains("time sync"));
                Diagnosis::new(CLOCK.id, headline).rests_on(&sign).explains(others)
            })
            .collect()
    },
};

pub(super) const RENEWAL_BROKEN: Cause = Cause {
    id: "certificate-renewal-broken",
    title: "a machine no longer renews its Talos certificate",
    explain: "Machines renew the certificate of their Talos API by themselves, long before it ends. This one shows a certificate that \
is not valid now, while others, judged by the same clock, show valid ones. So this machine's renewal does not work, or its clock \
was far off when it was made.\n\n\
A worker asks trustd on a control plane (port 50001) for its certificate; a firewall between them, or an address that the \
certificate of the control plane does not name, breaks that silently until the last certificate ends.",
    source: TALOS_PKI,
    remedy: &[
        Look("talosctl -n CP get timestatus"),
        Look("talosctl -n CP logs controller-runtime"),
        Look("talosctl -n CP service trustd"),
        Do("Open port 50001 from the machine to the control planes, mend its clock, and reboot it."),
    ],
    recognise: renewal_broken,
};

fn renewal_broken(evidence: &Evidence<'_>) -> Vec<Diagnosis> {
    let mut found = at_endpoints(evidence);
    found.extend(behind_endpoints(evidence));
    found
}

/// What an endpoint says of a machine whose certificate it does not accept any more, while it accepts others by the same clock.
fn behind_endpoints(evidence: &Evidence<'_>) -> Vec<Diagnosis> {
    let accepted = evidence.snapshot.nodes.iter().find_map(|node| {
        let contact = node.talos.contact.as_ref().ok()?;
        (contact.answered_by_other.is_none() && host(&contact.endpoint) != node.address).then_some(node)
    });
    let Some(accepted) = accepted else { return Vec::new() };
    evidence
        .of_check("talos.nodes.reachable", &[Reason::NodeUnreachable])
        .filter(|sign| sign.problem.observed.contains("x509: certificate has expired"))
        .map(|sign| {
            let (target, observed) = (sign.target, &sign.problem.observed);
            let headline =
                format!("{target} does not renew its Talos certificate, so no endpoint reaches it: {observed}");
            let diagnosis = Diagnosis::new(RENEWAL_BROKEN.id, headline).rests_on(&sign);
            diagnosis.sees(Target::node(accepted), "its certificate is accepted")
        })
        .collect()
}

fn at_endpoints(evidence: &Evidence<'_>) -> Vec<Diagnosis> {
    let Some(talos) = &evidence.snapshot.talos else { return Vec::new() };
    // One that is accepted shows that the clock here is right.
    let Some(valid) = talos.endpoints.iter().find(|endpoint| endpoint.version.is_ok()) else { return Vec::new() };
    let ended = |address: &str| {
        let endpoint = talos.endpoints.iter().find(|endpoint| endpoint.address == address);
        endpoint.is_some_and(|it| it.version.as_ref().is_err_and(|gap| gap.kind == GapKind::PeerCertificateExpired))
    };
    evidence
        .of_check("talos.endpoints", &[Reason::ServerCertificateExpired])
        .filter(|sign| ended(&sign.target.name))
        .map(|sign| {
            let headline = format!(
                "{} does not renew its Talos certificate: {}, while that of {} is valid",
                sign.target, sign.problem.observed, valid.address
            );
            let diagnosis = Diagnosis::new(RENEWAL_BROKEN.id, headline).rests_on(&sign);
            diagnosis.then(Hint::run("{talosctl} -n {} logs controller-runtime", [host(&valid.address)]))
        })
        .collect()
}
