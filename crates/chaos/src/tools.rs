//! The real talosctl and kubectl, which have to understand the proposed commands.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context as _;

use crate::advice::words;
use crate::run::{Said, finish};

/// Long enough for every answer. Queries to a machine that is down do not end, and are killed.
const LONG: Duration = Duration::from_secs(4);

/// Messages with which talosctl and kubectl reject a command's syntax, or report that the requested thing does not exist.
const MISUNDERSTOOD: &[&str] = &[
    "unknown flag",
    "unknown shorthand",
    "unknown command",
    "required flag",
    "accepts ",
    "requires at least",
    "requires at most",
    "flag needs an argument",
    "invalid argument",
    "the server doesn't have a resource type",
    "is not registered",
    "context was not found",
    "does not exist",
    "unable to parse",
    "must specify",
];

/// The folder of the tools, and the results of the commands that were tried.
pub(crate) struct Tools {
    folder: PathBuf,
    /// Results by kind of command.
    tried: Mutex<HashMap<String, Option<String>>>,
}

impl Tools {
    pub(crate) fn of(folder: PathBuf) -> Self {
        Self { folder, tried: Mutex::default() }
    }

    fn tried(&self) -> MutexGuard<'_, HashMap<String, Option<String>>> {
        self.tried.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs the proposed commands that only read, and has the arguments of those that change something parsed. Commands that differ only in
    /// the machine are tried once.
    pub(crate) fn try_all(&self, said: &Said, home: &Path) -> anyhow::Result<()> {
        for (kind, only_parse) in [("try", false), ("remedy", true)] {
            for command in said.proposed(kind) {
                let alike: String = said.translated(&command).chars().filter(|it| !it.is_ascii_digit()).collect();
                if self.tried().contains_key(&alike) {
                    continue;
                }
                let why = self.run(&command, only_parse, home).with_context(|| command.clone())?;
                self.tried().insert(alike, why.map(|why| format!("`{command}`: {why}")));
            }
        }
        Ok(())
    }

    /// Commands that were not understood, each with the tool's message.
    pub(crate) fn misunderstood(&self) -> Vec<String> {
        self.tried().values().flatten().cloned().collect()
    }

    pub(crate) fn count(&self) -> usize {
        self.tried().len()
    }

    /// Returns the error message if the tool does not understand the command.
    fn run(&self, command: &str, only_parse: bool, home: &Path) -> anyhow::Result<Option<String>> {
        // Anything more than one plain command needs a shell.
        let Ok(mut words) = words(command) else { return Ok(None) };
        if only_parse {
            words.push("--help".to_owned());
        }
        let program = self.folder.join(&words[0]);
        if !program.exists() {
            return Ok(None);
        }
        let mut command = Command::new(program);
        command.args(&words[1..]).env_clear().env("HOME", home);
        command.env("TALOSCONFIG", home.join("talosconfig")).env("KUBECONFIG", home.join("kubeconfig"));
        let said = finish(&mut command, LONG, None)?.stderr;
        let line = said.lines().find(|line| MISUNDERSTOOD.iter().any(|words| line.contains(words)));
        Ok(line.map(str::to_owned))
    }
}
