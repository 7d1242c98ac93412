//! Rounds that leave out a source, to test whether the checks notice. `e2e/run --blind` does this with a real cluster.

use std::collections::BTreeSet;

use crate::model::Fact;

/// The variable that names the source to leave out, in the words of `cluster-health list`.
pub(super) const BLIND: &str = "CLUSTER_HEALTH_BLIND";

/// Returns the facts to read, except those that `$CLUSTER_HEALTH_BLIND` names.
pub(in crate::observe) fn seen(facts: &BTreeSet<Fact>) -> BTreeSet<Fact> {
    without(facts, blind().as_deref())
}

/// Returns whether `$CLUSTER_HEALTH_BLIND` names a source that is queried in any case, regardless of the selected
/// checks.
pub(in crate::observe) fn hides(fact: Fact) -> bool {
    names(blind().as_deref(), fact)
}

fn blind() -> Option<String> {
    std::env::var(BLIND).ok()
}

fn names(blind: Option<&str>, fact: Fact) -> bool {
    blind == Some(fact.reads())
}

fn without(facts: &BTreeSet<Fact>, blind: Option<&str>) -> BTreeSet<Fact> {
    facts.iter().copied().filter(|fact| !names(blind, *fact)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_out_what_is_named() {
        let facts = BTreeSet::from([Fact::Services, Fact::Pods]);
        assert_eq!(without(&facts, None), facts);
        assert_eq!(without(&facts, Some("ServiceList")), BTreeSet::from([Fact::Pods]));
        assert_eq!(without(&facts, Some("something else")), facts);
    }
}
