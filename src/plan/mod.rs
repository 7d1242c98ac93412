//! Decisions: from options and variables to values that need no further interpretation. No I/O happens here.

mod access;
pub(crate) mod gone;
mod output;
mod pace;
pub(crate) mod policy;
mod require;
pub(crate) mod selection;
mod stated;
pub(crate) mod variables;

use std::collections::BTreeSet;
use std::time::Duration;

use clap::ArgMatches;
use clap::parser::ValueSource;
use jiff::Timestamp;
use tokio::time::Instant;

pub(crate) use self::output::Output;
use self::pace::Times;
use self::policy::Decided;
use self::selection::{UnknownCheck, Wanted};
use crate::checks::{self, Check};
use crate::cli::{
    self, CheckOptions, ConnectionOptions, Evidence, Level, OutputOptions, PlanArgs, PlanOutput, RunArgs, TimingOptions,
};
use crate::config::access::Access;
use crate::config::policy::Document;
use crate::engine::{Named, Pace};
use crate::model::{CheckId, Fact, Reason};
use crate::observe::Inquiry;
use crate::report::format::plan;
use crate::report::{Origin, PolicyFile, Report, Selection, Sources, Weakening};
use crate::snapshot::{Allowance, Asked, First, Order, Upgrade};
use crate::text::{clock, version};

/// A contradiction in the arguments; exit code 2.
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

/// A run after all decisions.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) start: Start,
    pub(crate) access: Access,
    pub(crate) selection: Vec<(&'static Check, Selection)>,
    pub(crate) inquiry: Inquiry,
    pub(crate) pace: Pace,
    pub(crate) wait_timeout: Option<Duration>,
    pub(crate) output: Output,
    pub(crate) weakened: Vec<Weakening>,
    pub(crate) policy: Option<PolicyFile>,
    /// The sources as typed.
    sources: Sources,
}

/// Start of the process, on both clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    pub(crate) instant: Instant,
    pub(crate) wall: Timestamp,
}

impl Start {
    /// Reads the clocks; nothing else reads them at the start.
    pub(crate) fn now() -> Self {
        Self { instant: Instant::now(), wall: clock::now() }
    }
}

impl Plan {
    pub(crate) fn decide(
        args: &RunArgs,
        matches: &ArgMatches,
        document: Option<&Document>,
        start: Start,
    ) -> Result<Self, Usage> {
        let weakened = weakened(args, matches);
        let Some(document) = document else { return Self::decide_by(args, weakened, Decided::default(), start) };
        let nodes = policy::stated(&args.nodes, document)?;
        let mut policy = policy::decide(document, start.wall)?;
        let mut args = RunArgs { nodes, ..args.clone() };
        policy.named = require::narrow(&mut policy.policy.require, &mut args.checks, &mut args.verdict)?;
        Self::decide_by(&args, weakened, policy, start)
    }

    fn decide_by(args: &RunArgs, weakened: Vec<Weakening>, policy: Decided, start: Start) -> Result<Self, Usage> {
        let RunArgs { connection, nodes, checks, timing, verdict, output } = args;
        let asked_by_policy = policy.checks();
        let selection = selection::select(&Wanted {
            level: checks.level,
            check: &checks.check,
            skip: &checks.skip,
            no_talos: connection.no_talos,
            no_kubernetes: connection.no_kubernetes,
            server: connection.server,
            asked: &[upgrade_checks(checks), asked_by_policy.clone()].concat(),
        })
        .map_err(|unknown| unknown_check(&unknown))?;
        let named = |patterns| selection::named(patterns).map_err(|unknown| unknown_reason(&unknown));
        let fail_on_node_condition = fail_on_node_condition(&verdict.fail_on)?;
        let is_other = |pattern: &&String| selection::condition(pattern).is_none();
        let others: Vec<String> = verdict.fail_on.iter().filter(is_other).cloned().collect();
        let fail_on = Named { requirements: policy.named.fail_on, ..named(&others)? };
        let warn_only = Named { requirements: policy.named.warn_only, ..named(&verdict.warn_only)? };
        let running: Vec<_> = selection.iter().filter(|(_, part)| part.runs()).map(|(check, _)| *check).collect();
        gone::reports(&output.report)?;
        let output = Output::from(output);
        let mut facts = checks::facts(&running);
        // These requests are useful only for a report that is kept.
        if output.is_kept() && facts.iter().any(|fact| fact.right().is_some()) {
            facts.extend(Fact::OF_STORED);
        }
        let Times { wait_timeout, stable_for, interval, attempt_timeout } = pace::times(timing)?;
        contradictions(connection, nodes, checks, &selection)?;
        stated::all_judged(args, &selection)?;
        stated::policy_judged(&asked_by_policy, &selection)?;
        weighed_once(&fail_on, &fail_on_node_condition, &warn_only)?;
        Ok(Self {
            start,
            access: access::access(connection),
            inquiry: Inquiry {
                asked: Asked {
                    nodes: nodes.nodes.clone(),
                    // A check that the user has switched off cannot block others.
                    skipped: left_out(&selection),
                    control_plane_nodes: nodes.control_plane_nodes.clone(),
                    worker_nodes: nodes.worker_nodes.clone(),
                    expect_control_planes: nodes.expect_control_planes,
                    expect_workers: nodes.expect_workers,
                    expect_talos: nodes.expect_talos.clone(),
                    expect_kubernetes: nodes.expect_kubernetes.clone(),
                    expect_extensions: policy.extensions,
                    thresholds: policy.thresholds,
                    policy: policy.policy.into(),
                    upgrade: Upgrade {
                        talos: checks.upgrade_talos.clone(),
                        kubernetes: checks.upgrade_kubernetes.clone(),
                        drain: checks.drain.clone(),
                        image: checks.image.clone(),
                    },
                    order: None,
                    max_unready_workers: allowance(nodes.max_unready_workers.as_deref())?,
                    require_quorum_margin: verdict.require_quorum_margin,
                    fail_on_node_condition,
                    k8s_endpoint: connection.k8s_endpoint.clone(),
                    deadline: wait_timeout.and_then(|wait| start.wall.checked_add(wait).ok()),
                    nodes_may_wait: checks.level.is_some_and(|level| level != Level::Full),
                },
                facts,
                attempt_timeout,
            },
            pace: Pace {
                started: start.instant,
                deadline: wait_timeout.map(|wait| start.instant + wait),
                interval,
                attempt_timeout,
                stable_for,
                fail_fast: timing.fail_fast,
                strict: verdict.strict,
                logs: args.output.evidence == Some(Evidence::Logs),
                fail_on,
                warn_only,
                checks: running,
            },
            wait_timeout,
            output,
            weakened: weakened.into_iter().chain(policy.weakened).collect(),
            policy: policy.file,
            sources: access::sources(connection),
            selection,
        })
    }

    /// Decides `upgrade-plan`, which shows the machines and the etcd leader. Its checks report what could not be observed of them.
    pub(crate) fn of_upgrade(args: &PlanArgs, start: Start) -> Result<Self, Usage> {
        let PlanArgs { upgrade_talos, upgrade_kubernetes, first, upgraded, output, quiet, connection, .. } = args;
        let (no_talos, no_kubernetes) = (connection.no_talos, connection.no_kubernetes);
        if let Some((_, option)) = [(no_talos, "no-talos"), (no_kubernetes, "no-kubernetes")].iter().find(|(it, _)| *it)
        {
            return Err(Usage::new(format!("`upgrade-plan` queries what `--{option}` disables")));
        }
        if let Some(image) = &args.image {
            of_the_upgrade(image, Some(upgrade_talos))?;
        }
        let check = PLANNED_BY.map(|check| check.name().to_owned()).to_vec();
        let output = match output {
            PlanOutput::Text => &plan::TEXT,
            PlanOutput::Json => &plan::JSON,
            PlanOutput::Tsv => &plan::TSV,
        };
        let run = RunArgs {
            connection: connection.clone(),
            timing: TimingOptions {
                wait_timeout: args.wait_timeout,
                interval: args.interval,
                attempt_timeout: args.attempt_timeout,
                ..TimingOptions::default()
            },
            checks: CheckOptions { check, ..CheckOptions::default() },
            output: OutputOptions { output, quiet: *quiet, ..OutputOptions::default() },
            ..RunArgs::default()
        };
        let mut plan = Self::decide(&run, &ArgMatches::default(), None, start)?;
        plan.inquiry.facts.extend(Fact::OF_PLAN);
        let asked = &mut plan.inquiry.asked;
        asked.upgrade = Upgrade {
            talos: Some(upgrade_talos.clone()),
            kubernetes: upgrade_kubernetes.clone(),
            image: args.image.clone(),
            ..Upgrade::default()
        };
        let first = match first {
            cli::First::Workers => First::Workers,
            cli::First::ControlPlanes => First::ControlPlanes,
        };
        asked.order = Some(Order { first, upgraded: upgraded.clone() });
        plan.weakened.clear();
        Ok(plan)
    }

    /// Returns the report before anything was observed.
    pub(crate) fn unbegun(&self) -> Report {
        Report {
            wait_timeout: self.wait_timeout,
            stable_for: self.pace.stable_for,
            weakened: self.weakened.clone(),
            policy: self.policy.clone(),
            sources: self.sources.clone(),
            ..Report::unbegun(self.start.wall, &self.selection)
        }
    }
}

/// The checks that a plan is based on.
const PLANNED_BY: [CheckId; 3] = [CheckId::TalosNodesReachable, CheckId::EtcdLeader, CheckId::K8sNodesRegistered];

/// Returns the checks that the user has switched off. A check that `--check` or `--level` merely did not name is not vouched for by the
/// user.
fn left_out(selection: &[(&'static Check, Selection)]) -> BTreeSet<CheckId> {
    let is_out = |part: &Selection| matches!(part, Selection::NotSelected(option) if option.is_left_out());
    selection.iter().filter(|(_, part)| is_out(part)).map(|(check, _)| check.id).collect()
}

fn unknown_check(unknown: &UnknownCheck) -> Usage {
    let usage = Usage::new(format!("there is no check `{}`", unknown.pattern));
    match unknown.nearest {
        Some(nearest) => usage.hint(format!("the nearest is `{nearest}`; `cluster-health list` shows all")),
        None => usage.hint("`cluster-health list` shows all"),
    }
}

fn unknown_reason(unknown: &UnknownCheck) -> Usage {
    let message = format!("there is no check or reason `{}`", unknown.pattern);
    Usage { message, ..unknown_check(unknown) }
}

/// Returns the checks of stage 8 that the options request.
fn upgrade_checks(checks: &CheckOptions) -> Vec<CheckId> {
    let of_talos = checks.upgrade_talos.is_some().then_some(CheckId::UpgradeTalosPath);
    let of_kubernetes = checks.upgrade_kubernetes.is_some().then_some(CheckId::UpgradeKubernetesPath);
    let of_removed: &[CheckId] =
        if of_kubernetes.is_some() { &[CheckId::UpgradeFlags, CheckId::UpgradeApis] } else { &[] };
    let of_both = of_talos.or(of_kubernetes).map(|_| CheckId::UpgradeMatrix);
    // `talosctl upgrade-k8s` does not take any machine down.
    let takes_down = checks.upgrade_talos.is_some() || checks.drain.is_some();
    let of_machines: &[CheckId] = if takes_down {
        &[CheckId::UpgradeDrain, CheckId::UpgradeRoom, CheckId::UpgradeVolumes, CheckId::UpgradeQuorum]
    } else {
        &[]
    };
    let of_image = of_talos.map(|_| CheckId::UpgradeExtensions);
    let of_etcd = of_talos.map(|_| CheckId::UpgradeEtcd);
    let of_versions = [of_talos, of_kubernetes, of_both, of_etcd, of_image].into_iter().flatten();
    of_versions.chain(of_removed.iter().chain(of_machines).copied()).collect()
}

fn contradictions(
    connection: &ConnectionOptions,
    nodes: &cli::NodeOptions,
    checks: &CheckOptions,
    planned: &[(&'static Check, Selection)],
) -> Result<(), Usage> {
    let ConnectionOptions { no_talos, no_kubernetes, server, .. } = *connection;
    if server && no_talos {
        return Err(Usage::new("`--server` queries Talos, which `--no-talos` disables"));
    }
    // kubectl's `--context` is `--kube-context` here. Without an error, another cluster would be checked than the one that was meant.
    if no_talos && connection.context.is_some() {
        let usage = Usage::new("`--context` selects from the talosconfig, which `--no-talos` leaves out");
        return Err(usage.hint("`--kube-context` selects from the kubeconfig"));
    }
    if let Some(name) = nodes.control_plane_nodes.iter().find(|name| nodes.worker_nodes.contains(name)) {
        return Err(Usage::new(format!("`--control-plane-nodes` and `--worker-nodes` both list {name}")));
    }
    if connection.in_cluster && connection.kubeconfig.is_some() {
        return Err(Usage::new("`--in-cluster` and `--kubeconfig` contradict each other"));
    }
    if !cfg!(feature = "etcd") && !connection.etcd_endpoints.is_empty() {
        let usage = Usage::new("`--etcd-endpoints` needs the feature `etcd`, without which cluster-health was built");
        return Err(usage.hint("releases have the feature, and so do builds without `--no-default-features`"));
    }
    if let Some(image) = &checks.image {
        of_the_upgrade(image, checks.upgrade_talos.as_deref())?;
    }
    for pattern in &checks.check {
        if let Some(check) = selection::means_only_unasked(pattern, planned) {
            return Err(Usage::new(format!("`{pattern}` runs only with {}", selection::asked_by(check))));
        }
    }
    if no_talos && no_kubernetes && connection.etcd_endpoints.is_empty() {
        return Err(Usage::new("`--no-talos` and `--no-kubernetes` together leave nothing to check"));
    }
    Ok(())
}

/// Ensures that the image fits the target: an installer brings the version of its tag. One that is named by its digest alone states no
/// version.
fn of_the_upgrade(image: &str, talos: Option<&str>) -> Result<(), Usage> {
    let Some(talos) = talos else { return Err(Usage::new("`--image` needs `--upgrade-talos`")) };
    let name = image.split('@').next().unwrap_or_default();
    let tag = name.rsplit('/').next().and_then(|name| name.split_once(':')).map(|(_, tag)| tag);
    match tag {
        Some(tag) if version::numbers(tag).is_some_and(|of_tag| Some(of_tag) != version::numbers(talos)) => {
            Err(Usage::new(format!("the tag of `--image` is `{tag}`, and `--upgrade-talos` is v{talos}")))
        }
        None if name == image => Err(Usage::new("`--image` has no tag, so its version is unknown")),
        _ => Ok(()),
    }
}

/// Ensures that no name is made a failure by one option and a warning by the other.
fn weighed_once(fail_on: &Named, conditions: &[String], warn_only: &Named) -> Result<(), Usage> {
    if let Some(both) = fail_on.common(warn_only) {
        return Err(Usage::new(format!("`{both}` cannot be in both `--fail-on` and `--warn-only`")));
    }
    match conditions.first() {
        Some(kind) if warn_only.means(CheckId::K8sNodesConditions, Reason::NodeCondition) => Err(Usage::new(format!(
            "`--fail-on node-condition={kind}` is also named by `--warn-only`, which makes it a warning"
        ))),
        _ => Ok(()),
    }
}

/// Returns the types of `--fail-on node-condition=TYPE`. `Ready` is not one of them: it is True on a healthy node.
fn fail_on_node_condition(patterns: &[String]) -> Result<Vec<String>, Usage> {
    let kinds: Vec<_> = patterns.iter().filter_map(|it| selection::condition(it)).map(str::to_owned).collect();
    if kinds.iter().any(String::is_empty) {
        return Err(Usage::new("`--fail-on node-condition=` needs the type of a node condition"));
    }
    if kinds.iter().any(|kind| kind == "Ready") {
        return Err(Usage::new("condition `Ready` is True on a healthy node; `k8s.nodes.ready` checks it"));
    }
    Ok(kinds)
}

fn allowance(text: Option<&str>) -> Result<Allowance, Usage> {
    let Some(text) = text else { return Ok(Allowance::None) };
    let refused = || Usage::new(format!("`--max-unready-workers` must be a number or a percentage, not `{text}`"));
    match text.strip_suffix('%') {
        Some(percent) => match percent.parse() {
            Ok(percent @ 0..=100) => Ok(Allowance::Percent(percent)),
            _ => Err(refused()),
        },
        None => text.parse().map(Allowance::Count).map_err(|_| refused()),
    }
}

/// Returns every option that makes the verdict weaker than the full one, with its origin.
fn weakened(args: &RunArgs, matches: &ArgMatches) -> Vec<Weakening> {
    let RunArgs { connection, nodes, checks, verdict, .. } = args;
    let list = |values: &[String]| (!values.is_empty()).then(|| values.join(","));
    let switch = |on: bool| on.then(String::new);
    let level = checks.level.filter(|level| *level != Level::Full).map(|level| format!("{level:?}").to_lowercase());
    [
        ("check", list(&checks.check)),
        ("skip", list(&checks.skip)),
        ("warn_only", list(&verdict.warn_only)),
        ("level", level),
        ("nodes", list(&nodes.nodes)),
        ("max_unready_workers", nodes.max_unready_workers.clone()),
        ("no_talos", switch(connection.no_talos)),
        ("no_kubernetes", switch(connection.no_kubernetes)),
    ]
    .into_iter()
    .filter_map(|(id, value)| {
        let option = format!("--{} {}", stated::dashed(id), value?).trim_end().to_owned();
        let source = matches.ids().any(|it| it == id).then(|| matches.value_source(id)).flatten();
        let origin = match source {
            Some(ValueSource::EnvVariable) => Origin::Variable(format!("CLUSTER_HEALTH_{}", id.to_uppercase())),
            _ => Origin::Flag,
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

    pub(super) fn decide(arguments: &[&str]) -> Result<Plan, Usage> {
        let matches = Cli::command().get_matches_from([&["cluster-health"], arguments].concat());
        let cli = Cli::from_arg_matches(&matches).unwrap();
        Plan::decide(&cli.run, &matches, None, Start { instant: Instant::now(), wall: Timestamp::UNIX_EPOCH })
    }

    #[test]
    fn zero_is_one_pass() {
        for arguments in [&[][..], &["--wait-timeout", "0"], &["--wait-timeout", "0s"]] {
            let plan = decide(arguments).unwrap();
            assert!(plan.pace.deadline.is_none(), "{arguments:?}");
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
            &["--context", "prod", "--no-talos"],
            &["--in-cluster", "--kubeconfig", "a"],
            &["--control-plane-nodes", "cp-1,cp-2", "--worker-nodes", "w-1,cp-2"],
            &["--check", "talos.server"],
            &["--no-talos", "--expect-talos", "v1.13.0"],
            &["--upgrade-talos", "1.14"],
            &["--upgrade-talos", ""],
            &["--upgrade-kubernetes", "1.36"],
            &["--upgrade-kubernetes", "latest"],
            &["--upgrade-talos", "v1.14.1", "--no-talos"],
            &["--upgrade-talos", "v1.14.1", "--no-kubernetes"],
            &["--upgrade-kubernetes", "1.36.4", "--no-kubernetes"],
            &["--upgrade-talos", "v1.14.1", "--skip", "upgrade"],
            &["--upgrade-talos", "v1.14.1", "--skip", "8"],
            &["--upgrade-kubernetes", "1.36.4", "--skip", "upgrade.kubernetes.path"],
            &["--drain", ""],
            &["--drain", "w-1", "--upgrade-talos", "v1.14.1", "--no-talos"],
            &["--drain", "w-1", "--no-kubernetes"],
            &["--drain", "w-1", "--skip", "upgrade.drain"],
            &["--image", "registry.example/installer:v1.14.1"],
            &["--upgrade-talos", "v1.14.1", "--image", ""],
            &["--upgrade-talos", "v1.14.1", "--image", "registry.example:5000/installer"],
            &["--upgrade-talos", "v1.14.1", "--image", "registry.example/installer:v1.14.0"],
            &[
                "--upgrade-talos",
                "v1.14.1",
                "--image",
                "registry.example/installer:v1.14.1",
                "--skip",
                "upgrade.extensions",
            ],
            &["--check", "upgrade.matrix"],
            &["--check", "upgrade.drain", "--upgrade-kubernetes", "1.36.4"],
            &["--check", "8"],
            &["--upgrade-kubernetes", "1.36.4", "--check", "upgrade.talos.path"],
            &["--expect-talos", "1.13"],
            &["--expect-talos", "v1.13.x"],
            &["--expect-talos", ""],
            &["--check", "no.such.check"],
            &["--fail-on", "no-such-reason"],
            &["--warn-only", "no-such-reason"],
            &["--fail-on", "cordoned", "--warn-only", "two-members,cordoned"],
            &["--fail-on", "etcd", "--warn-only", "etcd.space"],
            &["--fail-on", "k8s.dns", "--level", "etcd"],
            &["--fail-on", "cordoned", "--level", "etcd"],
            &["--max-unready-workers", "1", "-n", "w-1"],
            &["--fail-on", "fragmented", "--skip", "etcd.space"],
            &["--fail-on", "disk-nearly-full", "--no-talos"],
            &["--fail-on", "little-room"],
            &["--fail-on", "upgrade.room", "--drain", "w-1", "--skip", "upgrade.room"],
            &["--fail-on", "upgrade.room"],
            &["--check", "etcd.quorum,talos.time", "--level", "talos"],
            &["--fail-on", "node-condition=KernelDeadlock", "--no-kubernetes"],
            &["--fail-on", "node-condition=KernelDeadlock", "--level", "etcd"],
            &["--fail-on", "node-condition=KernelDeadlock", "--skip", "k8s.nodes.conditions"],
            &["--fail-on", "node-condition=KernelDeadlock", "--check", "k8s.dns"],
            &["--fail-on", "node-condition=KernelDeadlock", "--warn-only", "k8s.nodes"],
            &["--fail-on", "cordoned,node-condition=KernelDeadlock", "--warn-only", "node-condition"],
            &["--fail-on", "node-condition=Ready"],
            &["--fail-on", "node-condition="],
            &["--fail-on", "node-conditions=KernelDeadlock"],
            &["--warn-only", "node-condition=KernelDeadlock"],
            &["--report", "tap=report.tap"],
        ] {
            let matches = Cli::command().try_get_matches_from([&["cluster-health"], arguments].concat());
            if let Ok(matches) = matches {
                let cli = Cli::from_arg_matches(&matches).unwrap();
                let start = Start { instant: Instant::now(), wall: Timestamp::UNIX_EPOCH };
                assert!(Plan::decide(&cli.run, &matches, None, start).is_err(), "{arguments:?}");
            }
        }
    }

    #[test]
    fn only_what_the_user_switched_off_vouches_for_itself() {
        assert!(decide(&["--level", "etcd"]).unwrap().inquiry.asked.skipped.is_empty());
        let alone = decide(&["--check", "etcd.alarms"]).unwrap().inquiry.asked;
        assert!(alone.skipped.is_empty());
        let plan = decide(&["--skip", "k8s.api.identity"]).unwrap();
        assert_eq!(plan.inquiry.asked.skipped.into_iter().collect::<Vec<_>>(), ["k8s.api.identity"]);
    }

    #[test]
    fn weakening_options_are_named_with_their_origin() {
        let plan = decide(&["--no-kubernetes", "--max-unready-workers", "10%", "--level", "full"]).unwrap();
        let options: Vec<_> = plan.weakened.iter().map(|weakening| weakening.option.as_str()).collect();
        assert_eq!(options, ["--max-unready-workers 10%", "--no-kubernetes"]);
        assert!(plan.weakened.iter().all(|weakening| weakening.origin == Origin::Flag));
    }
}
