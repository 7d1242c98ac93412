//! Parses changes.

use std::time::Duration;

use anyhow::{Context as _, anyhow, bail, ensure};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::change::{Edit, StateOf};
use super::states::{STATES, State};
use super::{Asked, Change, Step, When};

/// Latest possible time of a change: no simulation runs longer.
const LATEST: Duration = Duration::from_secs(24 * 60 * 60);

/// A duration in Go's notation: `90s`, `1m30s`, `20ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Span(#[serde(with = "jiff::fmt::serde::unsigned_duration::friendly::compact::required")] pub Duration);

impl std::str::FromStr for Span {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let parsed = jiff::fmt::friendly::SpanParser::new().parse_unsigned_duration(text);
        parsed.map(Self).with_context(|| format!("`{text}` is no duration, like `90s` or `1m30s`"))
    }
}

/// Parses steps that are sent to a running cluster: TOML with `[[change]]`, a JSON list, or one JSON object.
///
/// # Errors
/// If the text is none of these, or a step is invalid.
pub fn from_text(text: &str) -> anyhow::Result<Vec<Step>> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Changes {
        /// Accepted so that a scenario file can be sent unchanged.
        #[serde(rename = "title")]
        _title: Option<String>,
        cluster: Option<toml::Table>,
        change: Vec<toml::Spanned<toml::Table>>,
    }
    // TOML with a change is never valid JSON.
    if text.trim_start().starts_with('{') || serde_json::from_str::<Value>(text).is_ok() {
        return from_json(text);
    }
    let changes: Changes = toml::from_str(text)?;
    ensure!(changes.cluster.is_none(), "`[cluster]`: a cluster that runs already stays of its shape");
    from_toml(text, &changes.change)
}

/// Parses the steps of a JSON list, or of one object.
///
/// # Errors
/// If a step is invalid.
fn from_json(text: &str) -> anyhow::Result<Vec<Step>> {
    let list = match serde_json::from_str(text)? {
        Value::Array(list) => list,
        one => vec![one],
    };
    let step = |(index, value)| match value {
        Value::Object(step) => read(index + 1, step).with_context(|| format!("change {}", index + 1)),
        _ => bail!("change {}: not an object", index + 1),
    };
    list.into_iter().enumerate().map(step).collect()
}

/// Converts the `[[change]]` tables of a file to steps.
///
/// # Errors
/// If a step is invalid; the error contains its line.
pub(crate) fn from_toml(text: &str, tables: &[toml::Spanned<toml::Table>]) -> anyhow::Result<Vec<Step>> {
    let step = |(index, table): (usize, &toml::Spanned<toml::Table>)| {
        let line = text[..table.span().start].matches('\n').count() + 1;
        let place = || format!("line {line}");
        match serde_json::to_value(table.get_ref()).with_context(place)? {
            Value::Object(step) => read(index + 1, step).with_context(place),
            _ => bail!("line {line}: not a table"),
        }
    };
    tables.iter().enumerate().map(step).collect()
}

fn read(number: usize, mut step: Map<String, Value>) -> anyhow::Result<Step> {
    let when = match (step.remove("at"), step.remove("when-asked")) {
        (None, None) => When::Now,
        (Some(at), None) => {
            let Span(at) = Span::deserialize(at).context("`at`")?;
            ensure!(at <= LATEST, "`at` is at most 24h");
            When::After(at)
        }
        (None, Some(asked)) => {
            let asked = Asked::deserialize(asked).context("`when-asked`")?;
            ensure!(asked.times > 0, "`when-asked`: `times` counts from 1");
            When::Asked(asked)
        }
        (Some(_), Some(_)) => bail!("`at` and `when-asked` exclude each other"),
    };
    let name = match step.get("do") {
        Some(Value::String(name)) => name.clone(),
        Some(_) => bail!("`do` is the name of a change"),
        None => bail!("`do` is missing: what changes"),
    };
    let change = match STATES.iter().find(|state| state.name == name) {
        Some(state) => {
            step.remove("do");
            state_of(state, step).map(Change::State)
        }
        None => Edit::deserialize(Value::Object(step)).map(Change::Edit).map_err(|error| explain(&name, &error)),
    };
    Ok(Step { number, when, change: change.with_context(|| format!("`{name}`"))? })
}

fn state_of(state: &'static State, rest: Map<String, Value>) -> anyhow::Result<StateOf> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct OfNode {
        node: String,
    }
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct OfCluster {}

    let rest = Value::Object(rest);
    let node = if state.is_of_a_node() {
        OfNode::deserialize(rest)?.node
    } else {
        OfCluster::deserialize(rest)?;
        String::new()
    };
    Ok(StateOf { state, node })
}

/// Completes serde's error, which only lists the names of edits, with the names of states.
fn explain(name: &str, error: &serde_json::Error) -> anyhow::Error {
    let text = error.to_string();
    match text.split_once("expected one of ") {
        Some((unknown, edits)) if unknown.starts_with(&format!("unknown variant `{name}`")) => {
            let states: Vec<_> = STATES.iter().map(|state| format!("`{}`", state.name)).collect();
            anyhow!("there is no change `{name}`; there are {}, {edits}", states.join(", "))
        }
        _ => anyhow!(text),
    }
}
