//! The built program against the cluster of a row.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex, OnceLock};

use anyhow::ensure;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use simulator::Network;
use simulator::pki::{Authority, Flaw};
use simulator::world::World;

use crate::cluster::{Cluster, Judgment};
use crate::harness::{Program, program as program_itself};
use crate::namespace;
use crate::row::{Credentials, Quality, Row, fill_in};

/// Attempt timeout, unless the row sets another one: a call may take half of it, and every answered call takes less than a tenth.
const ATTEMPT: &str = "8s";

/// The observed results of a run.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Seen {
    pub(crate) exit: i32,
    /// `CHECK REASON TARGET`
    pub(crate) problems: BTreeSet<String>,
    /// `CHECK REASON TARGET` of problems that another one explains.
    pub(crate) explained: BTreeSet<String>,
    diagnoses: BTreeSet<String>,
    /// Violated laws that hold for every report.
    stories: BTreeSet<String>,
    /// The complete output, for debugging.
    told: String,
}

/// The observed results of a run, or the reason why there are none.
pub(crate) type Ran = Result<Seen, String>;

/// Judges rows. Runs each row without its trouble, once.
#[derive(Default)]
pub(crate) struct Judge {
    healthy: Mutex<HashMap<String, Arc<OnceLock<Ran>>>>,
}

impl Judge {
    /// Returns whether the row is as expected, and differs from the healthy one.
    pub(crate) fn decide(&self, row: &Row, seen: &Seen) -> Result<(), String> {
        let verdict = row.compare(seen).and_then(|()| self.is_told_from_healthy(row));
        match (&row.known_wrong, verdict) {
            (None, verdict) => verdict.map_err(|different| format!("{different}\n{}", seen.told)),
            (Some(known), Err(_)) if seen.exit == known.exit.unwrap_or(row.expect.exit) => Ok(()),
            (Some(_), Err(different)) => Err(format!("not wrong as it is known to be:\n{different}\n{}", seen.told)),
            (Some(_), Ok(())) => Err("this is right by now: `known-wrong` can go".to_owned()),
        }
    }

    fn is_told_from_healthy(&self, row: &Row) -> Result<(), String> {
        if !row.is_of_trouble() {
            return Ok(());
        }
        let healthy = row.healthy();
        let scenario = &healthy.scenario;
        let key = format!("{:?} {} {:?}", scenario.shape, scenario.omni, healthy.arguments);
        let cell = Arc::clone(self.healthy.lock().unwrap().entry(key).or_default());
        let seen = cell.get_or_init(|| run(&healthy)).as_ref().map_err(Clone::clone)?;
        match row.compare(seen) {
            Ok(()) => Err("a cluster without the trouble is judged the same".to_owned()),
            Err(_) => Ok(()),
        }
    }
}

impl Row {
    /// Returns the differences from the expected results.
    fn compare(&self, seen: &Seen) -> Result<(), String> {
        let mut different = Vec::new();
        if seen.exit != self.expect.exit {
            different.push(format!("exit code {} instead of {}", seen.exit, self.expect.exit));
        }
        sets("problem", &self.expect.problems, &seen.problems, &mut different);
        sets("broken law", &BTreeSet::new(), &seen.stories, &mut different);
        sets("explained problem", &self.expect.explained, &seen.explained, &mut different);
        if let Some(diagnoses) = &self.expect.diagnoses {
            sets("diagnosis", diagnoses, &seen.diagnoses, &mut different);
        }
        if different.is_empty() { Ok(()) } else { Err(different.join("\n")) }
    }
}

fn sets(what: &str, expected: &BTreeSet<String>, seen: &BTreeSet<String>, different: &mut Vec<String>) {
    different.extend(expected.difference(seen).map(|it| format!("no {what} `{it}`")));
    different.extend(seen.difference(expected).map(|it| format!("unexpected {what} `{it}`")));
}

/// Runs the program against the cluster of a row.
pub(crate) fn run(row: &Row) -> Ran {
    if row.ipv6 { namespace::run(row) } else { run_here(row) }
}

/// Runs the row in the network of this process.
pub(crate) fn run_here(row: &Row) -> Ran {
    try_run(row).map_err(|error| format!("{error:#}"))
}

fn try_run(row: &Row) -> anyhow::Result<Seen> {
    let (cluster, program) = program(row, |_| ())?;
    let files = FORMATS.map(|format| format!("{format}={format}"));
    let (outcome, home) = program.args(["--report", &files.join(",")]).run_and_keep();
    let judged = cluster.judgment(outcome);
    is_shown_alike(&judged, home.path())?;
    Ok(Seen::of(&cluster, &judged))
}

/// Formats in which a stored report can be shown.
const FORMATS: [&str; 6] = ["json", "text", "markdown", "junit", "html", "prometheus"];

/// Verifies that `report` shows the same output as the run itself, and exits with the same code as far as that depends on the cluster.
fn is_shown_alike(judged: &Judgment, home: &Path) -> anyhow::Result<()> {
    let stored = home.join("json");
    for format in FORMATS {
        let shown = program_itself().args(["report", "-o", format]).args([&stored]).run();
        let own = std::fs::read_to_string(home.join(format))?;
        let different = shown.stdout.lines().zip(own.lines()).find(|(stored, own)| stored != own);
        ensure!(shown.stdout == own, "`report -o {format}` differs: {different:?}\n{}", shown.stderr);
        let expected = match judged.outcome.code {
            code @ (0 | 1 | 77 | 78 | 124) => code,
            _ => 69,
        };
        ensure!(shown.code == expected, "`report` ends with {} instead of {expected}", shown.code);
    }
    Ok(())
}

/// Changes the cluster of a row further, and returns it with the results of a run.
pub(crate) fn judged(row: &Row, change: impl FnOnce(&mut World)) -> anyhow::Result<(Cluster, Judgment)> {
    let (cluster, program) = program(row, change)?;
    let judged = cluster.judgment(program.run());
    Ok((cluster, judged))
}

fn program(row: &Row, change: impl FnOnce(&mut World)) -> anyhow::Result<(Cluster, Program)> {
    let cluster = start(row)?;
    cluster.change(change);
    let credentials = &row.credentials;
    let cluster = cluster.with_credentials(credentials, credentials.role.as_deref().unwrap_or("os:reader"))?;
    let mut arguments: Vec<String> =
        row.arguments.iter().map(|argument| cluster.change(|world| fill_in(argument, world))).collect();
    // A default kubeconfig that is unusable is skipped, and one that is named appears under its path in the report.
    for (option, path, quality) in [
        ("--talosconfig", ".talos/config", credentials.talosconfig),
        ("--kubeconfig", ".kube/config", credentials.kubeconfig),
    ] {
        if quality != Quality::Good && quality != Quality::Absent {
            arguments.extend([option, path].map(str::to_owned));
        }
    }
    if !arguments.iter().any(|argument| argument == "--attempt-timeout") {
        arguments.extend(["--attempt-timeout", ATTEMPT].map(str::to_owned));
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut program = cluster.program().args(["-o", "json"]).args(&arguments);
    if credentials.external_etcd {
        let etcd = cluster.simulator().etcd_credentials(Flaw::None)?;
        program = program
            .file("ca.crt", &etcd.ca)
            .file("client.crt", &etcd.client.certificate)
            .file("client.key", &etcd.client.key)
            .args(["--etcd-cacert", "ca.crt", "--etcd-cert", "client.crt", "--etcd-key", "client.key"])
            .args(["--etcd-endpoints", &cluster.simulator().etcd_endpoints().join(",")]);
    }
    if let Some((user, password)) = credentials.etcd_user.as_ref().and_then(|it| it.split_once(':')) {
        program = program.etcd_user(user, password);
    }
    Ok((cluster, program))
}

/// Starts the cluster of a row, with its trouble.
pub(crate) fn start(row: &Row) -> anyhow::Result<Cluster> {
    let network = if row.ipv6 { Network::ipv6() } else { Network::claim() }?;
    let (world, later) = row.scenario(&network)?.begin(&network)?;
    let cluster = Cluster::begin(network, world);
    cluster.simulator().play(later)?;
    Ok(cluster)
}

/// Another cluster, for credentials that do not match. It is never queried.
static OTHER: LazyLock<Cluster> = LazyLock::new(crate::cluster::cluster);

impl Cluster {
    /// Replaces the cluster's credentials, with this role in Talos.
    pub(crate) fn with_credentials(self, credentials: &Credentials, role: &str) -> anyhow::Result<Self> {
        if self.simulator().has_omni() {
            let key = self.service_account(credentials.service_account)?;
            return Ok(self.through_omni(key));
        }
        let talosconfig = match credentials.talosconfig {
            Quality::Absent => String::new(),
            Quality::OfAnotherCluster => {
                let other = OTHER.simulator().talosconfig(role, Flaw::None)?;
                // Only the endpoints stay.
                let own = self.simulator().talosconfig(role, Flaw::None)?;
                graft(&own, &other, &["ca: ", "crt: ", "key: "])
            }
            Quality::CaExpiresSoon | Quality::CaExpired => {
                let own = self.simulator().talosconfig(role, Flaw::None)?;
                with_ca(&own, "ca: ", &self.simulator().pki().talos, credentials.talosconfig)?
            }
            quality => self.simulator().talosconfig(role, quality.flaw()?)?,
        };
        let kubeconfig = match credentials.kubeconfig {
            Quality::Absent => String::new(),
            Quality::OfAnotherCluster => OTHER.simulator().kubeconfig("reader", Flaw::None)?,
            Quality::OfAnEarlierCluster => {
                let other = OTHER.simulator().kubeconfig("reader", Flaw::None)?;
                let own = self.simulator().kubeconfig("reader", Flaw::None)?;
                graft(&own, &other, &["certificate-authority-data: ", "client-certificate-data: ", "client-key-data: "])
            }
            Quality::CaExpiresSoon | Quality::CaExpired => {
                let own = self.simulator().kubeconfig("reader", Flaw::None)?;
                let authority = &self.simulator().pki().kubernetes;
                with_ca(&own, "certificate-authority-data: ", authority, credentials.kubeconfig)?
            }
            quality => self.simulator().kubeconfig("reader", quality.flaw()?)?,
        };
        let kubeconfig = match &credentials.kubeconfig_server {
            Some(machine) => {
                let (balancer, machine) = (self.simulator().network().balancer(), self.address(machine));
                kubeconfig.replace(&format!("https://{balancer}:"), &format!("https://{machine}:"))
            }
            None => kubeconfig,
        };
        let mut cluster = self.with_kubeconfig(kubeconfig);
        cluster.talosconfig = talosconfig;
        if credentials.without_nodes {
            cluster.talosconfig = without_nodes(&cluster.talosconfig);
        }
        Ok(match &credentials.endpoints {
            Some(endpoints) => cluster.endpoints(&endpoints.iter().map(String::as_str).collect::<Vec<_>>()),
            None => cluster,
        })
    }
}

impl Cluster {
    /// Returns the value of the variable with the key.
    fn service_account(&self, quality: Quality) -> anyhow::Result<String> {
        let omni = self.simulator();
        Ok(match quality {
            Quality::Absent => String::new(),
            Quality::Revoked => {
                let key = omni.service_account("ci", Flaw::None)?;
                omni.change(|world| world.omni.get_or_insert_default().keys.clear());
                key
            }
            Quality::Misnamed => {
                let mut key: Value =
                    serde_json::from_slice(&STANDARD.decode(omni.service_account("ci", Flaw::None)?)?)?;
                key["name"] = "another".into();
                STANDARD.encode(key.to_string())
            }
            quality => omni.service_account("ci", quality.flaw()?)?,
        })
    }
}

impl Quality {
    fn flaw(self) -> anyhow::Result<Flaw> {
        Ok(match self {
            Self::Good => Flaw::None,
            Self::Expired => Flaw::Expired,
            Self::ExpiresSoon => Flaw::ExpiresSoon,
            Self::NotYetValid => Flaw::NotYetValid,
            Self::ShortLived => Flaw::ShortLived,
            Self::WithoutClientAuth => Flaw::WithoutClientAuth,
            _ => anyhow::bail!("there is no such file of this kind"),
        })
    }
}

/// Returns a talosconfig that names no nodes.
fn without_nodes(talosconfig: &str) -> String {
    let (before, nodes) = talosconfig.split_once("        nodes:\n").unwrap();
    let after = nodes.split_inclusive('\n').skip_while(|line| line.starts_with("            - "));
    format!("{before}        nodes:\n{}", after.collect::<String>())
}

/// Replaces the CA with one that has the dates of this quality.
fn with_ca(own: &str, key: &str, authority: &Authority, quality: Quality) -> anyhow::Result<String> {
    let ca = if quality == Quality::CaExpired { authority.ended() } else { authority.ending_soon() }?;
    Ok(graft(own, &format!("{key}{}", STANDARD.encode(ca)), &[key]))
}

/// Replaces some values of a file with those of another file.
fn graft(own: &str, other: &str, keys: &[&str]) -> String {
    let lines = own.lines().map(|line| {
        let key = keys.iter().find(|key| line.trim_start().starts_with(*key));
        let found = key.and_then(|key| other.lines().find(|line| line.trim_start().starts_with(key)));
        let indent = line.len() - line.trim_start().len();
        format!("{}{}\n", &line[..indent], found.unwrap_or(line).trim_start())
    });
    lines.collect()
}

/// Returns the name of a target. The second of two machines with the same name includes its address.
fn called(cluster: &Cluster, target: &str) -> String {
    let second = target.strip_suffix(')').and_then(|target| target.split_once(" ("));
    second.map_or_else(
        || cluster.named(target).to_owned(),
        |(name, address)| format!("{name} ({})", cluster.named(address)),
    )
}

impl Seen {
    fn of(cluster: &Cluster, judged: &Judgment) -> Self {
        let list = |of: &Value, key: &str| of[key].as_array().cloned().unwrap_or_default();
        let text = |of: &Value| of.as_str().unwrap_or_default().to_owned();
        let (mut problems, mut explained) = (BTreeSet::new(), BTreeSet::new());
        for check in list(&judged.report, "checks") {
            for problem in list(&check, "problems") {
                let (target, reason) = (text(&problem["target"]["name"]), text(&problem["reason"]));
                let line = format!("{} {reason} {}", text(&check["id"]), called(cluster, &target));
                if problem["explainedBy"].is_null() { &mut problems } else { &mut explained }.insert(line);
            }
        }
        let diagnoses = list(&judged.report, "diagnoses").iter().map(|diagnosis| text(&diagnosis["id"])).collect();
        let stories = story::broken(&judged.report).iter().map(|it| format!("{}: {}", it.law, it.why)).collect();
        Self { exit: judged.outcome.code, problems, explained, diagnoses, stories, told: judged.to_string() }
    }
}
