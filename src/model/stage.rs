//! The stages that group checks.

/// The stages of a health check in order, followed by those for a planned upgrade, a policy, and the second opinion that `--server`
/// requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Stage {
    Connectivity = 1,
    Readiness,
    Etcd,
    ApiServer,
    ControlPlane,
    Nodes,
    StaticPods,
    Upgrade,
    Policy,
    Server,
}

impl Stage {
    pub(crate) const ALL: [Self; 10] = [
        Self::Connectivity,
        Self::Readiness,
        Self::Etcd,
        Self::ApiServer,
        Self::ControlPlane,
        Self::Nodes,
        Self::StaticPods,
        Self::Upgrade,
        Self::Policy,
        Self::Server,
    ];

    pub(crate) fn number(self) -> u8 {
        self as u8
    }

    /// Returns the stable name for JUnit suites and JSON.
    pub(crate) fn name(self) -> &'static str {
        self.row().0
    }

    /// Returns one short word, for the column of a grid.
    pub(crate) fn column(self) -> &'static str {
        self.row().1
    }

    /// Returns the heading for the text report.
    pub(crate) fn heading(self) -> &'static str {
        self.row().2
    }

    /// Returns the title for a line of its own.
    pub(crate) fn title(self) -> &'static str {
        self.row().3
    }

    fn row(self) -> (&'static str, &'static str, &'static str, &'static str) {
        match self {
            Self::Connectivity => {
                ("node-connectivity", "connect", "Checking node connectivity...", "Node connectivity")
            }
            Self::Readiness => ("node-readiness", "ready", "Checking node readiness...", "Node readiness"),
            Self::Etcd => ("etcd", "etcd", "Checking etcd cluster health...", "etcd"),
            Self::ApiServer => ("api-server", "api", "Checking Kubernetes API server...", "API server"),
            Self::ControlPlane => ("control-plane", "control", "Checking control plane components...", "Control plane"),
            Self::Nodes => ("kubernetes-nodes", "nodes", "Checking Kubernetes node health...", "Kubernetes nodes"),
            Self::StaticPods => ("static-pods", "pods", "Checking static pods...", "Static pods"),
            Self::Upgrade => ("upgrade", "upgrade", "Checking upgrade readiness...", "Upgrade readiness"),
            Self::Policy => ("policy", "policy", "Checking the policy...", "Policy"),
            Self::Server => ("server", "server", "Running the cluster's own health check...", "Server check"),
        }
    }
}
