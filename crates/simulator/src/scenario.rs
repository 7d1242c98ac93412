//! Scenario files: a cluster and its changes.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context as _, ensure};
use serde::Deserialize;

use crate::address::Network;
use crate::timeline::{Step, When, from_toml};
use crate::version::plain_version;
use crate::world::{Omni, Role, Shape, World};

/// Maximum number of machines; with more, starting takes minutes.
const MOST: usize = 20_000;

/// A cluster and its changes.
#[derive(Clone, Debug, Default)]
pub struct Scenario {
    /// One line of text.
    pub title: String,
    pub shape: Shape,
    /// Whether the machines can also be reached through Omni.
    pub omni: bool,
    pub steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    title: String,
    #[serde(default)]
    cluster: Cluster,
    #[serde(default)]
    change: Vec<toml::Spanned<toml::Table>>,
}

/// The `[cluster]` table. Missing keys are as in [`Shape::default`].
#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Cluster {
    name: Option<String>,
    control_planes: Option<usize>,
    workers: Option<usize>,
    /// Replaces the two numbers.
    machines: Option<Vec<Named>>,
    talos: Option<String>,
    kubernetes: Option<String>,
    etcd: Option<String>,
    /// Port of each API server.
    api_port: Option<u16>,
    /// Number of application pods on each worker.
    pods: Option<usize>,
    #[serde(default)]
    omni: bool,
}

/// A machine with a given name.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    name: String,
    role: Role,
}

impl Scenario {
    /// Reads a file.
    ///
    /// # Errors
    /// If the file cannot be read, or is invalid; the error contains file, line and key.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        Self::parse(&text).with_context(|| path.display().to_string())
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// If the text is invalid; the error contains line and key.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let file: File = toml::from_str(text)?;
        // The title is printed as one shell comment.
        ensure!(!file.title.contains(char::is_control), "`title` is one line of text");
        let omni = file.cluster.omni;
        let shape = file.cluster.shape().context("`[cluster]`")?;
        Ok(Self { title: file.title, shape, omni, steps: from_toml(text, &file.change)? })
    }

    /// Returns the initial world, and the steps that come later.
    ///
    /// # Errors
    /// If there is no control plane, or there are too many machines, or a step names something that this cluster does not have.
    pub fn begin(self, network: &Network) -> anyhow::Result<(World, Vec<Step>)> {
        let machines = self.shape.control_planes.saturating_add(self.shape.workers);
        ensure!(machines <= MOST, "a simulated cluster has at most {MOST} machines");
        let controls = |(role, _): &(Role, String)| *role == Role::ControlPlane;
        ensure!(self.shape.all_machines().iter().any(controls), "a cluster has at least one control plane");
        let mut world = World::healthy(network, &self.shape);
        world.omni = self.omni.then(Omni::default);
        let mut later = Vec::new();
        for step in self.steps {
            if step.when == When::Now {
                step.make(&mut world)?;
            } else {
                step.check(&world)?;
                later.push(step);
            }
        }
        Ok((world, later))
    }
}

impl Cluster {
    fn shape(self) -> anyhow::Result<Shape> {
        let mut shape = Shape::default();
        let versions = &mut shape.versions;
        if let Some(talos) = self.talos {
            versions.set_talos(talos.parse().context("`talos`")?);
        }
        if let Some(kubernetes) = self.kubernetes {
            versions.kubernetes = plain_version(&kubernetes).context("`kubernetes`")?;
        }
        if let Some(etcd) = self.etcd {
            versions.etcd = plain_version(&etcd).context("`etcd`")?;
        }
        shape.api_port = self.api_port.unwrap_or(shape.api_port);
        shape.pods = self.pods.unwrap_or(shape.pods);
        if let Some(name) = self.name {
            ensure!(
                is_name(&name),
                "`name`: `{}` is no name: at most 63 letters, digits, `.`, `_` and `-`, a letter or a digit first",
                name.escape_debug()
            );
            shape.cluster = name;
        }
        if let Some(machines) = self.machines {
            ensure!(
                self.control_planes.or(self.workers).is_none(),
                "`machines` are all of them: `control-planes` and `workers` say nothing beside it"
            );
            let mut names = BTreeSet::new();
            for Named { name, role } in machines {
                ensure!(is_node_name(&name), "`machines`: `{}` is no name of a node", name.escape_debug());
                ensure!(names.insert(name.clone()), "`machines`: there are two called `{name}`");
                shape.machines.push((role, name));
            }
        }
        shape.control_planes = self.control_planes.unwrap_or(shape.control_planes);
        shape.workers = self.workers.unwrap_or(shape.workers);
        Ok(shape)
    }
}

/// Whether the text is a cluster name: `[A-Za-z0-9][A-Za-z0-9._-]*`, at most 63 characters. Cluster names occur in files and on command
/// lines.
fn is_name(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    text.len() <= 63 && text.starts_with(|first: char| first.is_ascii_alphanumeric()) && text.bytes().all(inner)
}

/// Whether the text is a Kubernetes node name: `[a-z0-9]([a-z0-9.-]*[a-z0-9])?`, at most 253 characters.
fn is_node_name(text: &str) -> bool {
    let outer = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let inner = text.bytes().all(|byte| outer(&byte) || b".-".contains(&byte));
    let bytes = text.as_bytes();
    inner && text.len() <= 253 && bytes.first().is_some_and(outer) && bytes.last().is_some_and(outer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::Power;

    #[test]
    fn the_scenarios_of_this_crate_begin() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
        let mut found = 0;
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let scenario = Scenario::read(&path).unwrap_or_else(|error| panic!("{error:#}"));
            assert!(!scenario.title.is_empty(), "{}", path.display());
            let network = Network::claim().unwrap();
            let (mut world, later) =
                scenario.begin(&network).unwrap_or_else(|error| panic!("{}: {error:#}", path.display()));
            for step in later {
                step.change.make(&mut world).unwrap();
            }
            found += 1;
        }
        assert_eq!(found, 8);
    }

    #[test]
    fn machines_have_the_names_and_the_order_that_are_given() {
        let text = "title = \"x\"\n[cluster]\nmachines = [{ name = \"w.example.org\", role = \"worker\" }, \
                    { name = \"a\", role = \"control-plane\" }]\n[[change]]\ndo = \"power-off\"\nnode = \"w.example.org\"\n";
        let network = Network::claim().unwrap();
        let (world, _) = Scenario::parse(text).unwrap().begin(&network).unwrap();
        let first = &world.machines[&network.machine(0)];
        assert_eq!((first.name.as_str(), first.role, first.power), ("w.example.org", Role::Worker, Power::Off));
        assert_eq!(world.control_planes().collect::<Vec<_>>(), [network.machine(1)]);
        assert!(world.kubernetes.object("nodes", None, "w.example.org").is_some());
        let error = |cluster: &str| match Scenario::parse(&format!("title = \"x\"\n[cluster]\n{cluster}\n")) {
            Ok(scenario) => format!("{:#}", scenario.begin(&network).err().unwrap()),
            Err(error) => format!("{error:#}"),
        };
        let text = error("workers = 1\nmachines = []");
        assert!(text.ends_with("`control-planes` and `workers` say nothing beside it"), "{text}");
        let text = error("machines = [{ name = \"A\", role = \"worker\" }]");
        assert_eq!(text, "`[cluster]`: `machines`: `A` is no name of a node");
        let two = ["{ name = \"a\", role = \"worker\" }"; 2].join(", ");
        assert_eq!(error(&format!("machines = [{two}]")), "`[cluster]`: `machines`: there are two called `a`");
        assert_eq!(
            error("machines = [{ name = \"a\", role = \"worker\" }]"),
            "a cluster has at least one control plane"
        );
    }

    #[test]
    fn errors_say_where_and_what() {
        let error = |text: &str| match Scenario::parse(text) {
            Ok(scenario) => {
                let network = Network::claim().unwrap();
                format!("{:#}", scenario.begin(&network).err().unwrap())
            }
            Err(error) => format!("{error:#}"),
        };
        let one = |change: &str| error(&format!("title = \"x\"\n\n[[change]]\n{change}\n"));
        assert!(error("title = \"x\"\n[cluster]\nworker = 1\n").contains("unknown field `worker`"));
        assert!(
            error("title = \"x\"\n[cluster]\ntalos = \"2\"\n").starts_with("`[cluster]`: `talos`: `2` is no version")
        );
        for name in ["", "-a", "a b", "a\\nb", "ä", &"a".repeat(64)] {
            let text = error(&format!("title = \"x\"\n[cluster]\nname = \"{name}\"\n"));
            assert!(text.starts_with("`[cluster]`: `name`: `"), "{name}: {text}");
        }
        assert!(Scenario::parse("title = \"x\"\n[cluster]\nname = \"0a.B_c-d\"\n").is_ok());
        assert_eq!(
            error("title = \"x\"\n[cluster]\nworkers = 9223372036854775807\n"),
            "a simulated cluster has at most 20000 machines"
        );
        let text = error("title = \"x\"\n[cluster]\nkubernetes = \"1.35\"\n");
        assert!(text.starts_with("`[cluster]`: `kubernetes`: `1.35` is no version"), "{text}");
        assert_eq!(error("title = \"x\\nrm\""), "`title` is one line of text");
        assert_eq!(one("node = \"cp-1\""), "line 3: `do` is missing: what changes");
        assert_eq!(one("do = \"power-off\""), "line 3: `power-off`: missing field `node`");
        let text = one("do = \"power-off\"\nnode = \"cp-1\"\nnodes = 1");
        assert!(text.starts_with("line 3: `power-off`: unknown field `nodes`"), "{text}");
        let text = one("do = \"not-bootstrapped\"\nnode = \"cp-1\"");
        assert!(text.starts_with("line 3: `not-bootstrapped`: unknown field `node`"), "{text}");
        let text = one("do = \"explode\"");
        assert!(text.starts_with("line 3: `explode`: there is no change `explode`; there are `power-off`, "), "{text}");
        let text = one("do = \"cordon\"\nnode = \"cp-1\"\nat = \"soon\"");
        assert!(text.starts_with("line 3: `at`: "), "{text}");
        assert_eq!(one("do = \"cordon\"\nnode = \"x\""), "change 1: there is no machine `x`");
        assert_eq!(
            one("do = \"etcd-stop\"\nnode = \"worker-1\""),
            "change 1: `worker-1` is a worker, and `etcd-stop` is about control planes"
        );
    }
}
