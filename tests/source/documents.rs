//! The documents are readable on GitHub: pages contain the files that they show, and links lead to files of the repository.

use std::path::{Component, Path, PathBuf};

use regex::{Captures, Regex};

use super::{assert_none, root};

/// Every Markdown file that people read, by its path in the repository.
fn documents() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut paths: Vec<PathBuf> = ["docs", "integrations", "e2e", "matrix", "crates"].map(|it| root().join(it)).into();
    let names = std::fs::read_dir(root()).unwrap().map(|entry| entry.unwrap().path());
    paths.extend(names.filter(|path| path.is_file()));
    while let Some(path) = paths.pop() {
        if path.is_dir() {
            paths.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|it| it == "md") && !path.ends_with("SUMMARY.md") {
            let text = std::fs::read_to_string(&path).unwrap();
            found.push((path.strip_prefix(root()).unwrap().to_owned(), text));
        }
    }
    found.sort();
    assert!(found.len() > 30, "{}", found.len());
    found
}

/// Returns the content of a page between `<!-- file: PATHS -->` and `<!-- end -->`. Several YAML files are joined.
fn shown(paths: &str) -> String {
    let paths: Vec<_> = paths.split(' ').map(|path| root().join(path)).collect();
    let texts: Vec<_> = paths.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
    let language = match paths[0].extension().and_then(|it| it.to_str()) {
        Some("yml" | "yaml") => "yaml",
        Some("groovy") | None => "groovy",
        Some(other) => panic!("{other}: which language is that?"),
    };
    format!("```{language}\n{}```\n", texts.join("---\n"))
}

/// `UPDATE=1` rewrites the pages.
#[test]
fn pages_show_the_files_that_they_name() {
    let block = Regex::new(r"(?s)(<!-- file: ([^\n]+?) -->\n).*?(<!-- end -->\n)").unwrap();
    let is_update = std::env::var_os("UPDATE").is_some();
    let (mut old, mut blocks) = (Vec::new(), 0);
    for (path, text) in documents() {
        blocks += block.find_iter(&text).count();
        let made = block.replace_all(&text, |it: &Captures<'_>| format!("{}{}{}", &it[1], shown(&it[2]), &it[3]));
        if is_update && made != text {
            std::fs::write(root().join(&path), made.as_bytes()).unwrap();
        } else if made != text {
            old.push(format!("{} is old: run the tests with UPDATE=1", path.display()));
        }
        if text.contains("{{#include") {
            old.push(format!("{}: GitHub shows an include as it is; use `<!-- file: … -->`", path.display()));
        }
    }
    assert!(blocks > 5, "{blocks}");
    assert_none(&old);
}

/// Normalizes `a/b/../c` to `a/c`; `None` outside of the repository.
fn normal(path: &Path) -> Option<PathBuf> {
    path.components().try_fold(PathBuf::new(), |mut made, part| match part {
        Component::ParentDir => made.pop().then_some(made),
        part => Some(made.join(part)),
    })
}

#[test]
fn links_lead_to_files_of_the_repository() {
    let link = Regex::new(r"\]\(([^)\s]+)\)").unwrap();
    let fenced = Regex::new(r"(?ms)^ *(````?)\w*\n.*?^ *````?$").unwrap();
    let (mut dead, mut links) = (Vec::new(), 0);
    for (document, text) in documents() {
        for found in link.captures_iter(&fenced.replace_all(&text, "")) {
            let target = found[1].split('#').next().unwrap();
            if target.is_empty() || target.contains("://") {
                continue;
            }
            links += 1;
            let path = normal(&document.parent().unwrap().join(target));
            if path.is_none_or(|path| !root().join(path).exists()) {
                dead.push(format!("{}: {target}", document.display()));
            }
        }
    }
    assert!(links > 100, "{links}");
    assert_none(&dead);
}

/// The README fits on the first screen, so that it can be read at once.
#[test]
fn the_readme_is_short() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    assert!(readme.lines().count() <= 150, "{} lines", readme.lines().count());
    let samples = readme.split("```text\n").skip(1).map(|it| it.split("```").next().unwrap().lines().count());
    assert!(samples.clone().count() == 2 && samples.sum::<usize>() <= 20);
}
