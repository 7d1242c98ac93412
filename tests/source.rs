//! Rules for the source itself: which module may use which, that names are not compared as strings, and that documents only name existing
//! files.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[path = "source/documents.rs"]
mod documents;

use std::path::Path;

use regex::{Captures, Regex};

/// Rooms from the bottom up; each with the rooms that it may use.
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
    ("rollout", &["text", "model", "snapshot", "assess", "checks"]),
    // `-vv` shows the assessment.
    ("report", &["text", "model", "snapshot", "assess", "checks", "diagnosis", "engine", "rollout"]),
    ("cli", &["text", "report"]),
    // Completions read the names of contexts.
    ("commands", &["text", "model", "snapshot", "config", "checks", "diagnosis", "report", "cli"]),
    ("plan", &["text", "model", "snapshot", "config", "observe", "checks", "engine", "report", "cli"]),
    ("signals", &["model"]),
    ("run", &["text", "model", "snapshot", "config", "observe", "engine", "report", "plan", "signals"]),
    // The TLS provider of the process is configuration.
    ("main", &["text", "model", "config", "cli", "commands", "plan", "run"]),
];

/// The modules of `src/checks`. The three protocols do not depend on each other; code that two of them need is below them.
const CHECKS: &[(&str, &[&str])] = &[
    ("gaps", &[]),
    ("scope", &["gaps"]),
    ("stated", &[]),
    ("order", &[]),
    ("talos", &["gaps", "scope", "stated"]),
    ("etcd", &["gaps", "scope", "stated"]),
    ("kubernetes", &["gaps", "scope", "stated"]),
    // The running versions come from `kubernetes`, and etcd's members from `etcd`.
    ("upgrade", &["gaps", "scope", "stated", "etcd", "kubernetes"]),
    ("policy", &["stated"]),
    ("require", &["gaps"]),
    ("accept", &[]),
    ("allowance", &["scope"]),
    ("evidence", &["gaps"]),
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
    let is_test = |name: &str| ["test", "fixture"].iter().any(|part| name.contains(part));
    let product = rust(&["src"]).into_iter().filter(|(name, _)| !is_test(name));
    let without_tests = |text: String| text.split("#[cfg(test)]\nmod tests {").next().unwrap().to_owned();
    product.map(|(name, text)| (name, without_tests(text))).collect()
}

/// Returns every Rust file in these folders, with its path.
fn rust(folders: &[&str]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders: Vec<_> = folders.iter().map(|folder| root().join(folder)).collect();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push((name, std::fs::read_to_string(&path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

/// A check is a `CheckId`. Code that compares its name with a string breaks silently when the check is renamed.
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
    let import = Regex::new(r"^use (?:std|console|jiff|jsonpath_rust|serde_json|strsim|crate|super)::").unwrap();
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

/// A renamed test must also be renamed in the document whose promise it proves.
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
    let is_row = |line: &str| line.starts_with("| ") && !line.ends_with("| tests |") && !line.starts_with("| ---");
    let rows = (1..).zip(document.lines()).filter(|(_, line)| is_row(line));
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

/// Returns every string literal of the product that is prose, by file: all text for users, including the comments of options.
fn literals() -> Vec<(String, usize, String)> {
    const OPTIONS: &str = "src/cli.rs";
    let token = Regex::new(r##"(?s)//[^\n]*|r#".*?"#|"((?:[^"\\]|\\.)*)"|'(?:[^'\\]|\\.)'"##).unwrap();
    let continued = Regex::new(r"\\\n\s*").unwrap();
    let mut found = Vec::new();
    for (file, text) in product() {
        for it in token.captures_iter(&text) {
            let whole = it.get(0).unwrap();
            let help = || whole.as_str().strip_prefix("/// ").filter(|_| file == OPTIONS);
            let Some(words) = it.get(1).map(|it| it.as_str()).or_else(help) else { continue };
            let words = continued.replace_all(words, "");
            // Reasons for lint exceptions are not for users.
            let is_ours = text[..whole.start()].ends_with("reason = ");
            if words.trim().contains(' ') && words.contains(char::is_alphabetic) && !is_ours {
                let line = text[..whole.start()].matches('\n').count() + 1;
                found.push((file.clone(), line, words.into_owned()));
            }
        }
    }
    found.sort();
    found
}

/// Readers in the middle of the night know Kubernetes' and Talos's own terms, and may not be native speakers.
#[test]
fn users_read_established_words() {
    const FORBIDDEN: &str = "told|asked|nobody|somebody|anew|mend|mends|mended|whose|lives|hangs on|stands? still|\
has not missed|way out|begin with:|does not do|so many members|judged?|switched o(?:n|ff)|passed over|host name|half way|for ever|\
gone for good|(?:is|are) well|this program";
    let forbidden = Regex::new(&format!(r"(?i)\b(?:{FORBIDDEN})\b")).unwrap();
    // Text in braces consists of internal names.
    let placeholder = Regex::new(r"\{\w*(?::[^}]*)?\}").unwrap();
    let mut found = Vec::new();
    for (file, line, words) in literals() {
        let words = placeholder.replace_all(&words, "");
        found.extend(forbidden.find_iter(&words).map(|it| format!("{file}:{line}: `{}` in: {words}", it.as_str())));
    }
    assert_none(&found);
}

/// American spelling, as in Kubernetes and Talos.
#[test]
fn spelling_is_american() {
    let roots = ["colo", "behavio", "neighbo", "favo", "hono"].map(|root| format!("{root}u[r]"));
    let ise = "(?:recogn|initial|author|synchron|organ|normal|serial|neutral|summar|optim|util)is(?:e|ing|ation)";
    let british =
        format!("(?i){}|{ise}|catalog[u]e|judg[e]ment|art[e]fact|label[l]ed\\b|dial[l]|licen[c]e", roots.join("|"));
    let british = Regex::new(&british).unwrap();
    let mut found = Vec::new();
    let mut paths: Vec<_> =
        ["src", "tests", "docs", "integrations", "matrix", "crates", "e2e/scenarios", "schema", "tools"]
            .map(|folder| root().join(folder))
            .into();
    paths.extend(
        ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "Makefile"].map(|it| root().join(it)),
    );
    while let Some(path) = paths.pop() {
        let name = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
        // Files by other authors.
        let is_foreign = ["/proto", "/src/gen", "node_modules", "package-lock.json"].iter().any(|it| name.contains(it));
        if is_foreign || name == "tests/source.rs" {
            continue;
        }
        if path.is_dir() {
            paths.extend(std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else if let Ok(text) = std::fs::read_to_string(&path) {
            let lines = (1..).zip(text.lines()).filter(|(_, line)| british.is_match(line));
            found.extend(lines.map(|(at, line)| format!("{name}:{at}: {}", line.trim())));
        }
    }
    assert_none(&found);
}

/// Collects all strings in one file, so that they can be read at once and a review shows changed wording. `UPDATE=1` rewrites it.
#[test]
fn strings_are_collected() {
    let mut made = String::from(
        "Every string of the program that is prose, by the file that it comes from; made by tests/source.rs.\n",
    );
    let mut last = String::new();
    for (file, _, words) in literals() {
        if file != last {
            made.extend(["\n## ", &file, "\n\n"]);
            last = file;
        }
        made.extend(["- ", words.replace("\\n", "\n  ").replace("\n  \n", "\n\n").trim_end(), "\n"]);
    }
    let path = root().join("docs/strings.txt");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == made, "docs/strings.txt is old: run the tests with UPDATE=1");
}

/// New standings, lives or kinds of serving need a decision wherever these are distinguished, so no arm may cover the rest.
#[test]
fn no_arm_stands_for_the_rest_of_the_world() {
    let names = Regex::new(r"^\s*\|?\s*(?:Some\(|Self::)*(?:Excuse|Standing|NotJudged|Life|Serving|Why)::\w+").unwrap();
    let own = ["src/assess/life.rs", "src/assess/need.rs", "src/assess/standing.rs", "src/assess/serving.rs"];
    let of_self = Regex::new(r"^\s*\|?\s*Self::\w+").unwrap();
    let indentation = |line: &str| line.len() - line.trim_start().len();
    let mut found = Vec::new();
    let mut arms = 0;
    for (file, text) in product() {
        let lines: Vec<&str> = text.lines().collect();
        let is_arm = |line: &&&str| names.is_match(line) || own.contains(&file.as_str()) && of_self.is_match(line);
        for (at, line) in lines.iter().enumerate().filter(|(_, line)| is_arm(line) && line.contains("=>")) {
            arms += 1;
            let is_within = |other: &&&str| other.trim().is_empty() || indentation(other) >= indentation(line);
            let mut others =
                lines[at..].iter().take_while(is_within).filter(|other| indentation(other) == indentation(line));
            found.extend(
                others
                    .find(|other| other.trim_start().starts_with("_ "))
                    .map(|_| format!("{file}:{}: {}", at + 1, line.trim())),
            );
        }
    }
    assert!(arms > 20, "{arms}");
    assert_none(&found);
}

/// Doc comments are read next to a name, often without the lines around it, so they do not open with a word that refers to something else.
#[test]
fn doc_comments_can_be_understood_alone() {
    const ROOMS: [&str; 6] = [
        "src/assess/",
        "src/checks/",
        "src/observe/join.rs",
        "src/observe/nodes.rs",
        "src/observe/population.rs",
        "src/snapshot/kubernetes.rs",
    ];
    const POINTING: &str = "Another|As|At|Both|By|For|From|He|In|It|Its|Neither|Nobody|Nothing|Of|On|One|Other|Others|\
                            Some|Such|That|Their|Them|There|These|They|This|Those|To|Whatever|Which|Who|Whoever|Whom|Whose|\
                            With|Without";
    let opening = Regex::new(&format!(r"^\s*///\s*`?(?:{POINTING})\b")).unwrap();
    let is_comment = |line: &str| line.trim_start().starts_with("///");
    let mut found = Vec::new();
    for (file, text) in product().into_iter().filter(|(file, _)| ROOMS.iter().any(|room| file.starts_with(room))) {
        let mut before = "";
        for (at, line) in text.lines().enumerate() {
            if opening.is_match(line) && !is_comment(before) {
                found.push(format!("{file}:{}: {}", at + 1, line.trim()));
            }
            before = line;
        }
    }
    assert_none(&found);
}

/// Comments read as sentences of their own. Openings such as these are the mark of a translation.
#[test]
fn comments_open_with_a_subject() {
    const OPENINGS: &str = "What|Whatever|Whoever|Whose|Whom|Where|Of|It|That|Those|Such|The same|So|With|By|As|How|Who|Which|Beside|\
                            Nobody|Somebody";
    let opening = Regex::new(&format!(r"^\s*//[/!]?\s+(?:{OPENINGS})\b")).unwrap();
    let is_comment = |line: &str| line.trim_start().starts_with("//");
    let mut found = Vec::new();
    for (file, text) in rust(&["src", "crates", "tests"]) {
        let lines: Vec<&str> = text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            if opening.is_match(line) && !at.checked_sub(1).is_some_and(|before| is_comment(lines[before])) {
                found.push(format!("{file}:{}: {}", at + 1, line.trim()));
            }
        }
    }
    assert_none(&found);
}

/// Checks that read Kubernetes objects as they were listed: for properties that only they need (conditions, taints, containers, budgets),
/// or to name them. `src/assess` determines the state of machines, pods and endpoints. No other check reads objects, and a check that no
/// longer does is removed from this list.
#[test]
fn no_further_check_reads_objects_as_they_were_listed() {
    const READ: [&str; 21] = [
        "evidence.rs",
        "kubernetes/daemon_sets.rs",
        "kubernetes/dns.rs",
        "kubernetes/mod.rs",
        "kubernetes/nodes.rs",
        "kubernetes/pressure.rs",
        "kubernetes/scheduling.rs",
        "kubernetes/servers.rs",
        "kubernetes/serving.rs",
        "kubernetes/starting.rs",
        "kubernetes/static_pods.rs",
        "kubernetes/system.rs",
        "kubernetes/versions.rs",
        "kubernetes/webhooks.rs",
        "kubernetes/workloads.rs",
        "talos/clock.rs",
        "upgrade/drain.rs",
        "upgrade/mod.rs",
        "upgrade/places.rs",
        "upgrade/quorum.rs",
        "upgrade/room.rs",
    ];
    let import = Regex::new(r"(?s)\nuse crate::snapshot::(\{.*?\}|\w+);").unwrap();
    let raw = Regex::new(r"\b(?:KubeNode|Pod|BoundPod|Lease|Leases|ServiceEndpoint|Snapshot)\b").unwrap();
    let reads = |text: &str| import.captures_iter(text).any(|it| raw.is_match(&it[1]));
    let files = product().into_iter().filter_map(|(file, text)| {
        let check = file.strip_prefix("src/checks/")?.to_owned();
        reads(&text).then_some(check)
    });
    let mut found: Vec<String> = files.collect();
    found.sort();
    assert_eq!(found, READ);
}

/// The check in CONTRIBUTING.md exists in the source, so it compiles.
#[test]
fn the_sample_check_is_a_real_one() {
    let contributing = std::fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap();
    let sample = contributing.split("```rust\n").nth(1).unwrap().split("```").next().unwrap();
    let source = std::fs::read_to_string(root().join("src/checks/talos/machine.rs")).unwrap();
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let code = |line: &str| line.split(" // ").next().unwrap().trim().to_owned();
    let is_there = |line: &String| match line.split_once('…') {
        Some((begin, _)) => lines.iter().any(|it| it.starts_with(begin)),
        None => lines.contains(&line.as_str()),
    };
    let strange: Vec<String> = sample.lines().map(code).filter(|line| !is_there(line)).collect();
    assert!(sample.contains("judge: memory"), "{sample}");
    assert_none(&strange);
}
