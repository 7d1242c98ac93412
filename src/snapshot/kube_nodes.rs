//! Node objects by name and machine ID, so that no machine has to be compared with all of them.

use std::collections::HashMap;

use super::KubeNode;

pub(crate) struct KubeNodes<'a> {
    /// All Nodes of each name, in lower case.
    by_name: HashMap<String, Vec<&'a KubeNode>>,
    /// The number of Nodes that show each machine ID.
    ids: HashMap<&'a str, usize>,
}

impl<'a> KubeNodes<'a> {
    pub(crate) fn of(nodes: &'a [KubeNode]) -> Self {
        let (mut by_name, mut ids) = (HashMap::<_, Vec<_>>::new(), HashMap::new());
        for node in nodes {
            by_name.entry(node.name.to_ascii_lowercase()).or_default().push(node);
            *ids.entry(node.machine_id.as_str()).or_default() += 1;
        }
        Self { by_name, ids }
    }

    /// Returns the Nodes of this name.
    pub(crate) fn called(&self, name: &str) -> impl Iterator<Item = &'a KubeNode> + use<'_, 'a> {
        self.by_name.get(&name.to_ascii_lowercase()).into_iter().flatten().copied()
    }

    /// Returns how many Nodes show this machine ID.
    pub(crate) fn count_with_id(&self, id: &str) -> usize {
        self.ids.get(id).copied().unwrap_or_default()
    }
}
