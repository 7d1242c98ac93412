//! What a machine is in the cluster.

/// By machine type; Kubernetes' label is only a guess.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Role {
    ControlPlane,
    Worker,
    /// No source has told it, or a value that this version of ours does not know.
    Unknown,
}

/// Talos's own word for what a machine is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MachineType {
    /// A control plane that once bootstrapped etcd by itself. Talos has replaced it with `controlplane` and `talosctl bootstrap`.
    Init,
    ControlPlane,
    Worker,
    /// This version of ours does not know it.
    Other,
}

impl MachineType {
    pub(crate) fn role(self) -> Role {
        match self {
            Self::Init | Self::ControlPlane => Role::ControlPlane,
            Self::Worker => Role::Worker,
            Self::Other => Role::Unknown,
        }
    }
}

impl Role {
    pub(crate) const ALL: [Self; 3] = [Self::ControlPlane, Self::Worker, Self::Unknown];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ControlPlane => "control-plane",
            Self::Worker => "worker",
            Self::Unknown => "unknown",
        }
    }
}
