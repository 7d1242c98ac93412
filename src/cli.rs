//! The command line as typed. No decision and no I/O happens here; `plan` decides.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum, ValueHint};

use crate::report::format::{self, Format};
use crate::report::sink::ci::CiChoice;
use crate::report::sink::terminal::Color;
use crate::text::duration::GoDuration;

/// Check whether a Talos Linux and Kubernetes cluster is healthy, and if not, what exactly is wrong
#[derive(Debug, Parser)]
#[command(name = "cluster-health", version, max_term_width = 100, args_conflicts_with_subcommands = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the checks (the default command)
    Check,
    /// List every check
    List {
        /// Also show each check's severity, prerequisites, the facts it reads, and the rights it needs
        #[arg(short, long)]
        verbose: bool,
        /// List the reason codes instead
        #[arg(long, conflicts_with = "causes")]
        reasons: bool,
        /// List the causes instead
        #[arg(long)]
        causes: bool,
        /// Format of the list
        #[arg(short, long, value_enum, default_value_t = ListOutput::Text)]
        output: ListOutput,
    },
    /// Explain a check, reason code, cause or exit code, and what to do; works offline
    Explain {
        /// Check ID, reason code, cause or exit code
        #[arg(value_name = "ID|REASON|CAUSE")]
        topic: String,
        /// Print the URL of its web page instead
        #[arg(long)]
        web: bool,
    },
    /// Show the machines in upgrade order, what each runs, and what is left to do
    UpgradePlan(Box<PlanArgs>),
    /// Show stored reports (`-o json`) in any format, or those of several clusters as one
    Report(ReportArgs),
    /// Print the JSON schema of the report and of NDJSON events
    Schema {
        /// The schema of `upgrade-plan -o json` instead
        #[arg(long)]
        upgrade_plan: bool,
    },
    /// Check or describe a policy (`--policy`), without a cluster
    Policy {
        #[command(subcommand)]
        command: PolicyCommand,
    },
    /// Print the completion script of a shell
    Completions { shell: clap_complete::Shell },
    /// Print the manual page (roff)
    Man,
    /// Print version and build
    Version {
        #[arg(short, long, value_enum, default_value_t = ListOutput::Text)]
        output: ListOutput,
    },
    /// Make the output of other tools safe for a log (stdin to stdout)
    ///
    /// Removes control characters, commands of CI systems and credentials, line by line.
    Sanitize,
    /// Print the least-privilege ClusterRole that the Kubernetes checks need
    Rbac {
        /// Also include the rights of the stage 8 checks (`--upgrade-talos`, `--drain`)
        #[arg(long)]
        upgrade: bool,
        /// Also include the objects that this policy requires (`require`)
        #[arg(long, value_name = "PATH", env = "CLUSTER_HEALTH_POLICY", value_hint = ValueHint::FilePath)]
        policy: Option<PathBuf>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Check a policy: every field, id and date
    Check {
        #[arg(value_name = "PATH", value_hint = ValueHint::FilePath)]
        file: PathBuf,
    },
    /// Print the JSON schema of a policy
    Schema,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ListOutput {
    Text,
    Json,
}

// The options of `report`.
#[derive(Args, Clone, Debug)]
pub(crate) struct ReportArgs {
    /// Reports of `-o json` or `--report json=PATH`, or merged ones; `-` is stdin
    #[arg(value_name = "FILE", required = true, value_hint = ValueHint::FilePath)]
    pub(crate) files: Vec<PathBuf>,
    /// Format of the result
    #[arg(short, long, value_name = "FORMAT", value_parser = format(), default_value = format::TEXT.name)]
    pub(crate) output: &'static Format,
    /// Expected clusters; one without a report is not healthy
    #[arg(long, value_name = "A,B", value_parser = item, value_delimiter = ',')]
    pub(crate) expect: Vec<String>,
    /// File with the expected clusters, one name per line
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub(crate) expect_file: Option<PathBuf>,
    /// Reports of runs that ended longer ago do not count
    #[arg(long, value_name = "DUR")]
    pub(crate) max_age: Option<GoDuration>,
}

// The options of `upgrade-plan`.
#[derive(Args, Clone, Debug)]
pub(crate) struct PlanArgs {
    /// Target version of Talos, such as v1.14.1
    #[arg(long, value_name = "VERSION", env = "CLUSTER_HEALTH_UPGRADE_TALOS", value_parser = version)]
    pub(crate) upgrade_talos: String,
    /// Version of Kubernetes to compare the kubelets with, such as 1.36.4
    #[arg(long, value_name = "VERSION", env = "CLUSTER_HEALTH_UPGRADE_KUBERNETES", value_parser = version)]
    pub(crate) upgrade_kubernetes: Option<String>,
    /// Installer of --upgrade-talos: also show which one each machine gets
    ///
    /// {schematic} is replaced with the schematic that each machine runs.
    #[arg(long, value_name = "IMAGE", env = "CLUSTER_HEALTH_IMAGE", value_parser = item)]
    pub(crate) image: Option<String>,
    /// Machines to upgrade first; the etcd leader is always the last control plane
    #[arg(long, value_enum, default_value_t = First::ControlPlanes)]
    pub(crate) first: First,
    /// Upgraded machine and its previous boot ID: it fell back if it has booted since and runs another version
    #[arg(long, value_name = "NODE=BOOT_ID", value_parser = upgraded, value_delimiter = ',')]
    pub(crate) upgraded: Vec<(String, String)>,
    /// Format of the plan
    #[arg(short, long, value_enum, default_value_t = PlanOutput::Text)]
    pub(crate) output: PlanOutput,
    /// No progress on stderr
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Maximum time to wait until every machine answers [default: one pass]
    #[arg(long, value_name = "DUR", env = "CLUSTER_HEALTH_WAIT_TIMEOUT", allow_hyphen_values = true)]
    pub(crate) wait_timeout: Option<GoDuration>,
    /// Time between the starts of rounds
    #[arg(long, value_name = "DUR", env = "CLUSTER_HEALTH_INTERVAL", default_value = "5s")]
    pub(crate) interval: GoDuration,
    /// Maximum time for one round; each request gets at most half of it
    #[arg(long, value_name = "DUR", env = "CLUSTER_HEALTH_ATTEMPT_TIMEOUT", default_value = "10s")]
    pub(crate) attempt_timeout: GoDuration,
    #[command(flatten)]
    pub(crate) connection: ConnectionOptions,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum First {
    Workers,
    ControlPlanes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PlanOutput {
    /// Human-readable table
    Text,
    /// One document, described by `schema --upgrade-plan`
    Json,
    /// One line per machine, for scripts; `-` where unknown
    Tsv,
}

// Groups of options have plain comments: clap would use a doc comment on a group as the description of the program.

#[derive(Args, Clone, Debug, Default)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) connection: ConnectionOptions,
    #[command(flatten)]
    pub(crate) nodes: NodeOptions,
    #[command(flatten)]
    pub(crate) checks: CheckOptions,
    #[command(flatten)]
    pub(crate) timing: TimingOptions,
    #[command(flatten)]
    pub(crate) verdict: VerdictOptions,
    #[command(flatten)]
    pub(crate) output: OutputOptions,
}

// Endpoints, credentials and names of the cluster.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Connection")]
pub(crate) struct ConnectionOptions {
    /// talosconfig file [default: where talosctl finds it]
    ///
    /// By default `TALOSCONFIG`, then `$TALOS_HOME/config` or ~/.talos/config, then the pod's Talos mount. A context of Omni
    /// takes the key of a service account from `SIDERO_SERVICE_ACCOUNT_KEY`, then from `OMNI_SERVICE_ACCOUNT_KEY`.
    #[arg(long, value_name = "PATH", env = "CLUSTER_HEALTH_TALOSCONFIG", value_hint = ValueHint::FilePath)]
    pub(crate) talosconfig: Option<PathBuf>,
    /// Context of the talosconfig
    #[arg(long, value_name = "NAME", env = "CLUSTER_HEALTH_CONTEXT")]
    pub(crate) context: Option<String>,
    /// Talos endpoints (control planes), instead of the context's
    #[arg(short, long, value_name = "A,B", env = "CLUSTER_HEALTH_ENDPOINTS", value_parser = item, value_delimiter = ',')]
    pub(crate) endpoints: Vec<String>,
    /// Cluster name sent to the endpoint, instead of the context's
    #[arg(long, value_name = "NAME", env = "CLUSTER_HEALTH_CLUSTER")]
    pub(crate) cluster: Option<String>,
    /// Name of the cluster in reports and metrics [default: the context]
    #[arg(long, value_name = "NAME", env = "CLUSTER_HEALTH_CLUSTER_NAME", value_parser = item)]
    pub(crate) cluster_name: Option<String>,
    /// Check Kubernetes only: no talosconfig, stages 1 and 2 skipped
    #[arg(long, env = "CLUSTER_HEALTH_NO_TALOS", value_parser = switch(), action = ArgAction::SetTrue)]
    pub(crate) no_talos: bool,
    /// kubeconfig file [default: where kubectl finds it]
    ///
    /// By default `KUBECONFIG`, then ~/.kube/config, then the pod's service account, then the Talos API with os:admin. If it has
    /// no CA, the system's root certificates count, or those that `SSL_CERT_FILE` and `SSL_CERT_DIR` name.
    #[arg(long, value_name = "PATH", env = "CLUSTER_HEALTH_KUBECONFIG", value_hint = ValueHint::FilePath)]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig
    #[arg(long, value_name = "NAME", env = "CLUSTER_HEALTH_KUBE_CONTEXT")]
    pub(crate) kube_context: Option<String>,
    /// Kubernetes endpoint, instead of the kubeconfig's server
    #[arg(long, value_name = "HOST[:PORT]", env = "CLUSTER_HEALTH_K8S_ENDPOINT")]
    pub(crate) k8s_endpoint: Option<String>,
    /// Use the pod's service account for Kubernetes
    #[arg(long, env = "CLUSTER_HEALTH_IN_CLUSTER", value_parser = switch(), action = ArgAction::SetTrue)]
    pub(crate) in_cluster: bool,
    /// Check Talos and etcd only: no request to Kubernetes
    #[arg(long, env = "CLUSTER_HEALTH_NO_KUBERNETES", value_parser = switch(), action = ArgAction::SetTrue)]
    pub(crate) no_kubernetes: bool,
    /// Never fetch a kubeconfig through the Talos API (it mints a cluster-admin certificate)
    #[arg(long, env = "CLUSTER_HEALTH_NO_KUBECONFIG_FROM_TALOS", value_parser = switch(), action = ArgAction::SetTrue)]
    pub(crate) no_kubeconfig_from_talos: bool,
    /// etcd's own client URLs, for external etcd or with --no-talos
    #[arg(long, value_name = "A,B", env = "CLUSTER_HEALTH_ETCD_ENDPOINTS", value_parser = item, value_delimiter = ',')]
    pub(crate) etcd_endpoints: Vec<String>,
    /// CA of etcd's serving certificates (PEM)
    #[arg(long, value_name = "PATH", env = "CLUSTER_HEALTH_ETCD_CACERT", value_hint = ValueHint::FilePath, requires = "etcd_endpoints")]
    pub(crate) etcd_cacert: Option<PathBuf>,
    /// Client certificate for etcd (PEM)
    #[arg(long, value_name = "PATH", env = "CLUSTER_HEALTH_ETCD_CERT", value_hint = ValueHint::FilePath, requires = "etcd_key")]
    pub(crate) etcd_cert: Option<PathBuf>,
    /// Client key for etcd (PEM)
    #[arg(long, value_name = "PATH", env = "CLUSTER_HEALTH_ETCD_KEY", value_hint = ValueHint::FilePath, requires = "etcd_cert")]
    pub(crate) etcd_key: Option<PathBuf>,
    /// Also run the cluster's own health check, as a second opinion (needs os:admin)
    #[arg(long, env = "CLUSTER_HEALTH_SERVER", value_parser = switch(), action = ArgAction::SetTrue)]
    pub(crate) server: bool,
}

// Machines that are expected, and machines that are judged.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Nodes")]
pub(crate) struct NodeOptions {
    /// Expected control planes: addresses or node names, with or without their domain
    #[arg(long, value_name = "A,B", env = "CLUSTER_HEALTH_CONTROL_PLANE_NODES", value_parser = item, value_delimiter = ',')]
    pub(crate) control_plane_nodes: Vec<String>,
    /// Expected workers: addresses or node names, with or without their domain
    #[arg(long, value_name = "A,B", env = "CLUSTER_HEALTH_WORKER_NODES", value_parser = item, value_delimiter = ',')]
    pub(crate) worker_nodes: Vec<String>,
    /// Narrow the per-node checks to these nodes
    ///
    /// Checks of etcd and of the API servers always cover the whole cluster.
    #[arg(short, long, value_name = "A,B", env = "CLUSTER_HEALTH_NODES", value_parser = item, value_delimiter = ',')]
    pub(crate) nodes: Vec<String>,
    /// Fail unless there are exactly N control planes
    #[arg(long, value_name = "N", env = "CLUSTER_HEALTH_EXPECT_CONTROL_PLANES")]
    pub(crate) expect_control_planes: Option<usize>,
    /// Fail unless there are exactly N workers
    #[arg(long, value_name = "N", env = "CLUSTER_HEALTH_EXPECT_WORKERS")]
    pub(crate) expect_workers: Option<usize>,
    /// Fail unless every machine runs this Talos version, such as v1.13.0
    #[arg(long, value_name = "V", env = "CLUSTER_HEALTH_EXPECT_TALOS", value_parser = version)]
    pub(crate) expect_talos: Option<String>,
    /// Fail unless all of Kubernetes runs this version: 1.35.4, or 1.35 for any patch
    #[arg(long, value_name = "V", env = "CLUSTER_HEALTH_EXPECT_KUBERNETES", value_parser = version_or_minor)]
    pub(crate) expect_kubernetes: Option<String>,
    /// Tolerate up to N (or P%) workers that are not ready (warn instead of fail)
    ///
    /// These are workers that are down, not registered or not Ready, or fail another check of their health. Workers missing from `--expect-workers`, wrong clocks, versions and identities are never tolerated, and neither is anything that blocks an upgrade.
    #[arg(long, value_name = "N|P%", env = "CLUSTER_HEALTH_MAX_UNREADY_WORKERS")]
    pub(crate) max_unready_workers: Option<String>,
}

// Checks that run.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Checks")]
pub(crate) struct CheckOptions {
    /// Run only these checks (ID, prefix, stage number or glob) and what they need
    #[arg(long, value_name = "ID", env = "CLUSTER_HEALTH_CHECK", value_parser = item, value_delimiter = ',')]
    pub(crate) check: Vec<String>,
    /// Leave these checks out; applied after --check
    #[arg(long, value_name = "ID", env = "CLUSTER_HEALTH_SKIP", value_parser = item, value_delimiter = ',')]
    pub(crate) skip: Vec<String>,
    /// talos: stages 1-2, etcd: 1-3, api: 1-5 and 7, full: all
    #[arg(long, value_enum, hide_possible_values = true, env = "CLUSTER_HEALTH_LEVEL")]
    pub(crate) level: Option<Level>,
    /// Also check an upgrade of Talos to this version, such as v1.14.1
    ///
    /// These are the checks of stage 8, as for --upgrade-kubernetes and --drain.
    #[arg(long, value_name = "VERSION", env = "CLUSTER_HEALTH_UPGRADE_TALOS", value_parser = version)]
    pub(crate) upgrade_talos: Option<String>,
    /// Also check an upgrade of Kubernetes to this version, such as 1.36.4
    #[arg(long, value_name = "VERSION", env = "CLUSTER_HEALTH_UPGRADE_KUBERNETES", value_parser = version)]
    pub(crate) upgrade_kubernetes: Option<String>,
    /// Also check whether this machine can be drained and taken down now
    ///
    /// NODE is the name or address of the machine.
    #[arg(long, value_name = "NODE", env = "CLUSTER_HEALTH_DRAIN", value_parser = item)]
    pub(crate) drain: Option<String>,
    /// Installer of --upgrade-talos: also check whether it has the extensions of the machines
    ///
    /// {schematic} is replaced with the schematic that each machine runs.
    #[arg(long, value_name = "IMAGE", env = "CLUSTER_HEALTH_IMAGE", value_parser = item)]
    pub(crate) image: Option<String>,
}

// Timing of rounds and of the whole run.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Timing")]
pub(crate) struct TimingOptions {
    /// Maximum time to wait for all checks to pass [default: one pass]
    ///
    /// A Go duration such as 90s, 5m or 1h30m; by default, one pass now.
    #[arg(long, value_name = "DUR", env = "CLUSTER_HEALTH_WAIT_TIMEOUT", allow_hyphen_values = true)]
    pub(crate) wait_timeout: Option<GoDuration>,
    /// Time between the starts of rounds
    #[arg(long, value_name = "DUR", env = "CLUSTER_HEALTH_INTERVAL", default_value = "5s")]
    pub(crate) interval: GoDuration,
    /// Maximum time for one round; each request gets at most half of it
    #[arg(long, value_name = "DUR", env = "CLUSTER_HEALTH_ATTEMPT_TIMEOUT", default_value = "10s")]
    pub(crate) attempt_timeout: GoDuration,
    /// Succeed only after all checks have passed for this long
    ///
    /// Needs a longer --wait-timeout.
    #[arg(long, value_name = "DUR", env = "CLUSTER_HEALTH_STABLE_FOR")]
    pub(crate) stable_for: Option<GoDuration>,
    /// Stop at the first problem that waiting cannot solve
    #[arg(long, env = "CLUSTER_HEALTH_FAIL_FAST", value_parser = switch(), action = ArgAction::SetTrue)]
    pub(crate) fail_fast: bool,
}

// Severity of problems.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Verdict")]
pub(crate) struct VerdictOptions {
    /// Policy file: expectations, accepted problems, machines that are off
    ///
    /// `policy check` checks one without a cluster, `policy schema` describes its fields.
    #[arg(long, value_name = "PATH", env = "CLUSTER_HEALTH_POLICY", value_hint = ValueHint::FilePath)]
    pub(crate) policy: Option<PathBuf>,
    /// Treat warnings as failures
    #[arg(long, env = "CLUSTER_HEALTH_STRICT", value_parser = switch(), action = ArgAction::SetTrue)]
    pub(crate) strict: bool,
    /// Treat warnings of these checks or reasons as failures
    ///
    /// `node-condition=TYPE` fails for node conditions of this type alone, such as those of node-problem-detector.
    #[arg(long, value_name = "ID|REASON", env = "CLUSTER_HEALTH_FAIL_ON", value_parser = item, value_delimiter = ',')]
    pub(crate) fail_on: Vec<String>,
    /// Treat failures of these checks or reasons as warnings
    #[arg(long, value_name = "ID|REASON", env = "CLUSTER_HEALTH_WARN_ONLY", value_parser = item, value_delimiter = ',')]
    pub(crate) warn_only: Vec<String>,
    /// Fail unless etcd can lose N members and keep quorum
    #[arg(long, value_name = "N", env = "CLUSTER_HEALTH_REQUIRE_QUORUM_MARGIN")]
    pub(crate) require_quorum_margin: Option<usize>,
}

// Destination and appearance of the result.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputOptions {
    /// Format of the result on stdout
    #[arg(short, long, value_name = "FORMAT", value_parser = format(), env = "CLUSTER_HEALTH_OUTPUT", default_value = format::TEXT.name)]
    pub(crate) output: &'static Format,
    /// Also write a report to a file, or send it to a URL; repeatable
    #[arg(
        long,
        value_name = "FORMAT=PATH|URL",
        env = "CLUSTER_HEALTH_REPORT",
        // The URL of a webhook is a secret.
        hide_env_values = true,
        value_delimiter = ','
    )]
    pub(crate) report: Vec<String>,
    /// Headers for the servers of --report: on each line HOST, a tab, then `Name: value`
    #[arg(long, value_name = "PATH", env = "CLUSTER_HEALTH_REPORT_HEADERS_FILE", value_hint = ValueHint::FilePath)]
    pub(crate) report_headers_file: Option<PathBuf>,
    /// Also write each connection and call, with its timing, to this file, as OTLP JSON
    #[arg(long, value_name = "PATH", env = "CLUSTER_HEALTH_TRACE", value_hint = ValueHint::FilePath)]
    pub(crate) trace: Option<PathBuf>,
    /// Write the verdict and its first cause to this file, for Kubernetes [default in a pod: /dev/termination-log]
    #[arg(long, value_name = "PATH", env = "CLUSTER_HEALTH_TERMINATION_LOG", value_hint = ValueHint::FilePath)]
    pub(crate) termination_log: Option<PathBuf>,
    /// Also show the last log lines of failed services and static pods
    #[arg(long, value_enum, value_name = "logs", hide_possible_values = true, env = "CLUSTER_HEALTH_EVIDENCE")]
    pub(crate) evidence: Option<Evidence>,
    /// No progress on stderr
    #[arg(short, long, env = "CLUSTER_HEALTH_QUIET", value_parser = switch(), action = ArgAction::SetTrue)]
    pub(crate) quiet: bool,
    /// More progress, and every object in the report (-vv: also why)
    #[arg(short, long, env = "CLUSTER_HEALTH_VERBOSE", value_parser = level_of_detail(), action = ArgAction::Count)]
    pub(crate) verbose: u8,
    /// Color of text
    #[arg(long, value_enum, env = "CLUSTER_HEALTH_COLOR", default_value_t = Color::Auto)]
    pub(crate) color: Color,
    /// Also use features of the CI system: GitHub annotations and step summary, GitLab sections
    #[arg(long, value_enum, env = "CLUSTER_HEALTH_CI", default_value_t = CiChoice::Auto)]
    pub(crate) ci: CiChoice,
}

/// Evidence that is collected in addition to the verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Evidence {
    /// Files with logs are readable only by their owner
    Logs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Level {
    Talos,
    Etcd,
    Api,
    Full,
}

/// Parses the name of a format.
fn format() -> impl TypedValueParser<Value = &'static Format> {
    let values = format::ALL.map(|format| PossibleValue::new(format.name).help(format.about));
    PossibleValuesParser::new(values).try_map(|name| format::find(&name).ok_or("there is no such format"))
}

/// Parses a switch; its variable can be empty, `0`, `false`, `no` or `off` for "not set".
fn switch() -> impl TypedValueParser<Value = bool> {
    PossibleValuesParser::new(SWITCH).map(|value| is_on(&value))
}

const SWITCH: [&str; 9] = ["true", "1", "yes", "on", "false", "0", "no", "off", ""];

fn is_on(value: &str) -> bool {
    matches!(value, "true" | "1" | "yes" | "on")
}

/// Parses a switch that can be given twice. Its variable can be `2` for that, and clap passes the count as a number; `3` counts as 2.
fn level_of_detail() -> impl TypedValueParser<Value = u8> {
    let more = [PossibleValue::new("2"), PossibleValue::new("3").hide(true)];
    let values = SWITCH.map(PossibleValue::new).into_iter().chain(more);
    PossibleValuesParser::new(values)
        .map(|value| if matches!(value.as_str(), "2" | "3") { 2 } else { is_on(&value).into() })
}

/// Parses one item of a list. An empty item would name a node or a check that does not exist.
pub(crate) fn item(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("an item of the list is empty".to_owned()),
        item => Ok(item.to_owned()),
    }
}

/// Parses a machine and the boot ID that it had.
fn upgraded(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(node, boot)| !node.is_empty() && !boot.is_empty());
    pair.map(|(node, boot)| (node.to_owned(), boot.to_owned())).ok_or_else(|| "expected NODE=BOOT_ID".to_owned())
}

/// Parses a full version, with or without a leading `v`: a partial one would let every patch release pass.
pub(crate) fn version(text: &str) -> Result<String, String> {
    numbers(text, &[3]).ok_or_else(|| "expected a version of three numbers, such as `v1.13.0` for Talos".to_owned())
}

/// Parses a full version, or a minor version that represents all of its patch releases.
pub(crate) fn version_or_minor(text: &str) -> Result<String, String> {
    numbers(text, &[2, 3]).ok_or_else(|| "expected a version such as `1.35.4` or `1.35`".to_owned())
}

/// Returns the version without its `v`, if the count of its numbers is in `counts`; only a full version can have a suffix (`-rc.0`).
fn numbers(text: &str, counts: &[usize]) -> Option<String> {
    let version = text.strip_prefix('v').unwrap_or(text);
    let (release, rest) = version.split_at(version.find(['-', '+']).unwrap_or(version.len()));
    let number = |part: &str| part.parse::<u32>().is_ok() && !part.starts_with('+');
    let count = release.split('.').count();
    let is_release = counts.contains(&count) && release.split('.').all(number);
    let printable = rest.len() != 1 && rest.bytes().all(|byte| byte.is_ascii_graphic());
    (is_release && printable && (rest.is_empty() || count == 3)).then(|| version.to_owned())
}
