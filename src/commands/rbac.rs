//! `rbac`: the minimum rights of the checks, derived from the right that each fact declares.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use crate::checks::{self, Check};
use crate::model::{Fact, Right};
use crate::snapshot::{Objects, Require};

const HEADER: &str = "\
# Everything that cluster-health reads from Kubernetes, and nothing else. Made by `cluster-health rbac`.
# To use it with a service account:
#   kubectl create namespace cluster-health
#   kubectl create serviceaccount cluster-health -n cluster-health
#   kubectl create clusterrolebinding cluster-health --clusterrole=cluster-health --serviceaccount=cluster-health:cluster-health
";

/// Writes the ClusterRole. `more`: facts in addition to those of the checks; `required`: the requirements of a policy.
pub(super) fn write(
    checks: &[&'static Check],
    more: &[Fact],
    required: &[Require],
    out: &mut impl Write,
) -> io::Result<()> {
    let mut resources: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let (mut objects, mut urls) = (BTreeSet::new(), BTreeSet::new());
    for right in checks::facts(checks).into_iter().chain(more.iter().copied()).filter_map(Fact::right) {
        match right {
            Right::Object(group, plural, name) => {
                objects.insert((group, plural, name));
            }
            Right::Resource(group, plural) => {
                resources.entry(group).or_default().insert(plural);
            }
            Right::Url(url) => {
                urls.insert(url);
            }
        }
    }
    // A list of one name is allowed by a right to that name.
    let mut named = BTreeSet::new();
    for Objects { group, plural, name, .. } in required.iter().map(|entry| &entry.of) {
        match name {
            Some(name) => _ = named.insert((group.as_str(), plural.as_str(), name.as_str())),
            None => _ = resources.entry(group).or_default().insert(plural),
        }
    }
    let objects =
        objects.into_iter().map(|object| (object, "get")).chain(named.into_iter().map(|it| (it, "get, list")));
    let objects: Vec<_> = objects.collect();
    write!(out, "{HEADER}")?;
    writeln!(out, "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  name: cluster-health")?;
    if resources.is_empty() && urls.is_empty() && objects.is_empty() {
        return writeln!(out, "rules: []");
    }
    writeln!(out, "rules:")?;
    for (group, plurals) in resources {
        writeln!(
            out,
            "  - apiGroups: [{}]\n    resources: [{}]\n    verbs: [get, list]",
            quoted([group]),
            quoted(plurals)
        )?;
    }
    for ((group, plural, name), verbs) in objects {
        let [group, plural, name] = [group, plural, name].map(|word| quoted([word]));
        writeln!(
            out,
            "  - apiGroups: [{group}]\n    resources: [{plural}]\n    resourceNames: [{name}]\n    verbs: [{verbs}]"
        )?;
    }
    if !urls.is_empty() {
        writeln!(out, "  - nonResourceURLs: [{}]\n    verbs: [get]", quoted(urls))?;
    }
    Ok(())
}

fn quoted<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    words.into_iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    #[test]
    fn is_a_cluster_role_with_no_more_than_the_facts_need() {
        for (checks, rules) in [(&fixture::CHECKS[..], 2), (&[][..], 0)] {
            let mut out = Vec::new();
            write(checks, &[], &[], &mut out).unwrap();
            let role: serde_yaml::Value = serde_yaml::from_slice(&out).unwrap();
            assert_eq!(role["kind"], serde_yaml::Value::from("ClusterRole"));
            let found = role["rules"].as_sequence().unwrap();
            assert_eq!(found.len(), rules);
            for rule in found {
                for verb in rule["verbs"].as_sequence().unwrap() {
                    assert!(["get", "list"].contains(&verb.as_str().unwrap()));
                }
            }
        }
    }
}
