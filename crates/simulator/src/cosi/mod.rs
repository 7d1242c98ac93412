//! COSI resources and their types: names, contents, access, and the release that introduced each.
//!
//! Both encodings are generated from one description per type, whose fields are in the order of Talos's YAML.

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

/// A resource type.
#[derive(Debug)]
pub(crate) struct Type {
    /// `Members.cluster.talos.dev`
    pub(crate) name: &'static str,
    /// Singular name that `talosctl get` shows.
    display: &'static str,
    pub(crate) namespace: &'static str,
    /// Aliases that do not follow from the name.
    aliases: &'static [&'static str],
    /// Whether the type also has aliases that follow from its name.
    named_aliases: bool,
    /// Columns of `talosctl get`: heading and JSON path.
    columns: &'static [(&'static str, &'static str)],
    /// The controller that writes resources of this type.
    pub(crate) owner: &'static str,
    since: TalosVersion,
    secrecy: Secrecy,
    form: Form,
    /// Resources that every healthy machine has alike: id, number of writes, and specification in JSON.
    pub(crate) healthy: &'static [(&'static str, u64, &'static str)],
}

/// Access to a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Secrecy {
    /// Readable with any role that can read at all.
    Open,
    /// Restricted to os:admin since 1.12.9, 1.13.4 and 1.14.
    Hardened,
    /// Restricted to os:admin.
    Sensitive,
}

/// The form of a specification.
#[derive(Debug)]
enum Form {
    /// A message; its YAML has these keys.
    Message(&'static [Field]),
    /// Any document; in protobuf, a `google.protobuf.Struct` in field 1.
    Document,
    /// One of these words; in protobuf, an enum in field 1.
    Word(&'static [&'static str]),
    /// Text; in protobuf, field 1.
    Text,
}

/// A key of a message.
#[derive(Debug)]
struct Field {
    key: &'static str,
    number: u32,
    kind: Kind,
    since: TalosVersion,
    /// The first release without it, or in which it is elsewhere.
    until: TalosVersion,
}

/// The type of a key's value.
#[derive(Debug)]
enum Kind {
    Text,
    Bool,
    Integer,
    /// `double`
    Real,
    /// `google.protobuf.Duration`; YAML has Go's notation: `-1.5ms`.
    Duration,
    /// Names of the numbers 0, 1, ….
    Enum(&'static [&'static str]),
    /// `common.NetIP`
    Ip,
    /// `common.NetIPPrefix`
    Prefix,
    /// Bytes that YAML shows as `3e:27:15:31:18:5d`.
    HardwareAddress,
    /// Names of the kernel's numbers. If commas separate several names, their numbers are added.
    Code(&'static [(&'static str, u64)]),
    /// `google.protobuf.Struct`
    Document,
    Message(&'static [Field]),
    List(&'static Self),
    /// A map with text as keys.
    Map(&'static Self),
}

/// Older than every simulated release.
const ALWAYS: TalosVersion = TalosVersion::new(0, 0);
/// Newer than every simulated release.
const NEVER: TalosVersion = TalosVersion::new(u8::MAX, 0);

const fn field(key: &'static str, number: u32, kind: Kind) -> Field {
    Field { key, number, kind, since: ALWAYS, until: NEVER }
}

impl Field {
    const fn since(self, minor: u8) -> Self {
        Self { since: TalosVersion::new(minor, 0), ..self }
    }

    const fn until(self, minor: u8) -> Self {
        Self { until: TalosVersion::new(minor, 0), ..self }
    }

    fn is_known(&self, version: TalosVersion) -> bool {
        self.since <= version && version < self.until
    }
}

impl Type {
    /// The values that most types have in common.
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
        healthy: &[],
    };

    /// Whether only os:admin can read the type.
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

/// The type with this name. Like Talos, this ignores case; looking up resources does not.
pub(crate) fn find(name: &str, version: TalosVersion) -> Option<&'static Type> {
    types(version).find(|it| it.name.eq_ignore_ascii_case(name))
}

/// Encodes a specification in both ways. If its form differs from that of its type, the YAML contains it unchanged, so that broken
/// resources can be sent, too.
pub(crate) fn encode(name: &str, spec: &Value, version: TalosVersion) -> Spec {
    let Some(of) = find(name, version) else {
        return Spec { proto_spec: Vec::new(), yaml_spec: yaml::document(spec) };
    };
    let proto_spec = proto::encode(&of.form, spec, version);
    let yaml_spec = match (&of.form, spec) {
        (Form::Message(fields), _) => yaml::document(&message(fields, spec, version)),
        // Go maps are unordered, and Go's YAML library sorts their keys.
        (Form::Document, _) => yaml::document(&sorted(spec)),
        // The text is YAML itself.
        (Form::Text, Value::String(text)) if version < TalosVersion::new(12, 0) => text.clone(),
        (Form::Word(_) | Form::Text, _) => yaml::document(spec),
    };
    Spec { proto_spec, yaml_spec }
}

/// Sorts the keys that the release knows into their order, followed by keys that the type does not have.
fn message(fields: &[Field], spec: &Value, version: TalosVersion) -> Value {
    let Value::Object(spec) = spec else { return spec.clone() };
    let known = fields.iter().filter(|field| field.is_known(version)).filter_map(|field| {
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

/// Converts a time to protobuf.
pub(crate) fn timestamp(at: jiff::Timestamp) -> talos_api::google::protobuf::Timestamp {
    talos_api::google::protobuf::Timestamp { seconds: at.as_second(), nanos: at.subsec_nanosecond() }
}
