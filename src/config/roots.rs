//! The CAs that servers are verified with: the configuration's own or, only for public servers, the system's roots.
//!
//! The two are never mixed: a cluster's CA vouches for no public server, and the system's roots for no machine of a cluster.

use std::path::Path;

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls_native_certs::{load_certs_from_paths, load_native_certs};

use super::{ConfigError, Environment};

/// OpenSSL's variables: a file, and folders separated by colons. If either is set, the system's default locations are ignored.
const FILE: &str = "SSL_CERT_FILE";
const FOLDERS: &str = "SSL_CERT_DIR";

/// Trusted CAs, at least one certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Roots {
    /// CAs from a configuration.
    Own(Vec<CertificateDer<'static>>),
    OfSystem(Vec<CertificateDer<'static>>),
}

impl Roots {
    pub(crate) fn all(&self) -> &[CertificateDer<'static>] {
        let (Self::Own(all) | Self::OfSystem(all)) = self;
        all
    }

    /// Returns the configuration's own CAs. The system's roots are omitted, since they prove nothing about a cluster.
    pub(crate) fn own(&self) -> &[CertificateDer<'static>] {
        match self {
            Self::Own(all) => all,
            Self::OfSystem(_) => &[],
        }
    }

    /// Loads the system's roots. `why` names the configuration that needs them because it has no CA of its own.
    pub(super) fn of_system(environment: &Environment, why: &str) -> Result<Self, ConfigError> {
        let found = certificates(environment);
        found.map(Self::OfSystem).map_err(|error| ConfigError { message: format!("{why}, and {error}"), ..error })
    }
}

/// Loads the system's roots for public servers. Reading the files may be slow.
pub(crate) fn system(environment: &Environment) -> Result<RootCertStore, ConfigError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates(environment)?);
    Ok(roots)
}

/// Loads the system's certificates that can verify a server, at least one.
fn certificates(environment: &Environment) -> Result<Vec<CertificateDer<'static>>, ConfigError> {
    let file = environment.os(FILE).map(Path::new);
    let folders: Vec<_> = environment.os(FOLDERS).into_iter().flat_map(std::env::split_paths).collect();
    let mut found = if file.is_none() && folders.is_empty() {
        load_native_certs()
    } else {
        let folders = folders.iter().filter(|folder| !folder.as_os_str().is_empty());
        let found = folders.map(|folder| load_certs_from_paths(None, Some(folder)));
        found.fold(load_certs_from_paths(file, None), |mut all, more| {
            all.certs.extend(more.certs);
            all.errors.extend(more.errors);
            all
        })
    };
    found.certs.retain(|certificate| RootCertStore::empty().add(certificate.clone()).is_ok());
    if !found.certs.is_empty() {
        return Ok(found.certs);
    }
    let why = found.errors.first().map(|error| format!(": {error}")).unwrap_or_default();
    let message = format!("there are no root certificates to verify public servers with{why}");
    let hint = format!("set `{FILE}` to a file of CA certificates, or `{FOLDERS}` to a folder of them");
    Err(ConfigError::unreadable(message).hint(hint))
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};

    use super::*;

    fn authority() -> String {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem()
    }

    #[test]
    fn both_variables_count() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        for name in ["one", "two"] {
            std::fs::create_dir(at(name)).unwrap();
            std::fs::write(at(&format!("{name}/ca.pem")), authority()).unwrap();
        }
        std::fs::write(at("file"), authority() + &authority()).unwrap();
        let both = format!("{}:{}", at("one"), at("two"));
        for (variables, expected) in [
            (&[(FILE, at("file"))][..], 2),
            (&[(FOLDERS, at("one"))], 1),
            (&[(FOLDERS, both.clone())], 2),
            (&[(FILE, at("file")), (FOLDERS, both)], 4),
            (&[(FILE, at("none")), (FOLDERS, at("one"))], 1),
        ] {
            let environment = Environment::new(variables.iter().map(|(name, value)| (*name, value.as_str())));
            assert_eq!(system(&environment).unwrap().len(), expected, "{variables:?}");
        }
    }

    #[test]
    fn without_roots_the_error_names_the_variables() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        std::fs::write(at("empty"), "").unwrap();
        std::fs::write(at("broken"), "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").unwrap();
        for (name, path) in [(FILE, "empty"), (FILE, "broken"), (FILE, "none"), (FOLDERS, "none"), (FILE, "")] {
            let environment = Environment::new([(name, at(path).as_str())]);
            let error = system(&environment).unwrap_err();
            let hint = error.hint.unwrap();
            assert!(hint.contains(FILE) && hint.contains(FOLDERS), "{name} {path}: {hint}");
        }
    }
}
