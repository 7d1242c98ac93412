//! What a machine is in the cluster.

/// By machine type; Kubernetes' label is only a guess.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Role {
    ControlPlane,
    Worker,
    /// No source has told it, or a value that this version of ours does not know.
    Unknown,
}

impl Role {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ControlPlane => "control-plane",
            Self::Worker => "worker",
            Self::Unknown => "unknown",
        }
    }
}
