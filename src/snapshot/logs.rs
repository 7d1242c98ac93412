//! Logs of services and containers: for people, after the judgment.

use std::fmt;

use super::Observed;

/// Maximum number of lines of a log.
pub(crate) const LINES: usize = 20;

/// A log on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Log {
    /// Name of the node.
    pub(crate) node: String,
    pub(crate) of: Source,
}

/// The source of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A Talos service.
    Service(String),
    /// The controllers of Talos, which render static pods and apply manifests.
    Controllers,
    /// A container of a static pod in `kube-system`.
    Container { pod: String, container: String },
}

impl Source {
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Service(id) => id,
            Self::Controllers => "controller-runtime",
            Self::Container { container, .. } => container,
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Service(id) => write!(f, "service {id}"),
            Self::Controllers => f.write_str(self.name()),
            Self::Container { pod, container } => write!(f, "container {container} of {pod}"),
        }
    }
}

/// The last lines of a log, or why there are none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tail {
    pub(crate) log: Log,
    pub(crate) lines: Observed<Vec<String>>,
}
