//! The talosconfig: finding the file, selecting the context, and reading its values.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::certificate::{self, Identity, Peer};
use super::endpoint::{self, Endpoint};
use super::omni::{self, ServiceAccount};
use super::proxy::{Proxy, Setting};
use super::roots::Roots;
use super::yaml::{Dialect, Document, Node, Value};
use super::{ConfigError, Environment, choose_context, file, path_text, shown, shown_path};
use crate::model::Reason;
use crate::snapshot::TalosCredentials;

/// A limit beyond the number of endpoints or nodes of any cluster.
const MOST_ADDRESSES: usize = 20_000;

/// A talosconfig, and where its path comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) path: PathBuf,
    pub(crate) origin: Origin,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// `--talosconfig`.
    Flag,
    /// `TALOSCONFIG`.
    Variable,
    /// `$TALOS_HOME/config` or `~/.talos/config`.
    Home,
    /// The Talos service account of the pod that we run in.
    Pod,
}

/// Command-line options that override values of the context.
#[derive(Clone, Debug, Default)]
pub(crate) struct Overrides {
    pub(crate) context: Option<String>,
    /// If empty, the context's endpoints are used.
    pub(crate) endpoints: Vec<String>,
    pub(crate) cluster: Option<String>,
}

/// One context of a talosconfig, ready to be used.
#[derive(Clone, Debug)]
pub(crate) struct TalosConfig {
    pub(crate) source: PathBuf,
    /// Set if the file comes from the pod's Talos mount, so that its cluster is the one we run in.
    pub(crate) in_pod: bool,
    pub(crate) context: String,
    /// At least one, without duplicates, in the order of the file.
    pub(crate) endpoints: Vec<Endpoint>,
    /// `nodes` of the context, as written.
    pub(crate) nodes: Vec<String>,
    /// Sent as metadata `context`.
    pub(crate) cluster: Option<String>,
    /// The trusted CAs; several while the CA is being rotated.
    pub(crate) roots: Roots,
    pub(crate) identity: Option<Identity>,
    /// Set if the endpoints are Omni's, which forwards calls signed by this account to the machines.
    pub(crate) account: Option<Arc<ServiceAccount>>,
    proxy: Setting,
}

impl TalosConfig {
    /// Returns the proxy for an endpoint, or for a node that is dialed directly.
    pub(crate) fn proxy(&self, environment: &Environment, target: &Endpoint) -> Result<Proxy, ConfigError> {
        self.proxy.resolve(environment, target)
    }

    /// The facts for the checks.
    pub(crate) fn credentials(&self) -> TalosCredentials {
        // A CA that vouches for Omni proves nothing about the cluster behind it.
        let of_cluster = if self.account.is_some() { &[] } else { self.roots.own() };
        TalosCredentials {
            ca: certificate::longest(self.roots.own().iter().map(AsRef::as_ref)),
            ca_digests: of_cluster.iter().map(|ca| certificate::digest(ca)).collect(),
            source: self.source.display().to_string(),
            context: self.context.clone(),
            certificate: self.identity.as_ref().map(|identity| identity.facts.clone()),
            account: self.account.as_ref().map(|account| account.facts()),
        }
    }
}

/// Returns the first existing file in talosctl's search order. A file named by the user has to exist: a mistyped path must not lead to
/// another cluster's configuration.
pub(crate) fn find(flag: Option<&Path>, environment: &Environment) -> Result<Found, ConfigError> {
    let named = flag
        .map(|path| (path.to_owned(), Origin::Flag, "--talosconfig"))
        .or_else(|| environment.os("TALOSCONFIG").map(|path| (path.into(), Origin::Variable, "TALOSCONFIG")));
    if let Some((path, origin, name)) = named {
        if path.as_os_str().is_empty() {
            return Err(ConfigError::unreadable(format!("`{name}` is an empty path")));
        }
        if !exists(&path) && path_text(&path).is_none() {
            return Err(ConfigError::content_for_path(name, "talosconfig"));
        }
        if !exists(&path) {
            return Err(ConfigError::unreadable(format!("`{name}` names {}, which does not exist", shown_path(&path)))
                .hint("correct the path, or pass `--no-talos` to check only Kubernetes"));
        }
        return Ok(Found { path, origin });
    }
    let looked = homes(environment);
    if let Some((path, origin)) = looked.iter().find(|(path, _)| exists(path)) {
        return Ok(Found { path: path.clone(), origin: *origin });
    }
    let looked = looked.iter().map(|(path, _)| format!("`{}`", path.display())).collect::<Vec<_>>().join(" or ");
    Err(ConfigError::unreadable(format!("no talosconfig: `TALOSCONFIG` is not set, and there is no file {looked}"))
        .hint("pass one with `--talosconfig`, or use `--no-talos` to check only Kubernetes"))
}

/// Returns the default locations of a talosconfig.
fn homes(environment: &Environment) -> Vec<(PathBuf, Origin)> {
    let talos_home = environment.os("TALOS_HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    let home =
        talos_home.or_else(|| environment.home().map(|home| home.join(".talos"))).map(|home| home.join("config"));
    let candidates = [home.map(|path| (path, Origin::Home)), Some((environment.talos_mount.clone(), Origin::Pod))];
    candidates.into_iter().flatten().collect()
}

/// Returns all files that [`find`] may return.
pub(super) fn places(flag: Option<&Path>, environment: &Environment) -> Vec<PathBuf> {
    match flag.map(Path::to_owned).or_else(|| environment.os("TALOSCONFIG").map(PathBuf::from)) {
        Some(named) => vec![named],
        None => homes(environment).into_iter().map(|(path, _)| path).collect(),
    }
}

/// Returns whether a path exists. Any error other than "not found" counts as existing, so that reading the file reports the problem.
pub(super) fn exists(path: &Path) -> bool {
    !std::fs::metadata(path).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}

/// Reads and parses one context. This can take as long as [`file::read`]: call it off the runtime's threads.
pub(crate) fn load(
    found: &Found,
    overrides: &Overrides,
    environment: &Environment,
) -> Result<TalosConfig, ConfigError> {
    let text = file::read_text(&found.path, "talosconfig")?;
    from_text(found, format!("talosconfig {}", shown_path(&found.path)), text, overrides, environment)
}

pub(super) fn from_text(
    found: &Found,
    file: String,
    text: String,
    overrides: &Overrides,
    environment: &Environment,
) -> Result<TalosConfig, ConfigError> {
    let document = Document::parse(file, text, Dialect::Talos, None)?;
    if document.top().is_kubeconfig() {
        return Err(document
            .top()
            .error("is a kubeconfig")
            .hint("pass it with `--kubeconfig`, and a talosconfig here"));
    }
    let (name, context) = select(&document.top(), overrides)?;
    let context = context.map()?;
    let omni = omni_of(&context.key("auth"))?;
    let half = |key: &str| {
        let value = context.key(key);
        value.decoded().map(|bytes| Some((value, bytes?)))
    };
    let identity = certificate::pair(half("crt")?, half("key")?, ["crt", "key"], Peer::Talos)?;
    if let (Some(omni), Some(_)) = (&omni, &identity) {
        return Err(omni.error("and a client certificate are both set: it is unclear which one is meant"));
    }
    let cluster = overrides.cluster.clone().filter(|name| !name.is_empty()).or(context.key("cluster").text()?);
    let endpoints = endpoints(&context, &overrides.endpoints)?;
    let account = match &omni {
        None => None,
        Some(omni) => Some(account(omni, &context, overrides, cluster.as_deref(), environment)?),
    };
    let roots = match half("ca")? {
        Some((ca, bundle)) => Roots::Own(certificate::roots(&bundle).map_err(|problem| ca.error(problem))?),
        None if omni.is_some() => {
            let why = format!("{} leads to Omni without a `ca`", context.name());
            Roots::of_system(environment, &why)?
        }
        None => {
            return Err(context.error("has no `ca`: the node's certificate cannot be verified").hint(
                "the system's root certificates are not used for Talos; write a new talosconfig with `talosctl config new`",
            ));
        }
    };
    let proxy = Setting::of(&context.key("proxy-url"))?;
    let nodes = context.key("nodes").texts()?;
    if nodes.len() > MOST_ADDRESSES {
        return Err(context.key("nodes").error(format_args!("contains more than {MOST_ADDRESSES}")));
    }
    Ok(TalosConfig {
        source: found.path.clone(),
        in_pod: found.origin == Origin::Pod,
        endpoints,
        nodes,
        cluster,
        context: name,
        roots,
        identity,
        account,
        proxy,
    })
}

/// Returns the names of all contexts, for completions; none if the file cannot be used.
pub(crate) fn contexts(flag: Option<&Path>, environment: &Environment) -> Vec<String> {
    let document = find(flag, environment)
        .and_then(|found| file::read_text(&found.path, "talosconfig"))
        .and_then(|text| Document::parse(String::new(), text, Dialect::Talos, None));
    let Ok(document) = document else { return Vec::new() };
    match document.top().key("contexts").node {
        Node::Map(contexts) => contexts.iter().map(|(name, _)| name.clone()).collect(),
        _ => Vec::new(),
    }
}

fn select<'a>(top: &Value<'a>, overrides: &Overrides) -> Result<(String, Value<'a>), ConfigError> {
    let all = top.key("contexts");
    let contexts = match all.node {
        Node::Map(contexts) if !contexts.is_empty() => contexts,
        Node::Map(_) | Node::Null => return Err(top.error("has no contexts")),
        _ => return Err(all.wrong("a mapping of names to contexts")),
    };
    let names = contexts.iter().map(|(name, _)| name.as_str());
    let unknown = |message: String| ConfigError::new(Reason::ContextUnknown, message);
    let (wanted, by) = match (&overrides.context, top.key("context")) {
        (Some(name), _) => (name.clone(), "`--context` names"),
        (None, context) => match context.text()? {
            Some(name) => (name, "its `context` names"),
            None => {
                return Err(unknown(format!("{} has no current `context`", top.name()))
                    .hint(format!("pass `--context`; there are {}", super::listed(names))));
            }
        },
    };
    if !names.clone().any(|name| name == wanted) {
        let message = format!("{}: {by} {}, but there is no such context", top.name(), shown(&wanted));
        return Err(unknown(message).hint(choose_context(&wanted, names)));
    }
    let context = all.key(&wanted);
    Ok((wanted, context))
}

/// Returns `auth.siderov1`, if the context has it. Password authentication is refused here: without these credentials, calls would only
/// fail later and with a less helpful error.
fn omni_of<'a>(auth: &Value<'a>) -> Result<Option<Value<'a>>, ConfigError> {
    if auth.is_there() {
        auth.clone().map()?;
    }
    let (omni, basic) = (auth.key("siderov1"), auth.key("basic"));
    if basic.is_there() {
        return Err(basic
            .error("authenticates with a password, which is not supported")
            .hint("use a talosconfig with a client certificate, as `talosctl config new` writes it"));
    }
    if !omni.is_there() {
        return Ok(None);
    }
    // The identity named here is a user who logs in with a browser. A service account has its own name.
    omni.clone().map()?.key("identity").text()?;
    Ok(Some(omni))
}

/// Returns the service account that signs calls for a context that leads to Omni.
fn account(
    omni: &Value<'_>,
    context: &Value<'_>,
    overrides: &Overrides,
    cluster: Option<&str>,
    environment: &Environment,
) -> Result<Arc<ServiceAccount>, ConfigError> {
    if !overrides.endpoints.is_empty() {
        return Err(omni
            .error(
                "leads to Omni, and `--endpoints` elsewhere: signatures are sent to the context's own endpoints only",
            )
            .hint("leave out `--endpoints` (`CLUSTER_HEALTH_ENDPOINTS`), or pass a talosconfig of the machines"));
    }
    let listed = context.key("endpoints");
    let is_https = |text: &String| text.trim().to_ascii_lowercase().starts_with("https://");
    if let Some(index) =
        listed.texts()?.iter().position(|text| !is_https(text)).or(context.key("target").is_there().then_some(0))
    {
        return Err(listed.item(index).error("is not an `https://` address, as Omni's are"));
    }
    if cluster.is_none() {
        return Err(context
            .error("leads to Omni but has no `cluster`")
            .hint("pass its name with `--cluster`, or use the file of `omnictl talosconfig --cluster NAME`"));
    }
    let found = ServiceAccount::of(environment)?;
    let [first, second] = omni::VARIABLES;
    found.map(Arc::new).ok_or_else(|| {
        omni.error(format_args!("leads to Omni, and neither `{first}` nor `{second}` is set"))
            .hint(format!("set `{first}` to the key of a service account with the role Reader: `omnictl serviceaccount create --role Reader NAME` prints it"))
    })
}

fn endpoints(context: &Value<'_>, flags: &[String]) -> Result<Vec<Endpoint>, ConfigError> {
    let read = |text: &str, at: &dyn Fn() -> String| {
        let fail = |problem| ConfigError::unreadable(format!("{}: the endpoint {} {problem}", at(), shown(text)));
        endpoint::talos(text).map_err(fail)
    };
    let parsed: Vec<Endpoint> = if flags.is_empty() {
        let listed = context.key("endpoints");
        let mut texts = listed.texts()?;
        // Early versions of Talos used this name.
        texts.extend(context.key("target").text()?);
        let texts = texts.iter().enumerate().take(MOST_ADDRESSES);
        texts.map(|(index, text)| read(text, &|| listed.item(index).name())).collect::<Result<_, _>>()?
    } else {
        flags.iter().map(|text| read(text, &|| "`--endpoints`".to_owned())).collect::<Result<_, _>>()?
    };
    let mut seen = BTreeSet::new();
    let unique: Vec<Endpoint> = parsed.into_iter().filter(|endpoint| seen.insert(endpoint.clone())).collect();
    if unique.is_empty() {
        return Err(context
            .error("has no endpoints")
            .hint("pass the control planes with `--endpoints`, or set them with `talosctl config endpoint`"));
    }
    Ok(unique)
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    use super::*;
    use crate::config::testing::Pair;

    fn read(text: &str, overrides: &Overrides) -> Result<TalosConfig, ConfigError> {
        let found = Found { path: "/t/config".into(), origin: Origin::Flag };
        let environment = Environment::new::<&str, &str>([]);
        from_text(&found, "talosconfig `/t/config`".to_owned(), text.to_owned(), overrides, &environment)
    }

    fn error(text: &str) -> ConfigError {
        read(text, &Overrides::default()).unwrap_err()
    }

    fn complete(pair: &Pair) -> String {
        format!(
            "context: prod\ncontexts:\n    prod:\n        endpoints:\n            - 10.0.0.1\n            - 2001:db8::1\n            - 10.0.0.1:50000\n        nodes: [10.0.0.1]\n        cluster: home\n        ca: {ca}\n        crt: {ca}\n        key: {key}\n    lab@prod2: {{}}\n",
            ca = pair.certificate64(),
            key = pair.key64()
        )
    }

    #[test]
    fn reads_a_whole_context() {
        let pair = Pair::talos("os:reader");
        let config = read(&complete(&pair), &Overrides::default()).unwrap();
        assert_eq!(config.context, "prod");
        assert_eq!(
            config.endpoints.iter().map(|e| e.shown.as_str()).collect::<Vec<_>>(),
            ["10.0.0.1:50000", "[2001:db8::1]:50000"]
        );
        assert_eq!((config.nodes.as_slice(), config.cluster.as_deref()), (&["10.0.0.1".to_owned()][..], Some("home")));
        assert_eq!(config.roots.own().len(), 1);
        assert!(!config.in_pod);
        let facts = config.credentials();
        assert_eq!((facts.source.as_str(), facts.context.as_str()), ("/t/config", "prod"));
        assert!(facts.certificate.unwrap().matches_key);
        assert!(!format!("{config:?}").contains(&pair.key64()[20..60]));
    }

    #[test]
    fn flags_replace_what_the_context_says() {
        let pair = Pair::talos("os:reader");
        let overrides = Overrides {
            context: None,
            endpoints: vec!["cp-2".to_owned(), "cp-2".to_owned()],
            cluster: Some("other".to_owned()),
        };
        let config = read(&complete(&pair), &overrides).unwrap();
        assert_eq!(config.endpoints, [Endpoint::new("cp-2", 50000)]);
        assert_eq!(config.cluster.as_deref(), Some("other"));
        let overrides = Overrides { endpoints: vec!["a b".to_owned()], ..Overrides::default() };
        assert!(
            read(&complete(&pair), &overrides)
                .unwrap_err()
                .message
                .starts_with("`--endpoints`: the endpoint `a b` is neither")
        );
    }

    #[test]
    fn an_unknown_context_is_named_with_its_neighbors() {
        let pair = Pair::talos("os:reader");
        let overrides = Overrides { context: Some("prdo".to_owned()), ..Overrides::default() };
        let error = read(&complete(&pair), &overrides).unwrap_err();
        assert_eq!(error.reason, Reason::ContextUnknown);
        assert_eq!(error.message, "talosconfig `/t/config`: `--context` names `prdo`, but there is no such context");
        assert_eq!(error.hint.unwrap(), "did you mean `prod`? there are `prod`, `lab@prod2`");
        let error = self::error("contexts: {a: {}}");
        assert_eq!(error.reason, Reason::ContextUnknown);
        assert!(error.message.contains("has no current `context`"));
    }

    #[test]
    fn every_flaw_is_named_with_its_key_and_line() {
        let pair = Pair::talos("os:reader");
        let good = complete(&pair);
        let (crt, key) = (pair.certificate64(), pair.key64());
        let other = |text: &str| STANDARD.encode(text);
        for (text, expected) in [
            ("[]".to_owned(), "is a list; expected a mapping"),
            ("context: a".to_owned(), "talosconfig `/t/config` has no contexts"),
            ("contexts: {}".to_owned(), "has no contexts"),
            ("contexts: [a]".to_owned(), "`contexts` (line 1) is a list"),
            ("context: a\ncontexts:\n  a:\n".to_owned(), "`contexts.a` (line 3) is empty; expected a mapping"),
            ("context: [a]\ncontexts: {a: {}}".to_owned(), "`context` (line 1) is a list; expected a string"),
            ("a: 1\n\tb: 2".to_owned(), "line 2, column"),
            (good.replace("        nodes:", "        crt: x\n        nodes:"), "the same key appears twice"),
            (good.replace(&format!("crt: {crt}"), "crt: '%%%'"), "`contexts.prod.crt` (line 11) is not valid base64"),
            (good.replace(&format!("key: {key}"), "key: [x]"), "`contexts.prod.key` (line 12) is a list; expected a string"),
            (good.replace(&format!("        key: {key}\n"), ""), "`contexts.prod.crt` (line 11) is set, but `key` is missing"),
            (good.replace(&format!("crt: {crt}"), "crt: \"\""), "`contexts.prod.key` (line 12) is set, but `crt` is missing"),
            (good.replace(&format!("ca: {crt}"), "ca:"), "`contexts.prod` (line 3) has no `ca`"),
            (good.replace(&format!("ca: {crt}"), &format!("ca: {}", other("hello"))), "`contexts.prod.ca` (line 10) contains no PEM block"),
            (good.replace(&format!("ca: {crt}"), &format!("ca: {key}")), "`contexts.prod.ca` (line 10) contains a private key but no certificate"),
            (good.replace(&format!("key: {key}"), &format!("key: {crt}")), "`contexts.prod.key` (line 12) contains a certificate but no private key"),
            (good.replace("            - 2001:db8::1\n", "            - tcp://x\n"), "`contexts.prod.endpoints[1]` (line 6): the endpoint `tcp://x` has a scheme"),
            (good.replace("nodes: [10.0.0.1]", "nodes: 10.0.0.1"), "`contexts.prod.nodes` (line 8) is a string; expected a list of strings"),
            (good.replace("nodes: [10.0.0.1]", "endpoints: []").replace("        endpoints:\n            - 10.0.0.1\n            - 2001:db8::1\n            - 10.0.0.1:50000\n", ""), "`contexts.prod` (line 3) has no endpoints"),
            (good.replace("cluster: home", "cluster: home\n        auth:\n            siderov1: {identity: a}"), "`contexts.prod.auth.siderov1` (line 11) and a client certificate are both set"),
            (good.replace("cluster: home", "auth: {basic: {username: a, password: hunter22}}"), "a password, which is not supported"),
            (good.replace("cluster: home", "proxy-url: ftp://u:hunter22@x"), "`contexts.prod.proxy-url` (line 9) has a scheme"),
        ] {
            let error = error(&text);
            assert!(error.message.contains(expected), "expected {expected}, got {error:?}");
            assert!(error.message.starts_with("talosconfig `/t/config`"), "{error:?}");
            assert!(!format!("{error:?}").contains("hunter22"));
        }
    }

    #[test]
    fn contexts_are_listed_for_shells() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        let environment = Environment::new::<&str, &str>([]);
        assert!(contexts(Some(&path), &environment).is_empty());
        for (text, expected) in
            [("contexts: {prod: {}, lab: }", &["prod", "lab"][..]), ("contexts: [", &[]), ("a", &[])]
        {
            std::fs::write(&path, text).unwrap();
            assert_eq!(contexts(Some(&path), &environment), expected, "{text}");
        }
    }

    #[test]
    fn a_kubeconfig_is_named_as_such() {
        let kubeconfig = crate::config::kubeconfig::tests::kubeconfig(&Pair::talos("system:masters"));
        let error = error(&kubeconfig);
        assert_eq!(error.message, "talosconfig `/t/config` is a kubeconfig");
        assert_eq!(error.hint.unwrap(), "pass it with `--kubeconfig`, and a talosconfig here");
    }

    /// Loads a context of Omni. The key and the system's roots come from the test's variables.
    fn of_omni(text: &str, overrides: &Overrides, variables: &[(&str, &str)]) -> Result<TalosConfig, ConfigError> {
        let found = Found { path: "/t/config".into(), origin: Origin::Flag };
        let environment = Environment::new(variables.iter().copied());
        from_text(&found, "talosconfig `/t/config`".to_owned(), text.to_owned(), overrides, &environment)
    }

    const OMNI: &str = "context: a\ncontexts:\n  a:\n    endpoints: [https://omni.example]\n    cluster: prod\n    auth: {siderov1: {identity: me@example.org}}\n";

    #[test]
    fn a_context_of_omni_has_a_key_from_the_environment_and_the_roots_of_the_system() {
        let folder = tempfile::tempdir().unwrap();
        let roots = folder.path().join("roots.pem");
        let pair = Pair::talos("os:reader");
        std::fs::write(&roots, &pair.certificate).unwrap();
        let key = simulator::openpgp::PrivateKey::new("ci", 1_800_000_000, None).unwrap();
        let key = simulator::service_account("ci", &key);
        let variables = [("OMNI_SERVICE_ACCOUNT_KEY", key.as_str()), ("SSL_CERT_FILE", roots.to_str().unwrap())];
        let config = of_omni(OMNI, &Overrides::default(), &variables).unwrap();
        assert_eq!(config.endpoints, [Endpoint::new("omni.example", 443)]);
        assert_eq!((config.roots.all().len(), config.roots.own()), (1, &[][..]));
        let facts = config.credentials();
        let account = facts.account.unwrap();
        assert_eq!(
            (account.name.as_str(), account.variable, account.not_after),
            ("ci", "OMNI_SERVICE_ACCOUNT_KEY", None)
        );
        assert_eq!((facts.ca, facts.ca_digests.len(), facts.certificate), (None, 0, None));
        assert!(!format!("{config:?}").contains(&key[40..60]));

        // A CA of the context replaces the system's roots, but is not a CA of the cluster.
        let own = OMNI.replace("    auth", &format!("    ca: {}\n    auth", pair.certificate64()));
        let facts = of_omni(&own, &Overrides::default(), &variables[..1]).unwrap().credentials();
        assert_eq!((facts.ca.is_some(), facts.ca_digests.len()), (true, 0));

        let error = |text: &str, overrides: &Overrides, variables: &[(&str, &str)]| {
            of_omni(text, overrides, variables).unwrap_err()
        };
        let none = error(OMNI, &Overrides::default(), &variables[1..]);
        assert!(
            none.message.ends_with(
                "leads to Omni, and neither `SIDERO_SERVICE_ACCOUNT_KEY` nor `OMNI_SERVICE_ACCOUNT_KEY` is set"
            ),
            "{none}"
        );
        std::fs::write(&roots, "").unwrap();
        for empty in [variables, [variables[0], ("SSL_CERT_DIR", folder.path().to_str().unwrap())]] {
            let none = error(OMNI, &Overrides::default(), &empty);
            assert!(
                none.message.contains("leads to Omni without a `ca`, and there are no root certificates"),
                "{none}"
            );
            assert!(none.hint.unwrap().contains("`SSL_CERT_DIR`"));
        }
        let elsewhere = Overrides { endpoints: vec!["10.0.0.1".to_owned()], ..Overrides::default() };
        for (text, overrides, expected) in [
            (
                OMNI.replace("https://", "http://"),
                &Overrides::default(),
                "`contexts.a.endpoints[0]` is not an `https://` address",
            ),
            (OMNI.replace("https://", ""), &Overrides::default(), "is not an `https://` address"),
            (
                OMNI.replace("    cluster: prod\n", "    target: cp-1\n    cluster: prod\n"),
                &Overrides::default(),
                "is not an `https://` address",
            ),
            (OMNI.replace("    cluster: prod\n", ""), &Overrides::default(), "leads to Omni but has no `cluster`"),
            (
                OMNI.replace("siderov1: {identity: me@example.org}", "siderov1: me"),
                &Overrides::default(),
                "is a string; expected a mapping",
            ),
            (OMNI.to_owned(), &elsewhere, "and `--endpoints` elsewhere"),
        ] {
            let error = error(&text, overrides, &variables);
            assert!(error.message.contains(expected), "expected {expected}, got {error}");
        }
        let named = Overrides { cluster: Some("lab".to_owned()), ..Overrides::default() };
        std::fs::write(&roots, &pair.certificate).unwrap();
        let config = of_omni(&OMNI.replace("    cluster: prod\n", ""), &named, &variables).unwrap();
        assert_eq!(config.cluster.as_deref(), Some("lab"));
    }

    #[test]
    fn a_foreign_key_is_a_fact() {
        let (pair, other) = (Pair::talos("os:reader"), Pair::talos("os:reader"));
        let config = read(&complete(&pair).replace(&pair.key64(), &other.key64()), &Overrides::default()).unwrap();
        assert!(!config.identity.unwrap().facts.matches_key);
    }

    #[test]
    fn a_context_without_client_certificate_is_one() {
        let pair = Pair::talos("os:reader");
        let text = format!(
            "context: a\ncontexts:\n  a:\n    target: cp-1\n    ca: {}\n    proxy-url: direct\n",
            pair.certificate64()
        );
        let config = read(&text, &Overrides::default()).unwrap();
        assert!(config.identity.is_none());
        assert_eq!(config.endpoints, [Endpoint::new("cp-1", 50000)]);
        let environment = Environment::new([("HTTPS_PROXY", "proxy.example")]);
        assert_eq!(config.proxy(&environment, &config.endpoints[0]).unwrap(), Proxy::Direct);
    }

    #[test]
    fn the_search_order_is_talosctls_but_a_named_file_has_to_exist() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, "x").unwrap();
            path
        };
        let home = folder.path().join("home").into_os_string();
        let mut environment = Environment::new([("HOME", home.clone())]);
        environment.talos_mount = folder.path().join("mount/config");

        let none = find(None, &environment).unwrap_err();
        assert!(none.message.contains("no talosconfig") && none.hint.unwrap().contains("--no-talos"));
        let mount = at("mount/config");
        assert_eq!(find(None, &environment).unwrap(), Found { path: mount, origin: Origin::Pod });
        let in_home = at("home/.talos/config");
        assert_eq!(find(None, &environment).unwrap(), Found { path: in_home.clone(), origin: Origin::Home });
        environment.variables.insert("TALOS_HOME".into(), "relative".into());
        assert_eq!(find(None, &environment).unwrap().path, in_home);
        let moved = at("moved/config");
        environment.variables.insert("TALOS_HOME".into(), moved.parent().unwrap().into());
        assert_eq!(find(None, &environment).unwrap().path, moved);
        environment.variables.insert("TALOSCONFIG".into(), "".into());
        assert_eq!(find(None, &environment).unwrap().path, moved);
        environment.variables.insert("TALOSCONFIG".into(), folder.path().join("typo").into());
        assert!(find(None, &environment).unwrap_err().message.contains("`TALOSCONFIG` names"));
        let flag = at("flag");
        assert_eq!(find(Some(&flag), &environment).unwrap(), Found { path: flag, origin: Origin::Flag });
        assert!(find(Some(Path::new("")), &environment).unwrap_err().message.contains("empty path"));
        assert!(find(Some(&folder.path().join("typo")), &environment).is_err());
    }
}
