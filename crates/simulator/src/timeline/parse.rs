//! Parses changes.

use std::time::Duration;

use anyhow::{Context as _, anyhow, bail, ensure};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::states::STATES;
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
    let (ends, name) = match (step.remove("do"), step.remove("end")) {
        (Some(Value::String(name)), None) => (false, name),
        (None, Some(Value::String(name))) => (true, name),
        (None, None) => bail!("`do` is missing: what changes"),
        _ => bail!("either `do` or `end` is the name of a change"),
    };
    change(&name, ends, step).map(|change| Step { number, when, change }).with_context(|| format!("`{name}`"))
}

fn change(name: &str, ends: bool, mut rest: Map<String, Value>) -> anyhow::Result<Change> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct OfNode {
        node: String,
    }
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct OfCluster {}

    let Some(state) = STATES.iter().find(|state| state.name == name) else {
        let name = if ends { format!("end {name}") } else { name.to_owned() };
        rest.insert("do".to_owned(), name.as_str().into());
        return Change::deserialize(Value::Object(rest)).map_err(|error| explain(&name, &error));
    };
    let rest = Value::Object(rest);
    let node = if state.is_of_a_node() {
        OfNode::deserialize(rest)?.node
    } else {
        OfCluster::deserialize(rest).map(|_| String::new())?
    };
    Ok(Change::State { state, node, ends })
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
