//! The program against recorded answers of a real cluster: the results must be the same as for the cluster itself.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Deserialize;
use serde_json::Value;
use simulator::pki::Flaw;
use simulator::world::{User, World};
use simulator::{Network, Simulator};

use crate::cluster::with_user;
use crate::harness::program;

/// The metadata of a recording.
#[derive(Deserialize)]
struct State {
    name: String,
    talos: String,
    kube: String,
    args: Vec<String>,
}

/// The expectation of an e2e scenario, as described in `e2e/README.md`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Expect {
    exit: i32,
    result: Option<String>,
    problems: Vec<String>,
    may: Vec<String>,
    explained: Vec<String>,
    warnings: Vec<String>,
    diagnoses: Vec<String>,
    blocked: Option<BTreeSet<String>>,
}

/// The rig's kubeconfig leads to its first control plane. Only the healthy recording is about this.
const OF_THE_RIG: &str = "k8s.api.servers endpoint-on-machine cp1";

/// Number of concurrent runs, most of which wait for answers that never come.
const AT_ONCE: usize = 6;

#[test]
fn the_verdict_on_a_recording_is_that_on_the_cluster() {
    let recordings = std::fs::read_dir(end_to_end("recordings")).unwrap().map(|entry| entry.unwrap().path());
    let recordings: Vec<_> = recordings.collect();
    assert!(recordings.len() >= 26, "{recordings:?}");
    let next = AtomicUsize::new(0);
    let worker = || {
        let mine = std::iter::from_fn(|| recordings.get(next.fetch_add(1, Ordering::Relaxed)));
        mine.flat_map(|path| judge(path)).collect::<Vec<_>>()
    };
    let different: Vec<String> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    assert!(different.is_empty(), "{}", different.join("\n"));
}

fn end_to_end(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("e2e").join(folder)
}

/// Returns the differences between the results for a recording and for the cluster.
fn judge(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap();
    let mut document: Value = serde_json::from_str(&text).unwrap();
    let state: State = serde_json::from_value(document["state"].take()).unwrap();
    let network = Network::claim().unwrap();
    let mut world = World::from_recording(&network, &text).unwrap();
    // The rig's kubeconfig has a token, which is sent to fewer servers than a certificate.
    world.kubernetes.tokens.insert("good".to_owned(), User { name: "reader".to_owned(), groups: Vec::new() });
    let addresses: Vec<_> = (2..=5).map(|last| format!("10.55.0.{last}")).collect();
    let simulator = Simulator::start(network, world).unwrap();
    // The machine may be busy. Calls that hang have to be waited for.
    let hangs = text.contains("TimedOut");
    let mut program = program().args(["-o", "json", "--attempt-timeout", if hangs { "30s" } else { "60s" }]);
    let machine = |index| simulator.network().machine(index).to_string();
    for argument in &state.args {
        let index = addresses.iter().position(|address| address == argument);
        let here = index.map(machine);
        program = program.args([here.as_ref().unwrap_or(argument)]);
    }
    if state.talos != "none" {
        program = program.talosconfig(simulator.talosconfig(&state.talos, Flaw::None).unwrap());
    }
    if state.kube != "none" {
        // The original run named it: a default kubeconfig is skipped if it belongs to another cluster.
        let path = program.path("kubeconfig");
        let kubeconfig = simulator.kubeconfig("reader", Flaw::None).unwrap();
        program = program.file("kubeconfig", with_user(&kubeconfig, "{token: good}"));
        program = program.args(["--kubeconfig".as_ref(), path.as_os_str()]);
    }
    let outcome = program.run();
    let here = [("$CP1", machine(0)), ("$CP2", machine(1)), ("$CP3", machine(2)), ("$W1", machine(3))];
    let different = match serde_json::from_str(&outcome.stdout) {
        Ok(report) => {
            let stories = story::broken(&report).into_iter().map(|it| format!("{}: {}", it.law, it.why));
            expectation(&state.name, &here).compare(outcome.code, &report).into_iter().chain(stories).collect()
        }
        Err(error) => vec![format!("no report: {error}\n{}", outcome.stderr)],
    };
    different.into_iter().map(|difference| format!("{}: {difference}", state.name)).collect()
}

/// Returns the expectation of the scenario in which the recording was made; `here` replaces its variables.
fn expectation(name: &str, here: &[(&str, String)]) -> Expect {
    #[derive(Deserialize)]
    struct Scenario {
        expect: Expect,
    }
    // A row on another release of Talos has its expectation from the scenario.
    let name = name.split_once("-talos-").map_or(name, |(name, _)| name);
    let named = |path: &PathBuf| path.file_stem().unwrap().to_str().unwrap().split_once('-').unwrap().1 == name;
    let mut files = std::fs::read_dir(end_to_end("scenarios")).unwrap().map(|entry| entry.unwrap().path());
    let text = std::fs::read_to_string(files.find(named).unwrap()).unwrap();
    let mut expect = toml::from_str::<Scenario>(&text).unwrap().expect;
    for line in
        [&mut expect.problems, &mut expect.may, &mut expect.explained, &mut expect.warnings].into_iter().flatten()
    {
        for (variable, address) in here {
            *line = line.replace(variable, address);
        }
    }
    expect
}

impl Expect {
    fn compare(&self, code: i32, report: &Value) -> Vec<String> {
        let mut different = Vec::new();
        if code != self.exit {
            different.push(format!("exit code {code} instead of {}", self.exit));
        }
        if self.result.as_ref().is_some_and(|result| report["result"] != **result) {
            different.push(format!("result {} instead of {:?}", report["result"], self.result));
        }
        let problems = problems(report);
        let of = |severities: &[&str], explained: bool| -> Vec<&str> {
            let all = problems.iter().filter(|it| severities.contains(&it.severity) && it.explained == explained);
            all.map(|it| it.text.as_str()).collect()
        };
        for (what, expected, seen) in [
            ("problem", &self.problems, of(&["fail", "error"], false)),
            ("explained problem", &self.explained, of(&["fail", "error"], true)),
            ("warning", &self.warnings, [of(&["warn"], false), of(&["warn"], true)].concat()),
        ] {
            let missing = expected.iter().filter(|wanted| !seen.iter().any(|it| fits(wanted, it)));
            different.extend(missing.map(|it| format!("no {what} `{it}`")));
            // Rows share a cluster, so a row may see what restarted in an earlier one.
            let earlier = |it: &str| what == "warning" && it.split(' ').nth(1) == Some("restarting");
            let wanted = |it: &str| {
                it == OF_THE_RIG || earlier(it) || expected.iter().chain(&self.may).any(|wanted| fits(wanted, it))
            };
            different.extend(seen.iter().filter(|it| !wanted(it)).map(|it| format!("{what} `{it}`")));
        }
        let ids = report["diagnoses"].as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap());
        let made: Vec<_> = ids.collect();
        if made != self.diagnoses {
            different.push(format!("diagnosed {made:?} instead of {:?}", self.diagnoses));
        }
        let blocked = report["checks"].as_array().unwrap().iter().filter(|check| check["status"] == "blocked");
        let blocked: BTreeSet<_> = blocked.map(|check| check["id"].as_str().unwrap().to_owned()).collect();
        if self.blocked.as_ref().is_some_and(|expected| *expected != blocked) {
            different.push(format!("blocked are {blocked:?} instead of {:?}", self.blocked));
        }
        different
    }
}

/// A problem of a report.
struct Problem<'a> {
    severity: &'a str,
    explained: bool,
    /// `CHECK REASON TARGET`
    text: String,
}

fn problems(report: &Value) -> Vec<Problem<'_>> {
    let checks = report["checks"].as_array().unwrap().iter();
    let all =
        checks.flat_map(|check| check["problems"].as_array().unwrap().iter().map(move |problem| (check, problem)));
    all.map(|(check, problem)| {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let target = [&problem["target"]["name"], &problem["target"]["address"]].map(text);
        let target = target.into_iter().find(|target| !target.is_empty()).unwrap_or_else(|| "-".to_owned());
        Problem {
            severity: problem["severity"].as_str().unwrap(),
            explained: !problem["explainedBy"].is_null(),
            text: format!("{} {} {target}", text(&check["id"]), text(&problem["reason"])),
        }
    })
    .collect()
}

/// Matches a pattern column by column: `a|b` matches either, `*` matches anything.
fn fits(wanted: &str, seen: &str) -> bool {
    let column = |(wanted, seen): (&str, &str)| wanted.split('|').any(|word| word == "*" || word == seen);
    let (wanted, seen): (Vec<_>, Vec<_>) = (wanted.split_whitespace().collect(), seen.splitn(3, ' ').collect());
    wanted.len() == seen.len() && wanted.into_iter().zip(seen).all(column)
}
