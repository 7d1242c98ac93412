//! One context of one or several kubeconfigs, made into a client configuration.
//!
//! Files that it names are read here, bounded, so that the client reads none (but a token file, which changes while we
//! wait) and no error of the client's own can quote them.

use std::fmt;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::config::{AuthInfo, Cluster, ExecAuthCluster, ExecConfig, ExecInteractiveMode, NamedExtension};
use rustls::pki_types::CertificateDer;

use super::certificate::{self, Fault, Identity, Peer};
use super::endpoint::{self, Endpoint};
use super::proxy::{Routes, Setting};
use super::talosconfig::decode;
use super::yaml::{Node, Place};
use super::{ConfigError, Environment, choose_context, file, listed, path_text, pem, shown};
use crate::checks::Reason;
use crate::snapshot::KubernetesCredentials;

/// What the command line puts in place of the file's values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// `--kube-context`.
    pub(crate) context: Option<String>,
    /// `--k8s-endpoint`.
    pub(crate) k8s_endpoint: Option<String>,
}

/// How to reach the API server, and as whom.
#[derive(Clone)]
pub(crate) struct KubeAccess {
    pub(crate) credentials: KubernetesCredentials,
    /// Retries nothing. Timeouts are the caller's, and so is dialling: of proxies, it says nothing.
    pub(crate) config: kube::Config,
    /// Where to connect.
    pub(crate) endpoint: Endpoint,
    /// How to get there, and to every other server of the cluster. There is a way to `endpoint`.
    pub(crate) routes: Routes,
}

impl fmt::Debug for KubeAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // kube::Config would show client certificates and, in `auth-provider`, tokens.
        f.debug_struct("KubeAccess")
            .field("credentials", &self.credentials)
            .field("routes", &self.routes)
            .finish_non_exhaustive()
    }
}

/// One parsed file.
pub(super) struct Document {
    /// ``kubeconfig `/path` ``.
    pub(super) name: String,
    pub(super) text: String,
    pub(super) root: Node,
    /// What its relative paths are relative to. `None`: it may not name files or programs.
    pub(super) folder: Option<PathBuf>,
}

impl Document {
    pub(super) fn place(&self) -> Place<'_> {
        Place::top(&self.name, &self.text)
    }
}

/// A named entry of `clusters`, `contexts` or `users`.
struct Entry<'a> {
    document: &'a Document,
    place: Place<'a>,
    node: &'a Node,
}

impl Entry<'_> {
    fn error(&self, key: &str, problem: &str) -> ConfigError {
        ConfigError::unreadable(format!("{} {problem}", self.place.key(key).name()))
    }

    fn text(&self, key: &str) -> Result<Option<String>, ConfigError> {
        self.place.text_at(self.node, key)
    }

    /// `KEY-data` in base64, or the file that `KEY` names; and the key that was used.
    fn bytes(&self, key: &str) -> Result<Option<(String, Vec<u8>)>, ConfigError> {
        let data = format!("{key}-data");
        if let Some(text) = self.text(&data)? {
            return decode(&self.place.key(&data), &text).map(|bytes| Some((data, bytes)));
        }
        let Some(file) = self.file(key)? else { return Ok(None) };
        let bytes = file::contents(&file.path).map_err(|problem| self.error(key, &file.problem(&problem)))?;
        Ok(Some((key.to_owned(), bytes)))
    }

    fn file(&self, key: &str) -> Result<Option<NamedFile>, ConfigError> {
        let Some(written) = self.text(key)? else { return Ok(None) };
        match &self.document.folder {
            Some(folder) => Ok(Some(NamedFile { path: folder.join(&written), written })),
            None => Err(self.error(key, "names a file of this machine, which is not opened for others")),
        }
    }
}

/// A file that a kubeconfig names.
struct NamedFile {
    /// As it stands there.
    written: String,
    path: PathBuf,
}

impl NamedFile {
    /// Without the path, unless it can be nothing else: who forgets the `-data` of `client-key-data` has written the key.
    fn problem(&self, problem: &str) -> String {
        // A token may be all lower case and digits, but a path of several parts is none.
        match path_text(Path::new(&self.written)).filter(|path| path.contains('/')) {
            Some(path) => format!("names the file `{path}`: {problem}"),
            None => format!("names a file (not shown): {problem}"),
        }
    }
}

/// All entries of one kind. The first file that has a name wins.
fn entries<'a>(documents: &'a [Document], list: &str, inner: &str) -> Result<Vec<(String, Entry<'a>)>, ConfigError> {
    let mut all: Vec<(String, Entry<'a>)> = Vec::new();
    for document in documents {
        let earlier: std::collections::BTreeSet<String> = all.iter().map(|(name, _)| name.clone()).collect();
        let mut here = std::collections::BTreeSet::new();
        let place = document.place().key(list);
        let items = match document.root.get(list) {
            None => continue,
            Some(Node::List(items)) => items,
            Some(other) => return Err(place.wrong(other, "a list")),
        };
        for (index, item) in items.iter().enumerate() {
            let place = place.item(index);
            if !matches!(item, Node::Map(_)) {
                return Err(place.wrong(item, "a mapping"));
            }
            let Some(name) = place.text_at(item, "name")? else {
                return Err(ConfigError::unreadable(format!("{} has no `name`", place.name())));
            };
            if !here.insert(name.clone()) {
                return Err(ConfigError::unreadable(format!("{} has the name of an entry before it", place.name())));
            }
            if earlier.contains(&name) {
                continue;
            }
            let place = place.key(inner);
            match item.get(inner) {
                Some(node @ Node::Map(_)) => all.push((name, Entry { document, place, node })),
                None => all.push((name, Entry { document, place, node: &Node::Null })),
                Some(other) => return Err(place.wrong(other, "a mapping")),
            }
        }
    }
    Ok(all)
}

/// Makes sense of the chosen context.
pub(super) fn access(
    documents: &[Document],
    source: String,
    explicit: bool,
    options: &Options,
    environment: &Environment,
) -> Result<KubeAccess, ConfigError> {
    let (name, context) = select(documents, options)?;
    let reference = |key: &str, list: &str, inner: &str| {
        let Some(wanted) = context.text(key)? else { return Ok(None) };
        let found = entries(documents, list, inner)?.into_iter().find(|(name, _)| *name == wanted);
        found.map(|(_, entry)| Some(entry)).ok_or_else(|| {
            context.error(key, &format!("names {}, and there is no such entry in `{list}`", shown(&wanted)))
        })
    };
    let cluster = reference("cluster", "clusters", "cluster")?
        .ok_or_else(|| ConfigError::unreadable(format!("{} has no `cluster`", context.place.name())))?;
    let user = reference("user", "users", "user")?;

    let (endpoint, url) = server(&cluster, options)?;
    let ca = match cluster.bytes("certificate-authority")? {
        None => None,
        Some((key, bundle)) => Some(certificate::roots(&bundle).map_err(|problem| cluster.error(&key, &problem))?),
    };
    let setting = match cluster.text("proxy-url")? {
        None => Setting::Environment,
        Some(url) => Setting::parse(&url).map_err(|problem| cluster.error("proxy-url", problem))?,
    };
    let routes = Routes::new(setting, environment);
    routes.to(&endpoint)?;

    let mut config = client(url, ca.as_deref());
    // As in talosctl, a forced endpoint has to be in the certificate under its own name.
    config.tls_server_name = cluster.text("tls-server-name")?.filter(|_| options.k8s_endpoint.is_none());
    config.disable_compression = cluster.place.bool_at(cluster.node, "disable-compression")?;
    if let Some(namespace) = context.text("namespace")? {
        config.default_namespace = namespace;
    }
    let mut identity = None;
    if let Some(user) = &user {
        identity = log_in(user, explicit, &mut config.auth_info)?;
        if let Some(exec) = user.node.get("exec") {
            config.auth_info.exec = Some(plugin(user, exec, explicit, &cluster, &config)?);
        }
    }
    Ok(KubeAccess {
        credentials: KubernetesCredentials {
            source,
            explicit,
            context: name,
            server: shown_server(&config.cluster_url, &endpoint),
            certificate: identity.as_ref().map(|identity| identity.facts.clone()),
        },
        config,
        endpoint,
        routes,
    })
}

fn select<'a>(documents: &'a [Document], options: &Options) -> Result<(String, Entry<'a>), ConfigError> {
    let contexts = entries(documents, "contexts", "context")?;
    let first = &documents[0].name;
    let names = contexts.iter().map(|(name, _)| name.as_str());
    if contexts.is_empty() {
        return Err(ConfigError::unreadable(format!("{first} has no contexts")));
    }
    let mut current = None;
    for document in documents {
        if current.is_none() {
            current = document.place().text_at(&document.root, "current-context")?;
        }
    }
    let (wanted, by) = match (&options.context, current) {
        (Some(name), _) => (name.clone(), "`--kube-context` names"),
        (None, Some(name)) => (name, "its `current-context` names"),
        (None, None) => {
            return Err(ConfigError::new(Reason::ContextUnknown, format!("{first} has no `current-context`"))
                .hint(format!("pass `--kube-context`; there are {}", listed(names))));
        }
    };
    if !contexts.iter().any(|(name, _)| *name == wanted) {
        let message = format!("{first}: {by} {}, and there is no such context", shown(&wanted));
        return Err(ConfigError::new(Reason::ContextUnknown, message).hint(choose_context(&wanted, names)));
    }
    contexts
        .into_iter()
        .find(|(name, _)| *name == wanted)
        .ok_or_else(|| ConfigError::new(Reason::ContextUnknown, "there is no such context"))
}

/// The server's address, or `--k8s-endpoint` in its place. What would go there unverified or in the clear is refused.
fn server(cluster: &Entry<'_>, options: &Options) -> Result<(Endpoint, http::Uri), ConfigError> {
    const INSECURE: &str = "insecure-skip-tls-verify";
    if cluster.place.bool_at(cluster.node, INSECURE)? {
        let place = cluster.place.key(INSECURE).name();
        return Err(ConfigError::new(
            Reason::KubeconfigInsecure,
            format!("{place} is `true`: whoever answers would be believed"),
        )
        .hint("remove it and give the cluster's `certificate-authority-data`"));
    }
    if let Some(forced) = &options.k8s_endpoint {
        let endpoint = endpoint::kubernetes(forced)
            .map_err(|problem| ConfigError::unreadable(format!("`--k8s-endpoint` {problem}")))?;
        let url = format!("https://{endpoint}/").parse();
        return url
            .map(|url| (endpoint, url))
            .map_err(|_| ConfigError::unreadable("`--k8s-endpoint` is not usable in a URL"));
    }
    let Some(text) = cluster.text("server")? else {
        return Err(ConfigError::unreadable(format!("{} has no `server`", cluster.place.name())));
    };
    let Some(rest) = text.strip_prefix("https://") else {
        return Err(if text.contains("://") && !text.starts_with("http://") {
            cluster.error("server", "does not begin with `https://`")
        } else {
            let place = cluster.place.key("server").name();
            ConfigError::new(
                Reason::KubeconfigInsecure,
                format!("{place} is not `https://`: credentials would go in the clear"),
            )
        });
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err(cluster.error("server", "carries credentials in the URL"));
    }
    let endpoint = endpoint::split(authority, 443).map_err(|problem| cluster.error("server", problem))?;
    let url = text.parse::<http::Uri>().map_err(|_| cluster.error("server", "is not a URL"))?;
    Ok((endpoint, url))
}

/// `https://host:port`, and the path of clusters behind a common front (Rancher).
fn shown_server(url: &http::Uri, endpoint: &Endpoint) -> String {
    let path = url.path().trim_end_matches('/');
    format!(
        "https://{endpoint}{}",
        if path.is_empty() { String::new() } else { shown(path).trim_matches('`').to_owned() }
    )
}

fn client(url: http::Uri, ca: Option<&[CertificateDer<'static>]>) -> kube::Config {
    let mut config = kube::Config::new(url);
    config.default_retry = false;
    config.root_cert = ca.map(|ca| ca.iter().map(|certificate| certificate.to_vec()).collect());
    config
}

/// Fills in everything but the plugin.
fn log_in(user: &Entry<'_>, explicit: bool, auth: &mut AuthInfo) -> Result<Option<Identity>, ConfigError> {
    if user.node.get("auth-provider").is_some() {
        return Err(user
            .error("auth-provider", "is not supported: Kubernetes has removed such providers")
            .hint("use a client certificate, a token, or an `exec` plugin"));
    }
    if user.node.get("exec").is_some() && !explicit {
        return Err(user
            .error("exec", "is a program, and is run only from a kubeconfig that was named on the command line")
            .hint("pass the file with `--kubeconfig`"));
    }
    let pair = (user.bytes("client-certificate")?, user.bytes("client-key")?);
    let identity = match pair {
        (None, None) => None,
        (Some((key, _)), None) => return Err(user.error(&key, "is there, and `client-key-data` is missing")),
        (None, Some((key, _))) => return Err(user.error(&key, "is there, and `client-certificate-data` is missing")),
        (Some((certificate_key, chain)), Some((key_key, key))) => {
            Some(certificate::identity(&chain, &key, Peer::Kubernetes).map_err(|fault| match fault {
                Fault::Certificate(problem) => user.error(&certificate_key, &problem),
                Fault::Key(problem) => user.error(&key_key, &problem),
            })?)
        }
    };
    if let Some(identity) = &identity {
        auth.client_certificate_data = Some(STANDARD.encode(identity.chain_pem()));
        auth.client_key_data = Some(STANDARD.encode(identity.key_pem()).into());
    }
    if let Some(token) = user.text("token")? {
        auth.token = Some(token_text(&token).map_err(|problem| user.error("token", problem))?.into());
    } else if let Some(file) = user.file("tokenFile")? {
        token_file(&file.path, auth).map_err(|problem| user.error("tokenFile", &file.problem(&problem)))?;
    }
    auth.username = user.text("username")?;
    auth.password = user.text("password")?.map(Into::into);
    auth.impersonate = user.text("as")?;
    auth.impersonate_uid = user.text("as-uid")?;
    auth.impersonate_groups = Some(user.place.texts_at(user.node, "as-groups")?).filter(|groups| !groups.is_empty());
    if user.node.get("as-user-extra").is_some() {
        return Err(user.error("as-user-extra", "is not supported"));
    }
    Ok(identity)
}

/// A token fit for a header.
fn token_text(text: &str) -> Result<String, &'static str> {
    let token = text.trim();
    if token.is_empty() {
        Err("is empty")
    } else if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        Err("is not a token: it holds other characters than a header may")
    } else {
        Ok(token.to_owned())
    }
}

/// The client re-reads the file, since tokens of pods change; but it does not trim, so a padded token is taken as it is now.
fn token_file(path: &Path, auth: &mut AuthInfo) -> Result<(), String> {
    let text = String::from_utf8(file::contents(path)?).map_err(|_| "is not text".to_owned())?;
    let token = token_text(&text)?;
    let regular = std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
    match path.to_str().filter(|_| regular && token == text) {
        Some(path) => auth.token_file = Some(path.to_owned()),
        None => auth.token = Some(token.into()),
    }
    Ok(())
}

fn plugin(
    user: &Entry<'_>,
    exec: &Node,
    explicit: bool,
    cluster: &Entry<'_>,
    config: &kube::Config,
) -> Result<ExecConfig, ConfigError> {
    let place = user.place.key("exec");
    if !matches!(exec, Node::Map(_)) {
        return Err(place.wrong(exec, "a mapping"));
    }
    let fail = |key: &str, problem: &str| ConfigError::unreadable(format!("{} {problem}", place.key(key).name()));
    let Some(folder) = user.document.folder.as_deref().filter(|_| explicit) else {
        return Err(fail("command", "is a program of this machine, which is not run for others"));
    };
    let Some(command) = place.text_at(exec, "command")? else { return Err(fail("command", "is missing")) };
    if place.text_at(exec, "interactiveMode")?.as_deref() == Some("Always") {
        return Err(fail("interactiveMode", "is `Always`, and nobody can be asked"));
    }
    let mut environment = Vec::new();
    match exec.get("env") {
        None => {}
        Some(Node::List(items)) => {
            for (index, item) in items.iter().enumerate() {
                let place = place.key("env").item(index);
                let name = place.text_at(item, "name")?.unwrap_or_default();
                let value = place.text_at(item, "value")?.unwrap_or_default();
                environment.push([("name".to_owned(), name), ("value".to_owned(), value)].into());
            }
        }
        Some(other) => return Err(place.key("env").wrong(other, "a list")),
    }
    let provide_cluster_info = place.bool_at(exec, "provideClusterInfo")?;
    Ok(ExecConfig {
        api_version: place.text_at(exec, "apiVersion")?,
        // Only what looks like a path is one; the rest is looked up in PATH.
        command: Some(if command.contains('/') { folder.join(&command).display().to_string() } else { command }),
        args: Some(place.texts_at(exec, "args")?),
        env: Some(environment),
        interactive_mode: Some(ExecInteractiveMode::Never),
        provide_cluster_info,
        cluster: provide_cluster_info.then(|| cluster_info(cluster, config)).transpose()?,
        ..ExecConfig::default()
    })
}

/// What a plugin may want to know of the cluster.
fn cluster_info(cluster: &Entry<'_>, config: &kube::Config) -> Result<ExecAuthCluster, ConfigError> {
    let ca = config.root_cert.iter().flatten().map(|der| CertificateDer::from(der.as_slice())).collect::<Vec<_>>();
    let extensions = match cluster.node.get("extensions") {
        Some(Node::List(items)) => items
            .iter()
            .filter_map(|item| match (item.get("name"), item.get("extension")) {
                (Some(Node::Text(name)), Some(extension)) => {
                    Some(NamedExtension { name: name.clone(), extension: extension.to_json() })
                }
                _ => None,
            })
            .collect(),
        _ => Vec::new(),
    };
    let shape = Cluster {
        server: Some(config.cluster_url.to_string()),
        certificate_authority_data: (!ca.is_empty()).then(|| STANDARD.encode(pem::encode_certificates(&ca))),
        tls_server_name: config.tls_server_name.clone(),
        extensions: Some(extensions),
        ..Cluster::default()
    };
    ExecAuthCluster::try_from(&shape)
        .map_err(|_| ConfigError::unreadable(format!("{} cannot be told to the plugin", cluster.place.name())))
}

/// The pod's own credentials. Everything is re-done here that kube does, because kube reads without bounds and from the
/// process's environment.
pub(super) fn in_cluster(
    explicit: bool,
    options: &Options,
    environment: &Environment,
) -> Result<KubeAccess, ConfigError> {
    let fail = |problem: &str| ConfigError::unreadable(format!("in-cluster credentials: {problem}"));
    let (Some(host), Some(port)) =
        (environment.text("KUBERNETES_SERVICE_HOST"), environment.text("KUBERNETES_SERVICE_PORT"))
    else {
        return Err(fail("`KUBERNETES_SERVICE_HOST` or `KUBERNETES_SERVICE_PORT` is not set: this is not a pod"));
    };
    let port: u16 = port.parse().map_err(|_| fail("`KUBERNETES_SERVICE_PORT` is not a port"))?;
    let host = endpoint::split(host, port).map_err(|_| fail("`KUBERNETES_SERVICE_HOST` is not a host"))?.host;
    let endpoint = match &options.k8s_endpoint {
        Some(forced) => endpoint::kubernetes(forced)
            .map_err(|problem| ConfigError::unreadable(format!("`--k8s-endpoint` {problem}")))?,
        None => Endpoint::new(&host, port),
    };
    let url =
        format!("https://{endpoint}/").parse().map_err(|_| fail("the API server's address is not usable in a URL"))?;
    let bundle = file::read(&environment.service_account.join("ca.crt"), "in-cluster CA")?;
    let ca = certificate::roots(&bundle).map_err(|problem| fail(&format!("`ca.crt` {problem}")))?;
    let routes = Routes::new(Setting::Environment, environment);
    routes.to(&endpoint)?;
    let mut config = client(url, Some(&ca));
    token_file(&environment.service_account.join("token"), &mut config.auth_info)
        .map_err(|problem| fail(&format!("`token`: {problem}")))?;
    Ok(KubeAccess {
        credentials: KubernetesCredentials {
            source: "in-cluster".to_owned(),
            explicit,
            context: "in-cluster".to_owned(),
            server: format!("https://{endpoint}"),
            certificate: None,
        },
        config,
        endpoint,
        routes,
    })
}

#[cfg(test)]
#[path = "kubeconfig_tests.rs"]
pub(super) mod tests;
