//! The mutants from `cargo mutants --list`, whose operators are the standard in the field, and the additional ones of `arms.rs`.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail};
use serde::Deserialize;

use crate::arms;

/// The code that decides the verdict, and the code that explains it.
const FILES: [&str; 4] = ["src/assess/**", "src/checks/**", "src/diagnosis/**", "src/engine/**"];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
pub(crate) enum Genre {
    FnValue,
    BinaryOperator,
    UnaryOperator,
    MatchArm,
    MatchArmGuard,
    StructField,
    /// From `arms.rs`.
    ArmOutcome,
}

/// A position, counted from one, in characters.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct Place {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct Span {
    pub(crate) start: Place,
    pub(crate) end: Place,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Mutant {
    pub(crate) file: String,
    /// `FILE:LINE:COLUMN: CHANGE`
    pub(crate) name: String,
    pub(crate) genre: Genre,
    pub(crate) replacement: String,
    pub(crate) span: Span,
    /// `FILE: CHANGE: CODE`, which stays the same when lines are added elsewhere.
    #[serde(skip)]
    pub(crate) key: String,
}

impl Mutant {
    fn change(&self) -> &str {
        self.name.splitn(4, ':').nth(3).unwrap_or(&self.name).trim()
    }
}

/// Returns all mutants of the tree at `root`; a mutant's id is its index in the result.
pub(crate) fn all(root: &Path) -> anyhow::Result<Vec<Mutant>> {
    let mut command = Command::new("cargo");
    command.current_dir(root).args(["mutants", "--list", "--json"]);
    for file in FILES {
        command.args(["-f", file]);
    }
    let output = command.output().context("cargo mutants")?;
    if !output.status.success() {
        bail!("cargo mutants: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let mut mutants: Vec<Mutant> = serde_json::from_slice(&output.stdout).context("the list of cargo mutants")?;
    let mut sources = HashMap::new();
    for mutant in &mutants {
        if !sources.contains_key(&mutant.file) {
            let source = std::fs::read_to_string(root.join(&mutant.file)).with_context(|| mutant.file.clone())?;
            sources.insert(mutant.file.clone(), source);
        }
    }
    let files: BTreeSet<&String> = sources.keys().collect();
    for file in files {
        mutants.extend(arms::of(file, &sources[file]).with_context(|| file.clone())?);
    }
    name(&mut mutants, &sources);
    Ok(mutants)
}

/// Assigns each mutant its key; repeated changes on identical lines are numbered.
fn name(mutants: &mut [Mutant], sources: &HashMap<String, String>) {
    let mut seen: HashMap<String, usize> = HashMap::new();
    for mutant in mutants {
        let code = sources[&mutant.file].lines().nth(mutant.span.start.line - 1).unwrap_or_default().trim();
        let key = format!("{}: {}: {code}", mutant.file, mutant.change());
        let times = seen.entry(key.clone()).or_default();
        *times += 1;
        mutant.key = if *times == 1 { key } else { format!("{key} ({times})") };
    }
}
