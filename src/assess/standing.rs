//! Whether a machine counts.

/// The first of these that applies to a machine, in this order. Further properties are stored separately: a guest may also be leaving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Listed, but not judged by any check.
    NotJudged(NotJudged),
    /// A machine with another system among Talos machines: only its readiness is judged.
    Guest,
    Judged,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotJudged {
    /// The machine is being removed.
    Leaving,
    /// Outside of `--nodes`.
    OutOfScope,
    /// Left out by the node flags for its role. They define the population of that role; other machines are only listed.
    OutsideFlags,
    /// Known only to discovery, and gone.
    StaleDiscovery,
    /// Declared off by a policy, and observed to be off.
    DeclaredOff,
}

impl Standing {
    /// Returns true for a Talos machine that is judged, or any machine of a cluster without Talos.
    pub(crate) fn is_judged(self) -> bool {
        match self {
            Self::Judged => true,
            Self::Guest | Self::NotJudged(_) => false,
        }
    }

    /// Returns the reason why no check judges the machine; `None` if some do.
    pub(crate) fn not_judged(self) -> Option<NotJudged> {
        match self {
            Self::NotJudged(why) => Some(why),
            Self::Guest | Self::Judged => None,
        }
    }
}
