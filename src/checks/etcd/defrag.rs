//! Decides when a member can be defragmented, and which one is next.

use crate::assess::etcd::{Quorum, View};
use crate::model::{Hint, Problem};
use crate::snapshot::EtcdStatus;

/// Percentage of the file in use at which defragmentation is not worth it: the file shrinks only to the size of the data in use.
const FULL: u128 = 95;

/// Returns true if defragmentation frees enough space to be worth the pause. A member that does not report its size in use does not
/// qualify.
pub(super) fn frees_space(status: &EtcdStatus) -> bool {
    let (size, used) = (u128::from(status.db_size), u128::from(status.db_size_in_use));
    used > 0 && used * 100 < size * FULL
}

/// Proposes to defragment one of these members, the leader last. A member does not respond while it is being defragmented, so no other
/// voter may be missing at that time. If the cluster cannot spare a member even with all voters up, the hint describes the outage.
pub(super) fn proposed(problem: Problem, view: &View<'_>, candidates: &[&View<'_>], quorum: &Quorum) -> Problem {
    let Some(node) = view.node else { return problem };
    let missing = quorum.voters.saturating_sub(quorum.following);
    if !quorum.proven || (missing > 0 && quorum.tolerates(quorum.following) == 0) {
        let wait = "do not defragment it until all voters are up: it does not respond while it is defragmented, and no other voter can be spared";
        return problem.hint(Hint::likely(wait));
    }
    let is_leader = |view: &&&View<'_>| view.status.as_ref().is_ok_and(|status| status.leader == status.member_id);
    let followers = || candidates.iter().filter(|view| !is_leader(view));
    let next = followers().next().or_else(|| candidates.first());
    if let Some(next) = next.filter(|next| next.target != view.target) {
        let after = format!("defragment it after {}: one member at a time, the leader last", next.target);
        return problem.hint(Hint::likely(after));
    }
    let what = if quorum.tolerates(quorum.voters) == 0 {
        "etcd, and Kubernetes with it, is unavailable for the seconds this takes: no member can be spared"
    } else {
        "the member does not respond for the seconds this takes: one member at a time, the leader last"
    };
    problem.hint(Hint::likely(what)).hint(Hint::remedy("{talosctl} -n {} etcd defrag", [node.address.as_str()]))
}
