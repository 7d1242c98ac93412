//! One context of one or several kubeconfigs, made into a client configuration.
//!
//! Files that it names are read here, bounded, so that the client reads none (but a token file, which changes while we
//! wait) and no error of the client's own can quote them.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::config::{AuthInfo, Cluster, ExecAuthCluster, ExecConfig, ExecInteractiveMode, NamedExtension};
use rustls::pki_types::CertificateDer;

use super::certificate::{self, Identity, Peer};
use super::endpoint::{self, Endpoint};
use super::proxy::{Routes, Setting};
use super::yaml::{Document, Node, Value};
use super::{ConfigError, Environment, choose_context, file, listed, path_text, pem, shown};
use crate::model::Reason;
use crate::snapshot::{KubernetesCredentials, Validity};

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
    /// Retries nothing. Timeouts are the caller's, and so is dialing: of proxies, it says nothing.
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

impl Value<'_> {
    /// `KEY-data` in base64, or the file that `KEY` names; and which of the two it is.
    fn bytes(&self, key: &str) -> Result<certificate::Half<'_>, ConfigError> {
        let data = self.key(&format!("{key}-data"));
        if let Some(bytes) = data.decoded()? {
            return Ok(Some((data, bytes)));
        }
        let value = self.key(key);
        let Some(file) = value.file()? else { return Ok(None) };
        let bytes = file::contents(&file.path).map_err(|problem| value.error(file.problem(&problem)))?;
        Ok(Some((value, bytes)))
    }

    fn file(&self) -> Result<Option<NamedFile>, ConfigError> {
        let Some(written) = self.text()? else { return Ok(None) };
        match &self.document.folder {
            Some(folder) => Ok(Some(NamedFile { path: folder.join(&written), written })),
            None => Err(self.error("names a local file, which is not opened for a kubeconfig from elsewhere")),
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

/// Every file that a kubeconfig names, of whatever context, and every program: a name without a slash may be any file of PATH.
pub(super) fn references(document: &Document) -> Vec<PathBuf> {
    let Some(folder) = &document.folder else { return Vec::new() };
    let of = |list: &str, inner: &str, keys: &[&str]| {
        let items = document.top().key(list).items("a list").unwrap_or_default();
        let text = |item: &Value<'_>, key: &&str| item.key(inner).key(key).text().ok()?;
        items.iter().flat_map(|item| keys.iter().filter_map(|key| text(item, key))).collect::<Vec<_>>()
    };
    let mut files = of("clusters", "cluster", &["certificate-authority"]);
    files.extend(of("users", "user", &["client-certificate", "client-key", "tokenFile"]));
    let mut paths: Vec<PathBuf> = files.iter().map(|written| folder.join(written)).collect();
    let users = document.top().key("users").items("a list").unwrap_or_default();
    for command in users.iter().filter_map(|user| user.key("user").key("exec").key("command").text().ok()?) {
        if command.contains('/') {
            paths.push(folder.join(command));
        } else if let Some(path) = std::env::var_os("PATH") {
            paths.extend(std::env::split_paths(&path).map(|place| place.join(&command)));
        }
    }
    paths
}

/// All entries of one kind: of `clusters`, `contexts` or `users`. The first file that has a name wins.
fn entries<'a>(documents: &'a [Document], list: &str, inner: &str) -> Result<Vec<(String, Value<'a>)>, ConfigError> {
    let mut all: Vec<(String, Value<'a>)> = Vec::new();
    for document in documents {
        let earlier: BTreeSet<String> = all.iter().map(|(name, _)| name.clone()).collect();
        let mut here = BTreeSet::new();
        for item in document.top().key(list).items("a list")? {
            let item = item.map()?;
            let Some(name) = item.key("name").text()? else { return Err(item.error("has no `name`")) };
            if !here.insert(name.clone()) {
                return Err(item.error("has the same name as an earlier entry"));
            }
            if !earlier.contains(&name) {
                let entry = item.key(inner);
                all.push((name, if entry.is_there() { entry.map()? } else { entry }));
            }
        }
    }
    Ok(all)
}

pub(super) fn context_names(documents: &[Document]) -> Vec<String> {
    let contexts = entries(documents, "contexts", "context").unwrap_or_default();
    contexts.into_iter().map(|(name, _)| name).collect()
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
        let named = context.key(key);
        let Some(wanted) = named.text()? else { return Ok(None) };
        let found = entries(documents, list, inner)?.into_iter().find(|(name, _)| *name == wanted);
        let missing = || named.error(format_args!("names {}, but there is no such entry in `{list}`", shown(&wanted)));
        found.map(|(_, entry)| Some(entry)).ok_or_else(missing)
    };
    let cluster = reference("cluster", "clusters", "cluster")?.ok_or_else(|| context.error("has no `cluster`"))?;
    let user = reference("user", "users", "user")?;

    let (endpoint, url) = server(&cluster, options)?;
    let ca = cluster.bytes("certificate-authority")?;
    let ca =
        ca.map(|(value, bundle)| certificate::roots(&bundle).map_err(|problem| value.error(problem))).transpose()?;
    let routes = Routes::new(Setting::of(&cluster.key("proxy-url"))?, environment);
    routes.to(&endpoint)?;

    let mut config = client(url, ca.as_deref());
    // As in talosctl, a forced endpoint has to be in the certificate under its own name.
    config.tls_server_name = cluster.key("tls-server-name").text()?.filter(|_| options.k8s_endpoint.is_none());
    config.disable_compression = cluster.key("disable-compression").bool()?;
    if let Some(namespace) = context.key("namespace").text()? {
        config.default_namespace = namespace;
    }
    let mut identity = None;
    if let Some(user) = &user {
        identity = log_in(user, explicit, &mut config.auth_info)?;
        let exec = user.key("exec");
        if exec.is_there() {
            config.auth_info.exec = Some(plugin(&exec.map()?, explicit, &cluster, &config)?);
        }
    }
    Ok(KubeAccess {
        credentials: KubernetesCredentials {
            source,
            files: Vec::new(),
            explicit,
            context: name,
            server: shown_server(&config.cluster_url, &endpoint),
            ca: ca_of(&config),
            certificate: identity.map(|identity| identity.facts.clone()),
        },
        config,
        endpoint,
        routes,
    })
}

fn select<'a>(documents: &'a [Document], options: &Options) -> Result<(String, Value<'a>), ConfigError> {
    let mut contexts = entries(documents, "contexts", "context")?;
    let first = &documents[0].name;
    if contexts.is_empty() {
        return Err(ConfigError::unreadable(format!("{first} has no contexts")));
    }
    let names = contexts.iter().map(|(name, _)| name.as_str());
    let mut current = documents.iter().map(|document| document.top().key("current-context").text());
    let current = current.find_map(Result::transpose).transpose()?;
    let (wanted, by) = match (&options.context, current) {
        (Some(name), _) => (name.clone(), "`--kube-context` names"),
        (None, Some(name)) => (name, "its `current-context` names"),
        (None, None) => {
            return Err(ConfigError::new(Reason::ContextUnknown, format!("{first} has no `current-context`"))
                .hint(format!("pass `--kube-context`; there are {}", listed(names))));
        }
    };
    let Some(at) = contexts.iter().position(|(name, _)| *name == wanted) else {
        let message = format!("{first}: {by} {}, but there is no such context", shown(&wanted));
        return Err(ConfigError::new(Reason::ContextUnknown, message).hint(choose_context(&wanted, names)));
    };
    Ok(contexts.swap_remove(at))
}

/// `--k8s-endpoint`.
fn forced(options: &Options) -> Result<Option<Endpoint>, ConfigError> {
    let forced = options.k8s_endpoint.as_deref().map(endpoint::kubernetes).transpose();
    forced.map_err(|problem| ConfigError::unreadable(format!("`--k8s-endpoint` {problem}")))
}

/// The server's address, or `--k8s-endpoint` in its place. What would go there unverified or in the clear is refused.
fn server(cluster: &Value<'_>, options: &Options) -> Result<(Endpoint, http::Uri), ConfigError> {
    let insecure =
        |value: &Value<'_>, why: &str| ConfigError::new(Reason::KubeconfigInsecure, format!("{} {why}", value.name()));
    let unverified = cluster.key("insecure-skip-tls-verify");
    if unverified.bool()? {
        return Err(insecure(&unverified, "is `true`: any server would be trusted")
            .hint("remove it and set the cluster's `certificate-authority-data`"));
    }
    if let Some(endpoint) = forced(options)? {
        let url = format!("https://{endpoint}/").parse();
        return url
            .map(|url| (endpoint, url))
            .map_err(|_| ConfigError::unreadable("`--k8s-endpoint` is not usable in a URL"));
    }
    let server = cluster.key("server");
    let Some(text) = server.text()? else { return Err(cluster.error("has no `server`")) };
    let Some(rest) = text.strip_prefix("https://") else {
        return Err(if text.contains("://") && !text.starts_with("http://") {
            server.error("does not start with `https://`")
        } else {
            insecure(&server, "is not `https://`: credentials would be sent in plain text")
        });
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err(server.error("carries credentials in the URL"));
    }
    let endpoint = endpoint::split(authority, 443).map_err(|problem| server.error(problem))?;
    let url = text.parse::<http::Uri>().map_err(|_| server.error("is not a URL"))?;
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

fn ca_of(config: &kube::Config) -> Option<Validity> {
    certificate::longest(config.root_cert.iter().flatten().map(Vec::as_slice))
}

/// Fills in everything but the plugin.
fn log_in(user: &Value<'_>, explicit: bool, auth: &mut AuthInfo) -> Result<Option<Identity>, ConfigError> {
    let (provider, exec) = (user.key("auth-provider"), user.key("exec"));
    if provider.is_there() {
        return Err(provider
            .error("is not supported: Kubernetes has removed auth providers")
            .hint("use a client certificate, a token, or an `exec` plugin")
            .refused());
    }
    if exec.is_there() && !explicit {
        return Err(exec
            .error("is a program, which is run only from a kubeconfig passed on the command line")
            .hint("pass the file with `--kubeconfig`")
            .refused());
    }
    let (chain, key) = (user.bytes("client-certificate")?, user.bytes("client-key")?);
    let names = ["client-certificate-data", "client-key-data"];
    let identity = certificate::pair(chain, key, names, Peer::Kubernetes)?;
    if let Some(identity) = &identity {
        auth.client_certificate_data = Some(STANDARD.encode(identity.chain_pem()));
        auth.client_key_data = Some(STANDARD.encode(&*identity.key_pem()).into());
    }
    let (token, file) = (user.key("token"), user.key("tokenFile"));
    if let Some(text) = token.text()? {
        auth.token = Some(token_text(&text).map_err(|problem| token.error(problem))?.into());
    } else if let Some(named) = file.file()? {
        token_file(&named.path, auth).map_err(|problem| file.error(named.problem(&problem)))?;
    }
    auth.username = user.key("username").text()?;
    auth.password = user.key("password").text()?.map(Into::into);
    auth.impersonate = user.key("as").text()?;
    auth.impersonate_uid = user.key("as-uid").text()?;
    auth.impersonate_groups = Some(user.key("as-groups").texts()?).filter(|groups| !groups.is_empty());
    let extra = user.key("as-user-extra");
    if extra.is_there() { Err(extra.error("is not supported")) } else { Ok(identity) }
}

/// A token fit for a header.
pub(super) fn token_text(text: &str) -> Result<String, &'static str> {
    let token = text.trim();
    if token.is_empty() {
        Err("is empty")
    } else if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        Err("is not a token: it contains characters that are not allowed in a header")
    } else {
        Ok(token.to_owned())
    }
}

/// The token that a file has by now.
pub(crate) fn token_in(path: &Path) -> Result<String, String> {
    let text = file::contents(path)?;
    let text = std::str::from_utf8(&text).map_err(|_| "is not text".to_owned())?;
    token_text(text).map_err(str::to_owned)
}

/// The client re-reads the file, since tokens of pods change. What a pipe has said is said once.
fn token_file(path: &Path, auth: &mut AuthInfo) -> Result<(), String> {
    let token = token_in(path)?;
    let regular = std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
    match path.to_str().filter(|_| regular) {
        Some(path) => auth.token_file = Some(path.to_owned()),
        None => auth.token = Some(token.into()),
    }
    Ok(())
}

fn plugin(
    exec: &Value<'_>,
    explicit: bool,
    cluster: &Value<'_>,
    config: &kube::Config,
) -> Result<ExecConfig, ConfigError> {
    let (command, mode) = (exec.key("command"), exec.key("interactiveMode"));
    let Some(folder) = exec.document.folder.as_deref().filter(|_| explicit) else {
        return Err(command.error("is a local program, which is not run for a kubeconfig from elsewhere"));
    };
    let Some(command) = command.text()? else { return Err(command.error("is missing")) };
    if mode.text()?.as_deref() == Some("Always") {
        return Err(mode.error("is `Always`, but no prompt is possible"));
    }
    let mut environment = Vec::new();
    for item in exec.key("env").items("a list")? {
        let text = |key: &str| item.key(key).text().map(|text| (key.to_owned(), text.unwrap_or_default()));
        environment.push([text("name")?, text("value")?].into());
    }
    // Only what looks like a path is one; the rest is looked up in PATH.
    let command = if command.contains('/') { folder.join(&command).display().to_string() } else { command };
    let provide_cluster_info = exec.key("provideClusterInfo").bool()?;
    Ok(ExecConfig {
        api_version: exec.key("apiVersion").text()?,
        command: Some(command),
        args: Some(exec.key("args").texts()?),
        env: Some(environment),
        interactive_mode: Some(ExecInteractiveMode::Never),
        provide_cluster_info,
        cluster: provide_cluster_info.then(|| cluster_info(cluster, config)).transpose()?,
        ..ExecConfig::default()
    })
}

/// What a plugin may want to know of the cluster.
fn cluster_info(cluster: &Value<'_>, config: &kube::Config) -> Result<ExecAuthCluster, ConfigError> {
    let ca = config.root_cert.iter().flatten().map(|der| CertificateDer::from(der.as_slice())).collect::<Vec<_>>();
    let extension = |item: &Value<'_>| match (item.key("name").node, item.key("extension")) {
        (Node::Text(name), extension) if extension.is_there() => {
            Some(NamedExtension { name: name.clone(), extension: extension.node.to_json() })
        }
        _ => None,
    };
    let extensions = cluster.key("extensions").items("a list").unwrap_or_default();
    let shape = Cluster {
        server: Some(config.cluster_url.to_string()),
        certificate_authority_data: (!ca.is_empty()).then(|| STANDARD.encode(pem::encode_certificates(&ca))),
        tls_server_name: config.tls_server_name.clone(),
        extensions: Some(extensions.iter().filter_map(extension).collect()),
        ..Cluster::default()
    };
    ExecAuthCluster::try_from(&shape).map_err(|_| cluster.error("cannot be passed to the plugin"))
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
    let endpoint = forced(options)?.unwrap_or_else(|| Endpoint::new(&host, port));
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
            files: Vec::new(),
            explicit,
            context: "in-cluster".to_owned(),
            server: format!("https://{endpoint}"),
            ca: ca_of(&config),
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
