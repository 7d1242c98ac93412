//! Checks whether each machine keeps its extensions.

use std::collections::{BTreeMap, BTreeSet};

use super::{each_to_go, not_asked, some_of};
use crate::assess::Assessment;
use crate::checks::Check;
use crate::checks::gaps::talos_fact;
use crate::model::{CheckId, Fact, Hint, Outcome, Problem, Reason, Severity, Stage, Verdict};
use crate::snapshot::{Node, TalosNode};

pub(in crate::checks) const EXTENSIONS: Check = Check {
    id: CheckId::UpgradeExtensions,
    stage: Stage::Upgrade,
    summary: "the installer image of the upgrade has the extensions of each machine",
    explain: "Runs with `--upgrade-talos`, and needs the installer image (`--image`); without it, the check is skipped. Compares the image \
with the \
extensions and the schematic that each machine reports (`ExtensionStatuses`). An installer of the Image Factory has the id of its \
schematic before the tag (`factory.talos.dev/metal-installer/ID:v1.14.1`): the same id as the machine's means the same extensions, \
kernel arguments and overlay. `{schematic}` in its place stands for the id of each machine.\n\n\
It fails if extensions would be lost: `ghcr.io/siderolabs/installer` and the factory's schematic without customization have none. \
The machine still boots, but everything that needs the extension breaks: volumes over iSCSI, drivers, guest agents.\n\n\
An id alone does not show what is in a schematic. A schematic other than the machine's passes only if a machine of this \
cluster runs it and has all the extensions; any other image passes only on machines without extensions. Otherwise it is an \
error \
(`image-unknown`), never a pass. If you have compared them yourself: `--warn-only image-unknown`.",
    severity: Severity::Fail,
    finds: &[Reason::NodeUnknown, Reason::ExtensionsLost],
    facts: &[Fact::TalosNodes, Fact::Extensions],
    judge: extensions,
};

/// The schematic without customization, by its id in the sources of Talos (`DefaultInstallerImageSchematic`).
const NO_CUSTOMIZATION: &str = "376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba";
/// Talos's own images, which have no extensions.
const PLAIN: [&str; 2] = ["ghcr.io/siderolabs/installer", "ghcr.io/siderolabs/installer-base"];
/// Entries that are not extensions: the schematic's id, and an index of kernel modules that exists only together with
/// extensions.
const NO_EXTENSIONS: [&str; 2] = ["schematic", "modules.dep"];

const EXPECTED: &str = "an image with the extensions that the machine has";

/// The schematic of an installer image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Installer<'a> {
    /// The schematic that each machine already runs.
    Same,
    Plain,
    Schematic(&'a str),
    Other,
}

impl<'a> Installer<'a> {
    fn of(image: &'a str) -> Self {
        let name = image.split('@').next().unwrap_or_default();
        let (folder, last) = name.rsplit_once('/').unwrap_or(("", name));
        let last = last.split(':').next().unwrap_or_default();
        let is_id = last.len() == NO_CUSTOMIZATION.len() && last.bytes().all(|byte| byte.is_ascii_hexdigit());
        match last {
            "{schematic}" => Self::Same,
            NO_CUSTOMIZATION => Self::Plain,
            id if is_id => Self::Schematic(id),
            _ if PLAIN.iter().any(|plain| plain.rsplit_once('/') == Some((folder, last))) => Self::Plain,
            _ => Self::Other,
        }
    }
}

/// Returns the id of the schematic of an Image Factory installer.
pub(crate) fn schematic_of(image: &str) -> Option<&str> {
    match Installer::of(image) {
        Installer::Schematic(id) => Some(id),
        Installer::Plain if image.contains(NO_CUSTOMIZATION) => Some(NO_CUSTOMIZATION),
        _ => None,
    }
}

/// Returns true if the schematic adds nothing to a machine without a schematic.
pub(crate) fn is_plain(schematic: &str) -> bool {
    schematic == NO_CUSTOMIZATION
}

/// Extensions of each schematic, as far as machines of this cluster run it.
type Contents<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

fn extensions(cluster: &Assessment<'_>) -> Verdict {
    let upgrade = &cluster.asked.upgrade;
    if upgrade.talos.is_none() {
        return not_asked("--upgrade-talos");
    }
    let Some(image) = &upgrade.image else { return Verdict::skipped("no image is named (`--image`)") };
    let installer = Installer::of(image);
    let mut contents = Contents::new();
    for node in cluster.nodes().iter().filter(|node| node.talos.contact.is_ok()) {
        if let Some(id) = node.talos.schematic() {
            contents.entry(id).or_default().extend(names(&node.talos));
        }
    }
    let fine = |which: &str| format!("the image has the extensions of {which}");
    each_to_go(cluster, fine, |node, verdict| {
        let outcome =
            of_machine(cluster, node, installer, &contents).map_or_else(|outcome| outcome, |()| Outcome::Pass(None));
        verdict.push(node.target(), outcome);
    })
}

fn names(talos: &TalosNode) -> impl Iterator<Item = &str> {
    let names = talos.extensions.iter().flatten().map(|(name, _)| name.as_str());
    names.filter(|name| !NO_EXTENSIONS.contains(name))
}

fn of_machine(
    cluster: &Assessment<'_>,
    node: &Node,
    installer: Installer<'_>,
    contents: &Contents<'_>,
) -> Result<(), Outcome> {
    talos_fact(cluster, node, |talos| &talos.extensions, "its system extensions")?;
    let has: Vec<&str> = names(&node.talos).collect();
    let runs = node.talos.schematic();
    let has_nothing = has.is_empty() && runs.is_none_or(|id| id == NO_CUSTOMIZATION);
    let lost = |lost: &[&str], by: &str| Err(Outcome::problem(would_be_lost(node, lost, by)));
    match installer {
        Installer::Same if runs.is_some() => Ok(()),
        Installer::Same => unknown(node, "it reports no schematic that `{schematic}` could stand for"),
        Installer::Schematic(id) if runs == Some(id) => Ok(()),
        _ if has_nothing => Ok(()),
        Installer::Plain => lost(&has, "the image has none"),
        Installer::Schematic(id) => match contents.get(id) {
            Some(there) => {
                let missing: Vec<&str> = has.iter().copied().filter(|name| !there.contains(name)).collect();
                if missing.is_empty() { Ok(()) } else { lost(&missing, &format!("schematic {} lacks them", short(id))) }
            }
            None => unknown(node, &format!("{}; no machine runs schematic {}", described(&has, runs), short(id))),
        },
        Installer::Other => unknown(node, &format!("{}; the image names no schematic", described(&has, runs))),
    }
}

fn would_be_lost(node: &Node, lost: &[&str], by: &str) -> Problem {
    let observed = if lost.is_empty() {
        format!("the customization of schematic {} would be lost", short(node.talos.schematic().unwrap_or_default()))
    } else {
        format!("{} would be lost: {by}", some_of(lost))
    };
    Problem::fail(Reason::ExtensionsLost, EXPECTED, observed).permanent().hint(look(node))
}

fn unknown(node: &Node, observed: &str) -> Result<(), Outcome> {
    let problem = Problem::error(Reason::ImageUnknown, EXPECTED, observed);
    Err(Outcome::problem(problem.permanent().hint(look(node))))
}

fn described(has: &[&str], runs: Option<&str>) -> String {
    let schematic = runs.map(|id| format!("schematic {}", short(id)));
    let extensions = (!has.is_empty()).then(|| format!("with {}", some_of(has)));
    format!("it runs {}", [schematic, extensions].into_iter().flatten().collect::<Vec<_>>().join(" "))
}

/// Returns a prefix of an id, long enough for people to compare.
fn short(id: &str) -> String {
    id.chars().take(12).collect()
}

fn look(node: &Node) -> Hint {
    Hint::run("{talosctl} -n {} get extensions", [node.address.as_str()])
}
