//! Shell completions: the shell runs the program itself to complete a word, so that contexts come from the files in use.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use clap_complete::Shell;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use clap_complete::env::{CompleteEnv, Shells};

use crate::config::{Environment, kube_sources, talosconfig};

/// Variable that only the shell's script sets.
const VARIABLE: &str = "CLUSTER_HEALTH_COMPLETE";
const NAME: &str = "cluster-health";

/// Returns the script that a shell reads once. Empty for a shell that the engine does not support; clap's list has no such shell.
pub(super) fn script(shell: Shell) -> io::Result<Vec<u8>> {
    let mut script = Vec::new();
    if let Some(completer) = Shells::builtins().completer(&shell.to_string()) {
        completer.write_registration(VARIABLE, NAME, NAME, NAME, &mut script)?;
    }
    Ok(script)
}

/// Answers a completion request of a shell and ends the process; returns at once in every other run.
pub(crate) fn answer() {
    CompleteEnv::with_factory(super::command).var(VARIABLE).bin(NAME).completer(NAME).complete();
}

pub(super) fn with_contexts(command: clap::Command) -> clap::Command {
    let offered =
        |names: Vec<String>| names.into_iter().filter(|name| is_plain(name)).map(CompletionCandidate::new).collect();
    let of_talos = ArgValueCandidates::new(move || {
        let file = typed("talosconfig");
        offered(talosconfig::contexts(file.as_deref(), &Environment::of_process()))
    });
    let of_kubernetes = ArgValueCandidates::new(move || {
        offered(kube_sources::contexts(typed("kubeconfig"), &Environment::of_process()))
    });
    command.mut_arg("context", |arg| arg.add(of_talos)).mut_arg("kube_context", |arg| arg.add(of_kubernetes))
}

/// Whether a name can be offered. bash puts it on the line unquoted, so a name that a shell or a terminal would act on has to be typed.
fn is_plain(name: &str) -> bool {
    !name.starts_with('-') && name.chars().all(|c| c.is_alphanumeric() || "-_.@:/+=,".contains(c))
}

/// Returns the file that an option earlier on the line names, or that its variable names.
fn typed(option: &str) -> Option<PathBuf> {
    let home = std::env::var_os("HOME");
    let variable = std::env::var_os(format!("CLUSTER_HEALTH_{}", option.to_uppercase()));
    let named = value_of(&format!("--{option}"), std::env::args_os()).or_else(|| variable.filter(|it| !it.is_empty()));
    named.map(|path| at_home(Path::new(&path), home.as_deref().map(Path::new)))
}

fn value_of(option: &str, words: impl IntoIterator<Item = OsString>) -> Option<OsString> {
    let mut words = words.into_iter();
    let mut last = None;
    while let Some(word) = words.next() {
        if word == option {
            last = words.next();
        } else if let Some(value) = word.to_str().and_then(|word| word.strip_prefix(option)?.strip_prefix('=')) {
            last = Some(value.into());
        }
    }
    last
}

/// Replaces `~`, which a shell has not expanded yet during completion.
fn at_home(path: &Path, home: Option<&Path>) -> PathBuf {
    match (path.strip_prefix("~"), home) {
        (Ok(rest), Some(home)) => home.join(rest),
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shell_has_a_script() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::Elvish, Shell::PowerShell] {
            let script = String::from_utf8(script(shell).unwrap()).unwrap();
            assert!(script.contains(VARIABLE) && script.contains(NAME), "{shell}: {script}");
        }
    }

    #[test]
    fn names_that_a_shell_would_act_on_are_not_offered() {
        assert!(is_plain("admin@prod.example:6443/a-b_c"));
        for name in ["$(id)", "a b", "a;b", "`id`", "-x", "e\u{1b}[2J", "a'b"] {
            assert!(!is_plain(name), "{name}");
        }
    }

    #[test]
    fn the_file_of_the_line_is_the_one_that_is_read() {
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        let value = |line| value_of("--kubeconfig", words(line));
        assert_eq!(value("cluster-health --kubeconfig a --kube-context "), Some("a".into()));
        assert_eq!(value("cluster-health --kubeconfig=b"), Some("b".into()));
        assert_eq!(value("cluster-health --kubeconfigs=b"), None);
        assert_eq!(at_home(Path::new("~/x"), Some(Path::new("/home/me"))), Path::new("/home/me/x"));
        assert_eq!(at_home(Path::new("x"), Some(Path::new("/home/me"))), Path::new("x"));
    }
}
