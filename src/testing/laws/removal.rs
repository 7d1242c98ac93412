//! No check passes for lack of evidence: each fact is removed from each machine.

use std::collections::BTreeSet;

use proptest::prelude::*;

use crate::checks::ALL;
use crate::model::Role;
use crate::model::{Fact, Status};
use crate::snapshot::{Damage, Gap, GapKind, Snapshot, TalosNode};
use crate::testing::fixture::{GAPS, Shape, by_check, gap, healthy};
use crate::testing::laws::exceptions::{EXCEPTIONS, HARMLESS, IN_SOME_WORLDS};
use crate::testing::laws::worlds::any_world;
use crate::testing::laws::{config, judged, verdicts, worst};

/// Removes a fact. The kind is that of the gap in its place; with `None`, the answer exists but is empty.
type Take = Box<dyn Fn(&mut Snapshot, Option<GapKind>)>;
/// Removes several facts at once.
type Loss = fn(&mut Snapshot, GapKind);

/// One fact of a healthy cluster that can be removed.
pub(super) struct Removal {
    pub(super) fact: Fact,
    /// The name in the list of exceptions: `etcd_status of a control plane`.
    pub(super) name: String,
    pub(super) apply: Take,
}

impl Removal {
    fn new(fact: Fact, name: impl Into<String>, apply: impl Fn(&mut Snapshot, Option<GapKind>) + 'static) -> Self {
        Self { fact, name: name.into(), apply: Box::new(apply) }
    }
}

/// Returns every fact of every machine, and every answer of Kubernetes.
pub(super) fn removals(world: &Snapshot) -> Vec<Removal> {
    let mut removals = Vec::new();
    if world.talos.is_some() {
        of_talos(world, &mut removals);
    }
    for index in 0..world.external_etcd.iter().flatten().count() {
        of_external_etcd(index, &mut removals);
    }
    if world.kubernetes.is_some() {
        of_kubernetes(world, &mut removals);
    }
    removals
}

fn of_talos(world: &Snapshot, removals: &mut Vec<Removal>) {
    for found in world.nodes.iter().filter(|node| node.is_talos) {
        let has_etcd = found.talos.etcd_status.is_ok();
        let role = if found.role == Role::ControlPlane { "control plane" } else { "worker" };
        let node = found.name.clone();
        let silent = node.clone();
        removals.push(Removal::new(Fact::TalosNodes, format!("contact of a {role}"), move |snapshot, kind| {
            let gap = Gap::new(kind.unwrap_or(GapKind::NotAsked), "test");
            snapshot.talos_of(&silent).clone_from(&TalosNode::unasked(&gap));
        }));
        for (fact, field, _) in found.talos.clone().answers_mut().into_iter().filter(|(.., answer)| answer.is_there()) {
            if field.starts_with("etcd_") && !has_etcd {
                continue;
            }
            let node = node.clone();
            removals.push(Removal::new(fact, format!("{field} of a {role}"), move |snapshot, kind| {
                remove(field, snapshot.talos_of(&node).answers_mut(), kind);
            }));
        }
    }
    for index in 0..world.talos.iter().flat_map(|talos| &talos.endpoints).count() {
        removals.push(Removal::new(Fact::TalosNodes, "an endpoint", move |snapshot, kind| {
            snapshot.talos_mut().endpoints[index].version = gap(kind.unwrap_or(GapKind::NotAsked));
        }));
    }
    removals.push(Removal::new(Fact::TalosNodes, "all endpoints and nodes behind them", |snapshot, kind| {
        let kind = kind.unwrap_or(GapKind::NotAsked);
        snapshot.talos_mut().endpoints.iter_mut().for_each(|endpoint| endpoint.version = gap(kind));
        for node in &mut snapshot.nodes {
            node.talos = TalosNode::unasked(&Gap::not_asked()).into();
        }
    }));
    removals.push(Removal::new(Fact::TalosNodes, "discovery", |snapshot, kind| {
        snapshot.talos_mut().discovery = kind.map_or(Ok(0), gap);
        snapshot.nodes.iter_mut().for_each(|node| node.sources.discovery = false);
    }));
    removals.push(Removal::new(Fact::TalosNodes, "every node", |snapshot, _| snapshot.nodes.clear()));
    removals.push(Removal::new(Fact::ServerCheck, "the server's check", |snapshot, kind| match kind {
        Some(kind) => snapshot.talos_mut().server = gap(kind),
        None => snapshot.talos_mut().server.iter_mut().for_each(|check| check.progress.clear()),
    }));
}

fn of_external_etcd(index: usize, removals: &mut Vec<Removal>) {
    let kind_of = |kind: Option<GapKind>| kind.unwrap_or(GapKind::NotAsked);
    removals.push(Removal::new(Fact::EtcdMembership, "etcd_status of an endpoint", move |snapshot, kind| {
        snapshot.external_etcd.as_mut().unwrap()[index].status = gap(kind_of(kind));
    }));
    removals.push(Removal::new(Fact::EtcdMembership, "etcd_members of an endpoint", move |snapshot, kind| {
        snapshot.external_etcd.as_mut().unwrap()[index].members = kind.map_or_else(|| Ok(Vec::new()), gap);
    }));
    removals.push(Removal::new(Fact::EtcdAlarms, "etcd_alarms of an endpoint", move |snapshot, kind| {
        snapshot.external_etcd.as_mut().unwrap()[index].alarms = gap(kind_of(kind));
    }));
}

fn of_kubernetes(world: &Snapshot, removals: &mut Vec<Removal>) {
    for node in world.control_planes().map(|node| node.name.clone()) {
        removals.push(Removal::new(Fact::ServerReadyz, "the server of a control plane", move |snapshot, kind| {
            match kind {
                Some(kind) => snapshot.kube().servers.insert(node.clone(), gap(kind)),
                None => snapshot.kube().servers.remove(&node),
            };
        }));
    }
    let mut answers = world.kubernetes.clone().unwrap();
    for (fact, field, _) in answers.answers_mut().into_iter().filter(|(.., answer)| answer.is_there()) {
        // Read only without Talos.
        if fact == Fact::ServerVersion && world.talos.is_some() {
            continue;
        }
        // Only Kubernetes names the nodes with `--no-talos`.
        let names_all = fact == Fact::KubeNodes && world.talos.is_none();
        removals.push(Removal::new(
            fact,
            if field == "endpoint" { "the endpoint's readyz" } else { field },
            move |snapshot, kind| {
                remove(field, snapshot.kube().answers_mut(), kind);
                if names_all {
                    snapshot.nodes.retain(|node| node.sources.flags);
                }
            },
        ));
    }
    for node in world.control_planes().map(|node| node.name.clone()) {
        removals.push(Removal::new(Fact::RequestedApis, "the metrics of a control plane", move |snapshot, kind| {
            match kind {
                Some(kind) => snapshot.kube().requested_apis.insert(node.clone(), gap(kind)),
                None => snapshot.kube().requested_apis.remove(&node),
            };
        }));
    }
    removals.push(Removal::new(Fact::WebhookEndpoints, "webhook_endpoints", |snapshot, kind| {
        for endpoints in snapshot.kube().webhook_endpoints.values_mut() {
            *endpoints = kind.map_or_else(|| Ok(Vec::new()), gap);
        }
    }));
}

/// Answers that may be empty in a healthy cluster, although those of the fixture are not.
const MAY_BE_EMPTY: [&str; 9] = [
    "kube_span_peers",
    "pod_events",
    "disruption_budgets",
    "volume_attachments",
    "persistent_volumes",
    "signing_requests",
    "validating_webhooks",
    "mutating_webhooks",
    "conversions",
];

/// Removes an answer, or its content. An answer without content, or that needs none, is not requested instead.
fn remove(field: &str, answers: Vec<(Fact, &'static str, &mut dyn Damage)>, kind: Option<GapKind>) {
    let (.., answer) = answers.into_iter().find(|(_, name, _)| *name == field).unwrap();
    let kind = match (field, kind) {
        // There may be as many addresses as Services.
        ("link_addresses", Some(GapKind::TooLarge))
        // A refusal only affects warnings, and so do definitions that are too large.
        | ("conversions", Some(GapKind::Forbidden | GapKind::TooLarge))
        | ("api_services" | "signing_requests", Some(GapKind::Forbidden)) => Some(GapKind::NotAsked),
        (_, kind) => kind,
    };
    match kind {
        None if !MAY_BE_EMPTY.contains(&field) && answer.clear() => {}
        kind => answer.lose(Gap::new(kind.unwrap_or(GapKind::NotAsked), "test")),
    }
}

/// Gaps of sources that could not be reached.
const UNREACHED: [GapKind; 5] =
    [GapKind::NoRoute, GapKind::ConnectTimedOut, GapKind::NameNotFound, GapKind::NodeUnreachable, GapKind::Proxy];

pub(super) fn is_named(facts: &[&str], removal: &Removal, kind: Option<GapKind>) -> bool {
    facts.iter().any(|fact| is_it(fact, removal, kind))
}

fn is_it(fact: &str, removal: &Removal, kind: Option<GapKind>) -> bool {
    match fact.split_once(' ') {
        Some(("empty", fact)) => kind.is_none() && fact == removal.name,
        Some(("unreached", fact)) => kind.is_some_and(|kind| UNREACHED.contains(&kind)) && fact == removal.name,
        Some(("unasked", fact)) => kind == Some(GapKind::NotAsked) && fact == removal.name,
        Some(("foreign", fact)) => kind == Some(GapKind::UnknownCa) && fact == removal.name,
        Some(("withheld", fact)) => kind != Some(GapKind::Malformed) && fact == removal.name,
        Some(("refused", fact)) => kind == Some(GapKind::Forbidden) && fact == removal.name,
        _ => fact == removal.name,
    }
}

fn is_about(checks: &str, check: &str) -> bool {
    checks.strip_prefix('!').map_or_else(|| check.starts_with(checks), |other| check != other)
}

/// Returns the exceptions that cover a check without a fact: entry, check and fact in it.
fn excepted(check: &str, removal: &Removal, kind: Option<GapKind>) -> Vec<(usize, &'static str, &'static str)> {
    let mut found = Vec::new();
    for (entry, (checks, facts, _)) in EXCEPTIONS.iter().enumerate() {
        for begin in checks.iter().filter(|begin| is_about(begin, check)) {
            found.extend(facts.iter().filter(|fact| is_it(fact, removal, kind)).map(|fact| (entry, *begin, *fact)));
        }
    }
    found
}

/// Removes every fact of the fixture in every way, and every fact of the same cluster with its own etcd in some ways.
#[test]
fn what_lost_a_fact_does_not_pass() {
    let mut holes = BTreeSet::new();
    let mut used = BTreeSet::new();
    let external = Shape { external_etcd: 3, ..Shape::default() };
    for (shape, kinds) in [(Shape::default(), &GAPS[..]), (external, &[GapKind::TimedOut, GapKind::Forbidden])] {
        let world = shape.world();
        let healthy = by_check(&world);
        for removal in removals(&world) {
            for kind in kinds.iter().copied().map(Some).chain([None]) {
                let mut snapshot = world.clone();
                (removal.apply)(&mut snapshot, kind);
                let verdicts = verdicts(&snapshot);
                for (check, verdict) in verdicts.iter().filter(|(check, _)| check.facts.contains(&removal.fact)) {
                    let is_needless = || is_needless(&shape, check.id.name(), &removal, kind);
                    if verdict.status().is_fine() && healthy[check.id.name()].status() == Status::Pass && !is_needless()
                    {
                        let exceptions = excepted(check.id.name(), &removal, kind);
                        if exceptions.is_empty() {
                            holes.insert(format!("{} without {} ({kind:?})", check.id.name(), removal.name));
                        }
                        used.extend(exceptions);
                    }
                }
                let harmless = HARMLESS.iter().any(|(facts, _)| is_named(facts, &removal, kind));
                if shape.external_etcd == 0 && harmless != worst(&verdicts).is_fine() {
                    holes.insert(format!("the cluster without {} ({kind:?})", removal.name));
                }
            }
        }
    }
    assert!(holes.is_empty(), "{holes:#?}");
    let mut idle = BTreeSet::new();
    for (entry, (checks, facts, why)) in EXCEPTIONS.iter().enumerate() {
        let is_used = |begin: &&str, fact: &&str| used.contains(&(entry, *begin, *fact));
        idle.extend(checks.iter().filter(|it| !facts.iter().any(|fact| is_used(it, fact))).map(|it| (it, why)));
        idle.extend(facts.iter().filter(|it| !checks.iter().any(|check| is_used(check, it))).map(|it| (it, why)));
    }
    assert!(idle.is_empty(), "exceptions without a case: {idle:#?}");
}

/// `-vv` lists missing answers. A source without any answer is reported as a machine or an endpoint, and machines that no source names are
/// not a gap.
#[test]
fn what_is_missing_of_a_fact_is_found() {
    let whole =
        ["contact of a control plane", "contact of a worker", "an endpoint", "all endpoints and nodes behind them"];
    let is_answer = |removal: &Removal| !whole.contains(&&*removal.name) && removal.name != "every node";
    for shape in [Shape::default(), Shape { external_etcd: 3, ..Shape::default() }] {
        let world = shape.world();
        for removal in removals(&world).into_iter().filter(is_answer) {
            assert_eq!(world.missing(removal.fact), [], "{:?}", removal.fact);
            let mut snapshot = world.clone();
            (removal.apply)(&mut snapshot, Some(GapKind::TimedOut));
            assert!(!snapshot.missing(removal.fact).is_empty(), "{:?}: {}", removal.fact, removal.name);
        }
    }
}

/// Returns whether the check does not depend on the fact in this world.
fn is_needless(shape: &Shape, check: &str, removal: &Removal, kind: Option<GapKind>) -> bool {
    IN_SOME_WORLDS.iter().any(|(checks, facts, is_world, _)| {
        checks.iter().any(|begin| is_about(begin, check)) && is_named(facts, removal, kind) && is_world(shape)
    })
}

proptest! {
    #![proptest_config(config(96))]

    /// A check that passed no longer passes, and a check without a verdict stays without one.
    #[test]
    fn a_fact_that_is_lost_in_any_world_is_missed(
        shape in any_world(),
        lost in prop::collection::vec((any::<prop::sample::Index>(), prop::option::weighted(0.9, 0..GAPS.len())), 6),
    ) {
        let world = shape.world();
        let removals = removals(&world);
        let whole = by_check(&world);
        for (index, kind) in lost {
            let (removal, kind) = (index.get(&removals), kind.map(|kind| GAPS[kind]));
            let mut snapshot = world.clone();
            (removal.apply)(&mut snapshot, kind);
            if snapshot == world {
                continue;
            }
            let without = by_check(&snapshot);
            for check in ALL.iter().filter(|check| check.facts.contains(&removal.fact)) {
                let after = without[check.id.name()].status();
                if !after.is_fine() || !excepted(check.id.name(), removal, kind).is_empty() {
                    continue;
                }
                let before = whole[check.id.name()].status();
                prop_assert!(
                    (before, after) == (Status::Skip, Status::Skip) || is_needless(&shape, check.id.name(), removal, kind),
                    "{} without {} ({:?}): {:?}, then {:?}", check.id.name(), removal.name, kind, before, after
                );
            }
        }
    }
}

/// Facts that the exceptions above must not cover.
#[test]
fn the_heart_of_a_check_has_no_exception() {
    let losses: [(&str, Loss); 7] = [
        ("talos.endpoints", |snapshot, kind| {
            snapshot.talos_mut().endpoints.iter_mut().for_each(|endpoint| endpoint.version = gap(kind));
        }),
        ("talos.nodes.booted", |snapshot, kind| snapshot.talos_of("w-1").machine_status = gap(kind)),
        ("talos.time", |snapshot, kind| snapshot.talos_of("w-1").time_status = gap(kind)),
        ("talos.nodes.services", |snapshot, kind| snapshot.talos_of("w-1").services = gap(kind)),
        ("etcd.members.nodes", |snapshot, kind| {
            snapshot.talos_of("cp-2").etcd_status = gap(kind);
            snapshot.talos_of("cp-2").etcd_member_id = gap(kind);
        }),
        ("k8s.controlplane.scheduler", |snapshot, kind| {
            snapshot.talos_of("cp-2").static_pod_statuses = gap(kind);
            snapshot.kube().pods = gap(kind);
        }),
        ("k8s.api.servers", |snapshot, kind| {
            snapshot.kube().servers.insert("cp-2".to_owned(), gap(kind));
            snapshot.kube().system_leases = gap(kind);
            snapshot.kube().api_endpoints = gap(kind);
        }),
    ];
    for (id, lose) in losses {
        for kind in GAPS {
            let mut snapshot = healthy();
            lose(&mut snapshot, kind);
            let status = judged(crate::checks::find(id).unwrap(), &snapshot).status();
            assert!(!status.is_fine(), "{id} {kind:?}: {status:?}");
        }
    }
}
