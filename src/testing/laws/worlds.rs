//! Healthy clusters of every shape that the catalog promises to pass, and the expected statuses in each.

use proptest::prelude::*;
use proptest::sample::select;

use crate::checks::ALL;
use crate::model::{Stage, Status};
use crate::snapshot::{Allowance, Upgrade};
use crate::testing::fixture::{Dns, Enabled, Family, Naming, Servers, Shape, Sides, Stated, by_check};
use crate::testing::laws::{config, diagnosed};

/// Releases with an `EtcdStatus` that os:reader can read, one or two of neighboring minor versions.
const RELEASES: [[&str; 2]; 9] = [
    ["v1.9.6", "v1.9.6"],
    ["v1.10.1", "v1.10.1"],
    ["v1.11.2", "v1.11.2"],
    ["v1.12.4", "v1.12.4"],
    ["v1.13.0", "v1.13.0"],
    ["v1.14.0", "v1.14.0"],
    ["v1.10.1", "v1.9.6"],
    ["v1.12.3", "v1.12.4"],
    ["v1.13.0", "v1.14.0"],
];

/// Generates `usually`, or one of the others in a quarter of the cases: worlds that are odd in every respect have
/// little in common.
fn mostly<T: Clone + std::fmt::Debug + 'static>(usually: T, others: Vec<T>) -> impl Strategy<Value = T> {
    prop_oneof![3 => Just(usually), 1 => select(others)]
}

fn enabled() -> impl Strategy<Value = Enabled> {
    mostly(Enabled::Everywhere, vec![Enabled::NotOnFirst, Enabled::Nowhere])
}

fn machines() -> impl Strategy<Value = Shape> {
    (
        (1..=7_usize, 0..=5_usize, mostly(0, vec![1, 2]), mostly(0, vec![1, 2])),
        (
            select(vec![Naming::Short, Naming::Long, Naming::Random]),
            select(vec![Family::V4, Family::V6, Family::Dual, Family::Two]),
        ),
        (select(RELEASES.to_vec()), prop::bool::weighted(0.2), any::<bool>()),
    )
        .prop_map(
            |((control_planes, workers, bare, foreign), (naming, family), (talos, container, extensions))| Shape {
                control_planes,
                workers,
                bare,
                foreign,
                naming,
                family,
                talos,
                container,
                extensions,
                ..Shape::default()
            },
        )
}

/// Generates every healthy cluster, from the point of view of every side.
pub(super) fn any_world() -> impl Strategy<Value = Shape> {
    let configured = (
        (enabled(), enabled()),
        (any::<bool>(), any::<bool>(), mostly(Dns::Own, vec![Dns::Replaced, Dns::Off]), any::<bool>()),
        mostly(Sides::Both, vec![Sides::NoTalos, Sides::NoKubernetes]),
        (mostly(0, vec![1, 3, 5]), prop::bool::weighted(0.8)),
        mostly(Servers::Direct, vec![Servers::OutOfReach, Servers::BehindProxy]),
    );
    (full_world(), configured).prop_map(|(shape, configured)| {
        let ((scheduler, controller_manager), (proxy, flannel, dns, schedulable), sides, etcd, servers) = configured;
        let (external_etcd, discovery) = etcd;
        Shape {
            scheduler,
            controller_manager,
            proxy,
            flannel,
            dns,
            schedulable,
            sides,
            external_etcd,
            discovery,
            servers,
            ..shape
        }
        .settled()
    })
}

/// Generates healthy clusters in which everything is visible and nothing is disabled.
pub(super) fn full_world() -> impl Strategy<Value = Shape> {
    let raft = (any::<usize>(), 1..u64::from(u32::MAX), 1..u64::MAX / 2, 1..u64::MAX - 16);
    let flags = (
        select(vec![Stated::Nothing, Stated::Nothing, Stated::Numbers, Stated::Names, Stated::Addresses]),
        any::<bool>(),
        select(vec![Allowance::None, Allowance::Count(0), Allowance::Count(2), Allowance::Percent(50)]),
        mostly(None, vec![Some(0), Some(1), Some(2)]),
        (any::<bool>(), any::<bool>(), any::<bool>()),
        (any::<bool>(), any::<bool>(), any::<bool>()),
    );
    (machines(), raft, flags).prop_map(|(shape, raft, flags)| {
        let (leader, term, index, first_member) = raft;
        let (stated, versions_stated, allowance, margin, (waits, later, token), others) = flags;
        let (machine_ids, kube_prism, kube_span) = others;
        Shape {
            leader,
            term,
            index,
            first_member,
            stated,
            versions_stated,
            allowance,
            margin,
            waits,
            later,
            token,
            machine_ids,
            kube_prism,
            kube_span,
            ..shape
        }
        .settled()
    })
}

/// Returns the status that the catalog specifies for each check in a healthy cluster of this shape.
fn expected(shape: &Shape, id: &str, stage: Stage) -> Status {
    let no_talos = shape.sides == Sides::NoTalos;
    let no_kubernetes = shape.sides == Sides::NoKubernetes;
    let external = shape.external_etcd > 0;
    let is_stated = shape.stated != Stated::Nothing;
    let of_nodes = matches!(stage, Stage::Connectivity | Stage::Readiness | Stage::Server);
    let warn_if = |warns| if warns { Status::Warn } else { Status::Pass };
    let skip_if = |skips| if skips { Status::Skip } else { Status::Pass };
    let switched_off =
        |enabled| enabled == Enabled::Nowhere || (enabled, shape.control_planes) == (Enabled::NotOnFirst, 1);
    // No policy was given.
    if stage == Stage::Policy || id == "talos.nodes.extensions" {
        return Status::Skip;
    }
    if stage == Stage::Upgrade && shape.upgrade() == Upgrade::default() {
        return Status::Skip;
    }
    if no_talos && (of_nodes || ["k8s.api.identity", "k8s.manifests", "k8s.staticpods.rendered"].contains(&id)) {
        return Status::Skip;
    }
    if no_kubernetes && (matches!(stage, Stage::ApiServer | Stage::Nodes) || id == "k8s.controlplane.leases") {
        return Status::Skip;
    }
    if stage == Stage::Etcd && no_talos && !external && id != "etcd.quorum" {
        return Status::Skip;
    }
    match id {
        // Each server has to be queried directly.
        "upgrade.apis" if shape.servers != Servers::Direct => Status::Error,
        "upgrade.quorum" => {
            let is_alone = |enabled| enabled == Enabled::NotOnFirst && shape.control_planes == 2;
            let is_led_by_one = is_alone(shape.scheduler) || is_alone(shape.controller_manager);
            warn_if(shape.control_planes == 1 || is_led_by_one || (!external && shape.members() < 3))
        }
        "talos.versions" => warn_if(shape.talos[0] != shape.talos[1] && shape.control_planes + shape.workers > 1),
        "talos.nodes.expected" => {
            // Two sources have to name the nodes, and etcd does not know workers.
            let sources = [shape.discovery, !no_kubernetes, !external].into_iter().filter(|names| *names).count();
            warn_if(!is_stated && (sources < 2 || (!shape.discovery && no_kubernetes)))
        }
        "talos.time" | "talos.nodes.memory" | "talos.nodes.disk" => skip_if(shape.container),
        "etcd.service" | "etcd.members.nodes" | "upgrade.etcd" => skip_if(external),
        "etcd.tolerance" => warn_if(shape.members().is_multiple_of(2)),
        "k8s.api.identity" => warn_if(shape.servers == Servers::BehindProxy),
        "k8s.controlplane.scheduler" => skip_if(switched_off(shape.scheduler)),
        "k8s.controlplane.controller-manager" => skip_if(switched_off(shape.controller_manager)),
        "k8s.controlplane.leases" => skip_if(switched_off(shape.scheduler) && switched_off(shape.controller_manager)),
        "k8s.nodes.registered" if no_talos => {
            // Options that name no worker make no statement about workers.
            let are_named = shape.workers > 0 && matches!(shape.stated, Stated::Names | Stated::Addresses);
            let is_outside = shape.foreign > 0 && are_named;
            if is_outside { Status::Warn } else { skip_if(!is_stated) }
        }
        "k8s.kube-proxy" => skip_if(!shape.proxy),
        "k8s.cni" => skip_if(!shape.flannel),
        "k8s.dns" => skip_if(shape.dns == Dns::Off),
        _ => Status::Pass,
    }
}

proptest! {
    #![proptest_config(config(128))]

    #[test]
    fn a_healthy_world_is_healthy(shape in any_world()) {
        let world = shape.world();
        let verdicts = by_check(&world);
        for check in ALL {
            let verdict = &verdicts[check.id.name()];
            prop_assert_eq!(verdict.status(), expected(&shape, check.id.name(), check.stage), "{}: {:#?}", check.id, verdict);
        }
        let diagnoses = diagnosed(&world);
        prop_assert!(diagnoses.is_empty(), "{:#?}", diagnoses);
    }

    #[test]
    fn a_second_round_of_health_is_healthy(shape in full_world()) {
        let mut world = shape.world();
        world.memory = world.memory.after(&world, std::time::Duration::from_secs(60));
        for (check, verdict) in by_check(&world) {
            prop_assert!(verdict.status().is_fine(), "{check}");
        }
    }

    /// Names, addresses, versions and health of the two clusters are the same.
    #[test]
    fn a_cluster_of_other_machines_vouches_for_nobody(shape in any_world()) {
        let both = Shape { sides: Sides::Both, discovery: true, machine_ids: true, ..shape };
        let mut world = both.settled().world();
        for object in world.kube().nodes.as_mut().unwrap() {
            object.machine_id.insert(0, 'f');
        }
        let verdicts = by_check(&world);
        prop_assert_eq!(verdicts["k8s.api.identity"].status(), Status::Fail);
        for check in ALL.iter().filter(|check| check.stage == Stage::Nodes) {
            prop_assert_ne!(verdicts[check.id.name()].status(), Status::Pass, "{}", check.id);
        }
    }
}

#[test]
fn the_fixture_passes_every_check() {
    for (check, verdict) in by_check(&Shape::default().world()) {
        let is_of_policy = check.starts_with("policy.") || check == "talos.nodes.extensions";
        assert_eq!(verdict.status(), if is_of_policy { Status::Skip } else { Status::Pass }, "{check}");
    }
}
