//! Whether a machine counts.

/// The first of these that applies to a machine, in this order. What else is true of it is kept beside: a guest may be leaving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Listed, and judged by no check.
    NotJudged(NotJudged),
    /// A machine with another system among Talos machines: only its readiness is judged.
    Guest,
    Judged,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotJudged {
    /// Somebody is removing it.
    Leaving,
    /// Outside of `--nodes`.
    OutOfScope,
    /// Left out by the node flags for its role. They define the population of that role; other machines are only listed.
    OutsideFlags,
    /// Known to discovery alone, and gone.
    StaleDiscovery,
    /// Off on purpose, as a policy says, and seen to be.
    DeclaredOff,
}

impl Standing {
    /// A Talos machine that is judged, or any machine of a cluster without Talos.
    pub(crate) fn is_judged(self) -> bool {
        match self {
            Self::Judged => true,
            Self::Guest | Self::NotJudged(_) => false,
        }
    }

    /// Why no check judges it; `None`: some do.
    pub(crate) fn not_judged(self) -> Option<NotJudged> {
        match self {
            Self::NotJudged(why) => Some(why),
            Self::Guest | Self::Judged => None,
        }
    }
}
