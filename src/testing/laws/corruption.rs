//! Facts that are present but wrong: each field of each fact, with every plausible wrong value, in every place.
//!
//! The tables destructure each struct, so that a field that is missing from all tables does not compile.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::sample::Index;

use crate::checks::{ALL, Check};
use crate::model::{Fact, Status};
use crate::snapshot::Snapshot;
use crate::testing::fixture::{Shape, Sides, by_check};
use crate::testing::laws::worlds::full_world;
use crate::testing::laws::{config, etcd_tables, kube_tables, tables};

/// The expected effect of a wrong value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// At least one check that reads the fact does not pass.
    Bad,
    /// Same as `Bad`, but only if there is another control plane to compare with.
    Differs,
    /// The catalog only has a warning for it.
    Warns,
    /// No check uses it, and the reason why.
    Harmless(&'static str),
}

/// A wrong value.
pub(super) struct Change<T> {
    effect: Effect,
    apply: fn(&mut T),
}

pub(super) fn bad<T>(apply: fn(&mut T)) -> Change<T> {
    Change { effect: Effect::Bad, apply }
}

pub(super) fn differs<T>(apply: fn(&mut T)) -> Change<T> {
    Change { effect: Effect::Differs, apply }
}

pub(super) fn warns<T>(apply: fn(&mut T)) -> Change<T> {
    Change { effect: Effect::Warns, apply }
}

pub(super) fn harmless<T>(why: &'static str, apply: fn(&mut T)) -> Change<T> {
    Change { effect: Effect::Harmless(why), apply }
}

/// The wrong values of each field of a struct.
pub(super) type Table<T> = Vec<(&'static str, Vec<Change<T>>)>;

macro_rules! table {
    ($type:ident { $($field:ident: [$($change:expr),* $(,)?]),+ $(,)? }) => {{
        let _all_are_there = |it: &$type| {
            let $type { $($field: _),+ } = it;
        };
        vec![$((concat!(stringify!($type), ".", stringify!($field)), vec![$($change),*])),+]
    }};
}
pub(super) use table;

/// Returns all places in a world that contain a struct.
pub(super) type Sites<T> = fn(&mut Snapshot) -> Vec<&mut T>;

type Count = Box<dyn Fn(&mut Snapshot) -> usize>;
type Put = Box<dyn Fn(&mut Snapshot, usize)>;

/// One wrong value in all its possible places.
pub(super) struct Corruption {
    name: String,
    facts: &'static [Fact],
    effect: Effect,
    sites: Count,
    apply: Put,
}

/// Adds the wrong values of a table at a place of the snapshot that belongs to these facts; without facts, every check is considered.
pub(super) fn at<T: 'static>(
    all: &mut Vec<Corruption>,
    place: &str,
    facts: &'static [Fact],
    sites: Sites<T>,
    table: Table<T>,
) {
    for (field, changes) in table {
        for (number, Change { effect, apply }) in changes.into_iter().enumerate() {
            all.push(Corruption {
                name: format!("{place}: {field} #{number}"),
                facts,
                effect,
                sites: Box::new(move |snapshot| sites(snapshot).len()),
                apply: Box::new(move |snapshot, site| apply(sites(snapshot).swap_remove(site))),
            });
        }
    }
}

impl Corruption {
    fn is_read_by(&self, check: &Check) -> bool {
        self.facts.is_empty() || check.facts.iter().any(|fact| self.facts.contains(fact))
    }

    /// Returns a description if the value does not have the expected effect; `None` if it does, or if the world already had it.
    fn hole(&self, world: &Snapshot, site: usize) -> Option<String> {
        let mut snapshot = world.clone();
        (self.apply)(&mut snapshot, site);
        if snapshot == *world {
            return None;
        }
        // The worst status of any check that reads the fact.
        let verdicts = by_check(&snapshot);
        let checks = ALL.iter().filter(|check| self.is_read_by(check));
        let status = checks.map(|check| verdicts[check.id.name()].status()).max().unwrap();
        let is_right = match self.effect {
            Effect::Bad | Effect::Differs => !status.is_fine(),
            Effect::Warns => status == Status::Warn,
            Effect::Harmless(_) => status.is_fine(),
        };
        (!is_right).then(|| format!("{}, place {site}: {status:?}", self.name))
    }
}

/// Returns healthy clusters of three kinds, each with one of the wrong values that must be noticed, in every place, together with the facts
/// that the value belongs to.
pub(super) fn sick() -> impl Iterator<Item = (String, &'static [Fact], Snapshot)> {
    of_each_kind().into_iter().flat_map(|(shape, corruptions)| {
        let mut world = shape.world();
        let is_bad = |corruption: &Corruption| match corruption.effect {
            Effect::Bad => true,
            Effect::Differs => shape.control_planes > 1,
            Effect::Warns | Effect::Harmless(_) => false,
        };
        let mut sick = Vec::new();
        for corruption in corruptions.iter().filter(|corruption| is_bad(corruption)) {
            for site in 0..(corruption.sites)(&mut world) {
                let mut snapshot = world.clone();
                (corruption.apply)(&mut snapshot, site);
                if snapshot != world {
                    sick.push((format!("{}, place {site}", corruption.name), corruption.facts, snapshot));
                }
            }
        }
        sick
    })
}

/// Three shapes, each with its possible wrong values: both sides, an etcd that runs elsewhere, and Kubernetes alone.
fn of_each_kind() -> [(Shape, Vec<Corruption>); 3] {
    let external = Shape { external_etcd: 3, ..Shape::default() };
    let no_talos = Shape { sides: Sides::NoTalos, ..Shape::default() };
    [(Shape::default(), both()), (external, etcd_tables::of_external_etcd()), (no_talos, kube_tables::without_talos())]
}

/// The fixture contains only what is required, so every wrong value has an effect.
#[test]
fn every_wrong_value_is_noticed() {
    let mut holes = BTreeSet::new();
    for (shape, corruptions) in of_each_kind() {
        let mut world = shape.world();
        for corruption in corruptions {
            let sites = (corruption.sites)(&mut world);
            assert!(sites > 0, "{} is nowhere", corruption.name);
            holes.extend((0..sites).filter_map(|site| corruption.hole(&world, site)));
        }
    }
    assert!(holes.is_empty(), "{holes:#?}");
}

/// Every wrong value of a cluster in which both sides are queried.
fn both() -> Vec<Corruption> {
    tables::of_talos().into_iter().chain(kube_tables::of_kubernetes()).collect()
}

proptest! {
    #![proptest_config(config(96))]

    /// In any cluster in which everything is visible, the required values are noticed.
    #[test]
    fn wrong_values_are_noticed_in_any_world(
        shape in full_world(),
        wrong in prop::collection::vec((any::<Index>(), any::<Index>()), 12),
    ) {
        // A machine without a kernel or without Kubernetes, and a service that is not required, may lack facts that others need.
        let shape = Shape { bare: 0, foreign: 0, container: false, extensions: false, ..shape };
        let mut world = shape.world();
        let corruptions = both();
        let is_bad = |effect| effect == Effect::Bad || (effect == Effect::Differs && shape.control_planes > 1);
        let bad: Vec<_> = corruptions.iter().filter(|corruption| is_bad(corruption.effect)).collect();
        for (corruption, site) in wrong {
            let corruption = corruption.get(&bad);
            let sites = (corruption.sites)(&mut world);
            if sites > 0 {
                let hole = corruption.hole(&world, site.index(sites));
                prop_assert!(hole.is_none(), "{:?}", hole);
            }
        }
    }
}
