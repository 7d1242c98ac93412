//! The text and Markdown reports of clusters of every size, healthy and in trouble, as the checks judge them and the causes are found: the
//! reader's view, and the parts that have to be there at every size.

use std::collections::HashMap;
use std::sync::LazyLock;
use std::time::Duration;

use regex::Regex;

use super::super::ledger::{Ending, Ledger};
use super::super::view::wording::shown as named;
use super::super::{Report, Selection, TextStyle, format};
use super::{shown, styled};
use crate::checks::{self};
use crate::diagnosis::diagnose;
use crate::engine::event::{Event, Round};
use crate::engine::{End, judge};
use crate::model::Severity;
use crate::snapshot::{Gap, GapKind, Snapshot, TalosNode, TimeStatus, Volume};
use crate::testing::fixture::{Naming, Shape, condition, volume};

/// A cluster of this number of nodes, and the number of failures in it.
#[derive(Clone, Copy, Debug)]
pub(in crate::report) struct Size {
    pub(in crate::report) nodes: usize,
    pub(in crate::report) failures: usize,
}

const SIZES: [Size; 15] = [
    Size { nodes: 1, failures: 0 },
    Size { nodes: 1, failures: 1 },
    Size { nodes: 3, failures: 0 },
    Size { nodes: 3, failures: 1 },
    Size { nodes: 5, failures: 3 },
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
        // Clouds give the longest names, so one size has names like these.
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
            3 => {
                loses_power(&mut world, &names[1]);
                kubelet_waits(&mut world, &names[3]);
                network_is_missing(&mut world, &names[4]);
            }
            5 => {
                loses_power(&mut world, &names[1]);
                kubelet_waits(&mut world, &names[4]);
                volume_fails(&mut world, &names[6], "disk not found");
                service_fails(&mut world, &names[7], 0);
                network_is_missing(&mut world, &names[8]);
            }
            500 => {
                // Half of the machines are in trouble: racks without power, a plugin that was not rolled out, and machines that each report
                // their problem in different words.
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

    pub(in crate::report) fn report(self) -> Report {
        report_of(self.world(), self.failures == 0)
    }
}

/// Returns the report of a run that waits for five minutes, in vain unless everything passes.
fn report_of(snapshot: Snapshot, is_healthy: bool) -> Report {
    let judged: Vec<_> = checks::ALL.iter().copied().filter(|check| !check.is_asked_by_option()).collect();
    let verdicts = judge(&judged, &snapshot);
    let diagnoses = diagnose(&snapshot, &verdicts);
    let (at, took) = (Duration::ZERO, Duration::from_millis(700));
    let mut round = Round { number: 0, at, took, snapshot, verdicts, diagnoses: diagnoses.into(), in_doubt: false };
    let selection: Vec<_> = judged.iter().map(|check| (*check, Selection::Selected)).collect();
    let wait_timeout = Some(Duration::from_secs(300));
    let report = Report { wait_timeout, ..Report::unbegun("2026-11-21T03:00:00Z".parse().unwrap(), &selection) };
    let mut ledger = Ledger::new(report);
    let (rounds, took, end) = if is_healthy {
        (1, Duration::from_millis(700), End::Healthy)
    } else {
        (3, Duration::from_secs(300), End::Deadline)
    };
    for number in 1..=rounds {
        (round.number, round.at) = (number, took * number / rounds);
        ledger.record(&Event::Round(&round));
    }
    (*ledger.conclude(&Ending::Engine(end), "2026-11-21T03:00:00Z".parse().unwrap(), took)).clone()
}

/// The reports of all sizes, made once: judging a thousand nodes takes a while without optimization.
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
    node.talos = TalosNode::unasked(&Gap::new(GapKind::NodeUnreachable, why)).into();
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
    let volume = Volume { phase: "failed".to_owned(), error: why.to_owned(), ..volume("u-data", None) };
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

/// Number of lines beyond which a report is not read, whatever is wrong.
const LINES: usize = 60;
/// Number of lines for a few nodes.
const LINES_OF_FEW: usize = 40;
/// Number of lines beyond which good news is too long.
const GOOD_NEWS: usize = 15;

#[test]
fn text_at_every_size() {
    for (size, report) in REPORTS.iter() {
        insta::assert_snapshot!(format!("text_{}", size.name()), uncounted(&shown(&format::TEXT, report)));
    }
}

/// Returns the report without the numbers of checks and without the checks that have found nothing themselves: a new check does not change
/// it.
fn uncounted(text: &str) -> String {
    let counts = Regex::new(r"\b[0-9]+ (passed|failed|blocked|warned|skipped|undetermined|checks?\b)").unwrap();
    let blocked = Regex::new(r"\bblocks [0-9]+").unwrap();
    let silent = Regex::new(r"(?m)^\| [^ ]+ \| (?:pass|blocked|skip) \| .*\n").unwrap();
    let text = counts.replace_all(text, "N $1");
    silent.replace_all(&blocked.replace_all(&text, "blocks N"), "").into_owned()
}

/// Only the first rows of the table of all nodes are kept: the grid above it shows the same.
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
        insta::assert_snapshot!(format!("markdown_{}", size.name()), uncounted(&text));
    }
}

/// Two of three members are down, and the third one has no leader.
#[test]
fn text_quorum_lost() {
    let mut world = Shape { control_planes: 3, workers: 1, waits: true, ..Shape::default() }.settled().world();
    for name in ["cp-2", "cp-3"] {
        let service = world.service_mut(name, "etcd");
        "Failed".clone_into(&mut service.state);
        (service.healthy, service.running_since) = (Some(false), None);
        let refused = || Gap::new(GapKind::ConnectionRefused, "connection refused");
        let talos = world.talos_of(name);
        talos.etcd_status = Err(refused());
        talos.etcd_members = Err(refused());
        talos.etcd_alarms = Err(refused());
    }
    world.etcd_status_mut("cp-1").leader = 0;
    let late = || Gap::new(GapKind::TimedOut, "no answer within 5s");
    world.talos_of("cp-1").etcd_members = Err(late());
    world.talos_of("cp-1").etcd_alarms = Err(late());
    let text = shown(&format::TEXT, &report_of(world, false));
    assert!(text.lines().count() <= LINES_OF_FEW, "{text}");
    insta::assert_snapshot!(uncounted(&text));
}

/// A terminal of eighty columns that shows only ASCII.
#[test]
fn text_narrow() {
    let style = TextStyle { ascii: true, width: Some(80), ..TextStyle::default() };
    let (_, report) = REPORTS.iter().find(|(size, _)| (size.nodes, size.failures) == (100, 5)).unwrap();
    let text = styled(report, style);
    assert!(text.is_ascii());
    insta::assert_snapshot!(uncounted(&text));
}

#[test]
fn a_report_is_as_short_as_it_can_be() {
    for (size, report) in REPORTS.iter() {
        let lines = shown(&format::TEXT, report).lines().count();
        let most = match size {
            Size { failures: 0, .. } => GOOD_NEWS,
            Size { nodes: ..=5, .. } => LINES_OF_FEW,
            Size { .. } => LINES,
        };
        assert!(lines <= most, "{size:?}: {lines}");
    }
}

/// A trouble that a machine can have.
type Trouble = fn(&mut Snapshot, &str);

/// Many machines in one trouble are one cause, whatever the trouble is.
#[test]
fn forty_of_sixty_machines_in_one_trouble_are_one_cause() {
    let troubles: [(&str, Trouble); 11] = [
        ("power", loses_power),
        ("kubelet", kubelet_waits),
        ("service", |world, name| service_fails(world, name, 0)),
        ("volume", |world, name| volume_fails(world, name, "disk not found")),
        ("network plugin", network_is_missing),
        ("time", |world, name| {
            world.talos_of(name).time_status = Ok(Some(TimeStatus { synced: false, sync_disabled: false }));
        }),
        ("rebooting", |world, name| {
            let status = world.machine_status_mut(name);
            "rebooting".clone_into(&mut status.stage);
            status.ready = false;
        }),
        ("held up", |world, name| {
            "Waiting".clone_into(&mut world.service_mut(name, "cri").state);
            let status = world.machine_status_mut(name);
            "booting".clone_into(&mut status.stage);
            status.ready = false;
        }),
        ("cut off", |world, name| {
            let gap = Gap::new(GapKind::NodeUnreachable, "no route to host");
            world.talos_of(name).clone_from(&TalosNode::unasked(&gap));
            world.memory.rounds = 1;
            let leases = &mut world.kube().node_leases.as_mut().unwrap().by_name;
            leases.get_mut(name).unwrap().moved_within = Some(Duration::from_secs(12));
        }),
        ("maintenance", |world, name| {
            let gap = Gap::new(GapKind::Maintenance, "in maintenance mode");
            world.talos_of(name).clone_from(&TalosNode::unasked(&gap));
        }),
        ("memory", |world, name| world.talos_of(name).memory = Err(Gap::new(GapKind::TimedOut, "no answer within 5s"))),
    ];
    for (name, trouble) in troubles {
        let shape = Shape { control_planes: 3, workers: 57, waits: true, ..Shape::default() }.settled();
        let mut world = shape.world();
        (3..43).for_each(|index| trouble(&mut world, &shape.name(index)));
        let report = report_of(world, false);
        let text = shown(&format::TEXT, &report);
        assert!(text.lines().count() <= LINES, "{name}: {} lines: {text}", text.lines().count());
        let cards = shown(&format::HTML, &report).matches("<article class=\"card").count();
        assert!(cards <= 3, "{name}: {cards} cards: {text}");
    }
}

/// A reader on call needs no more than the last lines of a log.
#[test]
fn the_last_ten_lines_tell_what_to_do() {
    for (size, report) in failing() {
        let text = shown(&format::TEXT, report);
        let lines: Vec<_> = text.lines().collect();
        let last = lines[lines.len() - 10..].join("\n");
        let at = lines.iter().rposition(|line| line.starts_with("unhealthy: ")).unwrap();
        let verdict = lines[at];
        assert!(verdict.ends_with(", exit code 1"), "{size:?}: {last}");
        let first = &report.diagnoses[0];
        let cause: String = first.headline.chars().take(100).collect();
        assert!(lines[at + 1].starts_with(&format!("first cause  {cause}")), "{size:?}: {last}");
        assert!(lines[at + 2].starts_with("impact       "), "{size:?}: {last}");
        assert!(last.contains(&first.explains[0].target.name), "{size:?}: {last}");
        let step = lines[lines.len() - 1];
        assert!(
            ["talosctl ", "kubectl "].iter().any(|tool| step.starts_with(&format!("first step   {tool}"))),
            "{step}"
        );
    }
}

/// A trouble without a known cause is shown at the end in the same way.
#[test]
fn the_last_ten_lines_need_no_diagnosis() {
    for (size, report) in failing() {
        let mut report = report.clone();
        report.diagnoses.clear();
        let text = shown(&format::TEXT, &report);
        let lines: Vec<_> = text.lines().collect();
        let last = lines[lines.len() - 10..].join("\n");
        let at = lines.iter().rposition(|line| line.starts_with("unhealthy: ")).unwrap();
        let mut failures = report.checks.iter().flat_map(|check| check.problems_of(Severity::Fail));
        let is_told = failures.any(|(target, problem)| {
            let named = format!("{target}");
            lines[at + 1].contains(&named) && lines[at + 1].contains(problem.reason.title())
        });
        assert!(is_told && lines[lines.len() - 1].starts_with("first step   "), "{size:?}: {last}");
    }
}

/// Each problem is named in a line of its check with `-v`. Without it, causes count their consequences.
#[test]
fn every_problem_is_named_or_counted() {
    for (size, report) in REPORTS.iter() {
        let all = styled(report, TextStyle { verbose: true, ..TextStyle::default() });
        let mut in_full: HashMap<&str, Vec<&str>> = HashMap::new();
        for (of, observed) in all.lines().filter_map(|line| line.split_once(": ")) {
            in_full.entry(of).or_default().push(observed);
        }
        for check in &report.checks {
            let id = check.check.id;
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

/// GitHub accepts no more for the summary of a step.
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
