//! What was said of access to the cluster, before any file is read.

use std::path::PathBuf;

use super::kube_sources::KubeArgs;
use super::kubeconfig::Options;
use super::talosconfig::Overrides;

/// Whom to ask, as whom. A part that is `None` is not asked at all.
#[derive(Clone, Debug, Default)]
pub(crate) struct Access {
    pub(crate) talos: Option<TalosOptions>,
    pub(crate) kubernetes: Option<KubernetesOptions>,
    /// etcd by its own API.
    pub(crate) etcd: Option<EtcdOptions>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct TalosOptions {
    pub(crate) talosconfig: Option<PathBuf>,
    pub(crate) overrides: Overrides,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct KubernetesOptions {
    pub(crate) sources: KubeArgs,
    pub(crate) overrides: Options,
    /// As a last source, the Talos API may mint a kubeconfig.
    pub(crate) from_talos: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct EtcdOptions {
    /// Client URLs, as they were given.
    pub(crate) endpoints: Vec<String>,
    pub(crate) cacert: Option<PathBuf>,
    /// Certificate and key.
    pub(crate) client: Option<(PathBuf, PathBuf)>,
}
