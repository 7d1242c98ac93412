//! What was decided: from options and variables to values that need no further thought. No I/O happens here.

use std::collections::BTreeSet;
use std::time::Duration;

use clap::ArgMatches;
use clap::parser::ValueSource;
use jiff::Timestamp;
use tokio::time::Instant;

use crate::checks::{self, Check, Fact};
use crate::cli::{Evidence, Level, RunArgs};
use crate::engine::Pace;
use crate::report::{Selection, Weakening};
use crate::selection::{self, UnknownCheck, Wanted};
use crate::snapshot::{Allowance, Asked};

/// A contradiction in what was typed; exit code 2.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

impl Usage {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None }
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

/// The run, decided.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) pace: Pace,
    pub(crate) wait_timeout: Option<Duration>,
    pub(crate) asked: Asked,
    pub(crate) selection: Vec<(&'static Check, Selection)>,
    /// What the selected checks read; nothing else is asked for.
    pub(crate) facts: BTreeSet<Fact>,
    pub(crate) weakened: Vec<Weakening>,
    /// `-n`: addresses or names.
    pub(crate) scope: Vec<String>,
}

/// When the process started, on both clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    pub(crate) instant: Instant,
    pub(crate) wall: Timestamp,
}

impl Plan {
    pub(crate) fn decide(args: &RunArgs, matches: &ArgMatches, start: Start) -> Result<Self, Usage> {
        let selection = selection::select(&Wanted {
            level: args.level,
            check: &args.check,
            skip: &args.skip,
            no_talos: args.no_talos,
            no_kubernetes: args.no_kubernetes,
            server: args.server,
        })
        .map_err(|unknown| unknown_check(&unknown))?;
        let warn_only = selection::ids(&args.warn_only).map_err(|unknown| unknown_check(&unknown))?;
        let checks: Vec<&'static Check> = selection
            .iter()
            .filter(|(_, part)| !matches!(part, Selection::NotSelected(_)))
            .map(|(check, _)| *check)
            .collect();
        // As everywhere in Kubernetes' world, 0 means "not given": one full pass.
        let wait_timeout = args.wait_timeout.map(|wait| wait.0).filter(|wait| !wait.is_zero());
        let stable_for = args.stable_for.map(|stable| stable.0).filter(|stable| !stable.is_zero());
        check_times(args, wait_timeout, stable_for)?;
        if args.server && args.no_talos {
            return Err(Usage::new("`--server` asks Talos, which `--no-talos` leaves out"));
        }
        if let Some(pattern) = args.check.iter().find(|pattern| !args.server && selection::means_server(pattern)) {
            return Err(Usage::new(format!("`{pattern}` runs with `--server` only")));
        }
        if args.no_talos && args.no_kubernetes && args.etcd_endpoints.is_empty() {
            return Err(Usage::new("`--no-talos` and `--no-kubernetes` together leave nothing to ask"));
        }
        if args.no_talos && args.expect_talos.is_some() {
            return Err(Usage::new("`--expect-talos` cannot be judged with `--no-talos`"));
        }
        Ok(Self {
            pace: Pace {
                started: start.instant,
                deadline: wait_timeout.map(|wait| start.instant + wait),
                interval: args.interval.0,
                attempt_timeout: attempt_timeout(args.attempt_timeout.0, wait_timeout),
                stable_for,
                fail_fast: args.fail_fast,
                retry_all: args.retry_all,
                strict: args.strict,
                logs: args.evidence == Some(Evidence::Logs),
                warn_only: warn_only.into_iter().collect(),
                checks: checks.clone(),
            },
            wait_timeout,
            asked: Asked {
                skipped: left_out(&selection),
                unplanned: not_run(&selection, |_| true),
                control_plane_nodes: args.control_plane_nodes.clone(),
                worker_nodes: args.worker_nodes.clone(),
                expect_control_planes: args.expect_control_planes,
                expect_workers: args.expect_workers,
                expect_talos: args.expect_talos.clone(),
                expect_kubernetes: args.expect_kubernetes.clone(),
                max_unready_workers: allowance(args.max_unready_workers.as_deref())?,
                require_quorum_margin: args.require_quorum_margin,
                k8s_endpoint: args.k8s_endpoint.clone(),
                deadline: wait_timeout.and_then(|wait| start.wall.checked_add(wait).ok()),
                one_pass: wait_timeout.is_none(),
            },
            facts: checks::facts(&checks),
            selection,
            weakened: weakened(args, matches),
            scope: args.nodes.clone(),
        })
    }
}

/// Checks that cannot stand in anybody's way, because the user switched them off. What `--check` or `--level` merely did not
/// name is not vouched for by anybody.
fn left_out(selection: &[(&'static Check, Selection)]) -> BTreeSet<&'static str> {
    not_run(selection, |why| why.starts_with("left out with"))
}

/// Checks that are not selected for such a reason.
fn not_run(selection: &[(&'static Check, Selection)], reason: fn(&str) -> bool) -> BTreeSet<&'static str> {
    let is_out = |part: &Selection| matches!(part, Selection::NotSelected(why) if reason(why));
    selection.iter().filter(|(_, part)| is_out(part)).map(|(check, _)| check.id).collect()
}

fn unknown_check(unknown: &UnknownCheck) -> Usage {
    let usage = Usage::new(format!("no check is called `{}`", unknown.pattern));
    match unknown.nearest {
        Some(nearest) => usage.hint(format!("the nearest is `{nearest}`; `cluster-health list` shows all")),
        None => usage.hint("`cluster-health list` shows all"),
    }
}

fn check_times(args: &RunArgs, wait_timeout: Option<Duration>, stable_for: Option<Duration>) -> Result<(), Usage> {
    if args.interval.0.is_zero() {
        return Err(Usage::new("`--interval` must be longer than 0"));
    }
    if args.attempt_timeout.0 < Duration::from_millis(100) {
        return Err(Usage::new("`--attempt-timeout` must be at least 100ms"));
    }
    // Far deadlines would overflow the clock.
    let year = Duration::from_secs(365 * 86_400);
    let times = [
        ("wait-timeout", wait_timeout),
        ("interval", Some(args.interval.0)),
        ("attempt-timeout", Some(args.attempt_timeout.0)),
    ];
    if let Some((name, _)) = times.iter().find(|(_, time)| time.is_some_and(|time| time > year)) {
        return Err(Usage::new(format!("`--{name}` must be shorter than a year")));
    }
    match (stable_for, wait_timeout) {
        (Some(_), None) => Err(Usage::new("`--stable-for` needs a `--wait-timeout` that is longer")),
        (Some(stable), Some(wait)) if stable >= wait => {
            Err(Usage::new("`--stable-for` must be shorter than `--wait-timeout`"))
        }
        _ => Ok(()),
    }
}

/// A round must end before the deadline, even if nobody answers: only a complete round names who does not.
fn attempt_timeout(asked: Duration, wait_timeout: Option<Duration>) -> Duration {
    wait_timeout.map_or(asked, |wait| asked.min(wait * 9 / 10))
}

fn allowance(text: Option<&str>) -> Result<Allowance, Usage> {
    let Some(text) = text else { return Ok(Allowance::None) };
    let refused = || Usage::new(format!("`--max-unready-workers` is a number or a percentage, not `{text}`"));
    match text.strip_suffix('%') {
        Some(percent) => match percent.parse() {
            Ok(percent @ 0..=100) => Ok(Allowance::Percent(percent)),
            _ => Err(refused()),
        },
        None => text.parse().map(Allowance::Count).map_err(|_| refused()),
    }
}

/// Every option that makes the verdict weaker than the full one, with its origin.
fn weakened(args: &RunArgs, matches: &ArgMatches) -> Vec<Weakening> {
    let list = |values: &[String]| (!values.is_empty()).then(|| values.join(","));
    let switch = |on: bool| on.then(String::new);
    let level = args.level.filter(|level| *level != Level::Full).map(|level| format!("{level:?}").to_lowercase());
    [
        ("check", list(&args.check)),
        ("skip", list(&args.skip)),
        ("warn_only", list(&args.warn_only)),
        ("level", level),
        ("nodes", list(&args.nodes)),
        ("max_unready_workers", args.max_unready_workers.clone()),
        ("allow_empty", switch(args.allow_empty)),
        ("no_talos", switch(args.no_talos)),
        ("no_kubernetes", switch(args.no_kubernetes)),
    ]
    .into_iter()
    .filter_map(|(id, value)| {
        let option = format!("--{} {}", id.replace('_', "-"), value?).trim_end().to_owned();
        let origin = match matches.value_source(id) {
            Some(ValueSource::EnvVariable) => format!("CLUSTER_HEALTH_{}", id.to_uppercase()),
            _ => "flag".to_owned(),
        };
        Some(Weakening { option, origin })
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, FromArgMatches as _};

    use super::*;
    use crate::cli::Cli;

    fn decide(arguments: &[&str]) -> Result<Plan, Usage> {
        let matches = Cli::command().get_matches_from([&["cluster-health"], arguments].concat());
        let cli = Cli::from_arg_matches(&matches).unwrap();
        Plan::decide(&cli.run, &matches, Start { instant: Instant::now(), wall: Timestamp::UNIX_EPOCH })
    }

    #[test]
    fn zero_is_one_pass() {
        for arguments in [&[][..], &["--wait-timeout", "0"], &["--wait-timeout", "0s"]] {
            let plan = decide(arguments).unwrap();
            assert!(plan.asked.one_pass && plan.pace.deadline.is_none(), "{arguments:?}");
        }
    }

    #[test]
    fn a_round_of_silence_ends_before_the_deadline() {
        for (arguments, milliseconds) in [
            (&["--wait-timeout", "3s"][..], 2_700),
            (&["--wait-timeout", "3s", "--attempt-timeout", "1s"], 1_000),
            (&["--wait-timeout", "5m"], 10_000),
            (&[], 10_000),
        ] {
            let plan = decide(arguments).unwrap();
            assert_eq!(plan.pace.attempt_timeout, Duration::from_millis(milliseconds), "{arguments:?}");
        }
    }

    #[test]
    fn contradictions_are_usage_errors() {
        for arguments in [
            &["--stable-for", "10s"][..],
            &["--stable-for", "10s", "--wait-timeout", "10s"],
            &["--interval", "0"],
            &["--attempt-timeout", "1ms"],
            &["--attempt-timeout", "9000000h"],
            &["--interval", "9000000h"],
            &["--wait-timeout", "9000000h"],
            &["--max-unready-workers", "101%"],
            &["--max-unready-workers", "-1"],
            &["--max-unready-workers", "few"],
            &["--expect-kubernetes", ""],
            &["--expect-kubernetes", "1"],
            &["--expect-kubernetes", "latest"],
            &["--expect-kubernetes", "1.35.4.1"],
            &["--no-talos", "--no-kubernetes"],
            &["--server", "--no-talos"],
            &["--check", "talos.server"],
            &["--no-talos", "--expect-talos", "v1.13.0"],
            &["--expect-talos", "1.13"],
            &["--expect-talos", "v1.13.x"],
            &["--expect-talos", ""],
            &["--check", "no.such.check"],
        ] {
            let matches = Cli::command().try_get_matches_from([&["cluster-health"], arguments].concat());
            if let Ok(matches) = matches {
                let cli = Cli::from_arg_matches(&matches).unwrap();
                let start = Start { instant: Instant::now(), wall: Timestamp::UNIX_EPOCH };
                assert!(Plan::decide(&cli.run, &matches, start).is_err(), "{arguments:?}");
            }
        }
    }

    #[test]
    fn only_what_the_user_switched_off_vouches_for_itself() {
        assert!(decide(&["--level", "etcd"]).unwrap().asked.skipped.is_empty());
        let alone = decide(&["--check", "etcd.alarms"]).unwrap().asked;
        assert!(alone.skipped.is_empty() && alone.unplanned.contains("etcd.leader"));
        assert!(!alone.unplanned.contains("etcd.quorum"), "it needs that");
        let plan = decide(&["--skip", "k8s.api.identity"]).unwrap();
        assert_eq!(plan.asked.skipped.into_iter().collect::<Vec<_>>(), ["k8s.api.identity"]);
    }

    #[test]
    fn weakening_options_are_named_with_their_origin() {
        let plan = decide(&["--no-kubernetes", "--max-unready-workers", "10%", "--level", "full"]).unwrap();
        let options: Vec<_> = plan.weakened.iter().map(|weakening| weakening.option.as_str()).collect();
        assert_eq!(options, ["--max-unready-workers 10%", "--no-kubernetes"]);
        assert!(plan.weakened.iter().all(|weakening| weakening.origin == "flag"));
    }
}
