//! A policy as the checks see it: what somebody has decided about this cluster in writing.

use jiff::{SignedDuration, Timestamp};

use super::Require;
use crate::model::{CheckId, Excuse, Reason};

/// The contents of a file of `--policy`. Its expected numbers and versions are in [`super::Asked`], where those of the options are.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Policy {
    pub(crate) machines: Vec<Declared>,
    pub(crate) accept: Vec<Acceptance>,
    pub(crate) require: Vec<Require>,
}

/// A machine that is off on purpose.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Declared {
    /// Name or address.
    pub(crate) name: String,
    pub(crate) excuse: Excuse,
}

/// A known problem that may stay for a while.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Acceptance {
    pub(crate) check: CheckId,
    pub(crate) reason: Reason,
    /// Name of the target; `*` stands for any characters.
    pub(crate) target: String,
    /// If more problems match, none of them is accepted.
    pub(crate) max: usize,
    pub(crate) excuse: Excuse,
}

impl Acceptance {
    /// `k8s.nodes.schedulable cordoned w-3`.
    pub(crate) fn name(&self) -> String {
        format!("{} {} {}", self.check, self.reason.code(), self.target)
    }
}

/// Where warnings begin. The limits at which something fails are nobody's to move.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Thresholds {
    /// A certificate that ends earlier; or within a tenth of its lifetime, if that is shorter.
    pub(crate) certificates: SignedDuration,
    /// Percent of etcd's quota.
    pub(crate) etcd_space: u8,
    /// Percent of `/var` that should be free.
    pub(crate) disk_free: u8,
    pub(crate) clock_skew: SignedDuration,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self {
            certificates: SignedDuration::from_hours(30 * 24),
            etcd_space: 80,
            disk_free: 10,
            // Beyond this, etcd complains.
            clock_skew: SignedDuration::from_secs(1),
        }
    }
}

/// Longest time from the clock of the cluster to the end of an excuse. The runner's clock has been asked before, so a day more is another
/// time zone or a slow clock.
const LONGEST: SignedDuration = SignedDuration::from_hours(91 * 24);

/// Whether an excuse counts now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExcuseState {
    Holds,
    Expired,
    /// It ends later than any excuse may by the clock of an API server: the runner's clock is wrong.
    TooFar,
    /// No API server has told its time.
    Unproven,
}

impl super::Snapshot {
    /// Whether an excuse counts now. The runner's clock alone proves nothing: whoever sets it back has every excuse for ever.
    pub(crate) fn excuse_state(&self, excuse: &Excuse) -> ExcuseState {
        let has_passed = |now: Timestamp| now >= excuse.until;
        let lists = self.kubernetes.iter().flat_map(|it| [it.node_leases.as_ref(), it.system_leases.as_ref()]);
        let dates: Vec<Timestamp> =
            lists.flatten().flat_map(|leases| [leases.date, leases.last_date]).flatten().collect();
        if has_passed(self.taken) || dates.iter().any(|date| has_passed(*date)) {
            ExcuseState::Expired
        } else if dates.is_empty() {
            ExcuseState::Unproven
        } else if dates.iter().any(|date| excuse.until.duration_since(*date) > LONGEST) {
            ExcuseState::TooFar
        } else {
            ExcuseState::Holds
        }
    }
}
