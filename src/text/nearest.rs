//! Suggestions for misspelled names.

use strsim::damerau_levenshtein;

/// Longer words are not typing errors, and comparing them is expensive.
const LONGEST: usize = 256;

/// Returns the known name most similar to `given`: the same name in a different case, a name that contains it, or the one with the fewest
/// typing errors, if there are few.
pub(crate) fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if given.len() > LONGEST {
        return None;
    }
    let given = given.to_lowercase();
    let few = given.chars().count().div_ceil(3).max(1);
    let errors = |name: &str| {
        let name = name.to_lowercase();
        match () {
            () if name == given => 0,
            () if given.len() >= 3 && name.contains(&given) => 1,
            () => damerau_levenshtein(&given, &name),
        }
    };
    known
        .into_iter()
        .filter(|name| name.len() <= LONGEST)
        .take(1000)
        .map(|name| (errors(name), name))
        .filter(|(errors, _)| *errors <= few)
        .min()
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_was_meant() {
        let ids =
            ["etcd.quorum", "etcd.members.nodes", "k8s.nodes.ready", "quorum-lost", "admin@prod", "admin@staging"];
        for (given, meant) in [
            ("etcd.quorom", Some("etcd.quorum")),
            ("k8s.node.ready", Some("k8s.nodes.ready")),
            ("members", Some("etcd.members.nodes")),
            ("QUORUM-LOST", Some("quorum-lost")),
            ("prod", Some("admin@prod")),
            ("admin@prdo", Some("admin@prod")),
            ("something else", None),
            ("x", None),
            ("", None),
            (&"x".repeat(100_000), None),
        ] {
            assert_eq!(nearest(given, ids), meant, "{given}");
        }
    }
}
