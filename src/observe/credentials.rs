//! Turns options and files into the endpoints and credentials to use. They are read once, before any connection is opened.

use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::budget::Budget;
use super::join::Candidate;
use super::kubernetes::KubeClient;
use super::population;
use super::talos;
use crate::config::access::{Access, KubernetesOptions, TalosOptions};
use crate::config::etcd::{self, EtcdAccess};
use crate::config::kube_sources;
use crate::config::kubeconfig::{KubeAccess, Options};
use crate::config::talosconfig::{self, TalosConfig};
use crate::config::{ConfigError, Environment, file};
use crate::model::Reason;
use crate::snapshot::{Gap, GapKind, Kubernetes, KubernetesCredentials, Observed, TalosCredentials};
use crate::text::clock;

/// The configured access to the cluster, from options and files. The credentials checks judge the gaps.
pub(crate) struct Credentials {
    /// `None` with `--no-talos`.
    pub(super) talos: Option<Observed<TalosAccess>>,
    /// `None` with `--no-kubernetes`.
    pub(super) kubernetes: Option<KubernetesAccess>,
    pub(super) etcd: Option<EtcdAccess>,
    /// The first file that the user named and that cannot be used, for a message with its hint.
    pub(crate) error: Option<ConfigError>,
    /// Warnings for the user, shown before the run.
    pub(crate) notes: Vec<String>,
}

/// A talosconfig's context, and the addresses of its endpoints.
pub(super) struct TalosAccess {
    pub(super) credentials: TalosCredentials,
    pub(super) endpoints: Vec<talos::EndpointAddress>,
    pub(super) nodes: Vec<String>,
    config: TalosConfig,
}

/// Kubernetes credentials in the order in which they are tried.
pub(super) struct KubernetesAccess {
    queue: VecDeque<KubeAccess>,
    passed_over: Vec<(String, String)>,
    /// Kubeconfigs that were read.
    files: Vec<PathBuf>,
    /// Set if a source that the user named cannot be used, in which case no other source is used either.
    unusable: Option<Gap>,
    /// Allows the last source: a kubeconfig that the Talos API issues to os:admin.
    from_talos: bool,
    options: Options,
    environment: Environment,
}

impl Credentials {
    /// Reads the files: call it off the runtime's threads. Only errors that belong to no check are returned.
    pub(crate) fn read(access: &Access, environment: &Environment) -> Result<Self, ConfigError> {
        let mut error = None;
        let mut notes = Vec::new();
        access.claim_references(environment);
        let etcd = access.etcd.as_ref().map(|options| EtcdAccess::load(options, environment)).transpose()?;
        let talos = access.talos.as_ref().map(|options| {
            talos_access(options, environment).map_err(|config_error| {
                let gap = gap(&config_error);
                error.get_or_insert(config_error);
                gap
            })
        });
        let kubernetes = access.kubernetes.as_ref().map(|options| {
            let talos = talos.as_ref().and_then(|talos| talos.as_ref().ok());
            let (access, config_error) = kubernetes_access(options, environment, talos);
            if let Some(config_error) = config_error {
                error.get_or_insert(config_error);
            }
            if access.queue.is_empty() && access.from_talos {
                notes.push(
                    "no kubeconfig found: fetching one through the Talos API (os:admin), which mints a cluster-admin certificate; `--no-kubeconfig-from-talos` prevents this"
                        .to_owned(),
                );
            }
            access
        });
        let of_talos = talos.iter().flatten().map(|access| access.config.source.as_path());
        let of_kubernetes = kubernetes.iter().flat_map(|access| &access.files).map(PathBuf::as_path);
        let of_etcd = access.etcd.iter().filter_map(|options| Some(options.client.as_ref()?.1.as_path()));
        let password = access.etcd.as_ref().and_then(|_| etcd::password_file(environment));
        let files: BTreeSet<&Path> = of_talos.chain(of_kubernetes).chain(of_etcd).chain(password.as_deref()).collect();
        notes.extend(files.into_iter().filter_map(|path| file::open_to_all(path, environment)));
        Ok(Self { talos, kubernetes, etcd, error, notes })
    }

    /// Returns the talosconfig's context, for the first line of progress.
    pub(crate) fn context(&self) -> Option<&str> {
        self.talos.as_ref()?.as_ref().ok().map(|access| access.credentials.context.as_str())
    }
}

fn gap(error: &ConfigError) -> Gap {
    let kind = match error.reason {
        Reason::ContextUnknown => GapKind::ContextUnknown,
        Reason::KubeconfigInsecure => GapKind::Insecure,
        _ => GapKind::Malformed,
    };
    Gap::new(kind, error.message.clone())
}

fn talos_access(options: &TalosOptions, environment: &Environment) -> Result<TalosAccess, ConfigError> {
    let found = talosconfig::find(options.talosconfig.as_deref(), environment)?;
    let config = talosconfig::load(&found, &options.overrides, environment)?;
    let endpoints = config
        .endpoints
        .iter()
        .map(|endpoint| {
            Ok(talos::EndpointAddress {
                host: endpoint.host.clone(),
                port: endpoint.port,
                shown: endpoint.shown.clone(),
                via: config.proxy(environment, endpoint)?,
            })
        })
        .collect::<Result<_, ConfigError>>()?;
    Ok(TalosAccess { credentials: config.credentials(), endpoints, nodes: config.nodes.clone(), config })
}

impl TalosAccess {
    pub(super) fn into_client_config(self, timeout: Duration) -> talos::Config {
        talos::Config {
            endpoints: self.endpoints,
            roots: self.config.roots,
            client: self.config.identity,
            account: self.config.account,
            cluster: self.config.cluster,
            timeout,
        }
    }

    fn is_admin(&self) -> bool {
        let certificate = self.credentials.certificate.as_ref();
        certificate.is_some_and(|certificate| certificate.organizations.iter().any(|role| role == "os:admin"))
    }
}

fn kubernetes_access(
    options: &KubernetesOptions,
    environment: &Environment,
    talos: Option<&TalosAccess>,
) -> (KubernetesAccess, Option<ConfigError>) {
    let mut access = KubernetesAccess {
        queue: VecDeque::new(),
        passed_over: Vec::new(),
        files: Vec::new(),
        unusable: None,
        from_talos: options.from_talos && talos.is_some_and(TalosAccess::is_admin),
        options: options.overrides.clone(),
        environment: environment.clone(),
    };
    // The error of the first file that lacks the `--kube-context`, used if no other file has it.
    let mut lacking = None;
    // The reason for skipping the file of the variable, used if no other source can be used.
    let mut of_variable = None;
    let mut has_context = options.overrides.context.is_none();
    for candidate in
        kube_sources::candidates(&options.sources, environment, talos.is_some_and(|talos| talos.config.in_pod))
    {
        let loaded = candidate.load(&access.options, environment);
        // A pod's own credentials have no contexts.
        has_context |= loaded.is_ok() && !matches!(candidate, kube_sources::Candidate::InCluster { .. });
        if loaded.is_ok() {
            access.files.extend_from_slice(candidate.files());
        }
        let is_binding = candidate.is_binding(&loaded);
        match loaded {
            Ok(found) => match expired(&found.credentials) {
                Some(since) if !is_binding => access.passed_over.push((candidate.name(), since)),
                // The check judges its certificate before any request is made.
                Some(_) => {
                    access.queue = VecDeque::from([found]);
                    access.from_talos = false;
                    return (access, None);
                }
                None => access.queue.push_back(found),
            },
            Err(error) if is_binding => {
                access.unusable = Some(gap(&error));
                access.from_talos = false;
                return (access, Some(error));
            }
            Err(error) => {
                access.passed_over.push((candidate.name(), error.message.clone()));
                if matches!(candidate, kube_sources::Candidate::Variable(_)) {
                    of_variable = Some(error.clone());
                }
                if error.reason == Reason::ContextUnknown {
                    lacking.get_or_insert(error);
                }
            }
        }
        if candidate.explicit() {
            // A source that the user named excludes all others.
            access.from_talos = false;
            break;
        }
    }
    let nothing_else = access.queue.is_empty() && !access.from_talos;
    match lacking.filter(|_| !has_context).or(of_variable.filter(|_| nothing_else)) {
        Some(error) => {
            // The user named this context or file, so no other source may replace it.
            access.unusable = Some(gap(&error));
            access.queue.clear();
            access.from_talos = false;
            (access, Some(error))
        }
        None => (access, None),
    }
}

fn expired(credentials: &KubernetesCredentials) -> Option<String> {
    let client = credentials.certificate.as_ref().map(|it| ("client certificate", it.not_after));
    let ca = credentials.ca.as_ref().map(|it| ("CA", it.not_after));
    let (what, end) = client.into_iter().chain(ca).find(|(_, end)| *end < clock::now())?;
    Some(format!("its {what} expired at {end}"))
}

/// Access to the Kubernetes API with the first credentials that are usable and do not belong to another cluster.
pub(super) struct KubernetesSide {
    access: KubernetesAccess,
    /// The client in use, and the credentials it was made from.
    client: Option<(KubeClient, KubeAccess)>,
    /// Sources that seemed to belong to another cluster. A cluster that is still forming looks like that too.
    strangers: Vec<KubeAccess>,
    /// Set once the Talos API has issued the kubeconfig in use.
    minted: bool,
    call_timeout: Duration,
    budget: Arc<Budget>,
}

impl KubernetesSide {
    pub(super) fn new(access: KubernetesAccess, call_timeout: Duration, budget: &Arc<Budget>) -> Self {
        Self { access, client: None, strangers: Vec::new(), minted: false, call_timeout, budget: Arc::clone(budget) }
    }

    /// Returns the credentials known before any request is made.
    pub(super) fn credentials(&self) -> Observed<KubernetesCredentials> {
        match (&self.access.unusable, self.access.queue.front()) {
            (Some(gap), _) => Err(gap.clone()),
            (None, Some(access)) => Ok(access.credentials.clone()),
            (None, None) => Err(Gap::new(GapKind::NotAsked, "no usable kubeconfig was found")),
        }
    }

    pub(super) fn client(&self) -> Option<&KubeClient> {
        self.client.as_ref().map(|(client, _)| client)
    }

    pub(super) fn passed_over(&self) -> &[(String, String)] {
        &self.access.passed_over
    }

    /// Returns whether a later round may find credentials that this one lacks: the Talos API has not issued any yet, or sources that seemed
    /// to belong to another cluster are tried again.
    pub(super) fn may_still_find(&self) -> bool {
        let unasked = self.access.from_talos && !self.minted;
        self.access.unusable.is_none() && (unasked || !self.strangers.is_empty())
    }

    /// Returns the host of the Kubernetes endpoint, if it is known.
    pub(super) fn host(&self) -> Option<String> {
        let in_use = self.client.as_ref().map(|(_, access)| access);
        in_use.or(self.access.queue.front()).map(|access| access.endpoint.host.clone())
    }

    /// Begins a round. If no source is left, those that seemed to belong to another cluster are tried again.
    pub(super) fn begin_round(&mut self) {
        if self.client.is_some() || !self.access.queue.is_empty() {
            return;
        }
        for access in self.strangers.drain(..) {
            self.access.passed_over.retain(|(source, _)| *source != access.credentials.source);
            self.access.queue.push_back(access);
        }
    }

    /// Ensures that there is a client. `from_talos` is awaited only if no other source is left.
    pub(super) async fn connect(&mut self, from_talos: impl Future<Output = Observed<String>>) -> Result<(), Gap> {
        match &self.client {
            // The outdated client is kept if there is no better one.
            Some((client, access)) if client.is_outdated() => return self.open(access.clone()).await,
            Some(_) => return Ok(()),
            None => {}
        }
        if let Some(gap) = &self.access.unusable {
            return Err(gap.clone());
        }
        while let Some(access) = self.access.queue.front() {
            let (name, explicit) = (access.credentials.source.clone(), access.credentials.explicit);
            match self.open(access.clone()).await {
                Ok(()) => {
                    self.access.queue.pop_front();
                    return Ok(());
                }
                Err(gap) if explicit => return Err(gap),
                Err(gap) => {
                    self.access.queue.pop_front();
                    self.access.passed_over.push((name, gap.text.into_owned()));
                }
            }
        }
        if !self.access.from_talos {
            return Err(Gap::new(GapKind::NotAsked, "no usable kubeconfig was found"));
        }
        let text = from_talos.await?;
        let access = kube_sources::from_talos(text.as_bytes(), &self.access.options, &self.access.environment)
            .map_err(|error| gap(&error))?;
        self.open(access).await?;
        self.minted = true;
        Ok(())
    }

    async fn open(&mut self, access: KubeAccess) -> Result<(), Gap> {
        let KubeAccess { credentials, config, routes, roots, .. } = access.clone();
        let client = KubeClient::new(config, routes, &roots, credentials, self.call_timeout).await?;
        self.client = Some((client.within(&self.budget), access));
        Ok(())
    }

    /// Returns why the observed cluster is another one, if it is and the user did not name the source.
    pub(super) fn is_stranger(&self, kubernetes: &Kubernetes, talos: &[Candidate]) -> Option<String> {
        let (_, KubeAccess { credentials, .. }) = self.client.as_ref()?;
        let nodes = kubernetes.nodes.as_ref().ok()?;
        // A kubeconfig issued by the cluster itself cannot belong to another one.
        if credentials.explicit || self.minted || population::same_cluster(talos, nodes) {
            return None;
        }
        let names: Vec<&str> = nodes.iter().take(3).map(|node| node.name.as_str()).collect();
        Some(format!(
            "belongs to another cluster: its nodes are {} …, none of them a Talos node of this cluster",
            names.join(", ")
        ))
    }

    pub(super) fn pass_over(&mut self, why: String) {
        if let Some((_, access)) = self.client.take() {
            self.access.passed_over.push((access.credentials.source.clone(), why));
            self.strangers.push(access);
        }
    }
}

#[cfg(test)]
#[path = "credentials_tests.rs"]
mod tests;
