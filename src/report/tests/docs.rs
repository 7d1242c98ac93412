//! `README.md`, the guide for upgrades and `docs/reports.md` show what the program writes.

use std::path::Path;

use super::super::format::{self, Format};
use super::super::{Report, fixture};
use super::sizes::Size;
use super::{shown as text_of, versionless};
use crate::rollout::State;

/// Returns the report of a run that lost a control plane, short enough to be read.
fn sample() -> Report {
    let mut report = fixture::followed();
    report.diagnoses = fixture::diagnosed().diagnoses;
    report.weakened.clear();
    report.not_observed.clear();
    report
        .checks
        .retain(|entry| ["talos.nodes.reachable", "etcd.service", "etcd.tolerance"].contains(&entry.check.id.name()));
    report.diagnoses[0].explains.retain(|it| report.checks.iter().any(|entry| entry.check.id == it.check));
    report
}

fn table() -> String {
    let rows = format::ALL.map(|it| {
        format!("| [`{0}`](#{0}) | {1} | `{2}` | `.{3}` |\n", it.name, it.about, it.media_type, it.extension)
    });
    format!("| format | what for | media type | file |\n| --- | --- | --- | --- |\n{}", rows.concat())
}

/// Returns the sample in a fence that nothing in it can end.
fn shown(format: &Format) -> String {
    let text = versionless(format, &sample());
    format!("````{}\n{text}````\n", if format.name == "markdown" { "markdown" } else { format.extension })
}

/// Returns `text` with `content` between the lines that begin with `<!-- MARK` and with `<!-- end`.
fn filled(text: &str, mark: &str, content: &str) -> String {
    let at = text.find(&format!("<!-- {mark}")).unwrap_or_else(|| panic!("no place for {mark}"));
    let begin = at + text[at..].find('\n').unwrap() + 1;
    let end = begin + text[begin..].find("<!-- end -->").unwrap();
    format!("{}{content}{}", &text[..begin], &text[end..])
}

fn fenced(lines: &[&str]) -> String {
    format!("```text\n{}\n```\n", lines.join("\n"))
}

/// Returns the report of a healthy cluster of four machines: its first three stages and the verdict.
fn healthy() -> String {
    let text = text_of(&format::TEXT, &Size { nodes: 4, failures: 0 }.report());
    let [_, stages, verdict] = text.splitn(3, "\n\n").collect::<Vec<_>>()[..] else { panic!("{text}") };
    let is_later = |line: &&str| !line.starts_with(' ');
    let end = stages.lines().enumerate().filter(|(_, line)| is_later(line)).nth(3).map_or(0, |(at, _)| at);
    let shown: Vec<_> = stages.lines().take(end).chain(["…", "", verdict.trim_end()]).collect();
    fenced(&shown)
}

/// Returns the report of that cluster after one machine has lost its power: the first cause and the last lines.
fn unhealthy() -> String {
    let text = text_of(&format::TEXT, &Size { nodes: 4, failures: 1 }.report());
    let (_, causes) = text.split_once("\n1. ").unwrap();
    fenced(&["…", &format!("1. {}", causes.trim_end())])
}

/// Returns a rollout in progress, in which a drain was held up.
fn planned() -> Report {
    let mut report = fixture::planned();
    let mut rollout = report.rollout.take().unwrap();
    rollout.machines.truncate(4);
    let image = "factory.talos.dev/metal-installer/3765…:v1.14.1";
    let rows = [
        ("cp-2", "10.0.0.2", State::Done, "runs v1.14.1".to_owned()),
        ("cp-3", "10.0.0.3", State::Installed, format!("runs v1.13.9; {image} was installed after it booted")),
        ("cp-1", "10.0.0.1", State::ToDo, "runs v1.13.9".to_owned()),
        ("w-1", "10.0.0.4", State::ToDo, "runs v1.13.9".to_owned()),
    ];
    for (machine, (name, address, state, evidence)) in rollout.machines.iter_mut().zip(rows) {
        (machine.name, machine.address) = (name.to_owned(), address.to_owned());
        (machine.state, machine.evidence) = (state, evidence);
    }
    rollout.kubernetes = None;
    Report { rollout: Some(rollout), ..report }
}

/// `UPDATE=1` rewrites the files.
#[test]
fn committed_files_show_every_format() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let is_update = std::env::var_os("UPDATE").is_some();
    // An HTML page is shown as a picture.
    let texts: Vec<_> = format::ALL.iter().filter(|format| format.name != "html").collect();
    let update = |name: &str, make: &dyn Fn(&str) -> String| {
        let path = root.join(name);
        let committed = std::fs::read_to_string(&path).unwrap();
        let made = make(&committed);
        if is_update && committed != made {
            std::fs::write(&path, &made).unwrap();
        }
        assert!(is_update || committed == made, "`{name}` is old: run the tests with UPDATE=1");
    };
    let plan = format!("```text\n{}```\n", text_of(&format::plan::TEXT, &planned()));
    update("README.md", &|text| filled(&filled(text, "healthy:", &healthy()), "sample:", &unhealthy()));
    update("docs/site/src/guides/upgrade.md", &|text| filled(text, "plan:", &plan));
    update("docs/reports.md", &|text| {
        texts.iter().fold(filled(text, "formats:", &table()), |text, format| {
            filled(&text, &format!("sample: {} -->", format.name), &shown(format))
        })
    });
}
