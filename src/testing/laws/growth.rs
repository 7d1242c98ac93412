//! The cost of a round grows linearly with the cluster, not with its square. The API server determines the length of its lists, and none of
//! the processing waits for anything.

use std::collections::BTreeSet;
use std::time::Duration;

use clap::{CommandFactory as _, FromArgMatches as _};
use jiff::Timestamp;
use tokio::time::Instant;

use crate::assess::Assessment;
use crate::checks::{ALL, allowance};
use crate::cli::Cli;
use crate::diagnosis::diagnose;
use crate::engine::event::{Event, Round};
use crate::engine::{self, End};
use crate::model::Role;
use crate::plan::{Plan, Start};
use crate::report::format;
use crate::report::ledger::{Ending, Ledger};
use crate::report::sink::live::{Live, LiveStyle};
use crate::report::{Report, TextStyle};
use crate::snapshot::{Gap, GapKind, KubeNode, Memory, Node, Snapshot, Sources, TalosNode};
use crate::testing::fixture::{Shape, healthy};
use crate::testing::work::{is_square, work};

/// A cluster in which Kubernetes lists `many` nodes that no other source names.
fn strangers(many: usize) -> Snapshot {
    let mut world = healthy();
    let node = world.nodes.iter().find(|node| node.role == Role::Worker).unwrap().clone();
    let kubernetes = world.kubernetes.as_mut().unwrap();
    let objects = kubernetes.nodes.as_mut().unwrap();
    let object = objects.iter().find(|object| object.name == node.name).unwrap().clone();
    let lease = kubernetes.node_leases.as_ref().unwrap().by_name[&node.name].clone();
    for at in 0..many {
        let (name, address) = (format!("x-{at:06}"), format!("10.{}.{}.{}", 1 + (at >> 16), at >> 8 & 255, at & 255));
        let addresses = vec![address.clone()];
        objects.push(KubeNode {
            name: name.clone(),
            addresses: addresses.clone(),
            internal: addresses.clone(),
            machine_id: format!("{at:032x}"),
            pod_cidrs: vec![format!("fd00:{at:x}::/64")],
            ..object.clone()
        });
        kubernetes.node_leases.as_mut().unwrap().by_name.insert(name.clone(), lease.clone());
        world.nodes.push(Node {
            name,
            address,
            addresses,
            own_addresses: Vec::new(),
            machine_id: None,
            sources: Sources { kubernetes: true, ..Sources::default() },
            talos: TalosNode::unasked(&Gap::new(GapKind::NodeUnreachable, "no route to host")).into(),
            ..node.clone()
        });
    }
    world
}

/// A cluster with `many` workers, all of them healthy.
fn workers(many: usize) -> Snapshot {
    Shape { workers: many, ..Shape::default() }.settled().world()
}

fn round(world: &Snapshot) -> Round {
    let mut verdicts = engine::judge(ALL, world);
    allowance::apply(&Assessment::of(world), &mut verdicts);
    let diagnoses = diagnose(world, &verdicts);
    let (at, took) = (Duration::from_secs(1), Duration::from_secs(1));
    Round { number: 1, at, took, snapshot: world.clone(), verdicts, diagnoses: diagnoses.into(), in_doubt: false }
}

fn report(round: &Round) -> Report {
    let matches = Cli::command().get_matches_from(["cluster-health"]);
    let cli = Cli::from_arg_matches(&matches).unwrap();
    let start = Start { instant: Instant::now(), wall: Timestamp::UNIX_EPOCH };
    let plan = Plan::decide(&cli.run, &matches, None, start).unwrap();
    let mut ledger = Ledger::new(plan.unbegun());
    ledger.record(&Event::Round(round));
    (*ledger.conclude(&Ending::Engine(End::OnePass), Timestamp::UNIX_EPOCH, Duration::from_secs(1))).clone()
}

/// Measures each part of a round's work, by name.
fn parts(world: &Snapshot) -> Vec<(String, Duration)> {
    let mut parts = vec![("assessment".to_owned(), work(|| Assessment::of(world)))];
    let assessment = Assessment::of(world);
    for check in ALL {
        parts.push((check.id.name().to_owned(), work(|| engine::own_verdict(check, &assessment))));
    }
    parts.push(("graph".to_owned(), work(|| engine::judge(ALL, world))));
    let mut verdicts = engine::judge(ALL, world);
    allowance::apply(&Assessment::of(world), &mut verdicts);
    parts.push(("diagnosis".to_owned(), work(|| diagnose(world, &verdicts))));
    let round = round(world);
    parts.push(("memory".to_owned(), work(|| Memory::default().after(world, round.at).after(world, round.at))));
    parts.push(("ledger".to_owned(), work(|| report(&round))));
    for why in [false, true] {
        let style = LiveStyle {
            color: false,
            ascii: false,
            quiet: false,
            verbose: why,
            why,
            heartbeat: Duration::from_secs(60),
            wait_timeout: None,
        };
        let live = || Live::lines(style, Vec::new()).event(&Event::Round(&round));
        parts.push((format!("progress, why: {why}"), work(live)));
    }
    let report = report(&round);
    for format in format::ALL {
        parts.push((format.name.to_owned(), work(|| format.render(&report, &TextStyle::default()).unwrap())));
    }
    parts
}

/// Returns the parts whose work grows too much with ten times as many nodes.
fn square() -> BTreeSet<String> {
    let mut square = BTreeSet::new();
    for (name, world) in [("strangers", strangers as fn(usize) -> Snapshot), ("workers", workers)] {
        let (few, many) = (parts(&world(200)), parts(&world(2000)));
        for ((part, few), (_, many)) in few.into_iter().zip(many) {
            if is_square(few, many) {
                println!("{part} of {name}: {few:?}, and {many:?}");
                square.insert(format!("{part} of {name}"));
            }
        }
    }
    square
}

/// Effects of other processes on the caches disappear in a repetition, but quadratic growth does not.
#[test]
fn ten_times_the_nodes_are_ten_times_the_work() {
    let mut wrong = square();
    for _ in 0..2 {
        if !wrong.is_empty() {
            wrong = &wrong & &square();
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Prints the slow parts and their times, in one thread: `cargo test --bin cluster-health growth -- --ignored --nocapture`.
#[test]
#[ignore = "a table for people"]
fn what_each_piece_takes() {
    for (name, world) in [("strangers", strangers as fn(usize) -> Snapshot), ("workers", workers)] {
        for many in [1000, 5000, 20_000] {
            let mut parts = parts(&world(many));
            parts.sort_by_key(|(_, work)| std::cmp::Reverse(*work));
            for (part, work) in parts.iter().take(12) {
                println!("{many} {name}: {part} {work:?}");
            }
        }
    }
}
