//! One file of `matrix/`; `matrix/README.md` describes it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use serde::Deserialize;
use simulator::Network;
use simulator::scenario::Scenario;
use simulator::world::{Shape, World};

use crate::namespace::WITHOUT_TROUBLE;

/// A trouble, and what has to be said of it.
#[derive(Clone)]
pub(crate) struct Row {
    /// Name of the file: `etcd-1-quorum-lost`.
    pub(crate) name: String,
    /// Those of the catalog that it shows.
    pub(crate) ids: Vec<String>,
    /// As the file has it.
    pub(crate) scenario: Scenario,
    /// What `scenario` is read from; `{cp-1}` in it is the address of that machine.
    text: String,
    folder: PathBuf,
    pub(crate) arguments: Vec<String>,
    pub(crate) credentials: Credentials,
    pub(crate) expect: Expect,
    pub(crate) known_wrong: Option<KnownWrong>,
    pub(crate) cannot: Option<String>,
    /// The cluster has addresses of IPv6 alone, and so a network namespace of its own.
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
    /// As in a scenario of the simulator, which reads it.
    #[serde(rename = "cluster")]
    _cluster: Option<toml::Table>,
    #[serde(default, rename = "change")]
    _changes: Vec<toml::Table>,
}

/// What the program is given; the default is what it needs.
#[derive(Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Credentials {
    /// Role in Talos; `os:reader`.
    pub(crate) role: Option<String>,
    #[serde(default)]
    pub(crate) talosconfig: Quality,
    #[serde(default)]
    pub(crate) kubeconfig: Quality,
    /// Of Omni, if it is before the cluster.
    #[serde(default)]
    pub(crate) service_account: Quality,
    /// Endpoints of the talosconfig instead of all control planes: machines, or hosts.
    pub(crate) endpoints: Option<Vec<String>>,
    /// It names no nodes beside them, where it usually names all machines.
    #[serde(default)]
    pub(crate) without_nodes: bool,
    /// All members of etcd are endpoints of its own API.
    #[serde(default)]
    pub(crate) external_etcd: bool,
    /// `USER:PASSWORD` there.
    pub(crate) etcd_user: Option<String>,
}

/// What is wrong with a file of credentials.
#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Quality {
    #[default]
    Good,
    Absent,
    Expired,
    /// In three days, of a year.
    ExpiresSoon,
    NotYetValid,
    /// For an hour, of which half is left.
    ShortLived,
    /// Its CA ends in three days.
    CaExpiresSoon,
    /// Its CA has ended.
    CaExpired,
    WithoutClientAuth,
    /// All of it.
    OfAnotherCluster,
    /// For a kubeconfig: the same server, the CA and the certificate of a cluster that is no more.
    OfAnEarlierCluster,
    /// For a service account: Omni does not know its key any more.
    Revoked,
    /// For a service account: another name beside the key.
    Misnamed,
}

#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expect {
    pub(crate) exit: i32,
    /// `CHECK REASON TARGET`
    #[serde(deserialize_with = "columns")]
    pub(crate) problems: BTreeSet<String>,
    /// The same of those that another one explains.
    #[serde(default, deserialize_with = "columns")]
    pub(crate) explained: BTreeSet<String>,
    pub(crate) diagnoses: Option<BTreeSet<String>>,
}

/// What is expected is right, and the program does not say it yet.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KnownWrong {
    /// For people.
    #[serde(rename = "why")]
    _why: String,
    /// Its exit code, if that is what is wrong.
    pub(crate) exit: Option<i32>,
}

/// So that `acc-10` comes after `acc-2`.
fn natural(name: &str) -> Vec<(u32, String)> {
    name.split('-').map(|part| (part.parse().unwrap_or_default(), part.to_owned())).collect()
}

fn parse(text: &str, folder: &Path) -> anyhow::Result<Scenario> {
    let mut scenario = Scenario::parse(text)?;
    scenario.recording = scenario.recording.map(|recording| folder.join(recording));
    Ok(scenario)
}

/// `{cp-1}` is the address of that machine.
pub(crate) fn fill_in(text: &str, world: &World) -> String {
    let machines = world.machines.iter();
    machines
        .fold(text.to_owned(), |text, (at, machine)| text.replace(&format!("{{{}}}", machine.name), &at.to_string()))
}

fn columns<'de, D: serde::Deserializer<'de>>(input: D) -> Result<BTreeSet<String>, D::Error> {
    let lines = Vec::<String>::deserialize(input)?;
    // They stand below each other in the files.
    Ok(lines.iter().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect())
}

impl Row {
    /// All files of a folder, by name.
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
        // The simulator's own tables, which it reads by its own rules.
        let mut scenario: toml::Table = toml::from_str(&text)?;
        scenario.retain(|key, _| ["title", "cluster", "change"].contains(&key));
        let (text, folder) = (toml::to_string(&scenario)?, path.with_file_name(""));
        let scenario = parse(&text, &folder)?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self {
            name,
            ids: file.ids,
            scenario,
            text,
            folder,
            arguments: file.arguments,
            credentials: file.credentials,
            expect,
            known_wrong: file.known_wrong,
            cannot: file.cannot,
            ipv6: file.ipv6,
        })
    }

    /// The scenario of these addresses.
    pub(crate) fn scenario(&self, network: &Network) -> anyhow::Result<Scenario> {
        if self.scenario.steps.is_empty() || !self.text.contains('{') {
            return Ok(self.scenario.clone());
        }
        let world = Scenario { steps: Vec::new(), ..self.scenario.clone() }.begin(network)?.0;
        let scenario = parse(&fill_in(&self.text, &world), &self.folder)?;
        Ok(Scenario { omni: self.scenario.omni, ..scenario })
    }

    /// What stands before its name in the output.
    pub(crate) fn kind(&self) -> &'static str {
        match (&self.cannot, &self.known_wrong) {
            (Some(_), _) => "cannot",
            (None, Some(_)) => "known wrong",
            (None, None) => "",
        }
    }

    /// Why only ours can know the trouble, if it is in nothing that `talosctl health` is given.
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

    /// Whether neither the cluster nor the credentials make the trouble.
    fn is_made_by_arguments(&self) -> bool {
        let world = !self.scenario.steps.is_empty() || self.scenario.recording.is_some();
        !world && self.credentials == Credentials::default() && !self.arguments.is_empty()
    }

    /// Whether anything is wrong in it.
    pub(crate) fn is_of_trouble(&self) -> bool {
        self.expect.exit != 0 || !self.expect.problems.is_empty()
    }

    /// The same without the trouble: without changes and with good credentials if one of them makes it, else without arguments or,
    /// if there are none, of the usual shape.
    pub(crate) fn healthy(&self) -> Self {
        let by_arguments = self.is_made_by_arguments();
        let is_usual = self.scenario.steps.is_empty() && self.scenario.recording.is_none();
        let by_shape = is_usual && self.credentials == Credentials::default() && !by_arguments;
        let mut scenario = Scenario { steps: Vec::new(), ..self.scenario.clone() };
        scenario.recording = scenario.recording.map(|recording| recording.with_file_name("healthy.json"));
        if by_shape {
            (scenario.shape, scenario.omni) = (Shape::default(), false);
        }
        // Where the role makes it, another one does not.
        let role = self.credentials.role.as_ref().map(|_| "os:admin".to_owned());
        Self {
            name: format!("{}{WITHOUT_TROUBLE}", self.name),
            scenario,
            arguments: if by_arguments { Vec::new() } else { self.arguments.clone() },
            credentials: Credentials {
                role,
                // A way to ask, and nothing that could be wrong.
                external_etcd: self.credentials.external_etcd,
                ..Credentials::default()
            },
            known_wrong: None,
            cannot: None,
            ..self.clone()
        }
    }

    /// The same, asked for one check.
    pub(crate) fn alone(&self, check: &str) -> Self {
        let more = ["--check", check].map(str::to_owned);
        Self { arguments: [&self.arguments[..], &more].concat(), ..self.clone() }
    }
}
