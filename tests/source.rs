//! What is held of the source itself: which module may use which, that names are no strings, and that the documents name what
//! there is.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::path::Path;

use regex::{Captures, Regex};

/// From the ground up; each with what it may use.
const ROOMS: &[(&str, &[&str])] = &[
    ("text", &[]),
    ("model", &[]),
    ("snapshot", &["text", "model"]),
    ("config", &["text", "model", "snapshot"]),
    ("observe", &["text", "model", "snapshot", "config"]),
    ("assess", &["text", "model", "snapshot"]),
    ("checks", &["text", "model", "snapshot", "assess"]),
    ("diagnosis", &["text", "model", "snapshot", "assess", "checks"]),
    ("engine", &["text", "model", "snapshot", "assess", "checks", "diagnosis"]),
    // `-vv` shows the assessment.
    ("report", &["text", "model", "snapshot", "assess", "checks", "diagnosis", "engine"]),
    ("cli", &["text", "report"]),
    ("commands", &["text", "model", "checks", "diagnosis", "report", "cli"]),
    ("plan", &["text", "model", "snapshot", "config", "observe", "checks", "engine", "report", "cli"]),
    ("signals", &["model"]),
    ("run", &["text", "model", "snapshot", "config", "observe", "engine", "report", "plan", "signals"]),
    ("main", &["model", "cli", "commands", "plan", "run"]),
];

/// Within `src/checks`. The three protocols do not know each other; what two of them need is below them.
const CHECKS: &[(&str, &[&str])] = &[
    ("gaps", &[]),
    ("scope", &["gaps"]),
    ("stated", &[]),
    ("talos", &["gaps", "scope", "stated"]),
    ("etcd", &["gaps", "scope", "stated"]),
    ("kubernetes", &["gaps", "scope", "stated"]),
    ("allowance", &[]),
    ("mod", &[]),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn assert_none(found: &[String]) {
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

#[test]
fn no_module_uses_what_is_above_it() {
    for table in [ROOMS, CHECKS] {
        for (at, (room, uses)) in table.iter().enumerate() {
            let is_below = |used: &&str| table[..at].iter().any(|(lower, _)| lower == used);
            assert!(uses.iter().all(is_below), "the table lets {room} use what is not below it");
        }
    }
    let src = root().join("src");
    let found = [floors::violations(&src, ROOMS), floors::violations_within(&src, "checks", CHECKS)].concat();
    assert_none(&found.into_iter().map(|it| format!("src/{it}")).collect::<Vec<_>>());
}

/// The product's files below `src`, by name, without their tests.
fn product() -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root().join("src")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
            let is_test = ["test", "fixture"].iter().any(|part| name.contains(part));
            if path.is_dir() {
                folders.push(path);
            } else if !is_test && path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                found.push((name, text.split("#[cfg(test)]\nmod tests {").next().unwrap().to_owned()));
            }
        }
    }
    found
}

/// A check is a `CheckId`. Who compares its name with a text misses the day on which it is renamed.
#[test]
fn checks_are_not_known_by_their_names() {
    const SPELLED: &str = "src/model/id.rs";
    let files = product();
    let spelled = &files.iter().find(|(name, _)| name == SPELLED).unwrap().1;
    let name = Regex::new(r#"(?m)^    \w+ "(.+)";$"#).unwrap();
    let names: Vec<&str> = name.captures_iter(spelled).map(|it| it.get(1).unwrap().as_str()).collect();
    assert!(names.len() > 40, "{names:?}");

    let literal = Regex::new(r#"((?:with|fix|contains)\()?"([a-z0-9.-]+)""#).unwrap();
    let is_of_check = |it: Captures<'_>| {
        let text = &it[2];
        let is_part = || names.iter().any(|name| name.starts_with(text) || name.ends_with(text));
        names.contains(&text) || it.get(1).is_some() && text.contains('.') && is_part()
    };
    let mut found = Vec::new();
    for (file, text) in files.iter().filter(|(name, _)| name != SPELLED) {
        let lines = (1..).zip(text.lines()).filter(|(_, line)| literal.captures_iter(line).any(is_of_check));
        found.extend(lines.map(|(at, line)| format!("{file}:{at}: {}", line.trim())));
    }
    assert_none(&found);
}

#[test]
fn text_needs_no_library_of_clusters() {
    let import = Regex::new(r"^use (?:std|jiff|strsim|crate|super)::").unwrap();
    let mut found = Vec::new();
    for (file, text) in product().iter().filter(|(name, _)| name.starts_with("src/text/")) {
        let lines = (1..).zip(text.lines()).filter(|(_, line)| line.starts_with("use ") && !import.is_match(line));
        found.extend(lines.map(|(at, line)| format!("{file}:{at}: {line}")));
    }
    assert_none(&found);
}

#[test]
fn documents_name_what_there_is() {
    const FOLDERS: &str = "src|crates|tests|docs|e2e|tools|integrations|matrix|schema|man|completions";
    let path = Regex::new(&format!(r"`((?:{FOLDERS})/[^`\s*]*)`")).unwrap();
    let mut found = Vec::new();
    for document in ["ARCHITECTURE.md", "CONTRIBUTING.md", "README.md", "SECURITY.md"] {
        let text = std::fs::read_to_string(root().join(document)).unwrap();
        for (at, line) in (1..).zip(text.lines()) {
            let paths = path.captures_iter(line).map(|it| it[1].to_owned());
            let missing = paths.filter(|path| !root().join(path).exists());
            found.extend(missing.map(|path| format!("{document}:{at}: there is no {path}")));
        }
    }
    assert_none(&found);
}

/// Whoever renames a test that stands for a promise renames it there, too.
#[test]
fn every_threat_has_a_test() {
    let attribute = Regex::new(r"#\[(?:tokio::)?test[^\n]*\]\s+(?:#\[[^\n]*\]\s+)*(?:async )?fn (\w+)\(").unwrap();
    let in_proptest = Regex::new(r"#\[test\]\s+fn (\w+)\(").unwrap();
    let mut tests = std::collections::BTreeSet::new();
    let mut folders = vec![root().join("src"), root().join("tests"), root().join("crates")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                let found = attribute.captures_iter(&text).chain(in_proptest.captures_iter(&text));
                tests.extend(found.map(|it| it[1].to_owned()));
            }
        }
    }
    let document = std::fs::read_to_string(root().join("SECURITY.md")).unwrap();
    let name = Regex::new("`([a-z0-9_]+)`").unwrap();
    let rows = (1..).zip(document.lines()).filter(|(_, line)| line.starts_with("| ")).skip(2);
    assert!(rows.clone().count() > 20);
    let mut found = Vec::new();
    for (at, row) in rows {
        let cell = row.trim_end_matches(" |").rsplit(" | ").next().unwrap();
        let named: Vec<String> = name.captures_iter(cell).map(|it| it[1].to_owned()).collect();
        if named.is_empty() {
            found.push(format!("SECURITY.md:{at}: the row names no test"));
        }
        let missing = named.into_iter().filter(|test| !tests.contains(test));
        found.extend(missing.map(|test| format!("SECURITY.md:{at}: there is no test {test}")));
    }
    assert_none(&found);
}
