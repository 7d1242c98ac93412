//! The role of a machine in the cluster.

/// The role according to the machine type. Kubernetes' label is only a guess.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Role {
    ControlPlane,
    Worker,
    /// No source reported a role, or the value is not known to this version of cluster-health.
    Unknown,
}

/// The machine type, as Talos names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MachineType {
    /// A control plane that bootstrapped etcd automatically. Talos has replaced this type with `controlplane` and `talosctl bootstrap`.
    Init,
    ControlPlane,
    Worker,
    /// A type that is not known to this version of cluster-health.
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
