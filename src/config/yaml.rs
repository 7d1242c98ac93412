//! Parses YAML into plain values: bounded, without duplicate keys, and with errors that never repeat the text.
//!
//! serde's own messages quote unexpected values (`invalid type: string "LS0t…"`), and in these files such a value is key material. For this
//! reason nothing is deserialized into a type here. The result is a tree, and its readers write their own messages.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use zeroize::{Zeroize as _, Zeroizing};

use super::ConfigError;
use super::kubeconfig_schema::has_field;
use super::line::{self, Step};
use crate::text::yaml::Bounds;

/// Limits the number of values that aliases can expand to; a file of 4 MiB without aliases has fewer.
const MOST_NODES: usize = 1 << 20;
/// Limit for the bytes of all scalars together.
const MOST_BYTES: usize = 16 << 20;

#[derive(Clone, PartialEq)]
pub(super) enum Node {
    Null,
    Bool(bool),
    /// An unquoted value that is readable as a number, in its canonical form.
    Number(String),
    Text(String),
    List(Vec<Self>),
    Map(Vec<(String, Self)>),
}

impl Node {
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "empty",
            Self::Bool(_) => "a boolean",
            Self::Number(_) => "a number",
            Self::Text(_) => "a string",
            Self::List(_) => "a list",
            Self::Map(_) => "a mapping",
        }
    }

    /// Returns the value of a key; `null` counts as absent.
    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        let Self::Map(entries) = self else { return None };
        entries.iter().find(|(name, _)| name == key).map(|(_, node)| node).filter(|node| **node != Self::Null)
    }

    /// Returns the keys of a mapping.
    pub(super) fn keys(&self) -> Vec<&str> {
        let Self::Map(entries) = self else { return Vec::new() };
        entries.iter().map(|(key, _)| key.as_str()).collect()
    }

    fn wipe(&mut self) {
        match self {
            Self::Null | Self::Bool(_) => {}
            Self::Number(text) | Self::Text(text) => text.zeroize(),
            Self::List(items) => items.iter_mut().for_each(Self::wipe),
            Self::Map(entries) => entries.iter_mut().for_each(|(_, node)| node.wipe()),
        }
    }

    pub(super) fn to_json(&self) -> serde_json::Value {
        match self {
            Self::Null => serde_json::Value::Null,
            Self::Bool(value) => (*value).into(),
            Self::Number(text) => text.parse().map_or_else(|_| text.as_str().into(), serde_json::Value::Number),
            Self::Text(text) => text.as_str().into(),
            Self::List(items) => items.iter().map(Self::to_json).collect(),
            Self::Map(entries) => entries.iter().map(|(key, node)| (key.clone(), node.to_json())).collect(),
        }
    }
}

/// Limits on the parser's input. Files with two thousand contexts take a tenth of it; JSON, which is valid YAML, has the most brackets.
const BOUNDS: Bounds = Bounds { bytes: 16 << 20, events: 1 << 19, steps: 1 << 27 };

fn is_bounded(text: &str) -> bool {
    let is_json = || text.starts_with('{') && serde_json::from_str::<IgnoredAny>(text).is_ok();
    BOUNDS.hold(text) || (is_json() && BOUNDS.hold_json(text))
}

/// The YAML rules that decide how a file is interpreted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// Talos's rules: a file is one document without duplicate keys, and a number can stand in for a string.
    Talos,
    /// Kubernetes's rules, which convert YAML to JSON first: the first of several documents counts, and the last of duplicate keys. A
    /// number is not a string.
    Kubernetes,
}

/// Parses the document of `text`. The error names the line and, if libyaml reports it, the column.
fn parse(text: &str, dialect: Dialect) -> Result<Node, String> {
    if !is_bounded(text) {
        return Err("is nested too deeply, or contains too many values".to_owned());
    }
    let mut documents = serde_yaml::Deserializer::from_str(text);
    let Some(first) = documents.next() else { return Err("is empty".to_owned()) };
    let mut budget = Budget { nodes: MOST_NODES, bytes: MOST_BYTES, dialect };
    let node = Seed(&mut budget).deserialize(first).map_err(|error| describe(&error))?;
    if dialect == Dialect::Kubernetes {
        return Ok(node);
    }
    // `---` at the end of a file starts a second, empty document.
    for more in documents {
        let more = Seed(&mut budget).deserialize(more).map_err(|error| describe(&error))?;
        if more != Node::Null {
            return Err("contains more than one YAML document".to_owned());
        }
    }
    Ok(node)
}

const OVER_BUDGET: &str = "expands beyond the size limit";
const DUPLICATE: &str = "the same key appears twice in one mapping";
const KEY_NOT_TEXT: &str = "a key is not a plain string";

/// Describes a parser error with known phrases only; everything else in its message may come from the file.
fn describe(error: &serde_yaml::Error) -> String {
    const KNOWN: [(&str, &str); 20] = [
        (OVER_BUDGET, OVER_BUDGET),
        (DUPLICATE, DUPLICATE),
        ("duplicate entry", DUPLICATE),
        (KEY_NOT_TEXT, KEY_NOT_TEXT),
        ("recursion limit exceeded", "is nested too deeply"),
        ("repetition limit exceeded", OVER_BUDGET),
        ("unknown anchor", "an alias has no anchor"),
        ("mapping values are not allowed", "mapping values are not allowed in this context"),
        ("found character that cannot start any token", "a character is not allowed here (a tab as indentation?)"),
        ("found a tab character", "a tab is not allowed as indentation"),
        ("could not find expected ':'", "a `:` is missing"),
        ("did not find expected key", "a key is expected here (wrong indentation?)"),
        ("did not find expected '-' indicator", "a `-` is expected here (wrong indentation?)"),
        ("did not find expected ',' or ']'", "a `,` or `]` is missing"),
        ("did not find expected ',' or '}'", "a `,` or `}` is missing"),
        ("unexpected end of stream", "ends within a quoted string"),
        ("did not find expected node content", "a value is expected here"),
        ("control characters are not allowed", "control characters are not allowed"),
        ("block sequence entries are not allowed", "a list is not allowed here"),
        ("did not find expected <document start>", "unexpected content where the document should end"),
    ];
    let text = error.to_string();
    let words = KNOWN.iter().find(|(theirs, _)| text.contains(theirs)).map_or("is not valid YAML", |known| known.1);
    match error.location() {
        Some(place) => format!("line {}, column {}: {words}", place.line(), place.column()),
        None => words.to_owned(),
    }
}

struct Budget {
    nodes: usize,
    bytes: usize,
    dialect: Dialect,
}

impl Budget {
    fn spend<E: serde::de::Error>(&mut self, bytes: usize) -> Result<(), E> {
        match (self.nodes.checked_sub(1), self.bytes.checked_sub(bytes)) {
            (Some(nodes), Some(bytes)) => {
                *self = Self { nodes, bytes, dialect: self.dialect };
                Ok(())
            }
            _ => Err(E::custom(OVER_BUDGET)),
        }
    }
}

struct Seed<'a>(&'a mut Budget);

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Node;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Node, E> {
        self.0.spend(0)?;
        Ok(Node::Null)
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<Node, E> {
        self.0.spend(0)?;
        Ok(Node::Bool(value))
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Node, E> {
        self.0.spend(0)?;
        Ok(Node::Number(value.to_string()))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Node, E> {
        self.0.spend(0)?;
        Ok(Node::Number(value.to_string()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Node, E> {
        self.0.spend(0)?;
        Ok(Node::Number(value.to_string()))
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Node, E> {
        self.0.spend(value.len())?;
        Ok(Node::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        self.0.spend(0)?;
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(Seed(self.0))? {
            list.push(item);
        }
        Ok(Node::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Node, A::Error> {
        self.0.spend(0)?;
        let mut map = Entries::default();
        let mut merged = Vec::new();
        while let Some(key) = entries.next_key_seed(Seed(self.0))? {
            let key = match key {
                // A context may be called `1` or `true`.
                Node::Text(key) | Node::Number(key) => key,
                Node::Bool(key) => key.to_string(),
                _ => return Err(A::Error::custom(KEY_NOT_TEXT)),
            };
            let value = entries.next_value_seed(Seed(self.0))?;
            match self.0.dialect {
                Dialect::Talos if key == MERGE => merged.push(value),
                Dialect::Talos if map.places.contains_key(&key) => return Err(A::Error::custom(DUPLICATE)),
                // Merged in the order of reading: overrides earlier keys and is overridden by later ones.
                Dialect::Kubernetes if key == MERGE => map.merge(value, true),
                Dialect::Talos | Dialect::Kubernetes => map.set(key, value),
            }
        }
        for merged in merged {
            map.merge(merged, false);
        }
        Ok(Node::Map(map.entries))
    }
}

/// The merge key: the entries of its value also belong to the surrounding mapping.
const MERGE: &str = "<<";

/// A mapping under construction, with the position of each key.
#[derive(Default)]
struct Entries {
    entries: Vec<(String, Node)>,
    places: HashMap<String, usize>,
}

impl Entries {
    fn set(&mut self, key: String, value: Node) {
        match self.places.entry(key) {
            Entry::Vacant(entry) => {
                self.entries.push((entry.key().clone(), value));
                entry.insert(self.entries.len() - 1);
            }
            Entry::Occupied(entry) => self.entries[*entry.get()].1 = value,
        }
    }

    /// Merges entries. In a list of mappings, earlier ones take precedence.
    fn merge(&mut self, merged: Node, over: bool) {
        match merged {
            Node::List(items) if over => items.into_iter().rev().for_each(|item| self.merge(item, over)),
            Node::List(items) => items.into_iter().for_each(|item| self.merge(item, over)),
            Node::Map(entries) => {
                for (key, value) in entries {
                    if over || !self.places.contains_key(&key) {
                        self.set(key, value);
                    }
                }
            }
            Node::Null | Node::Bool(_) | Node::Number(_) | Node::Text(_) => {}
        }
    }
}

/// One parsed file.
pub(super) struct Document {
    /// The name for messages: ``talosconfig `/path` ``.
    pub(super) name: String,
    text: String,
    root: Node,
    dialect: Dialect,
    /// The folder that relative paths refer to. If `None`, the file must not refer to files or programs.
    pub(super) folder: Option<PathBuf>,
}

impl Drop for Document {
    fn drop(&mut self) {
        self.text.zeroize();
        self.root.wipe();
    }
}

impl Document {
    /// Parses a file, which has to be a mapping.
    pub(super) fn parse(
        name: String,
        text: String,
        dialect: Dialect,
        folder: Option<PathBuf>,
    ) -> Result<Self, ConfigError> {
        let root = parse(&text, dialect).map_err(|problem| ConfigError::unreadable(format!("{name}: {problem}")))?;
        let document = Self { name, text, root, dialect, folder };
        document.top().map()?;
        Ok(document)
    }

    pub(super) fn top(&self) -> Value<'_> {
        Value { document: self, steps: Vec::new(), node: &self.root }
    }
}

/// A value in a file, with its location there.
#[derive(Clone)]
pub(super) struct Value<'a> {
    pub(super) document: &'a Document,
    steps: Vec<Step>,
    pub(super) node: &'a Node,
}

impl<'a> Value<'a> {
    /// Returns the value at a key of a mapping; [`Node::Null`] if there is none.
    pub(super) fn key(&self, key: &str) -> Self {
        self.step(Step::Key(key.to_owned()), self.node.get(key).unwrap_or(&Node::Null))
    }

    pub(super) fn item(&self, index: usize) -> Self {
        let item = if let Node::List(items) = self.node { items.get(index) } else { None };
        self.step(Step::Item(index), item.unwrap_or(&Node::Null))
    }

    fn step(&self, step: Step, node: &'a Node) -> Self {
        let mut steps = self.steps.clone();
        steps.push(step);
        Self { document: self.document, steps, node }
    }

    /// Returns whether this is a kubeconfig. Both kinds of file have `contexts`: a list in a kubeconfig, a mapping in a talosconfig.
    pub(super) fn is_kubeconfig(&self) -> bool {
        matches!(self.key("contexts").node, Node::List(_)) && self.key("clusters").is_there()
    }

    pub(super) fn is_talosconfig(&self) -> bool {
        matches!(self.key("contexts").node, Node::Map(_)) && !self.key("clusters").is_there()
    }

    pub(super) fn is_there(&self) -> bool {
        *self.node != Node::Null
    }

    /// Returns ``talosconfig `/path`: `contexts.prod.crt` (line 7)``, the beginning of every message about a value.
    pub(super) fn name(&self) -> String {
        let file = &self.document.name;
        let mut path = String::new();
        for step in &self.steps {
            match step {
                Step::Key(key) => {
                    let shown = if has_field(key) { key.clone() } else { super::shown(key) };
                    if !path.is_empty() {
                        path.push('.');
                    }
                    path.push_str(shown.trim_matches('`'));
                }
                Step::Item(index) => path.extend(["[", &index.to_string(), "]"]),
            }
        }
        if path.is_empty() {
            return file.clone();
        }
        match line::of(&self.document.text, &self.steps) {
            Some(line) => format!("{file}: `{path}` (line {line})"),
            None => format!("{file}: `{path}`"),
        }
    }

    pub(super) fn error(&self, problem: impl fmt::Display) -> ConfigError {
        ConfigError::unreadable(format!("{} {problem}", self.name()))
    }

    pub(super) fn wrong(&self, expected: &str) -> ConfigError {
        self.error(format_args!("is {}; expected {expected}", self.node.kind()))
    }

    pub(super) fn map(self) -> Result<Self, ConfigError> {
        if matches!(self.node, Node::Map(_)) { Ok(self) } else { Err(self.wrong("a mapping")) }
    }

    /// Returns the items of a list; none if it is absent or null.
    pub(super) fn items(&self, expected: &str) -> Result<Vec<Self>, ConfigError> {
        match self.node {
            Node::Null => Ok(Vec::new()),
            Node::List(items) => Ok((0..items.len()).map(|index| self.item(index)).collect()),
            _ => Err(self.wrong(expected)),
        }
    }

    /// Returns a string; `None` if it is absent, null or empty.
    pub(super) fn text(&self) -> Result<Option<String>, ConfigError> {
        match self.node {
            Node::Null => Ok(None),
            Node::Number(_) if self.document.dialect == Dialect::Kubernetes => {
                Err(self.wrong("a string").hint("put it in quotes, as kubectl asks for too"))
            }
            Node::Text(text) | Node::Number(text) => Ok(Some(text.clone()).filter(|text| !text.is_empty())),
            Node::Bool(_) | Node::List(_) | Node::Map(_) => Err(self.wrong("a string")),
        }
    }

    /// Returns a list of strings; empty if it is absent or null.
    pub(super) fn texts(&self) -> Result<Vec<String>, ConfigError> {
        let text = |item: &Self| match item.node {
            Node::Null if self.document.dialect == Dialect::Talos => Err(item.wrong("a string")),
            _ => item.text().map(Option::unwrap_or_default),
        };
        self.items("a list of strings")?.iter().map(text).collect()
    }

    pub(super) fn bool(&self) -> Result<bool, ConfigError> {
        match self.node {
            Node::Null => Ok(false),
            Node::Bool(value) => Ok(*value),
            _ => Err(self.wrong("`true` or `false`")),
        }
    }

    /// Decodes base64 with any line breaks, as left by editors and YAML folding.
    pub(super) fn decoded(&self) -> Result<Option<Zeroizing<Vec<u8>>>, ConfigError> {
        let Some(text) = self.text()? else { return Ok(None) };
        let text = Zeroizing::new(text);
        let compact: Zeroizing<String> = Zeroizing::new(text.chars().filter(|c| !c.is_whitespace()).collect());
        STANDARD.decode(&*compact).map(|bytes| Some(Zeroizing::new(bytes))).map_err(|_| {
            let error = self.error("is not valid base64");
            if text.contains("-----BEGIN ") {
                error.hint("the value is PEM; it has to be PEM encoded as base64")
            } else {
                error
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> String {
        parse(text, Dialect::Talos).err().unwrap()
    }

    #[test]
    fn errors_have_a_place_and_no_text_of_the_file() {
        for text in [
            "a: b: SECRETSECRET",
            "a: [SECRETSECRET",
            "a: 'SECRETSECRET",
            "\tSECRETSECRET: 1",
            "a: *SECRETSECRET",
            "{a: 1}}SECRET",
        ] {
            let problem = problem(text);
            assert!(problem.starts_with("line "), "{text}: {problem}");
            assert!(!problem.contains("SECRET"), "{text}: {problem}");
        }
        assert!(problem("SECRET: 1\nSECRET: 2\n").contains(DUPLICATE));
        assert!(!problem("SECRET: 1\nSECRET: 2\n").contains("SECRET"));
        assert!(problem("a: 1\n---\nb: 2\n").contains("more than one"));
        assert!(parse("a: 1\n---\n", Dialect::Talos).is_ok());
        assert!(problem("? [a]\n: 1\n").contains(KEY_NOT_TEXT));
    }

    fn of_kubernetes(text: &str) -> Option<String> {
        let Node::Map(map) = parse(text, Dialect::Kubernetes).ok()? else { return None };
        let value = |node: &Node| if let Node::Text(text) = node { text.clone() } else { node.kind().to_owned() };
        Some(map.iter().map(|(key, node)| format!("{key}={}", value(node))).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn kubernetes_reads_the_first_document_and_the_last_of_equal_keys() {
        for (text, read) in [
            ("a: x\n---\nb: y\n", "a=x"),
            ("a: x\n---\n{{{\n", "a=x"),
            ("---\na: x\n", "a=x"),
            ("a: x\nb: y\na: z\n", "a=z b=y"),
            ("a: &a {b: x}\nc: *a\n", "a=a mapping c=a mapping"),
        ] {
            assert_eq!(of_kubernetes(text).as_deref(), Some(read), "{text}");
        }
        assert_eq!(of_kubernetes("---\n---\na: x\n"), None, "the first one is empty");
    }

    #[test]
    fn merges_are_part_of_the_mapping_around_them() {
        for (text, read) in [
            ("<<: {a: x, b: y}\nb: z\n", "a=x b=z"),
            ("b: z\n<<: {a: x, b: y}\n", "b=y a=x"),
            ("<<: [{a: x}, {a: y, b: z}]\n", "a=x b=z"),
            ("<<: x\na: y\n", "a=y"),
        ] {
            assert_eq!(of_kubernetes(text).as_deref(), Some(read), "{text}");
        }
        let Ok(Node::Map(map)) = parse("b: z\n<<: {a: x, b: y}\n", Dialect::Talos) else { panic!("no mapping") };
        assert!(map == [("b".to_owned(), Node::Text("z".to_owned())), ("a".to_owned(), Node::Text("x".to_owned()))]);
    }

    #[test]
    fn bombs_do_not_go_off() {
        let mut laughs = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n".to_owned();
        for i in 1..12 {
            let row = vec![format!("*a{}", i - 1); 9].join(",");
            laughs = format!("{laughs}a{i}: &a{i} [{row}]\n");
        }
        assert!(problem(&laughs).contains(OVER_BUDGET));
        // Few aliases, each to a long list: the parser's own limit does not catch this.
        let flat = format!("a: &a [{}]\nb: [{}]\n", "x,".repeat(50_000), "*a,".repeat(50_000));
        assert!(problem(&flat).contains(OVER_BUDGET));
        let long = format!("a: &a {}\nb: [{}]\n", "x".repeat(1 << 20), "*a,".repeat(5000));
        assert!(problem(&long).contains(OVER_BUDGET));
        for bomb in ["[", "- ", "? ", "{a: "] {
            assert!(problem(&bomb.repeat(1 << 19)).contains("nested too deeply"), "{bomb}");
        }
        let contexts: Vec<_> = (0..2000).map(|at| serde_json::json!({"name": at, "context": {"user": "[{"}})).collect();
        assert!(parse(&serde_json::json!({ "contexts": contexts }).to_string(), Dialect::Talos).is_ok());
        assert!(problem("a: &a [*a]").contains("nested too deeply"));
    }
}
