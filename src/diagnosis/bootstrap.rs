//! Clusters that were never bootstrapped or were bootstrapped twice, and machines that do not finish booting.

use super::symptoms::Sign;
use super::{Cause, Recognized, Symptoms, on_all, service};
use crate::checks::holds_up_boot;
use crate::model::reason::sources::{TALOS_CONTROL_PLANE, TALOS_DISASTER, TALOS_EXTENSIONS};
use crate::model::{CheckId, Hint, Reason, Step};
use crate::text::excerpt;

use Step::{Change, Do, Look};

pub(super) const NOT_BOOTSTRAPPED: Cause = Cause {
    id: "cluster-not-bootstrapped",
    title: "the cluster was never bootstrapped",
    impact: "there is no Kubernetes; if there has ever been one, bootstrap with `--recover-from` and its latest snapshot, never without",
    explain: "etcd waits on every control plane, none of them has any data, and no Kubernetes API answers. This is the state \
of a cluster before its first and only bootstrap. Until one control plane is bootstrapped, the others and all kubelets wait \
forever.\n\n\
Bootstrap exactly one control plane, once. A second bootstrap creates a second cluster. If the command was just run, etcd's \
image may still be downloading: wait a minute or two first.",
    source: TALOS_CONTROL_PLANE,
    remedy: &[
        Look("talosctl -n NODE service etcd"),
        Look("talosctl -n NODE list /var/lib/etcd"),
        Do("If this is a new cluster, and only then, bootstrap one control plane, once:"),
        Change("talosctl -n CP bootstrap"),
        Do("If any control plane ever had data, never do that. Restore a snapshot instead:"),
        Change("talosctl -n CP bootstrap --recover-from=./db.snapshot"),
    ],
    recognize: not_bootstrapped,
};

const NEVER: &str = "the cluster was never bootstrapped, or all of it was wiped: etcd waits to be bootstrapped";

fn not_bootstrapped(symptoms: &Symptoms<'_>) -> Vec<Recognized> {
    let signs: Vec<_> = symptoms.of_check(CheckId::EtcdService, &[Reason::NeverBootstrapped]).collect();
    if signs.is_empty() {
        return Vec::new();
    }
    let unseen = symptoms.snapshot.asked.expect_control_planes.filter(|expected| *expected > signs.len());
    let headline = match (unseen, signs.len()) {
        // A control plane that was not seen may have the data.
        (Some(expected), number) => format!(
            "etcd waits to be bootstrapped on the {number} control planes that were seen, and none has data; {expected} are expected: find the others before anything is bootstrapped"
        ),
        (None, 1) => format!("{NEVER} on the only control plane, which has no data"),
        (None, number) => format!("{NEVER} on all {number} control planes, and none has data"),
    };
    // Everything that Kubernetes consists of waits for etcd; other problems of the machines are unrelated.
    let waits = symptoms.all().filter(|sign| {
        use Reason::{ConditionUnmet, KubeletUnhealthy, ServiceBlocksBoot, SingleSource, StageNotRunning};
        let waits = matches!(
            sign.problem.reason,
            ConditionUnmet | KubeletUnhealthy | ServiceBlocksBoot | SingleSource | StageNotRunning
        );
        waits || is_of_kubernetes(sign)
    });
    let diagnosis = Recognized::new(NOT_BOOTSTRAPPED.id, headline).rests_on_all(&signs).explains(waits);
    // If the judge proposes a remedy for no machine, it is not certain that there is no other control plane with data.
    let remedy = signs.iter().flat_map(|sign| &sign.problem.hints).find(|hint| matches!(hint, Hint::Remedy { .. }));
    let waiting = signs.iter().filter_map(|sign| symptoms.machine(sign.target));
    let look = on_all(waiting, "{talosctl} -n {} service etcd");
    let diagnosis = look.into_iter().fold(diagnosis, Recognized::then);
    vec![match remedy {
        Some(remedy) => diagnosis.only_remedy(remedy.clone()),
        None => diagnosis.without_remedies(),
    }]
}

fn is_of_kubernetes(sign: &Sign<'_>) -> bool {
    sign.check.is_of_kubernetes() && sign.check != CheckId::K8sCredentials
}

pub(super) const TWICE: Cause = Cause {
    id: "bootstrapped-twice",
    title: "the cluster was bootstrapped more than once",
    impact: "the control planes serve different data, and changes may be lost",
    explain: "The control planes report etcd member lists that have no member in common: there are two databases, each with \
its own leader, and neither knows of the other. This happens when `talosctl bootstrap` is run on more than one control plane. \
A client sees one or the other, depending on the API server that it reaches.\n\n\
Decide which one has the data that you want to keep, take a snapshot of both, and let the control planes of the other one join \
it with empty data.",
    source: TALOS_DISASTER,
    remedy: &[
        Look("talosctl -n CP1,CP2,CP3 etcd members"),
        Look("talosctl -n CP etcd snapshot db.snapshot"),
        Do(
            "Only when both snapshots are safe, and only if the control planes that stay have a quorum: wipe the control planes of the other cluster, one at a time.",
        ),
        Change("talosctl -n NODE reset --system-labels-to-wipe=EPHEMERAL --graceful=false --reboot"),
    ],
    recognize: |symptoms| {
        let signs = symptoms.of(&[Reason::SplitCluster]);
        signs
            .map(|sign| {
                let headline = format!("there are two independent etcd clusters: {}", sign.problem.observed);
                let follows = symptoms.of(&[
                    Reason::LeadersDiffer,
                    Reason::MembersDiffer,
                    Reason::StaleMember,
                    Reason::NotAMember,
                    Reason::TwoMembers,
                ]);
                let diagnosis = Recognized::new(TWICE.id, headline).rests_on(&sign).explains(follows);
                let control_planes = symptoms.snapshot.control_planes().filter(|node| node.talos.etcd_members.is_ok());
                // Only the owner can decide which of the two clusters has to go.
                control_planes
                    .fold(diagnosis, |it, node| {
                        it.then(Hint::run("{talosctl} -n {} etcd members", [node.address.as_str()]))
                    })
                    .without_remedies()
            })
            .collect()
    },
};

pub(super) const HELD_UP: Cause = Cause {
    id: "boot-held-up",
    title: "a service holds up the boot of a machine",
    impact: "the machine does not finish booting, so what starts later is missing on it",
    explain: "The machine is in stage booting and waits for a service that does not come up. Everything later in the boot \
sequence waits for it, and Talos reboots a machine that has not finished after 70 minutes.\n\n\
Usually an extension service (`ext-…`) waits for a device or a file that the machine does not have, or a service cannot pull \
its image or crashes. The service's last event shows what it waits for.",
    source: TALOS_EXTENSIONS,
    remedy: &[
        Look("talosctl -n NODE services"),
        Look("talosctl -n NODE service SERVICE"),
        Look("talosctl -n NODE logs SERVICE"),
        Do("Provide what the service waits for, or upgrade the machine to an image without the extension."),
    ],
    recognize: |symptoms| {
        // A boot that waits for a failed service is explained by the failure, but the unfinished boot is what matters here. A service that
        // itself waits, for a volume or the network, is not the cause.
        let fails = |it: &Sign<'_>| it.check == CheckId::TalosNodesServices && it.is_root();
        let own = |sign: &Sign<'_>| sign.is_root() || symptoms.about(sign.target).any(|it| fails(&it));
        let signs = symptoms.of_check(CheckId::TalosNodesBooted, &[Reason::ServiceBlocksBoot]).filter(own);
        signs
            .map(|sign| {
                let headline = format!("{} does not finish booting: {}", sign.target, held_up(symptoms, &sign));
                let later = symptoms.about(sign.target).filter(|it| {
                    it.check.is_of_a_machine() || it.check.is_of_kubernetes() || it.check == CheckId::EtcdService
                });
                let later = later
                    .filter(|it| it.check != CheckId::TalosNodesReachable && it.check != CheckId::K8sNodesSchedulable);
                Recognized::new(HELD_UP.id, headline).rests_on(&sign).explains(later)
            })
            .collect()
    },
};

/// Returns the problem's own text if it is short, or else the most informative part of each service's text.
fn held_up(symptoms: &Symptoms<'_>, sign: &Sign<'_>) -> String {
    let services = symptoms.node(sign.target).and_then(|node| node.talos.services.as_ref().ok());
    let Some(services) = services.filter(|_| !excerpt::is_short(&sign.problem.observed)) else {
        return excerpt::of(&sign.problem.observed);
    };
    let blockers = services.iter().filter(|service| holds_up_boot(service));
    let texts: Vec<String> =
        blockers.map(|service| format!("{} ({})", service.id, service::of_service(service))).collect();
    format!("booting, held up by {}", texts.join(", "))
}
