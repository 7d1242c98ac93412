//! What an exec plugin answers: an `ExecCredential`, in JSON or YAML as client-go takes both.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use kube::config::AuthInfo;

use super::certificate::{self, Identity, Peer};
use super::kubeconfig::token_text;
use super::yaml::Document;
use super::{ConfigError, file};

/// Holds secrets, so it cannot be printed.
#[derive(Clone)]
pub(crate) struct PluginCredentials {
    pub(crate) token: Option<String>,
    identity: Option<Identity>,
    pub(crate) expires: Option<Timestamp>,
}

impl PluginCredentials {
    /// The error repeats nothing of the answer.
    pub(crate) fn parse(answer: Vec<u8>) -> Result<Self, ConfigError> {
        let name = "the answer of the exec plugin".to_owned();
        let text = file::text(answer).map_err(|problem| ConfigError::unreadable(format!("{name} {problem}")))?;
        let document = Document::parse(name, text, None)?;
        let status = document.top().key("status");
        if !status.is_there() {
            return Err(status.error("is missing"));
        }
        let status = status.map()?;
        let pem = |key: &str| Ok(status.key(key).text()?.map(|text| (status.key(key), text.into_bytes().into())));
        let names = ["clientCertificateData", "clientKeyData"];
        let identity = certificate::pair(pem(names[0])?, pem(names[1])?, names, Peer::Kubernetes)?;
        let token = status.key("token");
        let text = token.text()?.map(|text| token_text(&text)).transpose().map_err(|problem| token.error(problem))?;
        if identity.is_none() && text.is_none() {
            return Err(status.error("has neither a token nor a client certificate"));
        }
        let expires = status.key("expirationTimestamp");
        let until = expires.text()?.map(|text| text.parse()).transpose().map_err(|_| expires.error("is not a time"))?;
        Ok(Self { token: text, identity, expires: until })
    }

    /// The client certificate, where the kubeconfig's own would stand.
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

    fn parse(answer: &str) -> Result<PluginCredentials, String> {
        PluginCredentials::parse(answer.as_bytes().to_vec()).map_err(|error| error.message)
    }

    #[test]
    fn json_and_yaml_are_answers() {
        let json = r#"{"kind":"ExecCredential","status":{"token":"a.b","expirationTimestamp":"2030-01-01T00:00:00Z"}}"#;
        let answer = parse(json).unwrap();
        assert_eq!(answer.token.as_deref(), Some("a.b"));
        assert_eq!(answer.expires, Some("2030-01-01T00:00:00Z".parse().unwrap()));
        let yaml = parse("kind: ExecCredential\nstatus:\n  token: a.b\n").unwrap();
        assert_eq!((yaml.token.as_deref(), yaml.expires), (Some("a.b"), None));
    }

    #[test]
    fn what_no_header_may_hold_is_no_token_and_is_not_repeated() {
        for answer in [
            r#"{"status":{"token":"s3cret\nX-Remote-User: admin"}}"#,
            r#"{"status":{"token":"s3cret\u0000"}}"#,
            r#"{"status":{"token":"s3crét"}}"#,
            r#"{"status":{"token":["s3cret"]}}"#,
            r#"{"status":{"token":""}}"#,
            r#"{"status":{"token":"s3cret","expirationTimestamp":"s3cret"}}"#,
            r#"{"status":{"clientCertificateData":"s3cret","clientKeyData":"s3cret"}}"#,
            r#"{"status":{"clientKeyData":"s3cret"}}"#,
            r#"{"status":{}}"#,
            r#"{"token":"s3cret"}"#,
            "s3cret",
            "",
            "\u{0}",
        ] {
            let error = parse(answer).err().unwrap();
            assert!(
                error.starts_with("the answer of the exec plugin") && !error.contains("s3cr"),
                "{answer:?}: {error}"
            );
        }
    }
}
