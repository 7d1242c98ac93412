//! The roots of the system: for public servers alone. The CA of a cluster is none of them, and they vouch for no server of a cluster
//! that has a CA of its own.

use std::path::Path;

use rustls::RootCertStore;
use rustls_native_certs::{CertificateResult, load_certs_from_paths, load_native_certs};

use super::{ConfigError, Environment};

/// OpenSSL's variables: a file, and folders between colons. If one of them is set, nothing else counts.
const FILE: &str = "SSL_CERT_FILE";
const FOLDERS: &str = "SSL_CERT_DIR";

/// What vouches for public servers. It reads files, which may be slow.
pub(crate) fn system(environment: &Environment) -> Result<RootCertStore, ConfigError> {
    let file = environment.os(FILE).map(Path::new);
    let folders: Vec<_> = environment.os(FOLDERS).into_iter().flat_map(std::env::split_paths).collect();
    let found = if file.is_none() && folders.is_empty() {
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
    store(found)
}

fn store(found: CertificateResult) -> Result<RootCertStore, ConfigError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if !roots.is_empty() {
        return Ok(roots);
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
