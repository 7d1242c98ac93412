//! `/readyz?verbose`, read as text: the content of the answer counts, not only that there is one.

use http::StatusCode;

use super::client::{Answer, Transport};
use super::gaps;
use super::intake::Keep;
use super::whom::Target;
use crate::snapshot::{Gap, GapKind, Observed, Readyz};

/// Size limit for an answer, in bytes. A verbose one has about 3 kB.
const LIMIT: usize = 64 << 10;

/// Queries a server once it has proved its identity.
pub(super) async fn readyz(transport: &Transport, of: &Target, shown: String) -> Observed<Readyz> {
    // Boxed: a request is a large future, and a round has many.
    let answer = Box::pin(transport.get(of, "/readyz?verbose", Keep::All(LIMIT))).await?;
    parse(shown, &answer)
}

/// Parses an answer with any status. A 200, however, has to come from an API server: another server's welcome page is not evidence.
fn parse(server: String, answer: &Answer) -> Observed<Readyz> {
    let body = String::from_utf8_lossy(&answer.body);
    let passed = body.lines().any(|line| line.starts_with("[+]"));
    let failed: Vec<String> = body
        .lines()
        .filter_map(|line| line.strip_prefix("[-]"))
        .map(|line| gaps::short(line.split_whitespace().next().unwrap_or_default()))
        .collect();
    if answer.status == StatusCode::OK && !passed && body.trim() != "ok" {
        return Err(Gap::new(GapKind::Malformed, format!("200 without `ok`: {}", gaps::words(&answer.body))));
    }
    let text = if passed || !failed.is_empty() { String::new() } else { gaps::words(&answer.body) };
    let (status, certificate) = (answer.status.as_u16(), answer.certificate.clone());
    Ok(Readyz { server, status, failed, text, certificate, unnamed: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readyz(status: u16, body: &str) -> Observed<Readyz> {
        let status = StatusCode::from_u16(status).unwrap();
        parse(
            "https://10.0.0.1:6443".to_owned(),
            &Answer { status, date: None, certificate: None, body: body.into(), later: None, leave: None },
        )
    }

    #[test]
    fn fuzz_readyz() {
        bolero::check!().for_each(|bytes: &[u8]| {
            for status in [StatusCode::OK, StatusCode::INTERNAL_SERVER_ERROR] {
                let answer =
                    Answer { status, date: None, certificate: None, body: bytes.to_vec(), later: None, leave: None };
                if let Ok(found) = parse(String::new(), &answer) {
                    let mut shown = found.failed.iter().chain([&found.text]);
                    assert!(shown.all(|text| !text.contains(char::is_control)), "{found:?}");
                }
            }
        });
    }

    #[test]
    fn failing_lines_stand_among_the_others() {
        let lost = "[+]ping ok\n[+]log ok\n[-]etcd failed: reason withheld\n[-]etcd-readiness failed: reason withheld\n\
                    [+]informer-sync ok\n[+]shutdown ok\nreadyz check failed\n";
        let answer = readyz(500, lost).unwrap();
        assert_eq!((answer.status, answer.text.as_str()), (500, ""));
        assert_eq!(answer.failed, ["etcd", "etcd-readiness"]);
        let starting =
            "[+]ping ok\n[-]poststarthook/rbac/bootstrap-roles failed: reason withheld\nreadyz check failed\n";
        assert_eq!(readyz(500, starting).unwrap().failed, ["poststarthook/rbac/bootstrap-roles"]);
    }

    #[test]
    fn refusals_are_answers_with_their_words() {
        let unauthorized = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401}"#;
        assert_eq!(readyz(401, unauthorized).unwrap().text, "Unauthorized");
        assert_eq!(readyz(404, "404 page not found\n").unwrap().text, "404 page not found");
        assert_eq!(readyz(302, "").unwrap().status, 302);
    }

    #[test]
    fn another_servers_200_is_no_evidence() {
        assert_eq!(readyz(200, "ok").unwrap().failed, Vec::<String>::new());
        assert!(readyz(200, "[+]ping ok\nreadyz check passed\n").is_ok());
        for body in ["", "<html>Welcome</html>", "okay", "{}"] {
            assert_eq!(readyz(200, body).unwrap_err().kind, GapKind::Malformed, "{body}");
        }
    }
}
