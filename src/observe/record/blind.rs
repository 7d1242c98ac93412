//! A round that leaves something out: would anybody notice? `e2e/run --blind` asks so of a real cluster.

use std::collections::BTreeSet;

use crate::model::Fact;

/// Names what is not asked, in the words of `cluster-health list`.
pub(super) const BLIND: &str = "CLUSTER_HEALTH_BLIND";

/// All that is to be asked, but what `$CLUSTER_HEALTH_BLIND` names.
pub(in crate::observe) fn seen(facts: &BTreeSet<Fact>) -> BTreeSet<Fact> {
    without(facts, blind().as_deref())
}

/// Whether `$CLUSTER_HEALTH_BLIND` names what is asked in any case, whatever is to be judged.
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
