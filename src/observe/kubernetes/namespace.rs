//! The namespace kube-system: it is as old as its cluster, so its UID identifies the cluster.

use serde::Deserialize;

use super::client::{Answer, Transport};
use super::intake::Keep;
use super::whom::Target;
use crate::snapshot::{Gap, GapKind, Observed};

/// Size limit for an answer, in bytes.
const LIMIT: usize = 64 << 10;

#[derive(Deserialize)]
struct Namespace {
    kind: String,
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
    #[serde(default)]
    uid: String,
}

pub(super) async fn uid_of_system(transport: &Transport, of: &Target) -> Observed<String> {
    // Boxed: a request is a large future, and a round has many.
    parse(&Box::pin(transport.get(of, "/api/v1/namespaces/kube-system", Keep::All(LIMIT))).await?)
}

fn parse(answer: &Answer) -> Observed<String> {
    match serde_json::from_slice(answer.body_if_ok()?) {
        Ok(Namespace { kind, metadata: Metadata { name, uid } })
            if kind == "Namespace" && name == super::SYSTEM && !uid.is_empty() =>
        {
            Ok(uid)
        }
        _ => Err(Gap::new(GapKind::Malformed, "no namespace kube-system with a UID")),
    }
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::*;

    #[test]
    fn another_answer_is_no_identity() {
        let of = |status, body: &str| {
            let status = StatusCode::from_u16(status).unwrap();
            parse(&Answer { status, date: None, certificate: None, body: body.into(), later: None, leave: None })
        };
        let good = r#"{"kind":"Namespace","metadata":{"name":"kube-system","uid":"0f2a"}}"#;
        assert_eq!(of(200, good), Ok("0f2a".to_owned()));
        assert_eq!(of(403, good).unwrap_err().kind, GapKind::Forbidden);
        for other in [
            good.replace("kube-system", "default"),
            good.replace("0f2a", ""),
            good.replace("Namespace", "Status"),
            good.replace("uid", "id"),
            String::new(),
        ] {
            assert_eq!(of(200, &other).unwrap_err().kind, GapKind::Malformed, "{other}");
        }
    }
}
