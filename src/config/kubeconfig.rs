//! Turns one context of one or several kubeconfigs into a client configuration.
//!
//! Files that it refers to are read here, with bounds. The client then reads none, apart from a token file, which changes during a run, and
//! its errors cannot quote them.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::config::{AuthInfo, Cluster, ExecAuthCluster, ExecConfig, ExecInteractiveMode, NamedExtension};
use rustls::pki_types::CertificateDer;
use secrecy::ExposeSecret as _;
use zeroize::Zeroizing;

use super::certificate::{self, Fault, Identity, Peer};
use super::endpoint::{self, Endpoint};
use super::proxy::{Routes, Setting};
use super::roots::Roots;
use super::yaml::{Document, Node, Value};
use super::{ConfigError, Environment, choose_context, file, listed, path_text, pem, shown};
use crate::model::Reason;
use crate::snapshot::{KubernetesCredentials, Validity};

/// Command-line options that override values of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// `--kube-context`.
    pub(crate) context: Option<String>,
    /// `--k8s-endpoint`.
    pub(crate) k8s_endpoint: Option<String>,
}

/// Address of the API server, and the credentials for it.
#[derive(Clone)]
pub(crate) struct KubeAccess {
    pub(crate) credentials: KubernetesCredentials,
    /// The client configuration, without retries. Timeouts and dialing are up to the caller, so it does not contain proxies.
    pub(crate) config: kube::Config,
    /// The address to connect to.
    pub(crate) endpoint: Endpoint,
    /// The routes to `endpoint` and to every other server of the cluster. `endpoint` is known to have one.
    pub(crate) routes: Routes,
    /// The CAs that verify `endpoint`. `config` contains only the kubeconfig's own CAs, which verify all other servers too.
    pub(crate) roots: Roots,
}

impl fmt::Debug for KubeAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The `Debug` of kube::Config would show client certificates and, in `auth-provider`, tokens.
        f.debug_struct("KubeAccess")
            .field("credentials", &self.credentials)
            .field("routes", &self.routes)
            .finish_non_exhaustive()
    }
}

impl Value<'_> {
    /// Reads `KEY-data` in base64, or the file that `KEY` names, and returns the value it came from. Like kubectl, it rejects kubeconfigs
    /// that set both.
    fn bytes(&self, key: &str) -> Result<certificate::Half<'_>, ConfigError> {
        let (data, value) = (self.key(&format!("{key}-data")), self.key(key));
        if let Some(bytes) = data.decoded()? {
            return match value.text()? {
                None => Ok(Some((data, bytes))),
                Some(_) => Err(value.error(format_args!("and `{key}-data` are both set: kubectl accepts only one"))),
            };
        }
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

/// A file that a kubeconfig refers to.
struct NamedFile {
    /// The path as written in the kubeconfig.
    written: String,
    path: PathBuf,
}

impl NamedFile {
    /// Formats a problem. The path is shown only if it cannot be anything else: users who forget the `-data` of `client-key-data` put the
    /// key itself here.
    fn problem(&self, problem: &str) -> String {
        // A token may consist of lowercase letters and digits, but never of several path components.
        match path_text(Path::new(&self.written)).filter(|path| path.contains('/')) {
            Some(path) => format!("names the file `{path}`: {problem}"),
            None => format!("names a file (not shown): {problem}"),
        }
    }
}

/// Returns every file that any context of a kubeconfig refers to, and every program. A program name without a slash may be any file of
/// PATH.
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

/// Returns all entries of `clusters`, `contexts` or `users`. The first file that defines a name wins.
fn entries<'a>(documents: &'a [Document], list: &str, inner: &str) -> Result<Vec<(String, Value<'a>)>, ConfigError> {
    let mut all: Vec<(String, Value<'a>)> = Vec::new();
    for document in documents {
        let earlier: BTreeSet<String> = all.iter().map(|(name, _)| name.clone()).collect();
        for item in document.top().key(list).items("a list")? {
            let name = item.key("name").text()?.unwrap_or_default();
            if !earlier.contains(&name) {
                all.push((name, item.key(inner)));
            }
        }
    }
    Ok(all)
}

pub(super) fn context_names(documents: &[Document]) -> Vec<String> {
    let contexts = entries(documents, "contexts", "context").unwrap_or_default();
    contexts.into_iter().map(|(name, _)| name).collect()
}

/// Resolves the chosen context.
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
    let roots = match ca {
        Some((value, bundle)) => Roots::Own(certificate::roots(&bundle).map_err(|problem| value.error(problem))?),
        None => Roots::of_system(environment, &format!("{} has no `certificate-authority-data`", cluster.name()))?,
    };
    let routes = Routes::new(Setting::of(&cluster.key("proxy-url"))?, environment);
    routes.to(&endpoint)?;

    let mut config = client(url, roots.own());
    // The certificate has to be valid for the forced endpoint's own name, as in talosctl.
    config.tls_server_name = cluster.key("tls-server-name").text()?.filter(|_| options.k8s_endpoint.is_none());
    config.disable_compression = cluster.key("disable-compression").bool()?;
    if let Some(namespace) = context.key("namespace").text()? {
        config.default_namespace = namespace;
    }
    let mut identity = None;
    if let Some(user) = &user {
        identity = log_in(user, &mut config.auth_info)?;
        let exec = user.key("exec");
        if exec.is_there() {
            config.auth_info.exec = plugin(&exec, explicit, &cluster, &config)?;
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
        roots,
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

/// Parses `--k8s-endpoint`.
fn forced(options: &Options) -> Result<Option<Endpoint>, ConfigError> {
    let forced = options.k8s_endpoint.as_deref().map(endpoint::kubernetes).transpose();
    forced.map_err(|problem| ConfigError::unreadable(format!("`--k8s-endpoint` {problem}")))
}

/// Returns the server's address, or `--k8s-endpoint` in its place. Unverified and unencrypted connections are refused.
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
    let parts = text.split_once("://").map(|(scheme, rest)| (scheme.to_ascii_lowercase(), rest));
    let Some((_, rest)) = parts.as_ref().filter(|(scheme, _)| scheme == "https") else {
        return Err(if parts.is_some_and(|(scheme, _)| scheme != "http") {
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
    let url = format!("https://{rest}").parse::<http::Uri>().map_err(|_| server.error("is not a URL"))?;
    Ok((endpoint, url))
}

/// Formats `https://host:port`, and the path for clusters behind a shared front end (Rancher).
fn shown_server(url: &http::Uri, endpoint: &Endpoint) -> String {
    let path = url.path().trim_end_matches('/');
    format!(
        "https://{endpoint}{}",
        if path.is_empty() { String::new() } else { shown(path).trim_matches('`').to_owned() }
    )
}

fn client(url: http::Uri, ca: &[CertificateDer<'static>]) -> kube::Config {
    let mut config = kube::Config::new(url);
    config.default_retry = false;
    config.root_cert = (!ca.is_empty()).then(|| ca.iter().map(|certificate| certificate.to_vec()).collect());
    config
}

fn ca_of(config: &kube::Config) -> Option<Validity> {
    certificate::longest(config.root_cert.iter().flatten().map(Vec::as_slice))
}

/// Fills in every credential except the plugin. The combinations that are allowed, and their precedence, match kubectl.
fn log_in(user: &Value<'_>, auth: &mut AuthInfo) -> Result<Option<Identity>, ConfigError> {
    let provider = user.key("auth-provider");
    if provider.is_there() {
        return Err(provider
            .error("is not supported: Kubernetes has removed auth providers")
            .hint("use a client certificate, a token, or an `exec` plugin")
            .refused());
    }
    let names = ["client-certificate-data", "client-key-data"];
    let identity = match user.bytes("client-certificate")? {
        // A key without a certificate is ignored.
        None => None,
        chain => certificate::pair(chain, user.bytes("client-key")?, names, Peer::Kubernetes)?,
    };
    if let Some(identity) = &identity {
        auth.client_certificate_data = Some(STANDARD.encode(identity.chain_pem()));
        auth.client_key_data = Some(STANDARD.encode(&*identity.key_pem()).into());
    }
    let (token, file) = (user.key("token"), user.key("tokenFile"));
    if let Some(text) = token.text()? {
        auth.token = Some(token_text(&text).map_err(|problem| token.error(problem))?.into());
    }
    if let Some(named) = file.file()? {
        match token_file(&named.path, auth) {
            // The token is used until the file can be read.
            Err(_) if auth.token.is_some() => auth.token_file = named.path.to_str().map(str::to_owned),
            read => read.map_err(|problem| file.error(named.problem(&problem)))?,
        }
    }
    let (name, password) = (user.key("username"), user.key("password"));
    auth.username = name.text()?;
    auth.password = password.text()?.map(Into::into);
    let has_token = auth.token.is_some() || auth.token_file.is_some();
    if has_token && auth.username.is_some() || token.text()?.is_some() && auth.password.is_some() {
        let field = if name.is_there() { name } else { password };
        return Err(field.error("and a token are both set: kubectl accepts only one"));
    }
    impersonate(user, auth)?;
    Ok(identity)
}

/// Reads the impersonation settings.
fn impersonate(user: &Value<'_>, auth: &mut AuthInfo) -> Result<(), ConfigError> {
    let (uid, groups, extra) = (user.key("as-uid"), user.key("as-groups"), user.key("as-user-extra"));
    auth.impersonate = user.key("as").text()?;
    auth.impersonate_uid = uid.text()?;
    auth.impersonate_groups = Some(groups.texts()?).filter(|groups| !groups.is_empty());
    let keys = extra.node.keys().into_iter();
    let more = keys.map(|key| Ok((key.to_owned(), extra.key(key).texts()?))).collect::<Result<HashMap<_, _>, _>>()?;
    auth.impersonate_user_extra = Some(more).filter(|more| !more.is_empty());
    let with = [
        (uid, auth.impersonate_uid.is_some()),
        (groups, auth.impersonate_groups.is_some()),
        (extra, auth.impersonate_user_extra.is_some()),
    ];
    match with.into_iter().find(|(_, is_set)| *is_set && auth.impersonate.is_none()) {
        Some((value, _)) => Err(value.error("is set, but `as` is missing")),
        None => Ok(()),
    }
}

/// Returns the token, trimmed, if it can be sent in a header.
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

/// Reads the token that a file contains now.
pub(crate) fn token_in(path: &Path) -> Result<String, String> {
    let text = file::contents(path)?;
    let text = std::str::from_utf8(&text).map_err(|_| "is not text".to_owned())?;
    token_text(text).map_err(str::to_owned)
}

/// Configures a token file. The client re-reads a regular file, since tokens of pods change. A pipe can be read only once, so its token is
/// stored.
fn token_file(path: &Path, auth: &mut AuthInfo) -> Result<(), String> {
    let token = token_in(path)?;
    let regular = std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
    match path.to_str().filter(|_| regular) {
        Some(path) => auth.token_file = Some(path.to_owned()),
        None => auth.token = Some(token.into()),
    }
    Ok(())
}

/// The versions of the plugin's answer that client-go supports.
const PLUGIN_VERSIONS: [&str; 2] = ["client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"];

/// Returns the plugin, if it has to be run. Like client-go, it checks the fields in any case and does not run the plugin if the user has
/// another way to log in.
fn plugin(
    exec: &Value<'_>,
    explicit: bool,
    cluster: &Value<'_>,
    config: &kube::Config,
) -> Result<Option<ExecConfig>, ConfigError> {
    let (command, version, mode) = (exec.key("command"), exec.key("apiVersion"), exec.key("interactiveMode"));
    let Some(name) = command.text()? else { return Err(command.error("is missing")) };
    let Some(wanted) = version.text()? else { return Err(version.error("is missing")) };
    if !PLUGIN_VERSIONS.contains(&wanted.as_str()) {
        return Err(
            version.error("is neither `client.authentication.k8s.io/v1` nor `client.authentication.k8s.io/v1beta1`")
        );
    }
    let mut environment = Vec::new();
    for item in exec.key("env").items("a list")? {
        let text = |key: &str| item.key(key).text().map(|text| (key.to_owned(), text.unwrap_or_default()));
        let (name, value) = (text("name")?, text("value")?);
        if name.1.is_empty() {
            return Err(item.error("has no `name`"));
        }
        environment.push([name, value].into());
    }
    let is_interactive = match mode.text()?.as_deref() {
        Some("Never" | "IfAvailable") => false,
        Some("Always") => true,
        None if wanted != PLUGIN_VERSIONS[0] => false,
        None => return Err(mode.error("is missing").hint("kubectl requires it: `Never`, `IfAvailable` or `Always`")),
        Some(_) => return Err(mode.error("is neither `Never`, `IfAvailable` nor `Always`")),
    };
    let auth = &config.auth_info;
    let has_token = auth.token.is_some() || auth.token_file.is_some();
    if has_token || auth.username.is_some() || auth.client_certificate_data.is_some() {
        return Ok(None);
    }
    let Some(folder) = exec.document.folder.as_deref().filter(|_| explicit) else {
        return Err(exec
            .error("is a program, which is run only from a kubeconfig passed on the command line")
            .hint("pass the file with `--kubeconfig`")
            .refused());
    };
    if is_interactive {
        return Err(mode.error("is `Always`, but no prompt is possible"));
    }
    // Only a name with a slash is a path; any other name is looked up in PATH.
    let command = if name.contains('/') { folder.join(&name).display().to_string() } else { name };
    let provide_cluster_info = exec.key("provideClusterInfo").bool()?;
    Ok(Some(ExecConfig {
        api_version: Some(wanted),
        command: Some(command),
        args: Some(exec.key("args").texts()?),
        env: Some(environment),
        interactive_mode: Some(ExecInteractiveMode::Never),
        provide_cluster_info,
        cluster: provide_cluster_info.then(|| cluster_info(cluster, config)).transpose()?,
        ..ExecConfig::default()
    }))
}

/// Takes the client certificate and its key out of `auth`.
pub(crate) fn identity(auth: &mut AuthInfo) -> Result<Option<Identity>, String> {
    let (Some(chain), Some(key)) = (auth.client_certificate_data.take(), auth.client_key_data.take()) else {
        return Ok(None);
    };
    let decoded = |text: &str| STANDARD.decode(text).map(Zeroizing::new).map_err(|_| "is not valid base64".to_owned());
    let read = certificate::identity(&decoded(&chain)?, &decoded(key.expose_secret())?, Peer::Kubernetes);
    read.map(Some).map_err(|fault| match fault {
        Fault::Certificate(problem) => format!("the client certificate {problem}"),
        Fault::Key(problem) => format!("the client key {problem}"),
    })
}

/// Builds the cluster information that is passed to a plugin.
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

/// Returns the pod's own credentials. kube's implementation is not used because it reads without bounds and from the process's environment.
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
    let mut config = client(url, &ca);
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
        roots: Roots::Own(ca),
    })
}

#[cfg(test)]
#[path = "kubeconfig_tests.rs"]
pub(super) mod tests;
