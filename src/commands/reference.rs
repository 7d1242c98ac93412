//! The reference on the site: a page for each check, reason and cause, the options, the exit codes, and the JSON fields. `make docs`
//! generates it from the program's own tables; it is never committed.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Arg;
use serde_json::Value;

use super::explain::found_by;
use super::{command, needs};
use crate::checks::{self, Check};
use crate::config::etcd;
use crate::diagnosis::{self, Cause};
use crate::model::{CheckId, Exit, Page, Reason, Source, Stage, Step};
use crate::report::format::{json, plan};

/// Pages by their path below the book's sources, and the part of its table of contents that lists them.
#[derive(Default)]
struct Reference {
    pages: BTreeMap<String, String>,
    contents: String,
}

impl Reference {
    fn all() -> Self {
        let mut all = Self::default();
        all.chapter("Checks", "reference/checks", &checks_by_stage());
        for check in checks::ALL {
            all.page(Page::Check(check.id), check.id.name(), &check_page(check));
        }
        all.chapter(
            "Reasons",
            "reference/reasons",
            &list(sorted(Reason::ALL, |it| it.code()), |it| (Page::Reason(*it), it.code(), it.title())),
        );
        for reason in sorted(Reason::ALL, |it| it.code()) {
            all.page(Page::Reason(*reason), reason.code(), &reason_page(*reason));
        }
        all.chapter(
            "Causes",
            "reference/causes",
            &list(sorted(diagnosis::ALL, |it| it.id), |it| (Page::Cause(it.id), it.id, it.title)),
        );
        for cause in sorted(diagnosis::ALL, |it| it.id) {
            all.page(Page::Cause(cause.id), cause.id, &cause_page(cause));
        }
        all.chapter("Options", "reference/options", &options());
        all.chapter("Exit codes", &Page::ExitCodes.path(), &exit_codes());
        all.chapter("JSON", "reference/json", &fields());
        all
    }

    fn chapter(&mut self, title: &str, path: &str, content: &str) {
        let _ = writeln!(self.contents, "- [{title}]({path}.md)");
        self.pages.insert(format!("{path}.md"), format!("# {title}\n\n{content}"));
    }

    fn page(&mut self, page: Page, name: &str, content: &str) {
        let path = page.path();
        let _ = writeln!(self.contents, "  - [{name}]({path}.md)");
        self.pages.insert(format!("{path}.md"), format!("# `{name}`\n\n{content}"));
    }
}

fn sorted<T>(all: &[T], name: impl Fn(&T) -> &'static str) -> Vec<&T> {
    let mut all: Vec<_> = all.iter().collect();
    all.sort_by_key(|it| name(it));
    all
}

/// Returns prose as Markdown: text in backticks stays code, and everything else is escaped.
fn prose(text: &str) -> String {
    let escape = |text: &str| {
        let mut escaped = String::new();
        for c in text.chars() {
            match c {
                '<' => escaped.push_str("&lt;"),
                '*' | '_' | '[' | ']' | '|' => escaped.extend(['\\', c]),
                _ => escaped.push(c),
            }
        }
        escaped
    };
    let parts = text.split('`').enumerate();
    parts.map(|(n, part)| if n % 2 == 0 { escape(part) } else { format!("`{}`", part.replace('|', "\\|")) }).collect()
}

/// Returns a link from one page of the reference to another.
fn link(page: Page, name: &str) -> String {
    format!("[`{name}`](../{}.md)", page.path().trim_start_matches("reference/"))
}

fn list<'a, T: 'a>(
    all: impl IntoIterator<Item = &'a T>,
    row: impl Fn(&T) -> (Page, &'static str, &'static str),
) -> String {
    let rows = all.into_iter().map(|it| {
        let (page, name, title) = row(it);
        format!("| [`{name}`]({}.md) | {} |\n", page.path().trim_start_matches("reference/"), prose(title))
    });
    format!("| id | in one line |\n| --- | --- |\n{}", rows.collect::<String>())
}

fn checks_by_stage() -> String {
    let stages = Stage::ALL.map(|stage| {
        let of_stage = checks::ALL.iter().copied().filter(|check| check.stage == stage);
        let rows = list(of_stage.collect::<Vec<_>>(), |it| (Page::Check(it.id), it.id.name(), it.summary));
        format!("## {}. {}\n\n{rows}\n", stage.number(), stage.title())
    });
    stages.concat()
}

fn check_page(check: &Check) -> String {
    let ids = |ids: &[CheckId]| {
        let links: Vec<_> = ids.iter().map(|id| link(Page::Check(*id), id.name())).collect();
        links.join(", ")
    };
    let reasons: Vec<_> = check.finds.iter().map(|it| link(Page::Reason(*it), it.code())).collect();
    let rows = [
        ("stage", format!("{} ({})", check.stage.number(), check.stage.name())),
        ("severity", check.severity.status().name().to_owned()),
        ("reasons", reasons.join(", ")),
        ("requires", ids(&check.requires())),
        ("after", ids(&check.after())),
        ("reads", check.facts.iter().map(|fact| prose(fact.reads())).collect::<Vec<_>>().join(", ")),
        ("needs", needs(check).into_iter().map(|it| prose(&it)).collect::<Vec<_>>().join("; ")),
    ];
    let rows = rows.iter().filter(|(_, content)| !content.is_empty());
    let rows: Vec<_> = rows.map(|(name, content)| format!("| {name} | {content} |\n")).collect();
    format!(
        "Passes when: {}.\n\n| | |\n| --- | --- |\n{}\n{}\n\n{}",
        prose(check.summary),
        rows.concat(),
        prose(check.explain),
        at_a_prompt(check.id.name())
    )
}

fn reason_page(reason: Reason) -> String {
    let text = reason.text();
    let found_by: Vec<_> = found_by(reason).map(|check| link(Page::Check(check.id), check.id.name())).collect();
    let found_by = match &found_by[..] {
        [] => "Any check that lacks an answer it needs can report this, as an error.".to_owned(),
        some => format!("Found by {}.", some.join(", ")),
    };
    let what = format!("{}.\n\n{}\n\n{found_by}", prose(reason.title()), prose(text.explanation));
    format!("{what}\n\n{}\n{}", remedy(text.remedy, text.source), at_a_prompt(reason.code()))
}

fn cause_page(cause: &Cause) -> String {
    let what = format!("{}.\n\nImpact: {}.\n\n{}", prose(cause.title), prose(cause.impact), prose(cause.explain));
    format!("{what}\n\n{}\n{}", remedy(cause.remedy, cause.source), at_a_prompt(cause.id))
}

fn remedy(steps: &[Step], source: Source) -> String {
    let mut text = "## What to do\n\n".to_owned();
    for step in steps {
        let _ = match step {
            Step::Do(words) => writeln!(text, "{}\n", prose(words)),
            Step::Look(command) => writeln!(text, "```sh\n{command}\n```\n"),
            Step::Change(command) => {
                writeln!(text, "Changes the cluster or its configuration:\n\n```sh\n{command}\n```\n")
            }
        };
    }
    if steps.iter().any(|step| !matches!(step, Step::Do(_))) {
        text.push_str("Words in capitals stand for your own values: `NODE` for the address of the node concerned, ");
        text.push_str("`CP` for that of a healthy control plane.\n\n");
    }
    let _ = writeln!(text, "See also: [{}]({}).", prose(source.title), source.address);
    text
}

fn at_a_prompt(topic: &str) -> String {
    format!("At a prompt, also offline: `cluster-health explain {topic}`.\n")
}

fn exit_codes() -> String {
    let rows = Exit::ALL.iter().map(|exit| format!("| {} | {} |\n", exit.code(), prose(exit.meaning())));
    let about = "The exit code states what is known about the cluster, and is the same for every format. Whether the deadline was reached \
                 is a line of the report and a field of the JSON.\n\nThe process exits within 1 s of the deadline and within 2 s of a \
                 signal, no matter what it is waiting for: a blocked pipe, a disk, a DNS server. A second signal ends it at once. A \
                 verdict that could not be written in time is not a success.\n";
    let each = Exit::ALL.iter().map(|exit| format!("## {}\n\n{}\n\n", exit.code(), prose(exit.explanation())));
    format!("{about}\n| code | meaning |\n| --- | --- |\n{}\n{}", rows.collect::<String>(), each.collect::<String>())
}

/// Returns the options of the program and of each command, by heading, in the order of `--help`.
fn options() -> String {
    let mut all = command();
    all.build();
    let mut text =
        "Each option can also be set by its variable, where one is named. An empty variable counts as not set.\n\n"
            .to_owned();
    let mut headings: Vec<(&str, Vec<&Arg>)> = Vec::new();
    for arg in all.get_arguments().filter(|arg| !arg.is_hide_set()) {
        let heading = arg.get_help_heading().unwrap_or("Program");
        match headings.iter_mut().find(|(known, _)| *known == heading) {
            Some((_, args)) => args.push(arg),
            None => headings.push((heading, vec![arg])),
        }
    }
    for (heading, args) in headings {
        let _ = writeln!(text, "## {heading}\n\n{}", args.into_iter().map(|arg| option("", arg)).collect::<String>());
    }
    text.push_str("## Variables without an option\n\n");
    text.extend(etcd::VARIABLES.map(|(name, about)| format!("- `{name}`  \n  {}.\n", prose(about))));
    text.push_str("\n## Commands\n\n");
    for command in all.get_subcommands().filter(|it| it.get_name() != "help") {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        let _ = writeln!(text, "### {}\n\n{}.\n", command.get_name(), prose(&about));
        let own = command.get_arguments().filter(|arg| arg.get_id() != "help" && !arg.is_hide_set());
        text.extend(own.map(|arg| option(&format!("{}-", command.get_name()), arg)));
        text.push('\n');
    }
    text
}

/// Returns an option with an anchor: its name, after that of its command.
fn option(of: &str, arg: &Arg) -> String {
    let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
    let short = arg.get_short().map(|short| format!("-{short}, ")).unwrap_or_default();
    let help = prose(help.replace("\n\n", ". ").trim_end_matches('.'));
    let name = arg.get_long().unwrap_or(arg.get_id().as_str());
    let mut text = format!("- <a id=\"{of}{name}\"></a>`{short}{arg}`  \n  {help}.");
    let values: Vec<_> = arg.get_default_values().iter().filter_map(|value| value.to_str()).collect();
    if !values.is_empty() && arg.get_action().takes_values() {
        let _ = write!(text, " Default: `{}`.", values.join(","));
    }
    if let Some(variable) = arg.get_env().and_then(|variable| variable.to_str()) {
        let _ = write!(text, " Variable: `{variable}`.");
    }
    text.push('\n');
    text
}

/// Returns each field's description from the schemas.
fn fields() -> String {
    let mut text = "`cluster-health schema` prints the schema of the report and of the events of NDJSON, \
                    `cluster-health schema --upgrade-plan` that of a plan.\n\n"
        .to_owned();
    for (title, schema) in [("The report", json::SCHEMA), ("The plan of an upgrade", plan::SCHEMA)] {
        let schema: Value = serde_json::from_str(schema).unwrap();
        let _ = writeln!(text, "## {title}\n");
        for (name, definition) in schema["$defs"].as_object().unwrap() {
            let Some(properties) = definition["properties"].as_object() else { continue };
            let about = prose(definition["description"].as_str().unwrap_or_default());
            let _ = writeln!(text, "### {name}\n\n{about}\n\n| field | type | meaning |\n| --- | --- | --- |");
            for (field, property) in properties {
                let meaning = prose(property["description"].as_str().unwrap_or_default()).replace('\n', " ");
                let _ = writeln!(text, "| `{field}` | {} | {meaning} |", type_of(property));
            }
            text.push('\n');
        }
    }
    text
}

fn type_of(property: &Value) -> String {
    if let Some(name) = property["$ref"].as_str().and_then(|it| it.rsplit('/').next()) {
        return name.to_owned();
    }
    if let Some(values) = property["enum"].as_array() {
        let values: Vec<_> = values.iter().map(|value| format!("`{value}`").replace('"', "")).collect();
        return values.join(", ");
    }
    if let Some(any) = property["anyOf"].as_array().or(property["oneOf"].as_array()) {
        let types: Vec<_> = any.iter().map(type_of).collect();
        return types.join(" or ");
    }
    match &property["type"] {
        Value::String(it) if it == "array" => format!("array of {}", type_of(&property["items"])),
        Value::String(it) => it.clone(),
        Value::Array(all) => all.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or "),
        _ if property.get("const").is_some() => format!("`{}`", property["const"]).replace('"', ""),
        _ => "any".to_owned(),
    }
}

#[test]
fn every_check_reason_and_cause_has_its_page() {
    let reference = Reference::all();
    let all = checks::ALL.len() + Reason::ALL.len() + diagnosis::ALL.len();
    assert_eq!(reference.pages.len(), all + 6);
    assert_eq!(reference.contents.lines().count(), reference.pages.len());
    let page = &reference.pages["reference/reasons/quorum-lost.md"];
    for expected in ["# `quorum-lost`", "## What to do", "](https://docs.siderolabs.com/"] {
        assert!(page.contains(expected), "{page}");
    }
    assert!(reference.pages["reference/checks/etcd.quorum.md"].contains("[`etcd.service`](../checks/etcd.service.md)"));
    assert!(reference.pages["reference/options.md"].contains("CLUSTER_HEALTH_WAIT_TIMEOUT"));
    assert!(reference.pages["reference/json.md"].contains("| `exitCode` |"));
}

/// Writes the pages for `make docs` into the book's sources, which `SITE_SOURCES` names and whose table of contents has a place for them.
#[test]
#[ignore = "writes files, for `make docs`"]
fn pages_of_the_site() {
    const PLACE: &str = "<!-- reference: made by `make docs` -->\n";
    let sources = PathBuf::from(std::env::var_os("SITE_SOURCES").unwrap());
    let reference = Reference::all();
    for (path, page) in &reference.pages {
        let path = sources.join(path);
        fs::create_dir_all(path.parent().unwrap_or(Path::new("."))).unwrap();
        fs::write(path, page).unwrap();
    }
    let summary = sources.join("SUMMARY.md");
    let text = fs::read_to_string(&summary).unwrap();
    assert!(text.contains(PLACE), "the table of contents has no place for the reference");
    fs::write(summary, text.replace(PLACE, &reference.contents)).unwrap();
}
