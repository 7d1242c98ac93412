//! Mutation testing of the judges, within minutes: all mutants that cargo-mutants lists are compiled into one test binary, each behind a
//! switch, and the tests run once for each of them. Each survivor is either in `accepted.toml`, with a reason, or needs a test.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a tool of development, whose result is its output")]

mod accepted;
mod arms;
mod list;
mod text;
mod tree;
mod trial;
mod weave;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::Parser;

use crate::accepted::Accepted;
use crate::list::Mutant;
use crate::tree::Tree;
use crate::trial::Trial;

#[derive(Parser)]
struct Options {
    /// Run only mutants whose line in the list contains one of these texts: a file, a function, a change
    #[arg(long, value_name = "TEXT", num_args = 1..)]
    only: Vec<String>,
    /// Run only mutants that survived the last run
    #[arg(long)]
    again: bool,
    /// Number of concurrent runs
    #[arg(long, value_name = "NUMBER", default_value_t = 2)]
    jobs: usize,
}

fn main() -> anyhow::Result<ExitCode> {
    let options = Options::parse();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
    let accepted = Accepted::read(&root.join("crates/mutants/accepted.toml"))?;
    let tree = Tree::new(&root)?;
    let mutants = list::all(&root)?;
    let last = tree.folder().join("survivors.txt");
    let chosen = choose(&options, &mutants, &last)?;

    eprintln!("{} mutants, {} to run; building", mutants.len(), chosen.len());
    let (binary, mut out) = tree.build(&mutants)?;
    let binary = trial::keep(&binary, &tree.folder())?;
    let trial = Trial { binary: &binary, folder: tree.copy() };
    if !trial.survives(None)? {
        bail!("the tests fail without any mutant");
    }
    let ids: Vec<usize> = chosen.iter().copied().filter(|id| !out.contains(*id)).collect();
    let told = |done: usize, survivor: Option<usize>| {
        if let Some(mutant) = survivor.map(|id| &mutants[id]).filter(|mutant| !accepted.contains(mutant)) {
            eprintln!("survives: {}", mutant.name);
        }
        if done.is_multiple_of(100) || done == ids.len() {
            eprintln!("{done} of {}", ids.len());
        }
    };
    let mut survivors = trial.survivors(&ids, options.jobs, told)?;
    for id in out.alone.clone().intersection(&chosen) {
        eprintln!("by itself: {}", mutants[*id].name);
        match tree.build_alone(&mutants[*id])? {
            Some(binary) if (Trial { binary: &binary, folder: tree.copy() }).survives(None)? => survivors.push(*id),
            Some(_) => {}
            None => {
                out.alone.remove(id);
                out.unviable.insert(*id);
            }
        }
    }
    survivors.sort_unstable();
    tree.remember(&out)?;

    let keys =
        |ids: &mut dyn Iterator<Item = &usize>| ids.map(|id| mutants[*id].key.clone() + "\n").collect::<String>();
    std::fs::write(&last, keys(&mut survivors.iter()))?;
    std::fs::write(tree.folder().join("unviable.txt"), keys(&mut out.unviable.iter()))?;
    let wanted: Vec<&Mutant> =
        survivors.iter().map(|id| &mutants[*id]).filter(|mutant| !accepted.contains(mutant)).collect();
    for mutant in &wanted {
        println!("{}\n    {}", mutant.name, mutant.key);
    }
    let stale = if chosen.len() == mutants.len() {
        accepted.stale(&mutants, |id| survivors.binary_search(&id).is_ok())
    } else {
        Vec::new()
    };
    for (key, why) in &stale {
        println!("accepted.toml: {why}: {key}");
    }
    let run = chosen.difference(&out.unviable).count();
    println!(
        "{run} run, {} not viable, {} survived, {} of them not accepted",
        chosen.len() - run,
        survivors.len(),
        wanted.len()
    );
    Ok(if wanted.is_empty() && stale.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns the ids of the requested mutants.
fn choose(options: &Options, mutants: &[Mutant], last: &PathBuf) -> anyhow::Result<BTreeSet<usize>> {
    let survived: Option<BTreeSet<String>> = if options.again {
        let text = std::fs::read_to_string(last).with_context(|| last.display().to_string())?;
        Some(text.lines().map(str::to_owned).collect())
    } else {
        None
    };
    let is_chosen = |mutant: &Mutant| {
        (options.only.is_empty() || options.only.iter().any(|text| mutant.name.contains(text)))
            && survived.as_ref().is_none_or(|survived| survived.contains(&mutant.key))
    };
    let chosen: BTreeSet<usize> =
        mutants.iter().enumerate().filter(|(_, mutant)| is_chosen(mutant)).map(|(id, _)| id).collect();
    if chosen.is_empty() {
        bail!("no mutant is meant");
    }
    Ok(chosen)
}
