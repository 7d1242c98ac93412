//! What was typed. No decision and no I/O happens here; `plan` decides.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum, ValueHint};

use crate::duration::GoDuration;
use crate::report::format::{self, Format};
use crate::report::junit::Granularity;

/// Is this Talos Linux and Kubernetes cluster healthy, all of it, now, and if not, what exactly is wrong?
#[derive(Debug, Parser)]
#[command(name = "cluster-health", version, max_term_width = 100, args_conflicts_with_subcommands = true)]
#[command(disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Every check: id, stage, severity, prerequisites, what it reads
    List {
        /// Form of the list
        #[arg(short, long, value_enum, default_value_t = ListOutput::Text)]
        output: ListOutput,
    },
    /// What a check measures, what a reason code or a diagnosis means, why, and what to do; works offline
    Explain {
        /// Check id, reason code or diagnosis
        #[arg(value_name = "ID|REASON|DIAGNOSIS")]
        topic: String,
    },
    /// The JSON schema of the report and of NDJSON events
    Schema,
    /// A completion script for a shell
    Completions { shell: clap_complete::Shell },
    /// The manual page (roff)
    Man,
    /// Version and build of this program
    Version {
        #[arg(short, long, value_enum, default_value_t = ListOutput::Text)]
        output: ListOutput,
    },
    /// The least-privilege ClusterRole that the Kubernetes checks need
    Rbac,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ListOutput {
    Text,
    Json,
}

#[derive(Args, Clone, Debug, Default)]
pub(crate) struct RunArgs {
    /// talosconfig file [default: TALOSCONFIG, $TALOS_HOME or ~/.talos/config, the pod's Talos mount]
    #[arg(long, value_name = "PATH", env = "CLUSTER_HEALTH_TALOSCONFIG", value_hint = ValueHint::FilePath, help_heading = "Where")]
    pub(crate) talosconfig: Option<PathBuf>,
    /// Context of the talosconfig
    #[arg(long, value_name = "NAME", env = "CLUSTER_HEALTH_CONTEXT", help_heading = "Where")]
    pub(crate) context: Option<String>,
    /// Talos endpoints (control planes), instead of the context's
    #[arg(
        short,
        long,
        value_name = "A,B",
        env = "CLUSTER_HEALTH_ENDPOINTS",
        value_parser = item,
        value_delimiter = ',',
        help_heading = "Where"
    )]
    pub(crate) endpoints: Vec<String>,
    /// Cluster name sent to the endpoint, instead of the context's
    #[arg(long, value_name = "NAME", env = "CLUSTER_HEALTH_CLUSTER", help_heading = "Where")]
    pub(crate) cluster: Option<String>,
    /// Judge Kubernetes alone: no talosconfig, stages 1 and 2 skipped
    #[arg(long, env = "CLUSTER_HEALTH_NO_TALOS", value_parser = switch(), action = ArgAction::SetTrue, help_heading = "Where")]
    pub(crate) no_talos: bool,
    /// kubeconfig file [default: KUBECONFIG, ~/.kube/config, in-cluster, the Talos API with os:admin]
    #[arg(long, value_name = "PATH", env = "CLUSTER_HEALTH_KUBECONFIG", value_hint = ValueHint::FilePath, help_heading = "Where")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig
    #[arg(long, value_name = "NAME", env = "CLUSTER_HEALTH_KUBE_CONTEXT", help_heading = "Where")]
    pub(crate) kube_context: Option<String>,
    /// Kubernetes endpoint, instead of the kubeconfig's server
    #[arg(long, value_name = "HOST[:PORT]", env = "CLUSTER_HEALTH_K8S_ENDPOINT", help_heading = "Where")]
    pub(crate) k8s_endpoint: Option<String>,
    /// Use the pod's service account for Kubernetes
    #[arg(long, env = "CLUSTER_HEALTH_IN_CLUSTER", value_parser = switch(), action = ArgAction::SetTrue, help_heading = "Where")]
    pub(crate) in_cluster: bool,
    /// Judge Talos and etcd alone: nothing is asked of Kubernetes
    #[arg(long, env = "CLUSTER_HEALTH_NO_KUBERNETES", value_parser = switch(), action = ArgAction::SetTrue, help_heading = "Where")]
    pub(crate) no_kubernetes: bool,
    /// Never fetch a kubeconfig through the Talos API (it mints a cluster-admin certificate)
    #[arg(long, env = "CLUSTER_HEALTH_NO_KUBECONFIG_FROM_TALOS", value_parser = switch(), action = ArgAction::SetTrue, help_heading = "Where")]
    pub(crate) no_kubeconfig_from_talos: bool,
    /// etcd's own client URLs, for external etcd or with --no-talos
    #[arg(
        long,
        value_name = "A,B",
        env = "CLUSTER_HEALTH_ETCD_ENDPOINTS",
        value_parser = item,
        value_delimiter = ',',
        help_heading = "Where"
    )]
    pub(crate) etcd_endpoints: Vec<String>,
    /// CA of etcd's serving certificates (PEM)
    #[arg(long, value_name = "PATH", env = "CLUSTER_HEALTH_ETCD_CACERT", value_hint = ValueHint::FilePath, requires = "etcd_endpoints", help_heading = "Where")]
    pub(crate) etcd_cacert: Option<PathBuf>,
    /// Client certificate for etcd (PEM)
    #[arg(long, value_name = "PATH", env = "CLUSTER_HEALTH_ETCD_CERT", value_hint = ValueHint::FilePath, requires = "etcd_key", help_heading = "Where")]
    pub(crate) etcd_cert: Option<PathBuf>,
    /// Client key for etcd (PEM)
    #[arg(long, value_name = "PATH", env = "CLUSTER_HEALTH_ETCD_KEY", value_hint = ValueHint::FilePath, requires = "etcd_cert", help_heading = "Where")]
    pub(crate) etcd_key: Option<PathBuf>,
    /// Also ask the cluster's own health check, as a second opinion (needs os:admin)
    #[arg(long, env = "CLUSTER_HEALTH_SERVER", value_parser = switch(), action = ArgAction::SetTrue, help_heading = "Where")]
    pub(crate) server: bool,

    /// The control planes there should be: addresses or node names
    #[arg(
        long,
        value_name = "A,B",
        env = "CLUSTER_HEALTH_CONTROL_PLANE_NODES",
        value_parser = item,
        value_delimiter = ',',
        help_heading = "Which nodes"
    )]
    pub(crate) control_plane_nodes: Vec<String>,
    /// The workers there should be: addresses or node names
    #[arg(
        long,
        value_name = "A,B",
        env = "CLUSTER_HEALTH_WORKER_NODES",
        value_parser = item,
        value_delimiter = ',',
        help_heading = "Which nodes"
    )]
    pub(crate) worker_nodes: Vec<String>,
    /// Narrow the per-node checks to these nodes; etcd and API checks always cover the cluster
    #[arg(
        short,
        long,
        value_name = "A,B",
        env = "CLUSTER_HEALTH_NODES",
        value_parser = item,
        value_delimiter = ',',
        help_heading = "Which nodes"
    )]
    pub(crate) nodes: Vec<String>,
    /// Fail unless there are exactly N control planes
    #[arg(long, value_name = "N", env = "CLUSTER_HEALTH_EXPECT_CONTROL_PLANES", help_heading = "Which nodes")]
    pub(crate) expect_control_planes: Option<usize>,
    /// Fail unless there are exactly N workers
    #[arg(long, value_name = "N", env = "CLUSTER_HEALTH_EXPECT_WORKERS", help_heading = "Which nodes")]
    pub(crate) expect_workers: Option<usize>,
    /// Fail unless every machine runs this version of Talos, such as v1.13.0
    #[arg(long, value_name = "V", env = "CLUSTER_HEALTH_EXPECT_TALOS", value_parser = version, help_heading = "Which nodes")]
    pub(crate) expect_talos: Option<String>,
    /// Fail unless Kubernetes is of this version everywhere: 1.35.4, or 1.35 for any patch of it
    #[arg(long, value_name = "V", env = "CLUSTER_HEALTH_EXPECT_KUBERNETES", value_parser = version_or_minor, help_heading = "Which nodes")]
    pub(crate) expect_kubernetes: Option<String>,
    /// So many workers may be not ready: a warning instead of a failure
    #[arg(long, value_name = "N|P%", env = "CLUSTER_HEALTH_MAX_UNREADY_WORKERS", help_heading = "Which nodes")]
    pub(crate) max_unready_workers: Option<String>,

    /// Run only these checks and what they need: id, prefix (etcd), stage number or glob
    #[arg(long, value_name = "ID", env = "CLUSTER_HEALTH_CHECK", value_parser = item, value_delimiter = ',', help_heading = "Which checks")]
    pub(crate) check: Vec<String>,
    /// Leave these checks out; applied after --check
    #[arg(long, value_name = "ID", env = "CLUSTER_HEALTH_SKIP", value_parser = item, value_delimiter = ',', help_heading = "Which checks")]
    pub(crate) skip: Vec<String>,
    /// talos: stages 1-2, etcd: 1-3, api: 1-5 and 7, full: all
    #[arg(long, value_enum, env = "CLUSTER_HEALTH_LEVEL", help_heading = "Which checks")]
    pub(crate) level: Option<Level>,

    /// Wait so long for everything to pass, then give up (Go duration: 90s, 5m, 1h30m) [default: one pass, now]
    #[arg(
        long,
        value_name = "DUR",
        env = "CLUSTER_HEALTH_WAIT_TIMEOUT",
        allow_hyphen_values = true,
        help_heading = "How long"
    )]
    pub(crate) wait_timeout: Option<GoDuration>,
    /// Time between the starts of rounds
    #[arg(long, value_name = "DUR", env = "CLUSTER_HEALTH_INTERVAL", default_value = "5s", help_heading = "How long")]
    pub(crate) interval: GoDuration,
    /// Bounds a round; each call gets at most half of it
    #[arg(
        long,
        value_name = "DUR",
        env = "CLUSTER_HEALTH_ATTEMPT_TIMEOUT",
        default_value = "10s",
        help_heading = "How long"
    )]
    pub(crate) attempt_timeout: GoDuration,
    /// Succeed only when everything has passed for so long; needs a longer --wait-timeout
    #[arg(long, value_name = "DUR", env = "CLUSTER_HEALTH_STABLE_FOR", help_heading = "How long")]
    pub(crate) stable_for: Option<GoDuration>,
    /// End at the first problem that waiting will not change
    #[arg(long, env = "CLUSTER_HEALTH_FAIL_FAST", value_parser = switch(), action = ArgAction::SetTrue, help_heading = "How long")]
    pub(crate) fail_fast: bool,
    /// Keep waiting even when waiting cannot help
    #[arg(long, env = "CLUSTER_HEALTH_RETRY_ALL", value_parser = switch(), action = ArgAction::SetTrue, help_heading = "How long")]
    pub(crate) retry_all: bool,

    /// Warnings fail
    #[arg(long, env = "CLUSTER_HEALTH_STRICT", value_parser = switch(), action = ArgAction::SetTrue, help_heading = "Verdict")]
    pub(crate) strict: bool,
    /// Failures of these checks only warn
    #[arg(long, value_name = "ID", env = "CLUSTER_HEALTH_WARN_ONLY", value_parser = item, value_delimiter = ',', help_heading = "Verdict")]
    pub(crate) warn_only: Vec<String>,
    /// Fail unless etcd can lose so many members
    #[arg(long, value_name = "N", env = "CLUSTER_HEALTH_REQUIRE_QUORUM_MARGIN", help_heading = "Verdict")]
    pub(crate) require_quorum_margin: Option<usize>,
    /// A selection that checks nothing is no error
    #[arg(long, env = "CLUSTER_HEALTH_ALLOW_EMPTY", value_parser = switch(), action = ArgAction::SetTrue, help_heading = "Verdict")]
    pub(crate) allow_empty: bool,
    /// Exit with 0 or 1 only
    #[arg(long, env = "CLUSTER_HEALTH_SIMPLE_EXIT_CODES", value_parser = switch(), action = ArgAction::SetTrue, help_heading = "Verdict")]
    pub(crate) simple_exit_codes: bool,

    /// Form of the result on stdout
    #[arg(short, long, value_name = "FORMAT", value_parser = format(), env = "CLUSTER_HEALTH_OUTPUT", default_value = format::TEXT.name, help_heading = "Output")]
    pub(crate) output: &'static Format,
    /// Also write a report to a file, in a format of --output; repeatable
    #[arg(
        long,
        value_name = "FORMAT=PATH",
        env = "CLUSTER_HEALTH_REPORT",
        value_delimiter = ',',
        help_heading = "Output"
    )]
    pub(crate) report: Vec<String>,
    /// The same as --report junit=PATH
    #[arg(long, value_name = "PATH", env = "CLUSTER_HEALTH_JUNIT_FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub(crate) junit_file: Option<PathBuf>,
    /// What is a test case of the JUnit report
    #[arg(long, value_enum, env = "CLUSTER_HEALTH_JUNIT_GRANULARITY", default_value_t, help_heading = "Output")]
    pub(crate) junit_granularity: Granularity,
    /// Read what may tell why: the last lines of the logs of failed services and static pods
    #[arg(long, value_enum, env = "CLUSTER_HEALTH_EVIDENCE", help_heading = "Output")]
    pub(crate) evidence: Option<Evidence>,
    /// No progress on stderr
    #[arg(short, long, env = "CLUSTER_HEALTH_QUIET", value_parser = switch(), action = ArgAction::SetTrue, help_heading = "Output")]
    pub(crate) quiet: bool,
    /// More progress on stderr; text and Markdown fold nothing
    #[arg(short, long, env = "CLUSTER_HEALTH_VERBOSE", value_parser = switch(), action = ArgAction::SetTrue, help_heading = "Output")]
    pub(crate) verbose: bool,
    /// Colour of text
    #[arg(long, value_enum, env = "CLUSTER_HEALTH_COLOR", default_value_t = Color::Auto, help_heading = "Output")]
    pub(crate) color: Color,
    /// Also speak to a CI system: GitHub annotations and step summary, GitLab sections
    #[arg(long, value_enum, env = "CLUSTER_HEALTH_CI", default_value_t = CiChoice::Auto, help_heading = "Output")]
    pub(crate) ci: CiChoice,
    /// Only ASCII in progress and text; so it is in a locale that is not UTF-8
    #[arg(long, env = "CLUSTER_HEALTH_ASCII", value_parser = switch(), action = ArgAction::SetTrue, help_heading = "Output")]
    pub(crate) ascii: bool,
    /// A line of progress at least so often
    #[arg(long, value_name = "DUR", env = "CLUSTER_HEALTH_HEARTBEAT", default_value = "30s", help_heading = "Output")]
    pub(crate) heartbeat: GoDuration,
}

/// What is gathered beside the verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Evidence {
    /// Files with it are readable by their owner alone
    Logs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Level {
    Talos,
    Etcd,
    Api,
    Full,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    #[default]
    Auto,
    Always,
    Never,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum CiChoice {
    /// The one in which the program runs
    #[default]
    Auto,
    Github,
    Gitlab,
    None,
}

/// A format of the table, by its name.
fn format() -> impl TypedValueParser<Value = &'static Format> {
    let values = format::ALL.map(|format| PossibleValue::new(format.name).help(format.about));
    PossibleValuesParser::new(values).try_map(|name| format::find(&name).ok_or("no format is called so"))
}

/// A switch whose variable may be empty, `0`, `false`, `no` or `off` for "not set".
fn switch() -> impl TypedValueParser<Value = bool> {
    PossibleValuesParser::new(["true", "1", "yes", "on", "false", "0", "no", "off", ""])
        .map(|value| matches!(value.as_str(), "true" | "1" | "yes" | "on"))
}

/// One item of a list. An empty one would be a node or a check that there is not.
fn item(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("an item of the list is empty".to_owned()),
        item => Ok(item.to_owned()),
    }
}

/// A whole version, without the `v` that may stand before it: half of one would let every patch pass.
fn version(text: &str) -> Result<String, String> {
    numbers(text, &[3]).ok_or_else(|| "expected a version such as `v1.13.0`".to_owned())
}

/// The same, or of a minor version every patch.
fn version_or_minor(text: &str) -> Result<String, String> {
    numbers(text, &[2, 3]).ok_or_else(|| "expected a version such as `1.35.4` or `1.35`".to_owned())
}

/// A version of so many numbers; only a whole one may go on (`-rc.0`).
fn numbers(text: &str, counts: &[usize]) -> Option<String> {
    let version = text.strip_prefix('v').unwrap_or(text);
    let (release, rest) = version.split_at(version.find(['-', '+']).unwrap_or(version.len()));
    let number = |part: &str| part.parse::<u32>().is_ok() && !part.starts_with('+');
    let count = release.split('.').count();
    let is_release = counts.contains(&count) && release.split('.').all(number);
    let printable = rest.len() != 1 && rest.bytes().all(|byte| byte.is_ascii_graphic());
    (is_release && printable && (rest.is_empty() || count == 3)).then(|| version.to_owned())
}
