//! Requests to API servers.

use http::request::Parts;
use http::{Method, Uri};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Call, gap};
use crate::snapshot::Gap;

/// Status, the server's clock, body.
type Answer<'a> = (u16, Option<Timestamp>, &'a [u8]);

/// One request. It is written when dropped, so that an abandoned one is recorded too.
pub(in crate::observe) struct Tape {
    call: Option<Call>,
    method: Method,
    path: String,
    server: String,
    outcome: Value,
}

impl Tape {
    pub(in crate::observe) fn new(server: &Uri, request: &Parts) -> Self {
        let path = request.uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        let (call, method) = (Call::begin(), request.method.clone());
        Self { call, method, path, server: base(server), outcome: json!({ "abandoned": true }) }
    }

    pub(in crate::observe) fn end(&mut self, outcome: Result<Answer<'_>, &Gap>) {
        if self.call.is_some() {
            self.outcome = match outcome {
                Ok(answer) => told(answer),
                Err(missing) => json!({ "gap": gap(Some(missing)) }),
            };
        }
    }
}

impl Drop for Tape {
    fn drop(&mut self) {
        let Some(call) = &self.call else { return };
        let server = &self.server;
        let mut document = json!({
            "source": "kubernetes",
            "server": server,
            "method": self.method.as_str(),
            "path": self.path,
            "milliseconds": call.took(),
        });
        merge(&mut document, std::mem::take(&mut self.outcome));
        call.end("kubernetes", server, format!("{} {}", self.path, self.method), document);
    }
}

fn base(uri: &Uri) -> String {
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    format!("{}://{authority}", uri.scheme_str().unwrap_or_default())
}

fn told((status, date, body): Answer<'_>) -> Value {
    let body = match serde_json::from_slice(body) {
        Ok(mut body) => {
            without_managed_fields(&mut body);
            body
        }
        Err(_) => String::from_utf8_lossy(body).into(),
    };
    json!({
        "status": status,
        "date": date.map(|date| date.to_string()),
        "body": body,
    })
}

fn merge(into: &mut Value, from: Value) {
    if let (Value::Object(into), Value::Object(from)) = (into, from) {
        into.extend(from);
    }
}

/// Removes the managed fields (the writer of each field, and the time): half of the bytes of most objects, and not read here.
fn without_managed_fields(value: &mut Value) {
    match value {
        Value::Object(object) => {
            if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
                metadata.shift_remove("managedFields");
            }
            // A list contains objects; below them there are only pod templates, which have no managed fields.
            object.get_mut("items").into_iter().for_each(without_managed_fields);
        }
        Value::Array(items) => items.iter_mut().for_each(without_managed_fields),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(body: &str) -> Value {
        told((200, None, body.as_bytes()))["body"].take()
    }

    #[test]
    fn json_stays_json_but_for_managed_fields() {
        let list = r#"{"metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"a","managedFields":[{}]},"n":18446744073709551615}]}"#;
        let expected = json!({
            "metadata": { "resourceVersion": "7" },
            "items": [{ "metadata": { "name": "a" }, "n": u64::MAX }],
        });
        assert_eq!(body(list), expected);
        assert_eq!(body("[+]ping ok\n"), json!("[+]ping ok\n"));
    }

    #[test]
    fn the_server_has_neither_path_nor_question() {
        let uri = Uri::from_static("https://10.0.0.1:6443/api/v1/nodes?limit=500");
        assert_eq!(base(&uri), "https://10.0.0.1:6443");
    }
}
