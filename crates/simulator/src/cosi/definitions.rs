//! Types that describe namespaces and all other types to clients.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::json;

use super::Kind::{Enum, List, Message, Text};
use super::{Form, Type, field, types};
use super::{Resource, kind};
use crate::version::TalosVersion;

pub(super) const TYPES: &[Type] = &[
    Type {
        name: kind::NAMESPACES,
        display: "Namespace",
        namespace: "meta",
        aliases: &["ns"],
        owner: "meta",
        form: Form::Message(&[field("description", 1, Text)]),
        ..Type::COMMON
    },
    Type {
        name: kind::RESOURCE_DEFINITIONS,
        display: "ResourceDefinition",
        namespace: "meta",
        aliases: &["api-resources"],
        columns: &[("Aliases", "{.aliases[:]}")],
        owner: "meta",
        form: Form::Message(&[
            field("type", 1, Text),
            field("displayType", 2, Text),
            field("defaultNamespace", 3, Text),
            field("aliases", 4, List(&Text)),
            field("allAliases", 5, List(&Text)),
            field("printColumns", 6, List(&Message(&[field("name", 1, Text), field("jsonPath", 2, Text)]))),
            field("sensitivity", 7, Enum(&["", "sensitive"])),
        ]),
        ..Type::COMMON
    },
];

/// All namespaces with their descriptions, including those in which nothing is simulated.
const NAMESPACES: &[(&str, &str)] = &[
    ("cluster", "members of the cluster"),
    ("cluster-raw", "members of the cluster by source"),
    ("config", "configuration of the machine"),
    ("controlplane", "Kubernetes on control planes"),
    ("cri", "container runtime"),
    ("etcd", "etcd"),
    ("files", "files"),
    ("hardware", "hardware"),
    ("k8s", "Kubernetes on all machines"),
    ("kubespan", "KubeSpan"),
    ("meta", "namespaces and types"),
    ("network", "network"),
    ("network-config", "configuration of the network"),
    ("perf", "measurements"),
    ("runtime", "the running machine"),
    ("secrets", "keys and certificates"),
];

/// Resources of all namespaces, by name.
pub(crate) fn namespaces(at: Timestamp) -> BTreeMap<String, Arc<Resource>> {
    let namespace = |(name, description): &(&str, &str)| {
        ((*name).to_owned(), Arc::new(Resource::new(json!({"description": description}), at)))
    };
    NAMESPACES.iter().map(namespace).collect()
}

/// Resource definitions of all types of a release, by id.
pub(crate) fn definitions(version: TalosVersion, at: Timestamp) -> BTreeMap<String, Arc<Resource>> {
    types(version).map(|it| (it.name.to_lowercase(), Arc::new(Resource::new(it.definition(version), at)))).collect()
}

impl Type {
    fn definition(&self, version: TalosVersion) -> serde_json::Value {
        let (aliases, all) = self.all_aliases();
        let columns: Vec<_> = self.columns.iter().map(|(name, path)| json!({"name": name, "jsonPath": path})).collect();
        let mut definition = json!({
            "type": self.name,
            "displayType": self.display,
            "defaultNamespace": self.namespace,
            "aliases": aliases,
            "allAliases": all,
            "printColumns": columns,
        });
        if self.sensitive(version) {
            definition["sensitivity"] = json!("sensitive");
        }
        definition
    }

    /// The aliases that are shown, and all aliases that are accepted: the singular, the capital letters of the name (also with an `s`), and
    /// ever longer prefixes of the dotted name.
    fn all_aliases(&self) -> (Vec<String>, Vec<String>) {
        let mut shown: Vec<_> = self.aliases.iter().map(|&alias| alias.to_owned()).collect();
        let mut all = Vec::new();
        if self.named_aliases {
            shown.push(self.display.to_lowercase());
            let (name, _) = self.name.split_once('.').unwrap_or((self.name, ""));
            let capitals = name.chars().filter(char::is_ascii_uppercase).collect::<String>().to_lowercase();
            if capitals.len() > 1 {
                let with_s = (!capitals.ends_with('s')).then(|| format!("{capitals}s"));
                shown.push(capitals);
                shown.extend(with_s);
            }
            let ends = self.name.match_indices('.').map(|(end, _)| self.name[..end].to_lowercase());
            all.extend(ends);
        }
        all.extend(shown.iter().cloned());
        (shown, all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cosi::find;

    #[test]
    fn aliases_are_those_of_talos() {
        let aliases = |name: &str| find(name, TalosVersion::new(13, 0)).unwrap().all_aliases().1.join(" ");
        assert_eq!(aliases(kind::MEMBERS), "members members.cluster members.cluster.talos member");
        assert_eq!(
            aliases(kind::API_SERVER_CONFIGS),
            "apiserverconfigs apiserverconfigs.kubernetes apiserverconfigs.kubernetes.talos apiserverconfig apisc apiscs"
        );
        assert_eq!(
            aliases(kind::STATIC_POD_STATUSES),
            "staticpodstatuses staticpodstatuses.kubernetes staticpodstatuses.kubernetes.talos podstatus staticpodstatus sps"
        );
        assert_eq!(aliases(kind::MOUNT_STATUSES), "mounts");
        assert_eq!(
            aliases(kind::PLATFORM_METADATAS),
            "platformmetadatas platformmetadatas.talos platformmetadata pm pms"
        );
    }
}
