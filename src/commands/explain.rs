//! `explain`: describes a check, a reason code, a cause or an exit code.

use std::io::Write;

use super::{CommandError, needs};
use crate::checks::{self, Check};
use crate::diagnosis::{self, Cause};
use crate::model::{CheckId, Exit, Page, Reason, Source, Step};
use crate::snapshot::Require;
use crate::text::sanitize::brief;
use crate::text::{nearest, wrapped};

const WIDTH: usize = 88;

/// A topic that can be explained.
#[derive(Clone, Copy, Debug)]
enum Topic {
    Check(&'static Check),
    Reason(Reason),
    Cause(&'static Cause),
    Exit(Exit),
}

impl Topic {
    fn find(name: &str, checks: &[&'static Check]) -> Option<Self> {
        let called = |name: &str| checks.iter().find(|check| check.id.name() == name);
        // A requirement is named by its policy, and explained by the check that all requirements share.
        let is_required = || name.strip_prefix(Require::PREFIX).is_some_and(Require::is_id);
        let required = || called(CheckId::PolicyRequire.name()).filter(|_| is_required());
        called(name)
            .or_else(required)
            .map(|check| Self::Check(check))
            .or_else(|| Reason::find(name).map(Self::Reason))
            .or_else(|| diagnosis::find(name).map(Self::Cause))
            .or_else(|| Exit::find(name).map(Self::Exit))
    }

    fn page(self) -> Page {
        match self {
            Self::Check(check) => Page::Check(check.id),
            Self::Reason(reason) => Page::Reason(reason),
            Self::Cause(cause) => Page::Cause(cause.id),
            Self::Exit(_) => Page::ExitCodes,
        }
    }
}

/// Writes the explanation, or with `web` only its web address.
pub(super) fn write(
    topic: &str,
    web: bool,
    checks: &[&'static Check],
    out: &mut impl Write,
) -> Result<(), CommandError> {
    let name = topic.trim();
    let topic = Topic::find(name, checks).ok_or_else(|| unknown(name, checks))?;
    if web {
        writeln!(out, "{}", topic.page())?;
        return Ok(());
    }
    let mut lines = Vec::new();
    match topic {
        Topic::Check(check) => explain_check(check, &mut lines),
        Topic::Reason(reason) => explain_reason(reason, &mut lines),
        Topic::Cause(cause) => explain_cause(cause, &mut lines),
        Topic::Exit(exit) => {
            lines.push(format!("exit code {}: {}", exit.code(), exit.meaning()));
            explain_paragraphs(exit.explanation(), &mut lines);
        }
    }
    if matches!(topic, Topic::Check(_) | Topic::Exit(_)) {
        lines.push(String::new());
    }
    lines.push(format!("Online:   {}", topic.page()));
    for line in lines {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

fn unknown(topic: &str, checks: &[&'static Check]) -> CommandError {
    let name = brief(topic, 80);
    if topic.parse::<u32>().is_ok() {
        let codes: Vec<_> = Exit::ALL.iter().map(|exit| exit.code().to_string()).collect();
        return CommandError::Usage(format!("`{name}` is not an exit code; they are {}", codes.join(", ")));
    }
    let reasons = Reason::ALL.iter().map(|reason| reason.code());
    let causes = diagnosis::ALL.iter().map(|cause| cause.id);
    let known = checks.iter().map(|check| check.id.name()).chain(reasons).chain(causes);
    let hint = nearest(topic, known).map_or_else(
        || "; `cluster-health list`, `list --reasons` and `list --causes` show all".to_owned(),
        |meant| format!("; did you mean `{meant}`?"),
    );
    CommandError::Usage(format!("`{name}` is not a check ID, reason code, cause or exit code{hint}"))
}

fn explain_check(check: &Check, lines: &mut Vec<String>) {
    lines.push(format!("{}: {}", check.id, check.summary));
    lines.push(String::new());
    let mut field = |name: &str, items: Vec<String>| {
        if !items.is_empty() {
            lines.extend(filled(&items.join(", "), &format!("{name:<10} "), "           "));
        }
    };
    field("stage", vec![format!("{} ({})", check.stage.number(), check.stage.name())]);
    field("severity", vec![check.severity.status().name().to_owned()]);
    field("reasons", check.finds.iter().map(|reason| reason.code().to_owned()).collect());
    field("requires", check.requires().iter().map(ToString::to_string).collect());
    field("after", check.after().iter().map(ToString::to_string).collect());
    field("reads", check.facts.iter().map(|fact| fact.reads().to_owned()).collect());
    field("needs", needs(check));
    explain_paragraphs(check.explain, lines);
}

fn explain_reason(reason: Reason, lines: &mut Vec<String>) {
    let text = reason.text();
    lines.push(format!("{}: {}", reason.code(), reason.title()));
    let checks: Vec<_> = found_by(reason).map(|check| check.id.to_string()).collect();
    if !checks.is_empty() {
        lines.push(String::new());
        lines.extend(filled(&checks.join(", "), "Found by: ", "          "));
    }
    explain_paragraphs(text.explanation, lines);
    let is_of_any_cluster = found_by(reason).any(|check| check.id.is_of_kubernetes());
    explain_remedy(text.remedy, text.source, is_of_any_cluster, lines);
}

/// Returns the checks that fail or warn for this reason.
pub(super) fn found_by(reason: Reason) -> impl Iterator<Item = &'static Check> {
    checks::ALL.iter().copied().filter(move |check| check.finds.contains(&reason))
}

fn explain_cause(cause: &Cause, lines: &mut Vec<String>) {
    lines.push(format!("{}: {}", cause.id, cause.title));
    lines.push(String::new());
    lines.extend(filled(cause.impact, "Impact: ", "        "));
    explain_paragraphs(cause.explain, lines);
    explain_remedy(cause.remedy, cause.source, false, lines);
}

fn explain_paragraphs(text: &str, lines: &mut Vec<String>) {
    for paragraph in text.split("\n\n") {
        lines.push(String::new());
        lines.extend(filled(paragraph, "", ""));
    }
}

/// Writes the steps. `is_of_any_cluster`: clusters without Talos can have the problem, too.
fn explain_remedy(remedy: &[Step], source: Source, is_of_any_cluster: bool, lines: &mut Vec<String>) {
    lines.push(String::new());
    lines.push("What to do:".to_owned());
    let mut number = 0;
    let mut is_announced = false;
    for step in remedy {
        let lead = if is_announced {
            " ".repeat(5)
        } else {
            number += 1;
            format!("  {number}. ")
        };
        // A sentence that ends in a colon and the command below it form one step.
        is_announced = matches!(step, Step::Do(words) if words.ends_with(':'));
        match step {
            Step::Do(words) => lines.extend(filled(words, &lead, "     ")),
            Step::Look(command) => lines.push(format!("{lead}{command}")),
            Step::Change(command) => {
                lines.push(format!("{lead}{command}   (changes the cluster or its configuration)"));
            }
        }
    }
    if remedy.iter().any(|step| !matches!(step, Step::Do(_))) {
        lines.push(String::new());
        lines.push(
            "Replace words in capitals: NODE is the address of the node concerned, CP that of a healthy".to_owned(),
        );
        lines.push("control plane.".to_owned());
    }
    let is_of_talos = |step: &Step| matches!(step, Step::Look(it) | Step::Change(it) if it.starts_with("talosctl"));
    if is_of_any_cluster && remedy.iter().any(is_of_talos) {
        lines.push("Without Talos, look at the machine's own services and logs instead.".to_owned());
    }
    lines.push(String::new());
    lines.extend(filled(source.title, "See also: ", "          "));
}

fn filled(text: &str, lead: &str, indent: &str) -> Vec<String> {
    wrapped(lead, indent, text.split_whitespace(), WIDTH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks;
    use crate::report::fixture;

    fn explain(topic: &str) -> Result<String, String> {
        let mut out = Vec::new();
        match write(topic, false, &fixture::CHECKS, &mut out) {
            Ok(()) => Ok(String::from_utf8(out).unwrap()),
            Err(CommandError::Usage(message)) => Err(message),
            Err(CommandError::Io(error)) => panic!("{error}"),
        }
    }

    #[test]
    fn explains_checks_and_reasons() {
        let text = explain("etcd.quorum").unwrap();
        assert!(text.starts_with("etcd.quorum: etcd has a quorum\n"), "{text}");
        assert!(text.contains("requires   talos.nodes.reachable, etcd.service\n"), "{text}");
        for reason in Reason::ALL {
            let text = explain(reason.code()).unwrap();
            assert!(text.contains("What to do:") && text.contains("\nSee also: "), "{text}");
        }
        for cause in diagnosis::ALL {
            let text = explain(cause.id).unwrap();
            assert!(text.contains("What to do:") && text.contains("\nSee also: "), "{text}");
        }
    }

    #[test]
    fn a_requirement_is_explained_by_its_check() {
        let explain = |topic| {
            let mut out = Vec::new();
            write(topic, false, checks::ALL, &mut out).ok().map(|()| String::from_utf8(out).unwrap())
        };
        assert!(explain("policy.ceph").unwrap().starts_with("policy.require: "));
        assert_eq!(explain("policy.Ceph"), None);
    }

    #[test]
    fn explains_exit_codes() {
        assert!(
            explain("69").unwrap().starts_with("exit code 69: could not be determined; nothing was seen to fail\n\n")
        );
        for exit in Exit::ALL {
            let text = explain(&exit.code().to_string()).unwrap();
            assert!(text.contains(exit.meaning()), "{text}");
        }
    }

    #[test]
    fn each_has_a_page_of_its_own() {
        let mut pages = std::collections::BTreeSet::new();
        let ids = checks::ALL.iter().map(|check| check.id.name());
        let reasons = Reason::ALL.iter().map(|reason| reason.code());
        let causes = diagnosis::ALL.iter().map(|cause| cause.id);
        for topic in ids.chain(reasons).chain(causes) {
            let mut out = Vec::new();
            write(topic, true, checks::ALL, &mut out).unwrap();
            let address = String::from_utf8(out).unwrap();
            assert!(address.ends_with(&format!("/{topic}.html\n")), "{address}");
            assert!(pages.insert(address));
            let mut out = Vec::new();
            write(topic, false, checks::ALL, &mut out).unwrap();
            let text = String::from_utf8(out).unwrap();
            assert!(text.ends_with(&format!("/{topic}.html\n")), "{text}");
        }
    }

    #[test]
    fn steps_are_numbered_and_a_command_belongs_to_the_sentence_above_it() {
        let text = explain("etcd-quorum-lost").unwrap();
        assert!(text.contains("\n  1. talosctl "), "{text}");
        assert!(text.contains(":\n     talosctl -n CP bootstrap "), "{text}");
    }

    #[test]
    fn an_unknown_topic_names_the_nearest() {
        const ALL: &str = "0, 1, 2, 4, 69, 70, 74, 77, 78, 124, 129, 130, 143";
        assert!(explain("etcd.quorom").unwrap_err().contains("`etcd.quorum`"));
        assert!(explain("quorum-losst").unwrap_err().contains("`quorum-lost`"));
        assert_eq!(explain("3").unwrap_err(), format!("`3` is not an exit code; they are {ALL}"));
        assert_eq!(
            explain("\u{1b}[2Jxyzzy").unwrap_err(),
            "`\u{fffd}xyzzy` is not a check ID, reason code, cause or exit code; `cluster-health list`, `list --reasons` and `list --causes` show all"
        );
    }
}
