//! One file of `matrix/`; `matrix/README.md` describes it.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context as _, ensure};
use serde::Deserialize;
use simulator::Network;
use simulator::scenario::Scenario;
use simulator::world::{Shape, World};

use crate::namespace::WITHOUT_TROUBLE;

/// A trouble, and the expected report.
#[derive(Clone)]
pub(crate) struct Row {
    /// Name of the file: `etcd-1-quorum-lost`.
    pub(crate) name: String,
    /// Failures of the catalog that the row shows.
    pub(crate) ids: Vec<String>,
    /// The scenario from the file.
    pub(crate) scenario: Scenario,
    /// The text of `scenario`; `{cp-1}` in it is the address of that machine.
    text: String,
    pub(crate) arguments: Vec<String>,
    pub(crate) credentials: Credentials,
    pub(crate) expect: Expect,
    pub(crate) known_wrong: Option<KnownWrong>,
    pub(crate) cannot: Option<String>,
    /// The cluster has only IPv6 addresses, and therefore a separate network namespace.
    pub(crate) ipv6: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct File {
    ids: Vec<String>,
    #[serde(rename = "title")]
    _title: String,
    #[serde(default)]
    arguments: Vec<String>,
    #[serde(default)]
    credentials: Credentials,
    expect: Option<Expect>,
    known_wrong: Option<KnownWrong>,
    cannot: Option<String>,
    #[serde(default)]
    ipv6: bool,
    /// The tables of a simulator scenario, which the simulator reads.
    #[serde(rename = "cluster")]
    _cluster: Option<toml::Table>,
    #[serde(default, rename = "change")]
    _changes: Vec<toml::Table>,
}

/// The credentials of the program; the default is sufficient.
#[derive(Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Credentials {
    /// Role in Talos; `os:reader`.
    pub(crate) role: Option<String>,
    #[serde(default)]
    pub(crate) talosconfig: Quality,
    #[serde(default)]
    pub(crate) kubeconfig: Quality,
    /// The service account of Omni, if the cluster is behind Omni.
    #[serde(default)]
    pub(crate) service_account: Quality,
    /// The control plane that the kubeconfig names as its server, instead of the balancer.
    pub(crate) kubeconfig_server: Option<String>,
    /// Endpoints of the talosconfig instead of all control planes: machines, or hosts.
    pub(crate) endpoints: Option<Vec<String>>,
    /// Whether the talosconfig names no nodes, rather than all machines.
    #[serde(default)]
    pub(crate) without_nodes: bool,
    /// Whether all members of etcd are endpoints of its own API.
    #[serde(default)]
    pub(crate) external_etcd: bool,
    /// `USER:PASSWORD` for etcd's own API.
    pub(crate) etcd_user: Option<String>,
}

/// The state of a credentials file.
#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Quality {
    #[default]
    Good,
    Absent,
    Expired,
    /// Expires in three days, after a year.
    ExpiresSoon,
    NotYetValid,
    /// Valid for an hour, half of which is left.
    ShortLived,
    /// The CA expires in three days.
    CaExpiresSoon,
    /// The CA has expired.
    CaExpired,
    WithoutClientAuth,
    /// The whole file belongs to another cluster.
    OfAnotherCluster,
    /// Kubeconfig only: the same server, but CA and certificate of a cluster that no longer exists.
    OfAnEarlierCluster,
    /// Service account only: Omni no longer accepts its key.
    Revoked,
    /// Service account only: the name does not match the key.
    Misnamed,
}

#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expect {
    pub(crate) exit: i32,
    /// `CHECK REASON TARGET`
    #[serde(deserialize_with = "columns")]
    pub(crate) problems: BTreeSet<String>,
    /// `CHECK REASON TARGET` of problems that another one explains.
    #[serde(default, deserialize_with = "columns")]
    pub(crate) explained: BTreeSet<String>,
    pub(crate) diagnoses: Option<BTreeSet<String>>,
}

/// A correct expectation that the program does not meet yet.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KnownWrong {
    /// The reason, for readers.
    #[serde(rename = "why")]
    _why: String,
    /// The actual exit code, if that is the error.
    pub(crate) exit: Option<i32>,
}

/// Returns a sort key with which `acc-10` comes after `acc-2`.
fn natural(name: &str) -> Vec<(u32, String)> {
    name.split('-').map(|part| (part.parse().unwrap_or_default(), part.to_owned())).collect()
}

/// Replaces `{cp-1}` with the address of that machine.
pub(crate) fn fill_in(text: &str, world: &World) -> String {
    let machines = world.machines.iter();
    machines
        .fold(text.to_owned(), |text, (at, machine)| text.replace(&format!("{{{}}}", machine.name), &at.to_string()))
}

fn columns<'de, D: serde::Deserializer<'de>>(input: D) -> Result<BTreeSet<String>, D::Error> {
    let lines = Vec::<String>::deserialize(input)?;
    // The columns are aligned in the files.
    Ok(lines.iter().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect())
}

impl Row {
    /// Reads all files of a directory, by name.
    pub(crate) fn read_all(folder: &Path) -> anyhow::Result<Vec<Self>> {
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "toml") {
                paths.push(path);
            }
        }
        paths.sort_by_cached_key(|path| natural(&path.file_stem().unwrap_or_default().to_string_lossy()));
        paths.iter().map(|path| Self::read(path).with_context(|| path.display().to_string())).collect()
    }

    fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path)?;
        let file: File = toml::from_str(&text)?;
        let expect = match (file.expect, &file.cannot) {
            (Some(expect), None) => expect,
            (None, Some(_)) => Expect::default(),
            _ => anyhow::bail!("there is either `[expect]` or `cannot`"),
        };
        ensure!(!file.ids.is_empty(), "`ids` says what of the catalog this shows");
        // The simulator's own tables, which the simulator parses.
        let mut scenario: toml::Table = toml::from_str(&text)?;
        scenario.retain(|key, _| ["title", "cluster", "change"].contains(&key));
        let text = toml::to_string(&scenario)?;
        let scenario = Scenario::parse(&text)?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self {
            name,
            ids: file.ids,
            scenario,
            text,
            arguments: file.arguments,
            credentials: file.credentials,
            expect,
            known_wrong: file.known_wrong,
            cannot: file.cannot,
            ipv6: file.ipv6,
        })
    }

    /// Returns the scenario with these addresses.
    pub(crate) fn scenario(&self, network: &Network) -> anyhow::Result<Scenario> {
        if self.scenario.steps.is_empty() || !self.text.contains('{') {
            return Ok(self.scenario.clone());
        }
        let world = Scenario { steps: Vec::new(), ..self.scenario.clone() }.begin(network)?.0;
        let scenario = Scenario::parse(&fill_in(&self.text, &world))?;
        Ok(Scenario { omni: self.scenario.omni, ..scenario })
    }

    /// Returns the prefix of its name in the output.
    pub(crate) fn kind(&self) -> &'static str {
        match (&self.cannot, &self.known_wrong) {
            (Some(_), _) => "cannot",
            (None, Some(_)) => "known wrong",
            (None, None) => "",
        }
    }

    /// Returns why only our program can detect the trouble, if `talosctl health` cannot.
    pub(crate) fn ours_alone(&self) -> Option<&'static str> {
        let own_kubeconfig = [Quality::Good, Quality::Absent, Quality::ShortLived];
        match () {
            () if self.scenario.omni => Some("the cluster is behind Omni"),
            () if self.ipv6 => Some("its cluster is in a network namespace of its own"),
            () if !own_kubeconfig.contains(&self.credentials.kubeconfig) => Some("it takes no kubeconfig"),
            () if self.is_of_trouble() && self.is_made_by_arguments() => Some("it has no such option"),
            () => None,
        }
    }

    /// Returns whether neither the cluster nor the credentials cause the trouble.
    fn is_made_by_arguments(&self) -> bool {
        self.scenario.steps.is_empty() && self.credentials == Credentials::default() && !self.arguments.is_empty()
    }

    /// Returns whether the row has any problem.
    pub(crate) fn is_of_trouble(&self) -> bool {
        self.expect.exit != 0 || !self.expect.problems.is_empty()
    }

    /// Returns the row without its trouble: without changes and with good credentials if one of them causes the trouble, otherwise without
    /// arguments or, if there are none, with the usual shape.
    pub(crate) fn healthy(&self) -> Self {
        let by_arguments = self.is_made_by_arguments();
        let by_shape = self.scenario.steps.is_empty() && self.credentials == Credentials::default() && !by_arguments;
        let mut scenario = Scenario { steps: Vec::new(), ..self.scenario.clone() };
        if by_shape {
            (scenario.shape, scenario.omni) = (Shape::default(), false);
        }
        // If the role causes the trouble, another role does not.
        let role = self.credentials.role.as_ref().map(|_| "os:admin".to_owned());
        Self {
            name: format!("{}{WITHOUT_TROUBLE}", self.name),
            scenario,
            arguments: if by_arguments { Vec::new() } else { self.arguments.clone() },
            credentials: Credentials {
                role,
                // Only a means of access, which cannot be the trouble.
                external_etcd: self.credentials.external_etcd,
                ..Credentials::default()
            },
            known_wrong: None,
            cannot: None,
            ..self.clone()
        }
    }

    /// Returns the row with a single check.
    pub(crate) fn alone(&self, check: &str) -> Self {
        let more = ["--check", check].map(str::to_owned);
        Self { arguments: [&self.arguments[..], &more].concat(), ..self.clone() }
    }
}
