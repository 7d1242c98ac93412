//! Omni's service accounts: the key from the environment, and the signature of each call.
//!
//! A signature covers the method, the time and the headers in [`COVERED`], but neither the address of a machine nor the request itself, and
//! it is valid for five minutes: anyone who sees one can call the same method again. Calls are therefore signed only on verified
//! connections.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use zeroize::{Zeroize as _, Zeroizing};

use super::openpgp::SigningKey;
use super::{ConfigError, Environment};
use crate::snapshot::Account;
use crate::text::clock;

/// Variables that may contain the key. The first one takes precedence, as in omnictl and talosctl.
pub(crate) const VARIABLES: [&str; 2] = ["SIDERO_SERVICE_ACCOUNT_KEY", "OMNI_SERVICE_ACCOUNT_KEY"];

/// Size limit of a variable. A key has a few thousand characters.
const LONGEST: usize = 64 << 10;
const LONGEST_NAME: usize = 256;

const TIMESTAMP: HeaderName = HeaderName::from_static("x-sidero-timestamp");
const PAYLOAD: HeaderName = HeaderName::from_static("x-sidero-payload");
const SIGNATURE: HeaderName = HeaderName::from_static("x-sidero-signature");

/// Headers that a signature covers, whether present or not.
const COVERED: [&str; 10] = [
    "x-sidero-timestamp",
    "nodes",
    "selectors",
    "fieldSelectors",
    "runtime",
    "context",
    "cluster",
    "namespace",
    "uid",
    "authorization",
];

#[derive(Debug)]
pub(crate) struct ServiceAccount {
    /// The variable that the key comes from.
    pub(crate) variable: &'static str,
    pub(crate) name: String,
    pub(crate) key: SigningKey,
}

/// The decoded content of the variable, which is base64.
#[derive(Deserialize)]
struct Written {
    name: String,
    pgp_key: String,
}

impl Drop for Written {
    fn drop(&mut self) {
        self.pgp_key.zeroize();
    }
}

impl ServiceAccount {
    /// Returns the service account from the environment, if there is one.
    pub(crate) fn of(environment: &Environment) -> Result<Option<Self>, ConfigError> {
        let set = VARIABLES.iter().find_map(|name| Some((*name, environment.os(name)?)));
        let Some((variable, value)) = set else { return Ok(None) };
        let value = value.to_str().ok_or_else(|| "is not text".to_owned());
        let account = value.and_then(|text| Self::read(variable, text, clock::now()));
        account.map(Some).map_err(|problem| {
            ConfigError::unreadable(format!("`{variable}` {problem}"))
                .hint("set it to the key that `omnictl serviceaccount create` or `omnictl serviceaccount renew` prints")
        })
    }

    pub(super) fn read(variable: &'static str, text: &str, now: Timestamp) -> Result<Self, String> {
        if text.len() > LONGEST {
            return Err("is far longer than a key".to_owned());
        }
        let text: Zeroizing<String> = Zeroizing::new(text.split_ascii_whitespace().collect());
        let decoded = STANDARD.decode(text.as_bytes()).map(Zeroizing::new).map_err(|_| "is not valid base64")?;
        // The library's error messages may quote the input.
        let written: Written =
            serde_json::from_slice(&decoded).map_err(|_| "does not contain JSON with `name` and `pgp_key`")?;
        let is_name = written.name.bytes().all(|byte| byte.is_ascii_graphic());
        if written.name.is_empty() || written.name.len() > LONGEST_NAME || !is_name {
            return Err(
                "does not name a service account: a name has letters, digits and symbols, and no spaces".to_owned()
            );
        }
        let key =
            SigningKey::from_armor(&written.pgp_key, now).map_err(|problem| format!("has a key that {problem}"))?;
        Ok(Self { variable, name: written.name.clone(), key })
    }

    /// The facts for the checks.
    pub(super) fn facts(&self) -> Account {
        let SigningKey { created, ends, .. } = self.key;
        Account { variable: self.variable, name: self.name.clone(), not_before: created, not_after: ends }
    }

    /// Signs a call: adds the headers that prove its sender and time.
    pub(crate) fn sign(&self, headers: &mut HeaderMap, method: &str) {
        self.sign_at(headers, method, clock::now());
    }

    fn sign_at(&self, headers: &mut HeaderMap, method: &str, now: Timestamp) {
        headers.insert(TIMESTAMP, HeaderValue::from(now.as_second()));
        let values = |name: &str| -> Value {
            let texts = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
            let texts: Vec<_> = texts.map(Value::from).collect();
            if texts.is_empty() { Value::Null } else { texts.into() }
        };
        let covered: Map<String, Value> = COVERED.iter().map(|name| ((*name).to_owned(), values(name))).collect();
        let payload = json!({ "headers": covered, "method": method }).to_string();
        let signature = STANDARD.encode(self.key.sign(payload.as_bytes(), now));
        let signature = format!("siderov1 {} {} {signature}", self.name, self.key.name);
        // Both values are printable ASCII, because all of our headers and the account's name are.
        for (header, text) in [(PAYLOAD, payload), (SIGNATURE, signature)] {
            if let Ok(mut value) = HeaderValue::try_from(text) {
                value.set_sensitive(true);
                headers.insert(header, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    use simulator::openpgp::PrivateKey;

    use super::*;

    const VARIABLE: &str = VARIABLES[0];

    fn now() -> Timestamp {
        Timestamp::from_second(1_800_000_100).unwrap()
    }

    fn made() -> PrivateKey {
        PrivateKey::new("ci", 1_800_000_000, Some(3600)).unwrap()
    }

    fn value(name: &str, key: &str) -> String {
        STANDARD.encode(serde_json::json!({ "name": name, "pgp_key": key }).to_string())
    }

    #[test]
    fn a_call_is_signed_with_what_it_says_and_when() {
        let key = made();
        let account = ServiceAccount::read(VARIABLE, &value("ci", &key.armored()), now()).unwrap();
        let mut headers = HeaderMap::new();
        for (name, value) in
            [("runtime", "Talos"), ("context", "prod"), ("node", "10.0.0.1"), ("nodes", "a"), ("nodes", "b")]
        {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        account.sign_at(&mut headers, "/machine.MachineService/Version", now());
        let text = |name: &str| headers.get(name).unwrap().to_str().unwrap();
        assert_eq!(text("x-sidero-timestamp"), "1800000100");
        let payload: Value = serde_json::from_str(text("x-sidero-payload")).unwrap();
        assert_eq!(
            payload,
            json!({
                "headers": {
                    "x-sidero-timestamp": ["1800000100"], "nodes": ["a", "b"], "selectors": null, "fieldSelectors": null,
                    "runtime": ["Talos"], "context": ["prod"], "cluster": null, "namespace": null, "uid": null,
                    "authorization": null,
                },
                "method": "/machine.MachineService/Version",
            })
        );
        let parts: Vec<&str> = text("x-sidero-signature").split(' ').collect();
        assert_eq!(parts[..3], ["siderov1", "ci", &key.public().fingerprint]);
        let signature = STANDARD.decode(parts[3]).unwrap();
        key.public().verify(text("x-sidero-payload").as_bytes(), &signature).unwrap();
        assert!(headers["x-sidero-signature"].is_sensitive() && headers["x-sidero-payload"].is_sensitive());
        // Signing again, as for a retry at a later time, replaces the signature.
        account.sign_at(&mut headers, "/machine.MachineService/Version", now() + jiff::SignedDuration::from_secs(1));
        assert_eq!(headers.get_all("x-sidero-signature").iter().count(), 1);
    }

    #[test]
    fn the_first_variable_counts_and_an_empty_one_is_none() {
        let of = |first: &str, second: &str| {
            ServiceAccount::of(&Environment::new([(VARIABLES[0], first), (VARIABLES[1], second)]))
        };
        let [a, b] = ["a", "b"].map(|name| value(name, &made().armored()));
        let name = |found: Result<Option<ServiceAccount>, ConfigError>| found.unwrap().map(|it| (it.variable, it.name));
        assert_eq!(name(of(&a, &b)), Some((VARIABLES[0], "a".to_owned())));
        assert_eq!(name(of("", &b)), Some((VARIABLES[1], "b".to_owned())));
        assert_eq!(name(of("", "")), None);
        let error = of("%%", &b).unwrap_err();
        assert_eq!(error.message, "`SIDERO_SERVICE_ACCOUNT_KEY` is not valid base64");
        assert!(error.hint.unwrap().contains("omnictl serviceaccount"));
    }

    #[test]
    fn what_is_no_key_is_told_and_not_repeated() {
        let armored = made().armored();
        let wrapped =
            value("ci", &armored).as_bytes().chunks(76).map(String::from_utf8_lossy).collect::<Vec<_>>().join("\n");
        assert!(ServiceAccount::read(VARIABLE, &wrapped, now()).is_ok(), "as `base64` prints it");
        let good = value("ci", &armored);
        for (text, expected) in [
            ("A".repeat(10 << 20), "is far longer than a key"),
            (good[..good.len() / 2].to_owned(), "is not valid base64"),
            (STANDARD.encode(&armored), "does not contain JSON with `name` and `pgp_key`"),
            (STANDARD.encode(r#"{"name": "ci"}"#), "does not contain JSON with `name` and `pgp_key`"),
            (armored.clone(), "is not valid base64"),
            (value("", &armored), "does not name a service account"),
            (value("a b", &armored), "does not name a service account"),
            (value("ci\r\nx: y", &armored), "does not name a service account"),
            (value("c\u{1b}[31mi", &armored), "does not name a service account"),
            (value(&"c".repeat(300), &armored), "does not name a service account"),
            (value("ci", ""), "has a key that is not an armored OpenPGP key"),
        ] {
            let problem = ServiceAccount::read(VARIABLE, &text, now()).unwrap_err();
            let cut = &good[..good.len() / 2 / 4 * 4];
            assert!(problem.starts_with(expected) || text.starts_with(cut), "{problem}");
            assert!(!problem.contains(&armored[60..70]) && problem.len() < 120, "{problem}");
        }
    }

    /// `make omni-judge` builds tools/omni-judge, which contains Omni's own verifier, and sets the variable to the program's path.
    #[test]
    fn the_verifier_of_omni_accepts_what_is_signed() {
        const METHOD: &str = "/machine.MachineService/Version";
        let Some(judge) = std::env::var_os("OMNI_JUDGE") else {
            eprintln!("not tested: `OMNI_JUDGE` is not set; `make omni-judge` sets it");
            return;
        };
        let made = Command::new(&judge).arg("key").output().unwrap();
        let of_theirs = String::from_utf8(made.stdout).unwrap();
        // The simulator's keys are tested as well, so that both kinds are known to be equivalent.
        let created = u32::try_from(clock::now().as_second()).unwrap() - 60;
        let of_simulator = PrivateKey::new("ci <ci@serviceaccount.omni.sidero.dev>", created, Some(3600)).unwrap();
        let of_simulator = value("ci", &of_simulator.armored());
        let verify = |key: &str, method: &str, headers: &HeaderMap| {
            let mut metadata = Map::new();
            for name in headers.keys() {
                let values: Vec<_> = headers.get_all(name).iter().map(|value| value.to_str().unwrap()).collect();
                metadata.insert(name.as_str().to_owned(), values.into());
            }
            let asked = json!({ "key": key, "method": method, "metadata": metadata }).to_string();
            let mut child =
                Command::new(&judge).arg("verify").stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            child.stdin.take().unwrap().write_all(asked.as_bytes()).unwrap();
            let said = child.wait_with_output().unwrap();
            if said.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&said.stderr).into_owned()) }
        };
        for key in [&of_theirs, &of_simulator] {
            let account = ServiceAccount::read(VARIABLE, key, clock::now()).unwrap();
            // In one of 128 signatures, a number is one byte shorter.
            for round in 0..300 {
                let mut headers = HeaderMap::new();
                headers.insert("runtime", HeaderValue::from_static("Talos"));
                headers.insert("context", HeaderValue::from_static("prod"));
                headers.insert("node", HeaderValue::from(round));
                account.sign(&mut headers, METHOD);
                assert_eq!(verify(key, METHOD, &headers), Ok(()));
                if round == 0 {
                    assert!(verify(key, "/machine.MachineService/Reboot", &headers).is_err());
                    headers.insert("context", HeaderValue::from_static("lab"));
                    assert!(verify(key, METHOD, &headers).is_err());
                }
            }
        }
    }

    #[test]
    fn debug_keeps_the_key() {
        let text = value("ci", &made().armored());
        let shown = format!("{:?}", ServiceAccount::read(VARIABLE, &text, now()).unwrap());
        assert!(shown.contains("\"ci\"") && shown.len() < 300, "{shown}");
    }
}
