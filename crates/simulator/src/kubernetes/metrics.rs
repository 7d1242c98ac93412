//! `/metrics`: a few of an API server's metrics.

use std::fmt::Write as _;

use http::StatusCode;
use jiff::{SignedDuration, Timestamp};

use super::reply::Reply;
use crate::world::RequestedApi;

/// Uptime of an API server.
const RUNS: SignedDuration = SignedDuration::from_hours(24);

/// Returns the metrics. Families are sorted by name, and those without a series are omitted.
pub(super) fn answer(now: Timestamp, requested: &[RequestedApi]) -> Reply {
    let mut text = String::from("# TYPE apiserver_request_total counter\n");
    for code in 0..200 {
        let _ = writeln!(text, "apiserver_request_total{{code=\"{code}\",resource=\"pods\",verb=\"LIST\"}} {code}");
    }
    if !requested.is_empty() {
        text.push_str("# TYPE apiserver_requested_deprecated_apis gauge\n");
    }
    for RequestedApi { group, version, resource, subresource, removed } in requested {
        let _ = writeln!(
            text,
            "apiserver_requested_deprecated_apis{{group={group:?},removed_release={removed:?},resource={resource:?},\
             subresource={subresource:?},version={version:?}}} 1"
        );
    }
    let _ = writeln!(
        text,
        "# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds {}",
        (now - RUNS).as_second()
    );
    Reply::words(StatusCode::OK, text)
}
