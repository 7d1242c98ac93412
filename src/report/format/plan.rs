//! The plan of an upgrade, for people, as a document, and as lines for scripts. These formats belong to `upgrade-plan` alone.

use std::io;

use serde::Serialize;

use super::{Format, json, text};
use crate::checks::EtcdStops;
use crate::model::{Exit, Role};
use crate::report::Report;
use crate::report::view::style::{Paint, TextStyle, paint};
use crate::report::view::wording::count;
use crate::rollout::{Cluster, Machine, Rollout, State};
use crate::snapshot::First;
use crate::text::sanitize::{ascii, clean, is_showable};

/// The schema of the document, as published.
pub(crate) const SCHEMA: &str = include_str!("../../../schema/upgrade-plan.v1.json");

pub(crate) static TEXT: Format = Format {
    name: "text",
    about: "Human-readable table",
    media_type: "text/plain",
    extension: "txt",
    grow: None,
    post: None,
    write: write_text,
    merged: None,
};

pub(crate) static JSON: Format = Format {
    name: "json",
    about: "One document, described by a schema",
    media_type: "application/json",
    extension: "json",
    grow: None,
    post: None,
    write: |report, _, out| {
        serde_json::to_writer_pretty(&mut *out, &document(report))?;
        writeln!(out)?;
        out.flush()
    },
    merged: None,
};

pub(crate) static TSV: Format = Format {
    name: "tsv",
    about: "One line per machine, for scripts",
    media_type: "text/tab-separated-values",
    extension: "tsv",
    grow: None,
    post: None,
    write: |report, _, out| write_tsv(report, out),
    merged: None,
};

fn machines(report: &Report) -> &[Machine] {
    report.rollout.as_ref().map_or(&[], |rollout| &rollout.machines)
}

fn versioned(version: Option<&String>) -> Option<String> {
    version.map(|version| format!("v{version}"))
}

/// Returns the text of a cell. It is never empty, because shells take several tabs for one.
fn cell(text: Option<String>) -> String {
    let text = text.map(|text| clean(&text).replace('\t', " "));
    text.filter(|text| !text.is_empty()).unwrap_or_else(|| "-".to_owned())
}

fn yes(is: bool) -> String {
    if is { "yes" } else { "no" }.to_owned()
}

/// Heading of a column, and its value for a machine.
type Column = (&'static str, fn(&Machine) -> Option<String>);

/// Later versions may add columns at the end.
const COLUMNS: [Column; 13] = [
    ("node", |it| Some(it.name.clone())),
    ("address", |it| Some(it.address.clone())),
    ("role", |it| Some(it.role.name().to_owned())),
    ("leader", |it| Some(yes(it.is_leader))),
    ("version", |it| versioned(it.version.as_ref())),
    ("kubelet", |it| versioned(it.kubelet.as_ref())),
    ("state", |it| Some(it.state.name().to_owned())),
    ("cordoned", |it| it.cordoned.map(yes)),
    ("boot-id", |it| it.boot_id.clone()),
    ("schematic", |it| it.schematic.clone()),
    ("installed", |it| it.installed.clone()),
    ("evidence", |it| Some(it.evidence.clone())),
    ("image", |it| it.image.clone()),
];

/// Returns the text of a cell that scripts use unchanged: it has nothing hidden in it.
fn handed_on(text: Option<String>) -> String {
    match text {
        Some(text) if !text.is_empty() && is_showable(&text) => text,
        text => cell(text),
    }
}

type OfCluster = fn(&Cluster) -> String;

/// Columns that are the same in each line: the cluster, and the way to it.
const OF_CLUSTER: [(&str, OfCluster); 8] = [
    ("talos-cluster", |it| cell(it.talos.clone())),
    ("kubernetes-cluster", |it| cell(it.kubernetes.clone())),
    ("talosconfig", |it| handed_on(it.talosconfig.clone())),
    ("talos-context", |it| handed_on(it.context.clone())),
    ("talos-endpoints", |it| handed_on(Some(it.endpoints.join(",")))),
    ("kubeconfig", |it| handed_on(it.kubeconfig.clone())),
    ("kube-context", |it| handed_on(it.kube_context.clone())),
    ("kube-server", |it| handed_on(it.server.clone())),
];

fn write_tsv(report: &Report, out: &mut dyn io::Write) -> io::Result<()> {
    let heading: Vec<_> = COLUMNS.iter().map(|(name, _)| *name).chain(OF_CLUSTER.map(|(name, _)| name)).collect();
    writeln!(out, "{}", heading.join("\t"))?;
    let cluster = report.rollout.as_ref().map(|rollout| OF_CLUSTER.map(|(_, of)| of(&rollout.cluster)));
    for machine in machines(report) {
        let cells: Vec<_> =
            COLUMNS.iter().map(|(_, of)| cell(of(machine))).chain(cluster.iter().flatten().cloned()).collect();
        writeln!(out, "{}", cells.join("\t"))?;
    }
    out.flush()
}

fn write_text(report: &Report, style: &TextStyle, out: &mut dyn io::Write) -> io::Result<()> {
    if let Some(rollout) = &report.rollout {
        for line in table(rollout, report.exit, style) {
            writeln!(out, "{}", if style.ascii { ascii(&line) } else { line }.trim_end())?;
        }
    }
    // A plan that is based on less than the whole cluster shows why.
    if report.exit != Exit::Healthy {
        writeln!(out)?;
        text::write(report, style, &mut *out)?;
    }
    out.flush()
}

fn table(rollout: &Rollout, exit: Exit, style: &TextStyle) -> Vec<String> {
    let role = |machine: &Machine| match (machine.role, machine.is_leader) {
        (Role::ControlPlane, true) => "control plane, etcd leader",
        (Role::ControlPlane, false) => "control plane",
        (Role::Worker, _) => "worker",
        (Role::Unknown, _) => "role unknown",
    };
    let evidence = |machine: &Machine| {
        let cordoned = if machine.cordoned == Some(true) { "cordoned; " } else { "" };
        let image = match &machine.image {
            Some(image) if machine.state != State::Done => format!("; to install: {image}"),
            None if rollout.lacks_image(machine) => "; to install: unknown, as no schematic was reported".to_owned(),
            _ => String::new(),
        };
        format!("{cordoned}{}{image}", machine.evidence)
    };
    let row = |machine: &Machine| {
        let name = format!("{} ({})", machine.name, machine.address);
        [name, role(machine).to_owned(), machine.state.words().to_owned(), evidence(machine)]
    };
    let rows: Vec<_> = rollout.machines.iter().map(row).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths = [width(0), width(1), width(2)];
    let mut lines: Vec<_> = rows
        .iter()
        .zip(&rollout.machines)
        .map(|([name, role, state, evidence], machine)| {
            let color = match machine.state {
                State::Done => Paint::Good,
                State::ToDo => Paint::Heading,
                State::Installed => Paint::Caution,
                State::FellBack | State::Unknown => Paint::Bad,
            };
            let state = paint(style.color, color, &format!("{state:0$}", widths[2]));
            format!("{name:0$}  {role:1$}  {state}  {evidence}", widths[0], widths[1])
        })
        .collect();
    lines.push(String::new());
    let done = rollout.machines.iter().filter(|it| it.state == State::Done).count();
    // An incomplete plan must not be acted on.
    let next = rollout.machines.iter().find(|it| it.state != State::Done && exit == Exit::Healthy);
    let next = next.map(|it| format!("; next: {} ({})", it.name, it.address)).unwrap_or_default();
    let all = count(rollout.machines.len(), "machine");
    lines.push(format!("Talos v{}: {done} of {all} done{next}", rollout.talos));
    if let (Some(version), Some(state)) = (&rollout.kubernetes, rollout.kubernetes_state()) {
        let rest = match state {
            State::Done => "every kubelet runs it",
            State::Unknown => "not every kubelet's version is known",
            _ => "to do, once for the whole cluster (talosctl upgrade-k8s)",
        };
        lines.push(format!("Kubernetes v{version}: {rest}"));
    }
    if let Some(etcd) = &rollout.etcd {
        let stops = etcd.releases.iter().map(|(talos, etcd)| format!("; first: Talos v{talos} with etcd {etcd}"));
        lines.push(format!("etcd: {}{}", clean(&etcd.why), stops.collect::<String>()));
    }
    let Cluster { talos, kubernetes, .. } = &rollout.cluster;
    let known = |id: &Option<String>| id.as_deref().map_or_else(|| "unknown".to_owned(), clean);
    lines.push(format!("Cluster: Talos ID {}, Kubernetes UID {}", known(talos), known(kubernetes)));
    lines
}

// The published schema is generated from these structs, including their comments: `tests/schema.rs`.

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "plan"))]
pub(crate) struct Document<'a> {
    /// Version of this document. Within major version 1, only additions are made.
    #[cfg_attr(test, schemars(regex(pattern = r"^1\.[0-9]+$")))]
    schema_version: &'static str,
    /// Kind of this document.
    #[cfg_attr(test, schemars(extend("const" = KIND)))]
    kind: &'static str,
    /// Program that made the plan.
    tool: json::Tool<'a>,
    /// Every machine was seen, and none fell back. If false, exitReason and stderr show why, and the plan must not be acted on.
    complete: bool,
    /// Exit code of the process.
    exit_code: u8,
    /// Why the process ends with this code, in words.
    exit_reason: String,
    /// Version of Talos to upgrade to, with its v.
    talos: Option<String>,
    /// Version of Kubernetes to upgrade to; null: none was given.
    kubernetes: Option<Kubernetes>,
    /// Releases to upgrade to first, in order, because etcd is too old for the version that the target brings. Empty: none, or none would
    /// help, and exitReason explains why.
    stops: Vec<Stop>,
    /// Machines that come first: workers or control-planes.
    first: Option<&'static str>,
    /// The planned cluster, and the way to it; null: no round was completed.
    cluster: Option<Identity<'a>>,
    /// Machines in upgrade order, the etcd leader last among the control planes. Empty if no round was completed.
    machines: Vec<Planned<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "plannedCluster", inline))]
struct Identity<'a> {
    /// ID of the Talos cluster. If Talos has none, ca-sha256: and the digest of the CA that verified its machines. null: unknown, or
    /// machines disagree.
    talos: Option<&'a str>,
    /// UID of the namespace kube-system; null: not observed.
    kubernetes: Option<&'a str>,
    /// Absolute path of the talosconfig.
    talosconfig: Option<&'a str>,
    /// Context of the talosconfig.
    talos_context: Option<&'a str>,
    /// Talos endpoints, with ports.
    talos_endpoints: &'a [String],
    /// Absolute path of the kubeconfig; several are joined by colons, and in-cluster is a pod's own account. null: Talos issued it, and it
    /// is in no file.
    kubeconfig: Option<&'a str>,
    /// Context of the kubeconfig.
    kube_context: Option<&'a str>,
    /// URL of --k8s-endpoint; null: the kubeconfig's own.
    kube_server: Option<&'a str>,
}

const KIND: &str = "ClusterHealthUpgradePlan";

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
struct Stop {
    /// Version of Talos, with its v.
    talos: String,
    /// Version of etcd that it brings.
    etcd: String,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
struct Kubernetes {
    /// Version of Kubernetes, with its v.
    version: String,
    /// One of done, to-do, unknown, by the versions of the kubelets.
    state: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "plannedMachine"))]
struct Planned<'a> {
    /// Node name.
    name: &'a str,
    /// Address by which talosctl reaches the machine.
    address: &'a str,
    /// One of control-plane, worker, unknown, as reported by the machine itself.
    role: &'static str,
    /// Whether its etcd member is the leader.
    leader: bool,
    /// Version of Talos that it runs, with its v; null: not observed.
    version: Option<String>,
    /// Version of its kubelet; null: not observed.
    kubelet: Option<String>,
    /// One of done, to-do, installed-not-rebooted, fell-back, unknown. Only machines of --upgraded can be fell-back. Treat an unknown value
    /// as unknown.
    state: &'static str,
    /// Observation that the state is based on, in words.
    evidence: &'a str,
    /// Whether Kubernetes does not schedule pods there; null: not observed.
    cordoned: Option<bool>,
    /// Boot ID, which changes with each boot; null: not observed.
    boot_id: Option<&'a str>,
    /// ID of the Image Factory schematic; null: not observed.
    schematic: Option<&'a str>,
    /// System extensions; null: not observed.
    extensions: Option<Vec<Extension<'a>>>,
    /// Installer that has ended successfully since the machine booted, by the end of its log; null: not observed.
    installed: Option<&'a str>,
    /// Installer of --image for this machine, {schematic} replaced by its own; null: none was given, or the schematic is unknown.
    image: Option<&'a str>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
struct Extension<'a> {
    /// Name that the extension reports.
    name: &'a str,
    /// Version that the extension reports.
    version: &'a str,
}

fn document(report: &Report) -> Document<'_> {
    let rollout = report.rollout.as_deref();
    let first = rollout.map(|rollout| match rollout.first {
        First::Workers => "workers",
        First::ControlPlanes => "control-planes",
    });
    let kubernetes = rollout.and_then(|rollout| {
        let state = rollout.kubernetes_state()?.name();
        Some(Kubernetes { version: versioned(rollout.kubernetes.as_ref())?, state })
    });
    Document {
        schema_version: json::SCHEMA_VERSION,
        kind: KIND,
        tool: json::tool(&report.tool),
        complete: report.exit == Exit::Healthy,
        exit_code: report.exit.code(),
        exit_reason: report.error.as_deref().map_or_else(|| report.exit.meaning().to_owned(), clean),
        talos: rollout.and_then(|rollout| versioned(Some(&rollout.talos))),
        kubernetes,
        stops: rollout.and_then(|rollout| rollout.etcd.as_ref()).map(stops).unwrap_or_default(),
        first,
        cluster: rollout.map(|rollout| identity(&rollout.cluster)),
        machines: machines(report).iter().map(planned).collect(),
    }
}

fn stops(etcd: &EtcdStops) -> Vec<Stop> {
    let stop = |(talos, etcd): &(String, String)| Stop { talos: format!("v{talos}"), etcd: etcd.clone() };
    etcd.releases.iter().map(stop).collect()
}

fn identity(cluster: &Cluster) -> Identity<'_> {
    Identity {
        talos: cluster.talos.as_deref(),
        kubernetes: cluster.kubernetes.as_deref(),
        talosconfig: cluster.talosconfig.as_deref(),
        talos_context: cluster.context.as_deref(),
        talos_endpoints: &cluster.endpoints,
        kubeconfig: cluster.kubeconfig.as_deref(),
        kube_context: cluster.kube_context.as_deref(),
        kube_server: cluster.server.as_deref(),
    }
}

fn planned(machine: &Machine) -> Planned<'_> {
    Planned {
        name: &machine.name,
        address: &machine.address,
        role: machine.role.name(),
        leader: machine.is_leader,
        version: versioned(machine.version.as_ref()),
        kubelet: versioned(machine.kubelet.as_ref()),
        state: machine.state.name(),
        evidence: &machine.evidence,
        cordoned: machine.cordoned,
        boot_id: machine.boot_id.as_deref(),
        schematic: machine.schematic.as_deref(),
        extensions: machine
            .extensions
            .as_ref()
            .map(|all| all.iter().map(|(name, version)| Extension { name, version }).collect()),
        installed: machine.installed.as_deref(),
        image: machine.image.as_deref(),
    }
}
