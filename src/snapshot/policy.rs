//! A policy as the checks see it: written decisions about this cluster.

use jiff::{SignedDuration, Timestamp};

use super::Require;
use crate::model::{CheckId, Excuse, Reason};

/// The contents of a `--policy` file. Its expected numbers and versions are in [`super::Asked`], together with those of the options.
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

/// A known problem that is accepted for a while.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Acceptance {
    pub(crate) check: CheckId,
    pub(crate) reason: Reason,
    /// Name of the target; `*` matches any characters.
    pub(crate) target: String,
    /// If more problems match, none of them is accepted.
    pub(crate) max: usize,
    pub(crate) excuse: Excuse,
}

impl Acceptance {
    /// Returns check, reason and target: `k8s.nodes.schedulable cordoned w-3`.
    pub(crate) fn name(&self) -> String {
        format!("{} {} {}", self.check, self.reason.code(), self.target)
    }
}

/// Limits at which warnings begin. Limits for failures cannot be changed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Thresholds {
    /// Remaining validity of a certificate, or a tenth of its lifetime if that is shorter.
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
            // etcd complains about a larger skew.
            clock_skew: SignedDuration::from_secs(1),
        }
    }
}

/// Longest time from the cluster's clock to the end of an excuse. The end was already compared with the runner's clock, so the additional
/// day allows for another time zone or a slow clock.
const LONGEST: SignedDuration = SignedDuration::from_hours(91 * 24);

/// Whether an excuse counts now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExcuseState {
    Holds,
    Expired,
    /// The excuse ends later than any excuse may by the clock of an API server, so the runner's clock is wrong.
    TooFar,
    /// No API server has reported its time.
    Unproven,
}

impl super::Snapshot {
    /// Returns whether an excuse counts now. The runner's clock alone proves nothing: turning it back would make every excuse last forever.
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
