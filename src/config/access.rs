//! Options for access to the cluster, as given before any file is read.

use std::path::PathBuf;

use super::kube_sources::{self, Candidate, KubeArgs};
use super::kubeconfig::Options;
use super::talosconfig::{self, Overrides};
use super::{Environment, etcd, file};

/// The APIs to query and the credentials for each. A part that is `None` is not queried at all.
#[derive(Clone, Debug, Default)]
pub(crate) struct Access {
    pub(crate) talos: Option<TalosOptions>,
    pub(crate) kubernetes: Option<KubernetesOptions>,
    /// Direct access through etcd's own API.
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
    /// Allows the Talos API to issue a kubeconfig, as the last source.
    pub(crate) from_talos: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct EtcdOptions {
    /// Client URLs, as given.
    pub(crate) endpoints: Vec<String>,
    pub(crate) cacert: Option<PathBuf>,
    /// Certificate and key.
    pub(crate) client: Option<(PathBuf, PathBuf)>,
}

impl Access {
    /// Protects every file named here from being overwritten, even if reading stops at the first file or never happens.
    pub(crate) fn claim(&self, environment: &Environment) {
        let talos = self.talos.iter().flat_map(|it| talosconfig::places(it.talosconfig.as_deref(), environment));
        let etcd = self.etcd.iter().flat_map(|it| {
            let (certificate, key) = it.client.clone().unzip();
            [it.cacert.clone(), certificate, key, etcd::password_file(environment)].into_iter().flatten()
        });
        let kubernetes = self.kubeconfigs(environment);
        let named = kubernetes.iter().flat_map(Candidate::files).cloned().chain(talos).chain(etcd);
        named.chain(environment.service_account_files()).for_each(|path| file::is_input(&path));
    }

    /// Protects the files that these kubeconfigs refer to, whichever context is chosen. Pipes can be read only once: the files they refer
    /// to are claimed when the pipe is read.
    pub(crate) fn claim_references(&self, environment: &Environment) {
        let files: Vec<PathBuf> = self.kubeconfigs(environment).iter().flat_map(Candidate::files).cloned().collect();
        files.iter().filter(|path| path.is_file()).for_each(|path| kube_sources::claim_references(path));
    }

    fn kubeconfigs(&self, environment: &Environment) -> Vec<Candidate> {
        let sources = self.kubernetes.iter().map(|it| kube_sources::candidates(&it.sources, environment, true));
        sources.flatten().collect()
    }
}
