//! Metrics of an API server, of which one family is kept: requests for deprecated APIs.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::client::{Answer, Transport};
use super::gaps;
use super::intake::Keep;
use super::whom::Target;
use crate::snapshot::{Gap, GapKind, Observed, RequestedApi, RequestedApis};

const REQUESTED: &str = "apiserver_requested_deprecated_apis{";
/// A metric that every API server has. Families are sorted by name, so an answer that contains it also contains the other family before it.
const STARTED: &str = "process_start_time_seconds ";
const KEEP: Keep = Keep::Lines(&[REQUESTED, STARTED]);

pub(super) async fn requested_apis(transport: &Transport, of: &Target) -> Observed<RequestedApis> {
    // Boxed: a request is a large future, and a round has many.
    let answer = Box::pin(transport.get(of, "/metrics", KEEP)).await?;
    parse(&answer)
}

fn parse(answer: &Answer) -> Observed<RequestedApis> {
    let text = String::from_utf8_lossy(answer.body_if_ok()?);
    let malformed = |line: &str| Gap::new(GapKind::Malformed, format!("unreadable line: {}", gaps::short(line)));
    let (mut started, mut apis) = (None, Vec::new());
    for line in text.lines() {
        if let Some(value) = line.strip_prefix(STARTED) {
            started = Some(timestamp(value).ok_or_else(|| malformed(line))?);
        } else if let Some(series) = line.strip_prefix(REQUESTED) {
            let (api, is_requested) = requested(series).ok_or_else(|| malformed(line))?;
            apis.extend(is_requested.then_some(api));
        }
    }
    let started = started.ok_or_else(|| Gap::new(GapKind::Malformed, "no metrics of an API server"))?;
    Ok(RequestedApis { started, apis })
}

fn timestamp(value: &str) -> Option<Timestamp> {
    let seconds: f64 = value.split_whitespace().next()?.parse().ok()?;
    #[expect(clippy::cast_possible_truncation, reason = "a moment out of range is none, as jiff says")]
    let moment = |seconds: f64| Timestamp::from_second(seconds as i64).ok();
    // NaN would otherwise become the beginning of time.
    Some(seconds).filter(|seconds| seconds.is_finite()).and_then(moment)
}

/// Parses the rest of a line, and returns whether its count is not zero.
fn requested(series: &str) -> Option<(RequestedApi, bool)> {
    let (mut labels, value) = labels(series)?;
    let value: f64 = value.split_whitespace().next()?.parse().ok()?;
    let mut label = |name: &str| labels.remove(name).map(|value| gaps::short(&value));
    let api = RequestedApi {
        group: label("group").unwrap_or_default(),
        version: label("version")?,
        resource: label("resource")?,
        subresource: label("subresource").unwrap_or_default(),
        removed: label("removed_release").unwrap_or_default(),
    };
    Some((api, value != 0.0))
}

/// Parses `name="value",…}` in Prometheus' text format, and returns the text that follows.
fn labels(text: &str) -> Option<(BTreeMap<&str, String>, &str)> {
    let (mut labels, mut rest) = (BTreeMap::new(), text);
    loop {
        if let Some(rest) = rest.strip_prefix('}') {
            return Some((labels, rest));
        }
        let (name, quoted) = rest.split_once("=\"")?;
        let mut value = String::new();
        let mut characters = quoted.char_indices();
        let end = loop {
            match characters.next()? {
                (at, '"') => break at,
                (_, '\\') => match characters.next()?.1 {
                    'n' => value.push('\n'),
                    other => value.push(other),
                },
                (_, other) => value.push(other),
            }
        };
        labels.insert(name, value);
        rest = &quoted[end + 1..];
        rest = rest.strip_prefix(',').unwrap_or(rest);
    }
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::*;
    use crate::observe::kubernetes::intake::Intake;

    fn read(status: u16, body: &str) -> Observed<RequestedApis> {
        let status = StatusCode::from_u16(status).unwrap();
        parse(&Answer { status, date: None, certificate: None, body: body.into(), later: None, leave: None })
    }

    const SOME: &str = "apiserver_requested_deprecated_apis{group=\"flowcontrol.apiserver.k8s.io\",removed_release=\"1.32\",\
                        resource=\"flowschemas\",subresource=\"status\",version=\"v1beta3\"} 1\n\
                        apiserver_requested_deprecated_apis{group=\"\",removed_release=\"\",resource=\"endpoints\",subresource=\"\",version=\"v1\"} 1\n\
                        apiserver_requested_deprecated_apis{group=\"a\",removed_release=\"1.9\",resource=\"b\",subresource=\"\",version=\"v1\"} 0\n\
                        process_start_time_seconds 1.76389123456e+09\n";

    #[test]
    fn what_was_requested_is_read_and_since_when() {
        let found = read(200, SOME).unwrap();
        assert_eq!(found.started, Timestamp::from_second(1_763_891_234).unwrap());
        let [first, second] = &found.apis[..] else { panic!("{found:?}") };
        let api =
            |it: &RequestedApi| [&it.group, &it.version, &it.resource, &it.subresource, &it.removed].map(Clone::clone);
        assert_eq!(api(first), ["flowcontrol.apiserver.k8s.io", "v1beta3", "flowschemas", "status", "1.32"]);
        assert_eq!(api(second), ["", "v1", "endpoints", "", ""]);
    }

    #[test]
    fn fuzz_metrics() {
        bolero::check!().for_each(|bytes: &[u8]| {
            let series = [REQUESTED.as_bytes(), bytes, b"\n", STARTED.as_bytes(), b"1\n"].concat();
            for body in [bytes, &series] {
                // Taken in piece by piece, as an answer arrives; the kept part is then parsed.
                let mut intake = Intake::new(KEEP, StatusCode::OK);
                let body = body.chunks(7).try_for_each(|piece| intake.take(piece)).and_then(|()| intake.into_body());
                let Ok(body) = body else { continue };
                let answer =
                    Answer { status: StatusCode::OK, date: None, certificate: None, body, later: None, leave: None };
                for api in parse(&answer).map(|found| found.apis).unwrap_or_default() {
                    let shown = [&api.group, &api.version, &api.resource, &api.subresource, &api.removed];
                    assert!(shown.iter().all(|text| !text.contains(char::is_control)), "{api:?}");
                }
            }
        });
    }

    #[test]
    fn no_metrics_are_no_evidence() {
        assert_eq!(read(200, "process_start_time_seconds 1\n").unwrap().apis, []);
        for body in [
            "",
            "<html>",
            "process_start_time_seconds soon\n",
            "process_start_time_seconds 1e99\n",
            "process_start_time_seconds NaN\n",
        ] {
            assert_eq!(read(200, body).unwrap_err().kind, GapKind::Malformed, "{body}");
        }
        assert_eq!(read(403, "forbidden").unwrap_err().kind, GapKind::Forbidden);
        assert_eq!(read(404, "404 page not found").unwrap_err().kind, GapKind::ServerError);
    }

    #[test]
    fn what_cannot_be_read_is_not_passed_over() {
        for series in [
            "",
            "group=\"a\"",
            "group=\"a} 1",
            "group=\"a\",resource=\"b\"} 1",
            "resource=\"b\",version=\"v1\"}",
            "version=\"v1\",resource=\"b\"} x",
        ] {
            let body = format!("{REQUESTED}{series}\n{STARTED}1\n");
            assert_eq!(read(200, &body).unwrap_err().kind, GapKind::Malformed, "{series}");
        }
        let (found, rest) = labels(r#"a="x\"y\\z\n",b=""} 1"#).unwrap();
        assert_eq!((found["a"].as_str(), found["b"].as_str(), rest), ("x\"y\\z\n", "", " 1"));
    }
}
