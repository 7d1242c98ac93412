//! A copy of the repository that contains all mutants, and its compilation.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::list::Mutant;
use crate::text::Woven;
use crate::weave::{alone, weave};

const SWITCH: &str = include_str!("switch.rs.in");
/// Errors from replacements of the wrong type, which no other notation would fix. Any other error may be caused by the weaving.
const NO_REPLACEMENT: [&str; 8] = ["E0277", "E0282", "E0283", "E0308", "E0369", "E0425", "E0433", "E0599"];

pub(crate) struct Tree {
    root: PathBuf,
    copy: PathBuf,
    target: PathBuf,
    /// The initial contents, regardless of edits while the tests run.
    sources: BTreeMap<String, Vec<u8>>,
}

/// Mutants that are not in the common binary.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct LeftOut {
    /// Hash of the sources for which this was determined.
    hash: u64,
    pub(crate) unviable: BTreeSet<usize>,
    /// Possibly viable mutants that need a separate build each.
    pub(crate) alone: BTreeSet<usize>,
}

impl LeftOut {
    pub(crate) fn contains(&self, id: usize) -> bool {
        self.unviable.contains(&id) || self.alone.contains(&id)
    }

    fn len(&self) -> usize {
        self.unviable.len() + self.alone.len()
    }
}

/// A compiler error.
struct Complaint {
    code: String,
    rendered: String,
    file: String,
    range: Range<usize>,
}

impl Tree {
    pub(crate) fn new(root: &Path) -> anyhow::Result<Self> {
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
        Ok(Self { root: root.to_owned(), copy: target.join("mutants/tree"), target, sources: sources(root)? })
    }

    /// The directory for results.
    pub(crate) fn folder(&self) -> PathBuf {
        self.target.join("mutants")
    }

    /// The directory in which tests run.
    pub(crate) fn copy(&self) -> &Path {
        &self.copy
    }

    /// Weaves all mutants in, and leaves out those that do not compile until the rest does.
    pub(crate) fn build(&self, mutants: &[Mutant]) -> anyhow::Result<(PathBuf, LeftOut)> {
        let hash = hash(&self.sources);
        let remembered = std::fs::read(self.remembered()).ok().and_then(|text| serde_json::from_slice(&text).ok());
        let mut out: LeftOut = remembered.filter(|it: &LeftOut| it.hash == hash).unwrap_or_default();
        out.hash = hash;
        loop {
            let mut files = self.sources.clone();
            let mut woven: BTreeMap<&str, Woven> = BTreeMap::new();
            for file in mutants.iter().map(|mutant| mutant.file.as_str()).collect::<BTreeSet<_>>() {
                let is_in = |(id, mutant): &(usize, &Mutant)| mutant.file == file && !out.contains(*id);
                let wanted: Vec<(usize, &Mutant)> = mutants.iter().enumerate().filter(is_in).collect();
                let outcome = weave(text_of(&self.sources, file)?, &wanted).with_context(|| file.to_owned())?;
                out.unviable.extend(outcome.unviable);
                out.alone.extend(outcome.alone);
                files.insert(file.to_owned(), outcome.woven.text.clone().into_bytes());
                woven.insert(file, outcome.woven);
            }
            self.write(files)?;
            let complaints = match self.compile()? {
                Ok(binary) => {
                    self.remember(&out)?;
                    return Ok((binary, out));
                }
                Err(complaints) => complaints,
            };
            let before = out.len();
            for complaint in &complaints {
                let at = woven.get(complaint.file.as_str()).map_or(&[][..], |woven| woven.mutants_at(&complaint.range));
                let is_about_types = NO_REPLACEMENT.contains(&complaint.code.as_str());
                match at {
                    [only] if is_about_types => drop(out.unviable.insert(*only)),
                    // The responsible mutant is unknown. The first one is the most likely to be valid.
                    [_, others @ ..] if !others.is_empty() => out.alone.extend(others),
                    _ => out.alone.extend(at),
                }
            }
            if out.len() == before {
                let first = complaints.first().map_or("no message", |complaint| complaint.rendered.as_str());
                bail!("it does not compile, and no mutant explains why: {first}");
            }
        }
    }

    fn remembered(&self) -> PathBuf {
        self.folder().join("left-out.json")
    }

    /// Saves the result for the next run on the same sources, because determining it takes several builds.
    pub(crate) fn remember(&self, out: &LeftOut) -> anyhow::Result<()> {
        Ok(std::fs::write(self.remembered(), serde_json::to_vec(out)?)?)
    }

    /// Builds a binary with only this mutant; `None` if it does not compile.
    pub(crate) fn build_alone(&self, mutant: &Mutant) -> anyhow::Result<Option<PathBuf>> {
        let mut files = self.sources.clone();
        let mutated = alone(text_of(&files, &mutant.file)?, mutant)?;
        files.insert(mutant.file.clone(), mutated.into_bytes());
        self.write(files)?;
        Ok(self.compile()?.ok())
    }

    /// Makes the copy contain exactly these files. Unchanged files keep their timestamps, so that cargo rebuilds little.
    fn write(&self, files: BTreeMap<String, Vec<u8>>) -> anyhow::Result<()> {
        for path in files_below(&self.copy)? {
            let name = path.strip_prefix(&self.copy)?.to_string_lossy().into_owned();
            if !files.contains_key(&name) {
                std::fs::remove_file(&path).with_context(|| path.display().to_string())?;
            }
        }
        for (name, content) in files {
            let path = self.copy.join(name);
            if std::fs::read(&path).is_ok_and(|present| present == content) {
                continue;
            }
            if let Some(folder) = path.parent() {
                std::fs::create_dir_all(folder)?;
            }
            std::fs::write(&path, content).with_context(|| path.display().to_string())?;
            if let Ok(meta) = std::fs::metadata(self.root.join(path.strip_prefix(&self.copy)?)) {
                std::fs::set_permissions(&path, meta.permissions())?;
            }
        }
        Ok(())
    }

    /// Returns the test binary, or the compiler errors.
    fn compile(&self) -> anyhow::Result<Result<PathBuf, Vec<Complaint>>> {
        let mut command = Command::new("cargo");
        command.args(["test", "--locked", "--bin", "cluster-health", "--no-run", "--message-format=json"]);
        // Optimized, because the tests run thousands of times.
        command.args(["--config", "profile.dev.package.cluster-health.opt-level=1"]);
        command.args(["--config", "profile.dev.package.cluster-health.debug=false"]);
        command.current_dir(&self.copy).env("CARGO_TARGET_DIR", &self.target);
        // Build artifacts are shared, because the repository uses the same path.
        command.env("PROTOC", self.root.join("tools/protoc"));
        let output = command.output().context("cargo test")?;
        let mut binary = None;
        let mut complaints = Vec::new();
        for line in output.stdout.split(|byte| *byte == b'\n') {
            let Ok(message) = serde_json::from_slice::<Value>(line) else { continue };
            if message["reason"] == "compiler-message" {
                complaints.extend(complaint(&message["message"]));
            } else if message["reason"] == "compiler-artifact" && message["target"]["name"] == "cluster-health" {
                binary = message["executable"].as_str().map(PathBuf::from);
            }
        }
        match binary {
            Some(binary) if output.status.success() => Ok(Ok(binary)),
            _ if complaints.is_empty() => bail!("cargo test: {}", String::from_utf8_lossy(&output.stderr)),
            _ => Ok(Err(complaints)),
        }
    }
}

/// Returns the files of the repository, including uncommitted ones, and the switch.
fn sources(root: &Path) -> anyhow::Result<BTreeMap<String, Vec<u8>>> {
    let mut command = Command::new("git");
    command.current_dir(root).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let output = command.output().context("git ls-files")?;
    let names = String::from_utf8(output.stdout).context("git ls-files")?;
    let mut files = BTreeMap::new();
    for name in names.split_terminator('\0') {
        // Deleted files that are not committed yet are listed, too.
        if let Ok(content) = std::fs::read(root.join(name)) {
            files.insert(name.to_owned(), content);
        }
    }
    let main = text_of(&files, "src/main.rs")?.replacen("\nmod ", "\nmod mutant;\nmod ", 1);
    files.insert("src/main.rs".to_owned(), main.into_bytes());
    files.insert("src/mutant.rs".to_owned(), SWITCH.as_bytes().to_vec());
    Ok(files)
}

/// Hashes the program and the weaving. Tests are left out, because they do not affect whether a mutant compiles.
fn hash(files: &BTreeMap<String, Vec<u8>>) -> u64 {
    let mut hasher = DefaultHasher::new();
    let is_program =
        |name: &str| (name.starts_with("src/") && !name.contains("test")) || name.starts_with("crates/mutants/src/");
    files.iter().filter(|(name, _)| is_program(name)).for_each(|file| file.hash(&mut hasher));
    hasher.finish()
}

fn text_of<'a>(files: &'a BTreeMap<String, Vec<u8>>, name: &str) -> anyhow::Result<&'a str> {
    let content = files.get(name).with_context(|| format!("no {name} in the repository"))?;
    std::str::from_utf8(content).with_context(|| name.to_owned())
}

/// Returns the location of an error; `None` for warnings and summaries.
fn complaint(message: &Value) -> Option<Complaint> {
    let spans = message["spans"].as_array()?;
    let span = spans.iter().find(|span| span["is_primary"] == true)?;
    if message["level"] != "error" {
        return None;
    }
    let byte = |key: &str| span[key].as_u64().and_then(|byte| usize::try_from(byte).ok());
    Some(Complaint {
        code: message["code"]["code"].as_str().unwrap_or_default().to_owned(),
        rendered: message["rendered"].as_str().unwrap_or_default().to_owned(),
        file: span["file_name"].as_str()?.to_owned(),
        range: byte("byte_start")?..byte("byte_end")?,
    })
}

fn files_below(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for entry in entries {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            } else {
                files.push(entry.path());
            }
        }
    }
    Ok(files)
}
