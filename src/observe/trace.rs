//! `--trace`: each connection and each call of a run, with begin, end, bytes and outcome, as OTLP JSON.
//!
//! A span has the address, the kind of call and the kind of failure, but no headers and no foreign texts, so it cannot contain credentials.
//! Names and addresses come from the cluster, so they are sanitized like all other text.

use std::io;
use std::iter;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use jiff::Timestamp;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::snapshot::Observed;
use crate::text::clock;
use crate::text::sanitize::clean;

/// The variable with the parent span, in the format of W3C's Trace Context.
pub(crate) const PARENT: &str = "TRACEPARENT";

/// Global to the process, because connections are opened far below the code that knows about the run.
static TRACE: OnceLock<Trace> = OnceLock::new();

struct Trace {
    wall: Timestamp,
    begun: Instant,
    id: String,
    /// The run's own span.
    root: u64,
    parent: Option<String>,
    next: AtomicU64,
    /// The current round; 0 if there is none.
    round: AtomicU64,
    spans: Mutex<Vec<Ended>>,
}

/// Begins to collect spans. `parent` is the value of [`PARENT`].
pub(crate) fn begin(parent: Option<&str>) {
    let (trace, parent) = parent.and_then(context).unzip();
    let root = random::<8>().map_or(1, u64::from_be_bytes);
    let fresh = || random::<16>().map_or(1, u128::from_be_bytes);
    let _ = TRACE.set(Trace {
        wall: clock::now(),
        begun: Instant::now(),
        id: trace.unwrap_or_else(|| format!("{:032x}", fresh())),
        root,
        parent,
        next: AtomicU64::new(root),
        round: AtomicU64::new(0),
        spans: Mutex::default(),
    });
}

/// Parses trace and span from `00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01`.
fn context(text: &str) -> Option<(String, String)> {
    let mut parts = text.trim().split('-');
    let mut hex = |digits: usize| {
        let part = parts.next().filter(|part| part.len() == digits && part.bytes().all(|it| it.is_ascii_hexdigit()))?;
        Some(part.to_ascii_lowercase())
    };
    let (version, trace, span, _) = (hex(2)?, hex(32)?, hex(16)?, hex(2)?);
    let is_none = |id: &str| id.bytes().all(|digit| digit == b'0');
    (version != "ff" && !is_none(&trace) && !is_none(&span)).then_some((trace, span))
}

fn random<const N: usize>() -> Option<[u8; N]> {
    ring::rand::generate(&ring::rand::SystemRandom::new()).ok().map(ring::rand::Random::expose)
}

impl Trace {
    fn spans(&self) -> MutexGuard<'_, Vec<Ended>> {
        self.spans.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn id(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed).wrapping_add(1).max(1)
    }

    /// Returns nanoseconds of the wall clock, which does not jump within a run.
    fn nanoseconds(&self, at: Instant) -> String {
        let since = at.saturating_duration_since(self.begun).as_nanos();
        self.wall.as_nanosecond().saturating_add_unsigned(since).to_string()
    }
}

/// An operation in progress. It ends when dropped: as `abandoned`, unless its outcome was reported.
#[derive(Default)]
pub(in crate::observe) struct Span(Option<Box<Open>>);

struct Open {
    trace: &'static Trace,
    id: u64,
    parent: u64,
    name: String,
    begun: Instant,
    attributes: Vec<(&'static str, Value)>,
    bytes: Bytes,
    outcome: Option<String>,
}

/// Bytes of an answer, counted as they arrive.
#[derive(Clone, Debug, Default)]
pub(in crate::observe) struct Bytes(Option<Arc<AtomicU64>>);

impl Bytes {
    pub(in crate::observe) fn came(&self, bytes: usize) {
        if let Some(count) = &self.0 {
            count.fetch_add(bytes as u64, Ordering::Relaxed);
        }
    }
}

struct Ended {
    id: u64,
    parent: u64,
    name: String,
    begun: Instant,
    until: Instant,
    attributes: Vec<(&'static str, Value)>,
    bytes: Option<u64>,
    /// The outcome; empty on success.
    outcome: String,
}

/// Begins a round or a recheck, which becomes the parent of all spans during that time.
pub(in crate::observe) fn round(name: &'static str) -> Span {
    let span = Span::begin(|| (name.to_owned(), Vec::new()));
    if let Some(open) = &span.0 {
        open.trace.round.store(open.id, Ordering::Relaxed);
    }
    span
}

impl Span {
    /// Begins a span. `of` returns name and attributes, and is called only if traces are collected.
    pub(in crate::observe) fn begin(of: impl FnOnce() -> (String, Vec<(&'static str, Value)>)) -> Self {
        Self(TRACE.get().map(|trace| {
            let (name, attributes) = of();
            let parent = match trace.round.load(Ordering::Relaxed) {
                0 => trace.root,
                round => round,
            };
            let bytes = Bytes::default();
            Box::new(Open {
                trace,
                id: trace.id(),
                parent,
                name,
                begun: Instant::now(),
                attributes,
                bytes,
                outcome: None,
            })
        }))
    }

    /// Begins a step of connecting to `host:port`: `DNS`, `TCP`, `TLS`.
    pub(in crate::observe) fn to(step: &str, host: &str, port: u16) -> Self {
        Self::begin(|| {
            let at = vec![("server.address", host.into()), ("server.port", port.into())];
            (format!("{step} {}", crate::config::endpoint::with_port(host, port)), at)
        })
    }

    /// Returns the counter for the bytes of its answer.
    pub(in crate::observe) fn bytes(&mut self) -> Bytes {
        let Some(open) = &mut self.0 else { return Bytes::default() };
        open.bytes.0.get_or_insert_default();
        open.bytes.clone()
    }

    pub(in crate::observe) fn end<T>(mut self, outcome: &Observed<T>) {
        if let Some(open) = &mut self.0 {
            open.outcome = Some(outcome.as_ref().err().map(|gap| format!("{:?}", gap.kind)).unwrap_or_default());
        }
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        let Some(open) = self.0.take() else { return };
        let Open { trace, id, parent, name, begun, attributes, bytes, outcome } = *open;
        let _ = trace.round.compare_exchange(id, 0, Ordering::Relaxed, Ordering::Relaxed);
        let bytes = bytes.0.map(|count| count.load(Ordering::Relaxed));
        let outcome = outcome.unwrap_or_else(|| "abandoned".to_owned());
        trace.spans().push(Ended { id, parent, name, begun, until: Instant::now(), attributes, bytes, outcome });
    }
}

/// Writes all spans that have ended so far as one document.
pub(crate) fn write(out: &mut dyn io::Write) -> io::Result<()> {
    let Some(trace) = TRACE.get() else { return Ok(()) };
    let run = Ended {
        id: trace.root,
        parent: 0,
        name: "cluster-health".to_owned(),
        begun: trace.begun,
        until: Instant::now(),
        attributes: Vec::new(),
        bytes: None,
        outcome: String::new(),
    };
    let ended = trace.spans();
    let spans = Spans { trace, run: &run, ended: &ended };
    let version = env!("CARGO_PKG_VERSION");
    let resource = [attribute("service.name", &json!("cluster-health")), attribute("service.version", &json!(version))];
    let scope = Scope { scope: json!({ "name": "cluster-health", "version": version }), spans };
    let resource = Resource { resource: json!({ "attributes": resource }), scope_spans: [scope] };
    serde_json::to_writer(&mut *out, &Document { resource_spans: [resource] })?;
    out.write_all(b"\n")
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Scope<'a> {
    scope: Value,
    spans: Spans<'a>,
}

/// Serialized one by one: a run with thousands of machines has hundreds of thousands.
struct Spans<'a> {
    trace: &'a Trace,
    run: &'a Ended,
    ended: &'a [Ended],
}

impl Serialize for Spans<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(iter::once(self.run).chain(self.ended).map(|span| Written::of(self.trace, span)))
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Resource<'a> {
    resource: Value,
    scope_spans: [Scope<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a> {
    resource_spans: [Resource<'a>; 1],
}

/// A span in OTLP's JSON form: ids in hexadecimal, 64-bit numbers as texts.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Written<'a> {
    trace_id: &'a str,
    span_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_span_id: Option<String>,
    name: String,
    /// 1: internal, 3: client.
    kind: u8,
    start_time_unix_nano: String,
    end_time_unix_nano: String,
    attributes: Vec<Value>,
    status: Value,
}

impl<'a> Written<'a> {
    fn of(trace: &'a Trace, span: &'a Ended) -> Self {
        let hex = |id: u64| format!("{id:016x}");
        let bytes = span.bytes.map(|bytes| attribute("response.body.size", &bytes.into()));
        let attributes = span.attributes.iter().map(|(key, value)| attribute(key, value)).chain(bytes);
        Self {
            trace_id: &trace.id,
            span_id: hex(span.id),
            parent_span_id: if span.parent == 0 { trace.parent.clone() } else { Some(hex(span.parent)) },
            name: clean(&span.name),
            kind: if span.attributes.is_empty() { 1 } else { 3 },
            start_time_unix_nano: trace.nanoseconds(span.begun),
            end_time_unix_nano: trace.nanoseconds(span.until),
            attributes: attributes.collect(),
            status: match span.outcome.as_str() {
                "" => json!({ "code": 1 }),
                outcome => json!({ "code": 2, "message": outcome }),
            },
        }
    }
}

fn attribute(key: &str, value: &Value) -> Value {
    let value = match value {
        Value::Number(number) => json!({ "intValue": number.to_string() }),
        Value::String(text) => json!({ "stringValue": clean(text) }),
        other => json!({ "stringValue": other }),
    };
    json!({ "key": key, "value": value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses_are_fit_for_every_reader() {
        let now = Instant::now();
        let trace = Trace {
            wall: clock::now(),
            begun: now,
            id: String::new(),
            root: 1,
            parent: None,
            next: AtomicU64::new(1),
            round: AtomicU64::new(0),
            spans: Mutex::default(),
        };
        for (hostile, harmless) in [
            ("cp-1\u{1b}[31m\n::error::x\u{202e}", "cp-1 : :error::x\u{fffd}"),
            ("##vso[task.setvariable]x", "# #vso[task.setvariable]x"),
            ("https://admin:hunter2-Tr0ub4dor@cp-1", "https://***@cp-1"),
        ] {
            let span = Ended {
                id: 2,
                parent: 1,
                name: format!("TCP {hostile}"),
                begun: now,
                until: now,
                attributes: vec![("server.address", hostile.into())],
                bytes: None,
                outcome: String::new(),
            };
            let written = serde_json::to_value(Written::of(&trace, &span)).unwrap();
            assert_eq!(written["name"], format!("TCP {harmless}"));
            assert_eq!(written["attributes"][0]["value"]["stringValue"], harmless);
        }
    }

    #[test]
    fn a_parent_is_taken_as_it_is_written_or_not_at_all() {
        let (trace, span) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa01902b71");
        let of = |text: &str| context(text);
        assert_eq!(of(&format!("00-{trace}-{span}-01")), Some((trace.to_owned(), span.to_owned())));
        assert_eq!(of(&format!("01-{trace}-{span}-00-more")), Some((trace.to_owned(), span.to_owned())));
        let zeros = "0".repeat(32);
        for wrong in [
            String::new(),
            format!("00-{trace}-{span}"),
            format!("ff-{trace}-{span}-01"),
            format!("00-{zeros}-{span}-01"),
            format!("00-{trace}-{}-01", &zeros[..16]),
            format!("00-{trace}x-{span}-01"),
        ] {
            assert_eq!(of(&wrong), None, "{wrong}");
        }
    }
}
