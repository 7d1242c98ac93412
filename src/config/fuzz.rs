//! Fuzz tests: any content of a file or an option is read to the end without a panic, and an error is one line. See `make fuzz`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use rustls::pki_types::CertificateDer;

use super::certificate::{self, Peer};
use super::kube_sources::from_talos;
use super::kubeconfig::Options;
use super::omni::{ServiceAccount, VARIABLES};
use super::proxy::Setting;
use super::talosconfig::{self, Found, Origin, Overrides};
use super::{ConfigError, Environment, endpoint, file, openpgp, pem};

fn is_one_line<T>(read: Result<T, ConfigError>) {
    if let Err(error) = read {
        assert!(!error.to_string().contains(char::is_control), "{error:?}");
    }
}

#[test]
fn talosconfigs() {
    let found = Found { path: "/t/config".into(), origin: Origin::Flag };
    let environment = Environment::new::<&str, &str>([]);
    bolero::check!().for_each(|bytes: &[u8]| {
        if let Ok(text) = file::text(bytes.to_vec()) {
            is_one_line(talosconfig::from_text(
                &found,
                "talosconfig".to_owned(),
                text,
                &Overrides::default(),
                &environment,
            ));
        }
    });
}

#[test]
fn kubeconfigs() {
    let environment = Environment::new::<&str, &str>([]);
    bolero::check!().for_each(|bytes: &[u8]| is_one_line(from_talos(bytes, &Options::default(), &environment)));
}

#[test]
fn certificates_and_keys() {
    bolero::check!().for_each(|bytes: &[u8]| {
        let _ = pem::certificates(bytes);
        let _ = pem::private_key(bytes);
        let _ = certificate::facts(&CertificateDer::from(bytes), None, Peer::Talos);
        let _ = certificate::roots(bytes);
    });
}

/// Fuzzes both the value of the variable and the key inside it.
#[test]
fn service_accounts() {
    bolero::check!().for_each(|bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        let armored = openpgp::tests::armored(bytes);
        for key in [text.clone().into_owned(), armored] {
            let written = serde_json::json!({ "name": "ci", "pgp_key": key }).to_string();
            for value in [text.clone().into_owned(), STANDARD.encode(written)] {
                if let Err(problem) = ServiceAccount::read(VARIABLES[0], &value, Timestamp::UNIX_EPOCH) {
                    assert!(!problem.contains(char::is_control), "{problem:?}");
                }
            }
        }
    });
}

#[test]
fn addresses() {
    bolero::check!().for_each(|bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        let _ = Setting::parse(&text);
        for read in [endpoint::talos, endpoint::kubernetes] {
            let Ok(found) = read(&text) else { continue };
            assert_eq!(read(&found.shown).map(|again| again.shown), Ok(found.shown), "is read as it is shown");
        }
    });
}
