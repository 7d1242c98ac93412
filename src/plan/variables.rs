//! The variables of options. A variable that looks like ours but belongs to no option is an error: with a letter missing, a gate would be
//! weaker than its author believes. A wrong value is reported with the variable that it comes from.

use std::collections::BTreeSet;
use std::env;

use clap::CommandFactory as _;

use super::{Usage, gone};
use crate::cli::Cli;
use crate::config::etcd;
use crate::observe;
use crate::text::nearest;

pub(super) const PREFIX: &str = "CLUSTER_HEALTH_";

/// Ensures that every variable with our prefix belongs to an option. `set`: the names of all variables that are not empty.
pub(crate) fn all_known<'a>(command: &clap::Command, set: impl IntoIterator<Item = &'a str>) -> Result<(), Usage> {
    let options = command.get_arguments().filter_map(|argument| argument.get_env()?.to_str());
    let others = observe::VARIABLES.iter().copied().chain(etcd::VARIABLES.map(|(name, _)| name));
    let known: BTreeSet<&str> = options.chain(others).collect();
    let ours: BTreeSet<&str> = set.into_iter().filter(|name| name.starts_with(PREFIX)).collect();
    let is_unknown = |name: &&&str| !known.contains(**name) && !is_of_service(name, &ours);
    let Some(name) = ours.iter().find(is_unknown) else { return Ok(()) };
    if let Some(usage) = gone::variable(name) {
        return Err(usage);
    }
    let usage = Usage::new(format!("no option has the variable `{name}`"));
    // The common prefix would make any two names look alike.
    let given = name.trim_start_matches(PREFIX);
    Err(match nearest(given, known.iter().map(|name| name.trim_start_matches(PREFIX))) {
        Some(nearest) => usage.hint(format!("did you mean `{PREFIX}{nearest}`?")),
        None => usage.hint("`cluster-health --help` shows the variable of each option"),
    })
}

/// Whether Kubernetes has set the variable: in a pod, it sets some for each Service of the namespace, and one may be named
/// `cluster-health-…`.
fn is_of_service(name: &str, set: &BTreeSet<&str>) -> bool {
    const HOST: &str = "_SERVICE_HOST";
    const PORTS: [&str; 2] = ["_SERVICE_PORT", "_PORT"];
    let is_port = |rest: &str| {
        PORTS.iter().filter_map(|port| rest.strip_prefix(port)).any(|more| more.is_empty() || more.starts_with('_'))
    };
    let services = set.iter().filter_map(|name| name.strip_suffix(HOST));
    services.filter_map(|service| name.strip_prefix(service)).any(|rest| rest == HOST || is_port(rest))
}

/// Returns the variable that set the option which a message is about; `None` if the option was typed.
pub(crate) fn origin(message: &str) -> Option<String> {
    let typed: Vec<String> = env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let is_set = |variable: &str| env::var_os(variable).is_some_and(|value| !value.is_empty());
    behind(message, &Cli::command(), &typed, is_set)
}

fn behind(message: &str, command: &clap::Command, typed: &[String], is_set: impl Fn(&str) -> bool) -> Option<String> {
    let is_word = |text: &str, option: &str| {
        text.match_indices(option).any(|(at, _)| {
            let next = text[at + option.len()..].chars().next();
            next.is_none_or(|next| !next.is_ascii_alphanumeric() && next != '-')
        })
    };
    let all = std::iter::once(command).chain(command.get_subcommands());
    all.flat_map(clap::Command::get_arguments).find_map(|argument| {
        let option = format!("--{}", argument.get_long()?);
        let variable = argument.get_env()?.to_str()?;
        let short = argument.get_short().map(|short| format!("-{short}"));
        let is_typed = |word: &String| {
            is_word(word, &option)
                || short.as_ref().is_some_and(|short| word.starts_with(short) && !word.starts_with("--"))
        };
        let is_meant = is_word(message, &option) && is_set(variable) && !typed.iter().any(is_typed);
        is_meant.then(|| format!("`{option}` is set by the variable {variable}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(set: &[&str]) -> Option<(String, Option<String>)> {
        all_known(&Cli::command(), set.iter().copied()).err().map(|usage| (usage.message, usage.hint))
    }

    fn hint(name: &str) -> Option<String> {
        let (message, hint) = refused(&[name]).unwrap();
        assert!(message.contains(&format!("`{name}`")), "{message}");
        hint
    }

    #[test]
    fn a_misspelled_variable_is_an_error_with_the_nearest_name() {
        for (name, meant) in [
            ("CLUSTER_HEALTH_STRCIT", "CLUSTER_HEALTH_STRICT"),
            ("CLUSTER_HEALTH_STRIC", "CLUSTER_HEALTH_STRICT"),
            ("CLUSTER_HEALTH_strict", "CLUSTER_HEALTH_STRICT"),
            ("CLUSTER_HEALTH_WAITTIMEOUT", "CLUSTER_HEALTH_WAIT_TIMEOUT"),
            ("CLUSTER_HEALTH_EXPECT_WORKER", "CLUSTER_HEALTH_EXPECT_WORKERS"),
            ("CLUSTER_HEALTH_REQUIRE_QUORUM_MARGINS", "CLUSTER_HEALTH_REQUIRE_QUORUM_MARGIN"),
        ] {
            assert_eq!(hint(name), Some(format!("did you mean `{meant}`?")));
        }
        for name in ["CLUSTER_HEALTH_", "CLUSTER_HEALTH_PIZZA_TOPPINGS"] {
            assert!(hint(name).unwrap().contains("--help"), "{name}");
        }
    }

    #[test]
    fn all_of_ours_and_those_of_others_are_known() {
        let command = Cli::command();
        let ours: Vec<&str> = command.get_arguments().filter_map(|argument| argument.get_env()?.to_str()).collect();
        assert!(ours.len() > 40, "{ours:?}");
        assert_eq!(refused(&ours), None);
        assert_eq!(
            refused(&["HOME", "TALOSCONFIG", "CLUSTER_NAME", "CLUSTER_HEALTHY", "MY_CLUSTER_HEALTH_STRICT"]),
            None
        );
    }

    /// The variables that Kubernetes sets for Services `cluster-health` and `cluster-health-reports`.
    #[test]
    fn a_service_of_our_name_is_none_of_our_business() {
        let of_service = [
            "CLUSTER_HEALTH_SERVICE_HOST",
            "CLUSTER_HEALTH_SERVICE_PORT",
            "CLUSTER_HEALTH_SERVICE_PORT_HTTP",
            "CLUSTER_HEALTH_PORT",
            "CLUSTER_HEALTH_PORT_8080_TCP",
            "CLUSTER_HEALTH_PORT_8080_TCP_ADDR",
            "CLUSTER_HEALTH_REPORTS_SERVICE_HOST",
            "CLUSTER_HEALTH_REPORTS_SERVICE_PORT",
            "CLUSTER_HEALTH_REPORTS_PORT",
            "CLUSTER_HEALTH_REPORTS_PORT_443_TCP_PROTO",
        ];
        assert_eq!(refused(&of_service), None);
        for typo in ["CLUSTER_HEALTH_STRCIT", "CLUSTER_HEALTH_REPROT", "CLUSTER_HEALTH_PORTS"] {
            assert!(refused(&[&of_service[..], &[typo]].concat()).unwrap().0.contains(typo));
        }
        for alone in ["CLUSTER_HEALTH_PORT", "CLUSTER_HEALTH_SERVICE_PORT"] {
            assert!(refused(&[alone]).is_some(), "{alone}");
        }
    }

    #[test]
    fn a_message_about_an_option_that_nobody_typed_names_its_variable() {
        let behind = |message: &str, typed: &[&str], set: &[&str]| {
            let typed: Vec<String> = typed.iter().map(|&word| word.to_owned()).collect();
            behind(message, &Cli::command(), &typed, |name| set.contains(&name))
        };
        let (level, nodes) = ("CLUSTER_HEALTH_LEVEL", "CLUSTER_HEALTH_NODES");
        let expected = Some("`--level` is set by the variable CLUSTER_HEALTH_LEVEL".to_owned());
        assert_eq!(behind("invalid value 'x' for '--level <LEVEL>'", &[], &[level]), expected);
        assert_eq!(behind("`--level` is wrong", &["--levels"], &[level]), expected);
        assert_eq!(behind("`--level` is wrong", &["--level=x"], &[level]), None);
        assert_eq!(behind("`--level` is wrong", &[], &[nodes]), None);
        assert_eq!(behind("`--level-of` is wrong", &[], &[level]), None);
        assert_eq!(behind("`--nodes` is wrong", &["-n", "cp-1"], &[nodes]), None);
    }
}
