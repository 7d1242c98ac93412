//! The files that `--etcd-cacert`, `--etcd-cert` and `--etcd-key` name.

use std::path::Path;

use rustls::pki_types::CertificateDer;

use super::certificate::{self, Fault, Identity, Peer};
use super::{ConfigError, file};
use crate::text::clock;

const CACERT: &str = "`--etcd-cacert`";
const CERT: &str = "`--etcd-cert`";
const KEY: &str = "`--etcd-key`";

/// Whom we believe, and who we are.
#[derive(Clone, Default)]
pub(crate) struct EtcdFiles {
    /// Empty: nobody is believed.
    pub(crate) ca: Vec<CertificateDer<'static>>,
    pub(crate) client: Option<Identity>,
}

impl EtcdFiles {
    /// `pair`: certificate and key.
    pub(crate) fn load(ca: Option<&Path>, pair: Option<(&Path, &Path)>) -> Result<Self, ConfigError> {
        let ca = match ca {
            Some(path) => roots(path)?,
            None => Vec::new(),
        };
        let client = pair.map(|(certificate, key)| identity(certificate, key)).transpose()?;
        Ok(Self { ca, client })
    }
}

fn roots(path: &Path) -> Result<Vec<CertificateDer<'static>>, ConfigError> {
    let bundle = certificate::roots(&file::read(path, CACERT)?).map_err(|it| file::named(path, CACERT, &it))?;
    match certificate::longest(bundle.iter().map(AsRef::as_ref)) {
        Some(ca) if !bundle.iter().any(|ca| certificate::is_current(ca)) => {
            let problem =
                format!("is valid from {} to {}, and the local time is {}", ca.not_before, ca.not_after, clock::now());
            Err(file::named(path, CACERT, &problem))
        }
        _ => Ok(bundle),
    }
}

fn identity(certificate: &Path, key: &Path) -> Result<Identity, ConfigError> {
    // etcd verifies as the API server does: it is written in Go, too.
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

    fn load(ca: &str, certificate: &str, key: &str) -> Result<EtcdFiles, String> {
        let home = TempDir::new().unwrap();
        let [ca, certificate, key] = [("ca", ca), ("crt", certificate), ("key", key)].map(|(name, text)| {
            let path = home.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        });
        let home = home.path().display().to_string() + "/";
        EtcdFiles::load(Some(&ca), Some((&certificate, &key))).map_err(|error| error.message.replace(&home, ""))
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
        let files = EtcdFiles::load(None, None).unwrap();
        assert!(files.ca.is_empty() && files.client.is_none());
        let missing = EtcdFiles::load(Some(Path::new("/nowhere")), None).err().unwrap();
        assert!(missing.message.starts_with("`--etcd-cacert` `/nowhere`: "), "{missing}");
    }
}
