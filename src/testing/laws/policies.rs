//! Limits of what a policy can excuse, over clusters with failures.

use std::collections::BTreeSet;

use jiff::SignedDuration;

use crate::assess::Assessment;
use crate::checks::accept;
use crate::model::{Excuse, Severity, Stage, Status};
use crate::snapshot::{
    Acceptance, Declared, Demand, Found, ObjectCondition, Objects, Place, Predicate, Require, RequiredObject,
    RequiredObjects, Served, Snapshot, Thresholds, Upgrade,
};
use crate::testing::fixture::{healthy, now};
use crate::testing::laws::monotony::failing;
use crate::testing::laws::{verdicts, worst};

fn excuse() -> Excuse {
    Excuse { because: "a law".to_owned(), until: now() + SignedDuration::from_hours(1), line: 1 }
}

fn status(world: &Snapshot) -> Status {
    let mut verdicts = verdicts(world);
    accept::apply(&Assessment::of(world), &mut verdicts);
    worst(&verdicts)
}

/// Returns everything that prevents success: check, target and reason.
fn failures(world: &Snapshot) -> BTreeSet<(&'static str, String, &'static str)> {
    let mut verdicts = verdicts(world);
    accept::apply(&Assessment::of(world), &mut verdicts);
    let mut found = BTreeSet::new();
    for (check, verdict) in verdicts {
        for (target, problem) in verdict.problems().filter(|(_, problem)| problem.severity > Severity::Warn) {
            found.insert((check.id.name(), target.name.clone(), problem.reason.code()));
        }
    }
    found
}

#[test]
fn a_policy_without_excuses_never_turns_red_into_green() {
    for (name, mut world) in failing() {
        let before = status(&world);
        let workers = world.nodes.iter().filter(|node| node.name.starts_with("w-")).count();
        (world.asked.expect_workers, world.asked.expect_control_planes) = (Some(workers), Some(3));
        world.asked.expect_extensions = vec!["iscsi-tools".to_owned()];
        world.asked.thresholds = Thresholds {
            certificates: SignedDuration::from_hours(24 * 60),
            etcd_space: 70,
            disk_free: 15,
            clock_skew: SignedDuration::from_millis(500),
        };
        assert!(status(&world) >= before, "{name}");
    }
}

/// Adds a requirement on a condition `Ready` with this status.
fn requiring(world: &Snapshot, status: &str) -> Snapshot {
    let of = Objects {
        plural: "things".to_owned(),
        group: "example.com".to_owned(),
        place: Place::NoNamespace,
        name: None,
        selector: None,
        field_selector: None,
    };
    let predicate = Predicate::Condition { kind: "Ready".to_owned(), status: "True".to_owned() };
    let demands = vec![Demand { text: "condition=Ready".to_owned(), predicate }];
    let id = "a-law".to_owned();
    let entry = Require { id: id.clone(), of, demands, at_least: None, allow_none: false, severity: Severity::Fail };
    let ready = ObjectCondition { kind: "Ready".to_owned(), status: status.to_owned(), ..ObjectCondition::default() };
    let object = RequiredObject { conditions: vec![ready], found: vec![Found::Nothing], ..RequiredObject::default() };
    let served = Served::Objects(RequiredObjects { date: Some(now()), objects: vec![object] });
    let mut world = world.clone();
    world.asked.policy.require.push(entry);
    world.kubernetes.iter_mut().for_each(|it| drop(it.required.insert(id.clone(), Ok(served.clone()))));
    world
}

#[test]
fn a_requirement_that_is_met_hides_nothing_and_one_that_is_not_is_seen() {
    for (name, world) in failing() {
        let before = failures(&world);
        let of_others = |world: &Snapshot| {
            let all = failures(world).into_iter();
            all.filter(|(check, ..)| *check != "policy.require").collect::<BTreeSet<_>>()
        };
        assert_eq!(of_others(&requiring(&world, "True")), before, "{name}");
        let unmet = requiring(&world, "False");
        assert_eq!(of_others(&unmet), before, "{name}");
        assert!(status(&unmet) >= Status::Blocked, "{name}");
    }
    assert!(failures(&requiring(&healthy(), "True")).is_empty());
    assert_eq!(failures(&requiring(&healthy(), "False")).len(), 1);
}

/// Covers a machine that answers, and one whose excuse has ended.
#[test]
fn declaring_a_machine_off_that_is_not_changes_nothing() {
    for (name, world) in failing() {
        for machine in ["cp-1", "cp-2", "cp-3", "w-1"] {
            let before = failures(&world);
            if is_off(&world, machine) {
                continue;
            }
            let mut declared = world.clone();
            declared.asked.policy.machines.push(Declared { name: machine.to_owned(), excuse: excuse() });
            assert_eq!(failures(&declared), before, "{name}, {machine} declared off");
        }
    }
}

fn is_off(world: &Snapshot, machine: &str) -> bool {
    let mut off = world.clone();
    off.power_off(machine);
    off.node(machine).unwrap().talos.contact == world.node(machine).unwrap().talos.contact
}

#[test]
fn a_machine_that_is_off_on_purpose_hides_no_other_trouble() {
    let mut hidden = Vec::new();
    for (name, world) in failing() {
        // Problems on the machine itself cannot be seen while it is off.
        let others: Vec<_> = failures(&world)
            .into_iter()
            .filter(|(check, target, _)| {
                let is_upgrade = check.starts_with("upgrade.");
                !target.contains("w-1") && !is_upgrade
            })
            .collect();
        let mut off = world.clone();
        off.power_off("w-1");
        off.asked.policy.machines.push(Declared { name: "w-1".to_owned(), excuse: excuse() });
        let still = failures(&off);
        for failure in others {
            if !still.contains(&failure) {
                hidden.push(format!("{name}: {failure:?}"));
            }
        }
    }
    assert!(hidden.is_empty(), "\n{}", hidden.join("\n"));
}

/// Adds one entry for each failure, one at a time.
#[test]
fn an_accepted_problem_is_the_only_one_that_changes() {
    for (name, world) in failing() {
        let before = failures(&world);
        for (check, target, reason) in &before {
            let check = crate::checks::find(check).unwrap();
            let reason = crate::model::Reason::find(reason).unwrap();
            if check.stage == Stage::Upgrade || !reason.can_be_accepted() {
                continue;
            }
            let entry = Acceptance { check: check.id, reason, target: target.clone(), max: 1, excuse: excuse() };
            let mut accepted = world.clone();
            accepted.asked.policy.accept.push(entry);
            let mut expected = before.clone();
            expected.remove(&(check.id.name(), target.clone(), reason.code()));
            let after = failures(&accepted);
            // A problem that could not be determined, or that its target has twice, stays.
            assert!(after == expected || after == before, "{name}: {} {target} {}", check.id, reason.code());
        }
    }
}

/// Returns the checks of stage 8 that prevent an upgrade.
fn in_the_way(world: &Snapshot) -> BTreeSet<&'static str> {
    let verdicts = verdicts(world).into_iter().filter(|(check, _)| check.stage == Stage::Upgrade);
    verdicts.filter(|(_, verdict)| !verdict.status().is_fine()).map(|(check, _)| check.id.name()).collect()
}

#[test]
fn before_an_upgrade_nothing_is_excused() {
    let upgrade = Upgrade {
        talos: Some("1.13.2".to_owned()),
        kubernetes: Some("1.36.0".to_owned()),
        drain: None,
        image: Some("factory.talos.dev/metal-installer/{schematic}:v1.13.2".to_owned()),
    };
    for (name, mut world) in failing() {
        world.asked.upgrade = upgrade.clone();
        for machine in ["cp-3", "w-1"] {
            let mut off = world.clone();
            off.power_off(machine);
            let mut declared = off.clone();
            declared.asked.policy.machines.push(Declared { name: machine.to_owned(), excuse: excuse() });
            assert!(in_the_way(&declared).is_superset(&in_the_way(&off)), "{name}, {machine} is off");
            assert!(!in_the_way(&declared).is_empty(), "{name}, {machine} is off");
        }
    }
}
