//! Resources as COSI has them, and their types: how they are called, what is in them, who may read them, and since which
//! release.
//!
//! One description per type, in the order of Talos's YAML, is what both encodings are made from.

mod block;
mod cluster;
#[cfg(test)]
mod decode;
mod definitions;
pub mod kind;
mod kubernetes;
mod network;
mod proto;
#[cfg(test)]
mod recorded;
mod resources;
mod runtime;
#[cfg(test)]
mod tests;
mod yaml;

use serde_json::{Map, Value};
use talos_api::cosi::resource::Spec;

pub(crate) use self::definitions::{definitions, namespaces};
pub(crate) use self::resources::OfKind;
pub use self::resources::{Resource, Resources};
use crate::version::TalosVersion;

/// A type of resource.
#[derive(Debug)]
pub(crate) struct Type {
    /// `Members.cluster.talos.dev`
    pub(crate) name: &'static str,
    /// In the singular, as `talosctl get` shows it.
    display: &'static str,
    pub(crate) namespace: &'static str,
    /// Beside those that follow from its name.
    aliases: &'static [&'static str],
    /// Whether any follow from its name.
    named_aliases: bool,
    /// What `talosctl get` shows of it: heading and JSON path.
    columns: &'static [(&'static str, &'static str)],
    /// The controller that writes it.
    pub(crate) owner: &'static str,
    since: TalosVersion,
    secrecy: Secrecy,
    form: Form,
}

/// Who may read a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Secrecy {
    /// Whoever may read anything.
    Open,
    /// os:admin, since 1.12.9, 1.13.4 and 1.14.
    Hardened,
    /// os:admin.
    Sensitive,
}

/// What a specification is.
#[derive(Debug)]
enum Form {
    /// A message; its YAML has these keys.
    Message(&'static [Field]),
    /// Any document, which in protobuf is a `google.protobuf.Struct` in field 1.
    Document,
    /// One of these words, which in protobuf is an enum in field 1.
    Word(&'static [&'static str]),
    /// Text, which in protobuf is in field 1.
    Text,
}

/// One key of a message.
#[derive(Debug)]
struct Field {
    key: &'static str,
    number: u32,
    kind: Kind,
    since: TalosVersion,
}

/// What a key has.
#[derive(Debug)]
enum Kind {
    Text,
    Bool,
    Integer,
    /// `double`
    Real,
    /// `google.protobuf.Duration`, which YAML has as Go writes it: `-1.5ms`.
    Duration,
    /// Names of 0, 1, ….
    Enum(&'static [&'static str]),
    /// `common.NetIP`
    Ip,
    /// `common.NetIPPrefix`
    Prefix,
    /// Bytes that YAML has as `3e:27:15:31:18:5d`.
    HardwareAddress,
    /// Names of the kernel's numbers; with commas between them, the numbers are added.
    Code(&'static [(&'static str, u64)]),
    /// `google.protobuf.Struct`
    Document,
    Message(&'static [Field]),
    List(&'static Self),
    /// By text.
    Map(&'static Self),
}

/// Older than every release that is simulated.
const ALWAYS: TalosVersion = TalosVersion::new(0, 0);

const fn field(key: &'static str, number: u32, kind: Kind) -> Field {
    Field { key, number, kind, since: ALWAYS }
}

impl Field {
    const fn since(self, minor: u8) -> Self {
        Self { since: TalosVersion::new(minor, 0), ..self }
    }
}

impl Type {
    /// What most types have in common.
    const COMMON: Self = Self {
        name: "",
        display: "",
        namespace: "runtime",
        aliases: &[],
        named_aliases: true,
        columns: &[],
        owner: "",
        since: ALWAYS,
        secrecy: Secrecy::Open,
        form: Form::Document,
    };

    /// Whether only os:admin may read it.
    pub(crate) fn sensitive(&self, version: TalosVersion) -> bool {
        match self.secrecy {
            Secrecy::Open => false,
            Secrecy::Hardened => match version.minor {
                12 => version.patch >= 9,
                13 => version.patch >= 4,
                minor => minor >= 14,
            },
            Secrecy::Sensitive => true,
        }
    }
}

/// All types that a release knows.
pub(crate) fn types(version: TalosVersion) -> impl Iterator<Item = &'static Type> {
    let groups = [definitions::TYPES, cluster::TYPES, kubernetes::TYPES, network::TYPES, runtime::TYPES, block::TYPES];
    groups.into_iter().flatten().filter(move |it| it.since <= version)
}

/// The type of this name. As in Talos, case does not matter here, and does where resources are looked up.
pub(crate) fn find(name: &str, version: TalosVersion) -> Option<&'static Type> {
    types(version).find(|it| it.name.eq_ignore_ascii_case(name))
}

/// Both encodings of a specification. What has another form than its type goes into the YAML as it is: a broken resource can
/// be told, too.
pub(crate) fn encode(name: &str, spec: &Value, version: TalosVersion) -> Spec {
    let Some(of) = find(name, version) else {
        return Spec { proto_spec: Vec::new(), yaml_spec: yaml::document(spec) };
    };
    let proto_spec = proto::encode(&of.form, spec, version);
    let yaml_spec = match (&of.form, spec) {
        (Form::Message(fields), _) => yaml::document(&message(fields, spec, version)),
        // A Go map has no order of its own; YAML sorts it.
        (Form::Document, _) => yaml::document(&sorted(spec)),
        // The text is YAML itself.
        (Form::Text, Value::String(text)) if version < TalosVersion::new(12, 0) => text.clone(),
        (Form::Word(_) | Form::Text, _) => yaml::document(spec),
    };
    Spec { proto_spec, yaml_spec }
}

/// The keys that the release knows, in their order; behind them whatever the type does not know.
fn message(fields: &[Field], spec: &Value, version: TalosVersion) -> Value {
    let Value::Object(spec) = spec else { return spec.clone() };
    let known = fields.iter().filter(|field| field.since <= version).filter_map(|field| {
        let value = spec.get(field.key)?;
        Some((field.key.to_owned(), value_of(&field.kind, value, version)))
    });
    let foreign = spec.iter().filter(|(key, _)| !fields.iter().any(|field| field.key == key.as_str()));
    let all: Map<_, _> = known.chain(foreign.map(|(key, value)| (key.clone(), value.clone()))).collect();
    Value::Object(all)
}

fn value_of(kind: &Kind, value: &Value, version: TalosVersion) -> Value {
    match (kind, value) {
        (Kind::Message(fields), _) => message(fields, value, version),
        (Kind::List(of), Value::Array(items)) => items.iter().map(|item| value_of(of, item, version)).collect(),
        (Kind::Map(_) | Kind::Document, _) => sorted(value),
        _ => value.clone(),
    }
}

fn sorted(value: &Value) -> Value {
    let mut value = value.clone();
    value.sort_all_objects();
    value
}

/// As protobuf has it.
pub(crate) fn timestamp(at: jiff::Timestamp) -> talos_api::google::protobuf::Timestamp {
    talos_api::google::protobuf::Timestamp { seconds: at.as_second(), nanos: at.subsec_nanosecond() }
}
