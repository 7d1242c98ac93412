//! Stage 8: may the upgrade that an option names begin? It is there only if one is.

mod data;
mod drain;
mod matrix;
mod path;
#[cfg(test)]
mod tests;

pub(super) use drain::DRAIN;
pub(super) use matrix::MATRIX;
pub(super) use path::{KUBERNETES_PATH, TALOS_PATH};

use std::collections::BTreeMap;

use self::data::Numbers;
use super::gaps::talos_contact;
use crate::assess::Assessment;
use crate::model::{CheckId, Outcome, Problem, Reason, Verdict};
use crate::snapshot::Node;
use crate::text::version;

/// What stands before the versions of Kubernetes.
const BEFORE_KUBERNETES: &[CheckId] = &[
    CheckId::K8sCredentials,
    CheckId::K8sApiEndpoint,
    CheckId::K8sApiIdentity,
    CheckId::K8sControlplaneApiserver,
    CheckId::K8sControlplaneControllerManager,
    CheckId::K8sControlplaneScheduler,
    CheckId::K8sNodesRegistered,
    CheckId::K8sNodesReady,
];

/// No option asks for it: only tests, which run all checks, come here.
fn not_asked(option: &str) -> Verdict {
    Verdict::skipped(format!("`{option}` is not given"))
}

/// The version of Talos that this machine runs, as it says itself.
fn talos_of(cluster: &Assessment<'_>, node: &Node) -> Result<Numbers, Outcome> {
    let tag = talos_contact(cluster, node)?.version.tag.as_str();
    version::numbers(tag).ok_or_else(|| {
        let observed = format!("version `{tag}`");
        Outcome::Problem(Problem::error(Reason::UnreadableAnswer, "a version such as `v1.13.0`", observed))
    })
}

/// Of a version that no table has. Which of two versions came first says nothing of whether one may go to the other.
fn unknown(what: &str, version: &str, known: &str) -> Problem {
    let expected = format!("a version of {what} that this program knows ({known})");
    Problem::error(Reason::TargetUnknown, expected, format!("{what} {version}")).permanent()
}

/// `1.13 on cp-1, cp-2 and 7 more`, by minor version.
fn by_minor(names: &BTreeMap<u32, Vec<&str>>, minors: impl Iterator<Item = u32>) -> String {
    let of = |minor: u32| format!("1.{minor} on {}", some_of(&names[&minor]));
    minors.map(of).collect::<Vec<_>>().join("; ")
}

/// The first few names.
fn some_of<T: AsRef<str>>(names: &[T]) -> String {
    const SHOWN: usize = 3;
    let shown: Vec<&str> = names.iter().take(SHOWN).map(AsRef::as_ref).collect();
    match names.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
