//! The text and Markdown reports of clusters of every size, in health and in trouble, as the checks judge them and the causes
//! are found: what a reader gets to see, and what has to be there at every size.

use std::collections::HashMap;
use std::sync::LazyLock;
use std::time::Duration;

use clap::{CommandFactory as _, FromArgMatches as _};
use jiff::Timestamp;
use tokio::time::Instant;

use super::super::text::{TextStyle, shown as named};
use super::super::{Report, format};
use super::{shown, styled};
use crate::checks::fixture::{Naming, Shape, condition};
use crate::checks::{self, Severity, Stage};
use crate::cli::Cli;
use crate::diagnosis::diagnose;
use crate::engine::End;
use crate::event::{Event, Round};
use crate::ledger::{Ending, Ledger};
use crate::plan::{Plan, Start};
use crate::run::unbegun;
use crate::snapshot::{Gap, GapKind, Snapshot, TalosNode, Volume};

/// A cluster of so many nodes, of which so many are in trouble.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub(super) nodes: usize,
    pub(super) failures: usize,
}

const SIZES: [Size; 14] = [
    Size { nodes: 1, failures: 0 },
    Size { nodes: 1, failures: 1 },
    Size { nodes: 3, failures: 0 },
    Size { nodes: 3, failures: 1 },
    Size { nodes: 10, failures: 0 },
    Size { nodes: 10, failures: 1 },
    Size { nodes: 10, failures: 5 },
    Size { nodes: 100, failures: 0 },
    Size { nodes: 100, failures: 1 },
    Size { nodes: 100, failures: 5 },
    Size { nodes: 1000, failures: 0 },
    Size { nodes: 1000, failures: 1 },
    Size { nodes: 1000, failures: 5 },
    Size { nodes: 1000, failures: 500 },
];

impl Size {
    fn name(self) -> String {
        format!("{}_nodes_{}_failures", self.nodes, self.failures)
    }

    fn shape(self) -> Shape {
        let control_planes = self.nodes.min(3);
        // Names as a cloud gives them where they are longest.
        let naming = if self.nodes == 100 { Naming::Long } else { Naming::Short };
        Shape { control_planes, workers: self.nodes - control_planes, naming, waits: true, ..Shape::default() }
            .settled()
    }

    fn world(self) -> Snapshot {
        let shape = self.shape();
        let mut world = shape.world();
        let names: Vec<String> = (0..self.nodes).map(|index| shape.name(index)).collect();
        match self.failures {
            0 => {}
            1 if self.nodes == 1 => kubelet_waits(&mut world, &names[0]),
            1 => loses_power(&mut world, &names[1]),
            5 => {
                loses_power(&mut world, &names[1]);
                kubelet_waits(&mut world, &names[4]);
                volume_fails(&mut world, &names[6], "disk not found");
                service_fails(&mut world, &names[7], 0);
                network_is_missing(&mut world, &names[8]);
            }
            500 => {
                // Half of the machines: racks without power, a plugin that was not rolled out, and machines each with its own
                // words for what ails it.
                names[3..303].iter().for_each(|name| loses_power(&mut world, name));
                names[303..403].iter().for_each(|name| network_is_missing(&mut world, name));
                for (n, name) in names[403..453].iter().enumerate() {
                    service_fails(&mut world, name, n);
                }
                for (n, name) in names[453..503].iter().enumerate() {
                    volume_fails(&mut world, name, WORDS[n % WORDS.len()]);
                }
            }
            other => panic!("no trouble for {other}"),
        }
        world
    }

    /// What a run says that waits for five minutes, in vain unless all is well.
    pub(super) fn report(self) -> Report {
        let matches = Cli::command().get_matches_from(["cluster-health", "--wait-timeout", "5m"]);
        let cli = Cli::from_arg_matches(&matches).unwrap();
        let start = Start { instant: Instant::now(), wall: Timestamp::UNIX_EPOCH };
        let plan = Plan::decide(&cli.run, &matches, start).unwrap();
        let snapshot = self.world();
        let judged = checks::ALL.iter().filter(|check| check.stage != Stage::Server);
        let verdicts: Vec<_> = judged.map(|check| (*check, (check.judge)(&snapshot))).collect();
        let diagnoses = diagnose(&snapshot, &verdicts);
        let (at, took) = (Duration::ZERO, Duration::from_millis(700));
        let mut round = Round { number: 0, at, took, snapshot, verdicts, diagnoses };
        let mut ledger = Ledger::new(unbegun(&cli.run, &plan, start), false);
        let (rounds, took, end) = if self.failures == 0 {
            (1, Duration::from_millis(700), End::Healthy)
        } else {
            (3, Duration::from_secs(300), End::Deadline)
        };
        for number in 1..=rounds {
            (round.number, round.at) = (number, took * number / rounds);
            ledger.record(&Event::Round(&round));
        }
        ledger.conclude(&Ending::Engine(end), Timestamp::UNIX_EPOCH, took)
    }
}

/// Of all sizes, made once: judging a thousand nodes takes its time without optimisation.
static REPORTS: LazyLock<Vec<(Size, Report)>> =
    LazyLock::new(|| SIZES.into_iter().map(|size| (size, size.report())).collect());

fn failing() -> impl Iterator<Item = &'static (Size, Report)> {
    REPORTS.iter().filter(|(size, _)| size.failures > 0)
}

const WORDS: [&str; 15] = [
    "disk not found",
    "no free space on the disk",
    "encryption key rejected",
    "mkfs.xfs: input/output error",
    "no TPM device",
    "key server does not answer",
    "partition table is not GPT",
    "disk is read only",
    "filesystem type mismatch",
    "grow failed: structure needs cleaning",
    "another volume has the same label",
    "locator matched two disks",
    "device is busy",
    "mount failed: wrong superblock",
    "sealed key is of another machine",
];

fn loses_power(world: &mut Snapshot, name: &str) {
    world.power_off(name);
    let node = world.node_mut(name);
    let why = format!("dial tcp {}:50000: connect: no route to host", node.address);
    node.talos = TalosNode::unasked(&Gap::new(GapKind::NodeUnreachable, why));
}

fn kubelet_waits(world: &mut Snapshot, name: &str) {
    let service = world.service_mut(name, "kubelet");
    "Waiting".clone_into(&mut service.state);
    (service.healthy, service.running_since) = (Some(false), None);
    let event = service.last_event.as_mut().unwrap();
    "Waiting for volume \"/var/lib/kubelet\" to be mounted".clone_into(&mut event.message);
    set_ready(world, name, "Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.");
    let status = world.machine_status_mut(name);
    "booting".clone_into(&mut status.stage);
    status.ready = false;
}

fn volume_fails(world: &mut Snapshot, name: &str, why: &str) {
    let volume = Volume { id: "u-data".to_owned(), phase: "failed".to_owned(), size: None, error: why.to_owned() };
    world.talos_of(name).volumes.as_mut().unwrap().push(volume);
}

fn service_fails(world: &mut Snapshot, name: &str, n: usize) {
    let service = world.service_mut(name, "cri");
    "Failed".clone_into(&mut service.state);
    (service.healthy, service.running_since) = (Some(false), None);
    let event = service.last_event.as_mut().unwrap();
    event.message = format!("Failed to run: exit code {} on {name}", n + 1);
}

fn network_is_missing(world: &mut Snapshot, name: &str) {
    let why = "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:Network plugin \
               returns error: cni plugin not initialized";
    set_ready(world, name, "False", "KubeletNotReady", why);
}

fn set_ready(world: &mut Snapshot, name: &str, status: &str, reason: &str, message: &str) {
    let conditions = &mut world.kube_node_mut(name).conditions;
    let ready = conditions.iter_mut().find(|it| it.kind == "Ready").unwrap();
    *ready = condition("Ready", status, reason, message);
}

/// More lines than this are not read, whatever is wrong.
const LINES: usize = 200;
/// More lines than this are too many for good news: the verdict twice, seven stages of up to ten healthy objects each, most of
/// which have three or four things to say, and a grid that has a row for each of a few nodes and a few for many.
const GOOD_NEWS: usize = 60;

#[test]
fn text_at_every_size() {
    for (size, report) in REPORTS.iter() {
        insta::assert_snapshot!(format!("text_{}", size.name()), shown(&format::TEXT, report));
    }
}

/// Of the table of all nodes only the first rows: the grid above it says the same.
#[test]
fn markdown_at_every_size() {
    for (size, report) in REPORTS.iter().filter(|(size, _)| matches!((size.nodes, size.failures), (3 | 100 | 1000, _)))
    {
        let text = shown(&format::MARKDOWN, report);
        let text = match text.split_once("<summary>every node</summary>") {
            Some((above, nodes)) => {
                let first: Vec<_> = nodes.lines().take(9).collect();
                format!("{above}<summary>every node</summary>{}\n…", first.join("\n"))
            }
            None => text,
        };
        insta::assert_snapshot!(format!("markdown_{}", size.name()), text);
    }
}

/// A terminal of eighty columns without any other character than ASCII.
#[test]
fn text_narrow() {
    let style = TextStyle { ascii: true, width: Some(80), ..TextStyle::default() };
    let (_, report) = REPORTS.iter().find(|(size, _)| (size.nodes, size.failures) == (100, 5)).unwrap();
    let text = styled(report, style);
    assert!(text.is_ascii());
    insta::assert_snapshot!(text);
}

#[test]
fn a_report_is_as_short_as_it_can_be() {
    for (size, report) in REPORTS.iter() {
        let lines = shown(&format::TEXT, report).lines().count();
        let most = if size.failures == 0 { GOOD_NEWS } else { LINES };
        assert!(lines <= most, "{size:?}: {lines}");
    }
}

/// Whoever is called at night by the last lines of a log needs no more than those.
#[test]
fn the_last_ten_lines_tell_what_to_do() {
    for (size, report) in failing() {
        let text = shown(&format::TEXT, report);
        let lines: Vec<_> = text.lines().collect();
        let last = lines[lines.len() - 10..].join("\n");
        assert!(lines[lines.len() - 1].starts_with("unhealthy: "), "{size:?}: {last}");
        let first = &report.diagnoses[0];
        let cause: String = first.headline.chars().take(100).collect();
        assert!(last.contains(&format!("begin with: {cause}")), "{size:?}: {last}");
        assert!(last.contains(&first.explains[0].target.name), "{size:?}: {last}");
        assert!(
            last.contains("\n  try       talosctl ") || last.contains("\n  try       kubectl "),
            "{size:?}: {last}"
        );
    }
}

/// A trouble that no cause is known for is told at the end in the same way.
#[test]
fn the_last_ten_lines_need_no_diagnosis() {
    for (size, report) in failing() {
        let mut report = report.clone();
        report.diagnoses.clear();
        let text = shown(&format::TEXT, &report);
        let lines: Vec<_> = text.lines().collect();
        let last = lines[lines.len() - 10..].join("\n");
        assert!(lines[lines.len() - 1].starts_with("unhealthy: "), "{size:?}: {last}");
        let of_last =
            report.checks.iter().flat_map(|check| check.problems_of(Severity::Fail).map(move |it| (check, it)));
        let mut named =
            of_last.filter(|(check, (target, _))| last.contains(check.check.id) && last.contains(target.name.as_str()));
        let is_told = named.any(|(_, (_, problem))| last.contains(&problem.observed));
        assert!(is_told && last.contains("\n  try       "), "{size:?}: {last}");
    }
}

/// Each problem is named in a line of its check, or is one of those that the line counts.
#[test]
fn every_problem_is_named_or_counted() {
    for (size, report) in REPORTS.iter() {
        let text = shown(&format::TEXT, report);
        let all = styled(report, TextStyle { verbose: true, ..TextStyle::default() });
        let mut in_full: HashMap<&str, Vec<&str>> = HashMap::new();
        for (of, observed) in all.lines().filter_map(|line| line.split_once(": ")) {
            in_full.entry(of).or_default().push(observed);
        }
        for check in &report.checks {
            let id = check.check.id;
            let told = text.lines().filter_map(|line| {
                let (whom, rest) = line.strip_prefix('[')?.split_once("] ")?;
                let (_, rest) = rest.split_once(' ')?;
                rest.starts_with(&format!("{id}: ")).then(|| told_of(whom))
            });
            let left = text.lines().filter_map(|line| line.strip_prefix(&format!("{id}: (and ")));
            let left = left.map(|line| line.split_once(' ').unwrap().0.parse::<usize>().unwrap());
            assert_eq!(told.chain(left).sum::<usize>(), check.problems().count(), "{size:?}: {id}");
            for (target, problem) in check.problems() {
                let word = if problem.severity == Severity::Warn { "WARNING" } else { "ERROR" };
                let line = format!("[{}] {word} {id}", named(target));
                let told = &in_full[&*line];
                assert!(
                    told.iter().any(|observed| observed.starts_with(&problem.observed)),
                    "{size:?}: {line}: {told:?}"
                );
            }
        }
    }
}

/// Of how many `a, b and 7 more` tells.
fn told_of(whom: &str) -> usize {
    let (names, more) = whom.rsplit_once(" and ").unwrap_or((whom, "0 more"));
    names.split(", ").count() + more.strip_suffix(" more").unwrap().parse::<usize>().unwrap()
}

/// GitHub takes no more for the summary of a step.
#[test]
fn markdown_fits_into_a_step_summary() {
    for (size, report) in REPORTS.iter() {
        let text = shown(&format::MARKDOWN, report);
        assert!(text.len() < 1 << 20, "{size:?}: {}", text.len());
        assert_eq!(text.matches("<details>").count(), text.matches("</details>").count(), "{size:?}");
        let nodes = text.split_once("<summary>every node</summary>").map(|(_, nodes)| nodes.lines().count());
        assert_eq!(nodes.is_some_and(|rows| rows > size.nodes), size.nodes > 40, "{size:?}");
    }
}
