//! Completions in the real shells: each reads the script that the program prints, and lists its candidates. PowerShell is not included,
//! because Debian does not package it; its script is clap's own as well.

use std::path::Path;

use crate::harness::{Outcome, tool};

/// A shell, and the way to complete the line `cluster-health LINE` in it, with the cursor at the last word.
struct Shell {
    name: &'static str,
    arguments: &'static [&'static str],
    /// `@WORDS@` stands for the words of the line, quoted; `@LINE@` for the line.
    ask: &'static str,
}

const SHELLS: [Shell; 4] = [
    Shell {
        name: "bash",
        arguments: &["--norc", "-c"],
        ask: r#"source <(cluster-health completions bash)
complete -p cluster-health > /dev/null || exit 9
COMP_WORDS=(@WORDS@); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); COMP_TYPE=9
_clap_complete_cluster_health cluster-health "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\n' "${COMPREPLY[@]}""#,
    },
    Shell {
        name: "zsh",
        arguments: &["-f", "-c"],
        // `_describe` shows the list, but only in a line editor.
        ask: r#"compdef() { :; }
source <(cluster-health completions zsh)
_describe() { print -l -- "${(@P)3}"; }
words=(@WORDS@); CURRENT=${#words}
_clap_dynamic_completer_cluster_health"#,
    },
    Shell {
        name: "fish",
        arguments: &["--no-config", "-c"],
        ask: "cluster-health completions fish | source; complete -C 'cluster-health @LINE@'",
    },
    Shell {
        name: "elvish",
        arguments: &["-norc", "-c"],
        // `edit:` only exists in a line editor.
        ask: r"var edit: = (ns [&completion:=(ns [&arg-completer=[&]])])
eval (cluster-health completions elvish | slurp) &ns=(ns [&edit:=$edit:])
$edit:completion:arg-completer[cluster-health] @WORDS@",
    },
];

fn in_path(name: &str) -> bool {
    std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).any(|folder| folder.join(name).exists())
}

/// Returns the shells that are installed here. CI has all of them (`tools/setup terminal`).
#[expect(clippy::print_stderr, reason = "says why a shell is left out")]
fn shells() -> impl Iterator<Item = &'static Shell> {
    SHELLS.iter().filter(|shell| {
        let is_here = in_path(shell.name);
        assert!(is_here || std::env::var_os("CI").is_none(), "{} is missing", shell.name);
        if !is_here {
            eprintln!("skipped: {} is not installed", shell.name);
        }
        is_here
    })
}

fn complete(shell: &Shell, line: &[&str]) -> Outcome {
    let words: Vec<String> = ["cluster-health"].iter().chain(line).map(|word| format!("'{word}'")).collect();
    let script = shell.ask.replace("@WORDS@", &words.join(" ")).replace("@LINE@", &line.join(" "));
    let folder = Path::new(env!("CARGO_BIN_EXE_cluster-health")).parent().unwrap();
    let path = std::env::var("PATH").unwrap();
    tool(shell.name)
        .file("talosconfig", "context: prod\ncontexts:\n  prod: {}\n  lab: {}\n  \"e\\e[2Jvil\": {}\n  $(id): {}\n")
        .file("kubeconfig", "contexts:\n- {name: admin@prod, context: {}}\n- {name: admin@lab, context: {}}\n")
        .env("PATH", format!("{}:{path}", folder.display()))
        .args(shell.arguments.iter().copied().chain([script.as_str()]))
        .run()
}

/// Asserts the candidates, without the descriptions that some shells display next to them.
#[track_caller]
fn offers(line: &[&str], expected: &[&str]) {
    for shell in shells() {
        let outcome = complete(shell, line);
        let offered: Vec<&str> =
            outcome.stdout.split(['\n', '\u{b}']).filter_map(|it| it.split(['\t', ':']).next()).collect();
        let offered: Vec<&str> = offered.into_iter().map(str::trim).filter(|it| !it.is_empty()).collect();
        assert_eq!(offered, expected, "{}: {}{}", shell.name, outcome.stdout, outcome.stderr);
    }
}

#[test]
fn contexts_come_from_the_files_of_the_line() {
    offers(&["--talosconfig", "talosconfig", "--context", ""], &["prod", "lab"]);
    offers(&["--talosconfig", "talosconfig", "--context", "l"], &["lab"]);
    offers(&["--kubeconfig=kubeconfig", "--kube-context", "admin@p"], &["admin@prod"]);
    offers(&["--talosconfig", "none", "--context", ""], &[]);
}

#[test]
fn ids_reasons_and_formats_are_offered() {
    offers(&["--check", "etcd.q"], &["etcd.quorum"]);
    offers(&["--skip", "node-r"], &["node-readiness"]);
    offers(&["--warn-only", "quorum-l"], &["quorum-lost"]);
    offers(&["explain", "quorum-l"], &["quorum-lost"]);
    offers(&["--output", "js"], &["json"]);
    offers(&["--level", "et"], &["etcd"]);
}
