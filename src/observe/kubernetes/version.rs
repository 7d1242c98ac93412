//! `/version`: the version that an API server reports.

use serde::Deserialize;

use super::client::{Answer, Transport};
use super::intake::Keep;
use super::whom::Target;
use crate::observe::dial::cause::clean;
use crate::snapshot::{Gap, GapKind, Observed};

/// Size limit for an answer, in bytes.
const LIMIT: usize = 64 << 10;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Info {
    git_version: String,
}

pub(super) async fn of_server(transport: &Transport, of: &Target) -> Observed<String> {
    // Boxed: a request is a large future, and a round has many.
    parse(&Box::pin(transport.get(of, "/version", Keep::All(LIMIT))).await?)
}

fn parse(answer: &Answer) -> Observed<String> {
    match serde_json::from_slice(answer.body_if_ok()?) {
        Ok(Info { git_version }) if !git_version.is_empty() => Ok(clean(&git_version)),
        _ => Err(Gap::new(GapKind::Malformed, "no version of an API server")),
    }
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::*;

    #[test]
    fn another_answer_is_no_version() {
        let of = |status, body: &str| {
            let status = StatusCode::from_u16(status).unwrap();
            parse(&Answer { status, date: None, certificate: None, body: body.into(), later: None, leave: None })
        };
        let good = r#"{"major":"1","minor":"35+","gitVersion":"v1.35.4-eks-3cfe0ce"}"#;
        assert_eq!(of(200, good), Ok("v1.35.4-eks-3cfe0ce".to_owned()));
        assert_eq!(of(403, good).unwrap_err().kind, GapKind::Forbidden);
        for other in ["", "{}", "[]", r#"{"gitVersion":""}"#, r#"{"gitVersion":1}"#, "<html>"] {
            assert_eq!(of(200, other).unwrap_err().kind, GapKind::Malformed, "{other}");
        }
    }
}
