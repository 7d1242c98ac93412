//! The files named by `--etcd-cacert`, `--etcd-cert` and `--etcd-key`, and the user named in the environment.

use std::path::{Path, PathBuf};

use rustls::pki_types::CertificateDer;
use zeroize::{Zeroize as _, Zeroizing};

use super::access::EtcdOptions;
use super::certificate::{self, Fault, Identity, Peer};
use super::{ConfigError, Environment, file};
use crate::text::clock;

const CACERT: &str = "`--etcd-cacert`";
const CERT: &str = "`--etcd-cert`";
const KEY: &str = "`--etcd-key`";

/// Variables instead of options, because every user of the host can read a password on a command line.
const USER: &str = "CLUSTER_HEALTH_ETCD_USER";
const PASSWORD_FILE: &str = "CLUSTER_HEALTH_ETCD_PASSWORD_FILE";

/// The variables that have no matching option, and their descriptions.
pub(crate) const VARIABLES: [(&str, &str); 2] = [
    (USER, "User of etcd's own authentication, for --etcd-endpoints with https://"),
    (PASSWORD_FILE, "File with that user's password, readable only by its owner"),
];

/// The endpoints to query, the CA that verifies them, and the credentials to present.
#[derive(Clone, Default)]
pub(crate) struct EtcdAccess {
    /// Client URLs, as given.
    pub(crate) endpoints: Vec<String>,
    /// The trusted CAs. If empty, no server is trusted.
    pub(crate) ca: Vec<CertificateDer<'static>>,
    pub(crate) client: Option<Identity>,
    pub(crate) user: Option<EtcdUser>,
}

/// A user of etcd's own authentication.
#[derive(Clone)]
pub(crate) struct EtcdUser {
    pub(crate) name: String,
    pub(crate) password: Zeroizing<String>,
}

impl EtcdAccess {
    pub(crate) fn load(options: &EtcdOptions, environment: &Environment) -> Result<Self, ConfigError> {
        let ca = match &options.cacert {
            Some(path) => roots(path)?,
            None => Vec::new(),
        };
        let client = options.client.as_ref().map(|(certificate, key)| identity(certificate, key)).transpose()?;
        let user = EtcdUser::of(environment, &options.endpoints)?;
        Ok(Self { endpoints: options.endpoints.clone(), ca, client, user })
    }
}

/// Returns the password file that the environment names.
pub(crate) fn password_file(environment: &Environment) -> Option<PathBuf> {
    environment.os(PASSWORD_FILE).map(PathBuf::from)
}

impl EtcdUser {
    /// Reads the user from the environment; `None` if none is named. The endpoints are the servers that would receive
    /// the password.
    fn of(environment: &Environment, endpoints: &[String]) -> Result<Option<Self>, ConfigError> {
        let (name, file) = match (environment.os(USER), password_file(environment)) {
            (None, None) => return Ok(None),
            (Some(name), Some(file)) => (name, file),
            (Some(_), None) => return Err(alone(USER, PASSWORD_FILE)),
            (None, Some(_)) => return Err(alone(PASSWORD_FILE, USER)),
        };
        let is_plain = |endpoint: &&String| {
            endpoint.split_once("://").is_some_and(|(scheme, _)| scheme.trim().eq_ignore_ascii_case("http"))
        };
        if let Some(plain) = endpoints.iter().find(is_plain) {
            let message = format!(
                "`{USER}` is set, and a password is never sent to `http://`: `--etcd-endpoints` has {}",
                super::shown(plain)
            );
            return Err(ConfigError::unreadable(message).hint("serve etcd's clients with TLS, and pass `https://…`"));
        }
        let Some(name) = name.to_str() else {
            return Err(ConfigError::unreadable(format!("`{USER}` is not UTF-8")));
        };
        let password =
            password(&file).map_err(|problem| ConfigError::unreadable(format!("`{PASSWORD_FILE}`: {problem}")))?;
        Ok(Some(Self { name: name.to_owned(), password }))
    }
}

fn alone(set: &str, missing: &str) -> ConfigError {
    ConfigError::unreadable(format!("`{set}` is set, and `{missing}` is not"))
}

/// Reads a password of one line. Errors do not name the file, because the variable may contain the password itself
/// instead of a path.
fn password(file: &Path) -> Result<Zeroizing<String>, String> {
    let mut bytes = file::contents(file)?;
    let text = String::from_utf8(std::mem::take(&mut *bytes)).map_err(|error| {
        error.into_bytes().zeroize();
        "the file is not UTF-8"
    })?;
    let mut text = Zeroizing::new(text);
    let line = text.strip_suffix('\n').map_or(text.len(), |line| line.strip_suffix('\r').unwrap_or(line).len());
    // Only the line ending is cut off, so nothing secret is left in the spare bytes.
    text.truncate(line);
    match text.as_str() {
        "" => Err("the file is empty".to_owned()),
        text if text.contains(['\n', '\r', '\0']) => Err("the file has more than one line".to_owned()),
        _ => Ok(text),
    }
}

fn roots(path: &Path) -> Result<Vec<CertificateDer<'static>>, ConfigError> {
    let bundle = certificate::roots(&file::read(path, CACERT)?).map_err(|it| file::named(path, CACERT, &it))?;
    match certificate::longest(bundle.iter().map(AsRef::as_ref)) {
        Some(ca) if !bundle.iter().any(|ca| certificate::is_current(ca)) => {
            let problem = format!(
                "is valid from {} to {}, but the local time is {:.0}",
                ca.not_before,
                ca.not_after,
                clock::now()
            );
            Err(file::named(path, CACERT, &problem))
        }
        _ => Ok(bundle),
    }
}

fn identity(certificate: &Path, key: &Path) -> Result<Identity, ConfigError> {
    // etcd verifies client certificates as the API server does: both are written in Go.
    let identity = certificate::identity(&file::read(certificate, CERT)?, &file::read(key, KEY)?, Peer::Kubernetes)
        .map_err(|fault| match fault {
            Fault::Certificate(problem) => file::named(certificate, CERT, &problem),
            Fault::Key(problem) => file::named(key, KEY, &problem),
        })?;
    if !identity.facts.matches_key {
        return Err(file::named(key, KEY, "is not the key of the certificate"));
    }
    Ok(identity)
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;
    use crate::config::testing::Pair;

    fn options(ca: Option<&Path>, client: Option<(&Path, &Path)>) -> EtcdOptions {
        let client = client.map(|(certificate, key)| (certificate.to_owned(), key.to_owned()));
        EtcdOptions { endpoints: vec!["https://etcd-1:2379".to_owned()], cacert: ca.map(Path::to_owned), client }
    }

    fn empty() -> Environment {
        Environment::new::<&str, &str>([])
    }

    fn load(ca: &str, certificate: &str, key: &str) -> Result<EtcdAccess, String> {
        let home = TempDir::new().unwrap();
        let [ca, certificate, key] = [("ca", ca), ("crt", certificate), ("key", key)].map(|(name, text)| {
            let path = home.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        });
        let home = home.path().display().to_string() + "/";
        let options = options(Some(&ca), Some((&certificate, &key)));
        EtcdAccess::load(&options, &empty()).map_err(|error| error.message.replace(&home, ""))
    }

    #[test]
    fn every_file_that_is_not_what_it_should_be_is_named() {
        let (pair, other) = (Pair::talos("root"), Pair::new(&rcgen::PKCS_ECDSA_P256_SHA256, &[], None));
        let Pair { certificate, key } = &pair;
        let files = load(&(certificate.clone() + &other.certificate), certificate, key).unwrap();
        assert_eq!((files.ca.len(), files.client.is_some()), (2, true));
        assert!(load(certificate, &other.certificate, &other.sec1()).is_ok());
        for (ca, crt, pem, said) in [
            ("", certificate, key, "`--etcd-cacert` `ca`: contains no PEM block"),
            (key, certificate, key, "`--etcd-cacert` `ca`: contains a private key but no certificate"),
            (certificate, key, key, "`--etcd-cert` `crt`: contains a private key but no certificate"),
            (certificate, certificate, certificate, "`--etcd-key` `key`: contains a certificate but no private key"),
            (certificate, certificate, &other.key, "`--etcd-key` `key`: is not the key of the certificate"),
        ] {
            assert_eq!(load(ca, crt, pem).err().unwrap(), said);
        }
    }

    #[test]
    fn a_key_that_lost_its_lines_is_not_repeated() {
        let pair = Pair::new(&rcgen::PKCS_ECDSA_P256_SHA256, &[], None);
        for newline in [" ", "\\n", ""] {
            let key = pair.sec1().replace('\n', newline);
            for (crt, pem) in [(&pair.certificate, &key), (&key, &pair.key)] {
                let said = load(&pair.certificate, crt, pem).err().unwrap();
                assert!(
                    [": contains no PEM block", ": PEM block 1 has no end marker"].iter().any(|it| said.ends_with(it)),
                    "{said}"
                );
            }
        }
    }

    #[test]
    fn what_is_not_named_is_not_needed() {
        let access = EtcdAccess::load(&options(None, None), &empty()).unwrap();
        assert!(access.ca.is_empty() && access.client.is_none() && access.user.is_none());
        let missing = EtcdAccess::load(&options(Some(Path::new("/nowhere")), None), &empty()).err().unwrap();
        assert!(missing.message.starts_with("`--etcd-cacert` `/nowhere`: "), "{missing}");
    }
    /// Loads a user whose password file has this content.
    fn user(content: &[u8], endpoints: &[&str]) -> Result<Option<EtcdUser>, ConfigError> {
        let home = TempDir::new().unwrap();
        let file = home.path().join("password");
        std::fs::write(&file, content).unwrap();
        let environment = Environment::new([(USER, "health".into()), (PASSWORD_FILE, file.into_os_string())]);
        let endpoints: Vec<_> = endpoints.iter().map(|&it| it.to_owned()).collect();
        EtcdUser::of(&environment, &endpoints)
    }

    #[test]
    fn a_password_is_one_line() {
        for content in ["geheim", "geheim\n", "geheim\r\n"] {
            let user = user(content.as_bytes(), &["https://etcd-1:2379", "etcd-2"]).unwrap().unwrap();
            assert_eq!((user.name.as_str(), user.password.as_str()), ("health", "geheim"));
        }
        assert_eq!(user(b" a b \n", &[]).unwrap().unwrap().password.as_str(), " a b ");
        for (content, problem) in [
            (&b""[..], "is empty"),
            (b"\n", "is empty"),
            (b"geheim\n\n", "more than one line"),
            (b"user: geheim\npassword: geheim\n", "more than one line"),
            (b"geheim\xff", "not UTF-8"),
        ] {
            let said = user(content, &[]).err().unwrap().message;
            assert!(said.contains(problem) && !said.contains("geheim"), "{said}");
        }
    }

    #[test]
    fn a_password_is_not_for_plain_text() {
        for plain in ["http://etcd-1:2379", "HTTP://etcd-1", " http://etcd-1"] {
            let said = user(b"geheim", &["https://etcd-2", plain]).err().unwrap().to_string();
            assert!(said.contains("never sent to `http://`"), "{said}");
        }
    }

    #[test]
    fn a_user_has_a_name_and_a_file() {
        let set = |variables: &[(&str, &str)]| {
            let environment = Environment::new(variables.iter().copied());
            EtcdUser::of(&environment, &[]).err().map(|error| error.message)
        };
        assert_eq!(set(&[]), None);
        assert_eq!(set(&[(USER, ""), (PASSWORD_FILE, "")]), None);
        assert!(set(&[(USER, "health")]).unwrap().ends_with("`CLUSTER_HEALTH_ETCD_PASSWORD_FILE` is not"));
        assert!(set(&[(PASSWORD_FILE, "/nowhere")]).unwrap().ends_with("`CLUSTER_HEALTH_ETCD_USER` is not"));
        // The variable contains the password instead of the path.
        let said = set(&[(USER, "health"), (PASSWORD_FILE, "hunter2")]).unwrap();
        assert_eq!(said, "`CLUSTER_HEALTH_ETCD_PASSWORD_FILE`: no such file");
    }
}
