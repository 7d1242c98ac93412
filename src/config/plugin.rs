//! The answer of an exec plugin: an `ExecCredential` in JSON or YAML, both of which client-go accepts.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use kube::config::AuthInfo;

use super::certificate::{self, Identity, Peer};
use super::kubeconfig::token_text;
use super::yaml::{Dialect, Document};
use super::{ConfigError, file};

const KIND: &str = "ExecCredential";

/// Credentials from a plugin. Without `Debug`, because they are secret.
#[derive(Clone)]
pub(crate) struct PluginCredentials {
    pub(crate) token: Option<String>,
    identity: Option<Identity>,
    pub(crate) expires: Option<Timestamp>,
}

impl PluginCredentials {
    /// Parses an answer. `version` is the API version that the kubeconfig requests. The error repeats nothing of the
    /// answer.
    pub(crate) fn parse(answer: Vec<u8>, version: &str) -> Result<Self, ConfigError> {
        let name = "the answer of the exec plugin".to_owned();
        let text = file::text(answer).map_err(|problem| ConfigError::unreadable(format!("{name} {problem}")))?;
        let document = Document::parse(name, text, Dialect::Kubernetes, None)?;
        for (key, wanted) in [("kind", KIND), ("apiVersion", version)] {
            let value = document.top().key(key);
            if value.text()?.as_deref() != Some(wanted) {
                return Err(value.error(format_args!("is not `{wanted}`")));
            }
        }
        let status = document.top().key("status");
        if !status.is_there() {
            return Err(status.error("is missing"));
        }
        let status = status.map()?;
        let pem = |key: &str| Ok(status.key(key).text()?.map(|text| (status.key(key), text.into_bytes().into())));
        let names = ["clientCertificateData", "clientKeyData"];
        let identity = certificate::pair(pem(names[0])?, pem(names[1])?, names, Peer::Kubernetes)?;
        if identity.as_ref().is_some_and(|identity| !identity.facts.matches_key) {
            return Err(status.key(names[1]).error("is not the key of the certificate"));
        }
        let token = status.key("token");
        let text = token.text()?.map(|text| token_text(&text)).transpose().map_err(|problem| token.error(problem))?;
        if identity.is_none() && text.is_none() {
            return Err(status.error("has neither a token nor a client certificate"));
        }
        let expires = status.key("expirationTimestamp");
        let until = expires.text()?.map(|text| text.parse()).transpose().map_err(|_| expires.error("is not a time"))?;
        Ok(Self { token: text, identity, expires: until })
    }

    /// Puts the client certificate where the kubeconfig's own would be.
    pub(crate) fn log_in(&self, auth: &mut AuthInfo) {
        if let Some(identity) = &self.identity {
            auth.client_certificate_data = Some(STANDARD.encode(identity.chain_pem()));
            auth.client_key_data = Some(STANDARD.encode(&*identity.key_pem()).into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::testing::Pair;

    const VERSION: &str = "client.authentication.k8s.io/v1";

    /// Returns an answer with a status, in JSON.
    fn of(status: &str) -> String {
        format!(r#"{{"apiVersion":"{VERSION}","kind":"ExecCredential","status":{status}}}"#)
    }

    fn parse(answer: &str) -> Result<PluginCredentials, String> {
        PluginCredentials::parse(answer.as_bytes().to_vec(), VERSION).map_err(|error| error.message)
    }

    #[test]
    fn json_and_yaml_are_answers() {
        let answer = parse(&of(r#"{"token":"a.b","expirationTimestamp":"2030-01-01T00:00:00Z"}"#)).unwrap();
        assert_eq!(answer.token.as_deref(), Some("a.b"));
        assert_eq!(answer.expires, Some("2030-01-01T00:00:00Z".parse().unwrap()));
        let yaml = parse(&format!("apiVersion: {VERSION}\nkind: ExecCredential\nstatus:\n  token: a.b\n")).unwrap();
        assert_eq!((yaml.token.as_deref(), yaml.expires), (Some("a.b"), None));
    }

    #[test]
    fn what_no_header_may_hold_is_no_token_and_is_not_repeated() {
        let (pair, other) = (Pair::talos("a"), Pair::talos("a"));
        let mixed = serde_json::json!({"clientCertificateData": pair.certificate, "clientKeyData": other.key});
        for answer in [
            of(r#"{"token":"s3cret\nX-Remote-User: admin"}"#),
            of(r#"{"token":"s3cret\u0000"}"#),
            of(r#"{"token":"s3crét"}"#),
            of(r#"{"token":["s3cret"]}"#),
            of(r#"{"token":""}"#),
            of(r#"{"token":"s3cret","expirationTimestamp":"s3cret"}"#),
            of(r#"{"clientCertificateData":"s3cret","clientKeyData":"s3cret"}"#),
            of(r#"{"clientKeyData":"s3cret"}"#),
            of(&mixed.to_string()),
            of("{}"),
            of(r#"{"token":"s3cret"}"#).replace("/v1", "/v1beta1"),
            of(r#"{"token":"s3cret"}"#).replace("ExecCredential", "TokenReview"),
            r#"{"status":{"token":"s3cret"}}"#.to_owned(),
            r#"{"token":"s3cret"}"#.to_owned(),
            "s3cret".to_owned(),
            String::new(),
            "\u{0}".to_owned(),
        ] {
            let error = parse(&answer).err().unwrap();
            assert!(
                error.starts_with("the answer of the exec plugin") && !error.contains("s3cr"),
                "{answer:?}: {error}"
            );
        }
    }
}
