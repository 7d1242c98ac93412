//! The file given with `--policy`: its fields, each with its location. `plan` interprets them.
//!
//! A policy contains no credentials, but a user may pass a kubeconfig by mistake, so errors repeat only names of fields.

use std::fmt::{self, Write as _};
use std::path::Path;

use ring::digest::{SHA256, digest};
use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_saphyr::{DuplicateKeyPolicy, Error, Location, MergeKeyPolicy, Options, Spanned};

use super::{ConfigError, file, shown, shown_path};
use crate::text::nearest;

/// The only supported version.
pub(crate) const API_VERSION: &str = "cluster-health/v1";

#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) path: String,
    /// SHA-256 of the file, in hex: anyone who can change the policy can excuse the problems that it is meant to catch.
    pub(crate) sha256: String,
    pub(crate) fields: Fields,
}

// The published schema is generated from these structs, including their doc comments.

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "policy"))]
pub(crate) struct Fields {
    /// `cluster-health/v1`.
    #[cfg_attr(test, schemars(with = "String", extend("const" = API_VERSION)))]
    pub(crate) api_version: Spanned<String>,
    /// Expected shape and versions of the cluster. The equivalent options can be given as well, and have to agree.
    #[serde(default, deserialize_with = "or_default")]
    #[cfg_attr(test, schemars(with = "Option<Expect>"))]
    pub(crate) expect: Expect,
    /// Limits at which checks warn. The limits at which they fail are fixed.
    #[serde(default, deserialize_with = "or_default")]
    #[cfg_attr(test, schemars(with = "Option<Thresholds>"))]
    pub(crate) thresholds: Thresholds,
    /// Machines that are off on purpose.
    #[serde(default, deserialize_with = "or_default")]
    #[cfg_attr(test, schemars(with = "Option<Vec<Machine>>"))]
    pub(crate) machines: Vec<Machine>,
    /// Known problems that are accepted for a limited time.
    #[serde(default, deserialize_with = "or_default")]
    #[cfg_attr(test, schemars(with = "Option<Vec<Accept>>"))]
    pub(crate) accept: Vec<Accept>,
    /// Conditions on objects of your own, at most 100 entries. Each is reported as the check `policy.ID`.
    #[serde(default, deserialize_with = "or_default")]
    #[cfg_attr(test, schemars(with = "Option<Vec<Require>>"))]
    pub(crate) require: Vec<Require>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct Expect {
    /// Exact number of control planes, like `--expect-control-planes`. Machines that are declared off count.
    #[cfg_attr(test, schemars(with = "Option<usize>"))]
    pub(crate) control_planes: Option<Spanned<usize>>,
    /// Exact number of workers, like `--expect-workers`. Machines that are declared off count.
    #[cfg_attr(test, schemars(with = "Option<usize>"))]
    pub(crate) workers: Option<Spanned<usize>>,
    /// Version of Talos on every machine, like `--expect-talos`: `v1.14.1`.
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub(crate) talos: Option<Spanned<String>>,
    /// Version of Kubernetes everywhere, like `--expect-kubernetes`: `1.36.4`, or `"1.36"` for any patch release. Quote it: without
    /// quotes, YAML reads 1.30 as the number 1.3.
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub(crate) kubernetes: Option<Spanned<String>>,
    /// System extensions that every machine must have, with or without `siderolabs/`. A missing one fails in `talos.nodes.extensions`.
    #[serde(default, deserialize_with = "or_default")]
    #[cfg_attr(test, schemars(with = "Option<Vec<String>>"))]
    pub(crate) extensions: Vec<Spanned<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct Thresholds {
    /// Minimum remaining lifetime of a certificate: `14d`. Default `30d`; a shorter time is looser. A tenth of the certificate's
    /// total lifetime is always enough. Applies to `talos.credentials`, `k8s.credentials`, `talos.nodes.kubelet-certificate` and
    /// `k8s.api.certificates`.
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub(crate) certificates: Option<Spanned<String>>,
    /// Share of its quota that an etcd database may use: `70%`. Default `80%`, below `95%`; more is looser. Applies to `etcd.space`.
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub(crate) etcd_space: Option<Spanned<String>>,
    /// Share of `/var` that should be free: `15%`. Default `10%`, at most `50%`; less is looser. Applies to `talos.nodes.disk`.
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub(crate) disk_free: Option<Spanned<String>>,
    /// Maximum error of a machine's clock: `500ms`. Default `1s`, at most `30s`; more is looser. Applies to `talos.time`.
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub(crate) clock_skew: Option<Spanned<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct Machine {
    /// Name or address.
    #[cfg_attr(test, schemars(with = "String"))]
    pub(crate) name: Spanned<String>,
    /// `off`: the machine must not answer at all. If it does, it is judged like any other.
    #[cfg_attr(test, schemars(with = "String", extend("enum" = ["off"])))]
    pub(crate) state: Spanned<String>,
    /// Reason, for readers of the report.
    #[cfg_attr(test, schemars(with = "String"))]
    pub(crate) because: Spanned<String>,
    /// Last moment at which the entry applies: an RFC 3339 time, or a date, which means the end of that day (UTC). At most 90 days
    /// from now.
    #[cfg_attr(test, schemars(with = "String"))]
    pub(crate) until: Spanned<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct Accept {
    /// Full ID of the check that reports the problem (`cluster-health list`).
    #[cfg_attr(test, schemars(with = "String"))]
    pub(crate) check: Spanned<String>,
    /// Reason code of the problem (`cluster-health list --reasons`).
    #[cfg_attr(test, schemars(with = "String"))]
    pub(crate) reason: Spanned<String>,
    /// Target of the problem, as in the report (`checks[].problems[].target.name`). `*` matches any characters.
    #[cfg_attr(test, schemars(with = "String"))]
    pub(crate) target: Spanned<String>,
    /// Maximum number of problems that the entry may match; if more match, none is accepted. Default 1; required if the target contains
    /// `*`.
    #[cfg_attr(test, schemars(with = "Option<usize>", range(min = 1)))]
    pub(crate) max: Option<Spanned<usize>>,
    /// Reason, for readers of the report.
    #[cfg_attr(test, schemars(with = "String"))]
    pub(crate) because: Spanned<String>,
    /// Last moment at which the entry applies: an RFC 3339 time, or a date, which means the end of that day (UTC). At most 90 days
    /// from now.
    #[cfg_attr(test, schemars(with = "String"))]
    pub(crate) until: Spanned<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct Require {
    /// Name of the requirement, unique in the policy: lowercase letters, digits and `-`, at most 40.
    #[cfg_attr(test, schemars(with = "String", regex(pattern = "^[a-z0-9-]{1,40}$")))]
    pub(crate) id: Spanned<String>,
    /// Plural and group, as `kubectl api-resources -o name` prints them: `cephclusters.ceph.rook.io`, `pods`. Never `secrets`, nor a
    /// subresource.
    #[cfg_attr(test, schemars(with = "String"))]
    pub(crate) resource: Spanned<String>,
    /// Namespace of the objects, if the resource is namespaced.
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub(crate) namespace: Option<Spanned<String>>,
    /// Objects of all namespaces.
    #[serde(default)]
    #[cfg_attr(test, schemars(with = "Option<bool>"))]
    pub(crate) all_namespaces: Option<Spanned<bool>>,
    /// Name of a single object. If it is missing, all objects that match the selectors are checked.
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub(crate) name: Option<Spanned<String>>,
    /// Label selector, as for `kubectl get -l`: `app=backup,tier in (db)`.
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub(crate) selector: Option<Spanned<String>>,
    /// Field selector, as for `kubectl get --field-selector`: `spec.type=LoadBalancer`.
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub(crate) field_selector: Option<Spanned<String>>,
    /// Demand, or a list of demands that all have to hold. `condition=Ready`, `condition=Ready=False`: a condition, reported for the
    /// object's current generation. `jsonpath={.status.phase}=Running`: the path has exactly this value; `jsonpath={.status.address}`:
    /// the path has any value. `age={.status.lastSuccessfulTime}<24h`: a time that is no longer ago, by the API server's clock.
    /// `current`: the controller has caught up (generation, `Ready`, `Reconciling`, `Stalled`, replicas). A path has at most 512
    /// characters and one wildcard or filter, and neither `..` nor functions.
    #[serde(rename = "for")]
    #[cfg_attr(test, schemars(with = "OneOrMany"))]
    pub(crate) demands: Spanned<Demands>,
    /// Number of objects that have to meet the demands. If it is missing, all have to.
    #[cfg_attr(test, schemars(with = "Option<usize>", range(min = 1)))]
    pub(crate) at_least: Option<Spanned<usize>>,
    /// Accepts that no object exists. Otherwise a missing object fails, and so does an empty list.
    #[serde(default)]
    #[cfg_attr(test, schemars(with = "Option<bool>"))]
    pub(crate) allow_none: Option<Spanned<bool>>,
    /// Value of a field that the API omits, as it does with zeros: `orElse: 0` for `.status.readyReplicas`. Otherwise a missing field
    /// does not count as evidence.
    #[cfg_attr(test, schemars(with = "Option<serde_json::Value>", extend("type" = ["string", "number", "boolean", "null"])))]
    pub(crate) or_else: Option<Spanned<Scalar>>,
    /// `fail` (default), or `warn` if a violation should not fail the run. An undetermined result still does.
    #[cfg_attr(test, schemars(with = "Option<String>", extend("enum" = ["fail", "warn", null])))]
    pub(crate) severity: Option<Spanned<String>>,
}

/// One text, or a list of texts.
#[derive(Debug)]
pub(crate) enum Demands {
    One(String),
    Many(Vec<Spanned<String>>),
}

/// The shape of [`Demands`], for the schema.
#[cfg(test)]
#[derive(schemars::JsonSchema)]
#[schemars(inline, untagged)]
#[expect(dead_code, reason = "read as a schema")]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl<'de> Deserialize<'de> for Demands {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Demands;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or a list of texts")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Demands, E> {
                Ok(Demands::One(text.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut texts: A) -> Result<Demands, A::Error> {
                let mut many = Vec::new();
                while let Some(text) = texts.next_element()? {
                    many.push(text);
                }
                Ok(Demands::Many(many))
            }
        }
        deserializer.deserialize_any(Either)
    }
}

/// A scalar as the text that is compared with the value at a path.
#[derive(Debug)]
pub(crate) struct Scalar(pub(crate) String);

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl Visitor<'_> for Any {
            type Value = Scalar;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, a number or a boolean")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Scalar, E> {
                Ok(Scalar(text.to_owned()))
            }

            fn visit_bool<E: de::Error>(self, value: bool) -> Result<Scalar, E> {
                Ok(Scalar(value.to_string()))
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Scalar, E> {
                Ok(Scalar(value.to_string()))
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Scalar, E> {
                Ok(Scalar(value.to_string()))
            }

            fn visit_f64<E: de::Error>(self, value: f64) -> Result<Scalar, E> {
                Ok(Scalar(value.to_string()))
            }
        }
        deserializer.deserialize_any(Any)
    }
}

/// Treats a key without a value as the default, as is left in the file when its last entry is removed.
fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(deserializer: D) -> Result<T, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

impl Document {
    pub(crate) fn read(path: &Path) -> Result<Self, ConfigError> {
        Self::parse(path, &file::read(path, "policy")?)
    }

    fn parse(path: &Path, bytes: &[u8]) -> Result<Self, ConfigError> {
        let wrong = |problem: &str| ConfigError::unreadable(format!("policy {}: {problem}", shown_path(path)));
        let text = std::str::from_utf8(bytes).map_err(|_| wrong("is not UTF-8"))?;
        let fields: Fields = serde_saphyr::from_str_with_options(text, options()).map_err(|error| {
            let (problem, hint) = described(&error);
            let place = error.location().map(place).unwrap_or_default();
            let error = wrong(&format!("{place}{problem}"));
            hint.into_iter().fold(error, ConfigError::hint)
        })?;
        let mut sha256 = String::new();
        for byte in digest(&SHA256, bytes).as_ref() {
            let _ = write!(sha256, "{byte:02x}");
        }
        Ok(Self { path: path.to_string_lossy().into_owned(), sha256, fields })
    }

    #[cfg(test)]
    pub(crate) fn of_text(text: &str) -> Result<Self, ConfigError> {
        Self::parse(Path::new("policy.yaml"), text.as_bytes())
    }

    /// Builds the error for a value.
    pub(crate) fn error<T>(&self, value: &Spanned<T>, problem: &str) -> ConfigError {
        let path = shown_path(Path::new(&self.path));
        ConfigError::unreadable(format!("policy {path}: {}{problem}", place(value.referenced)))
    }
}

fn options() -> Options {
    let mut options = Options::default();
    options.no_schema = true;
    options.strict_booleans = true;
    options.with_snippet = false;
    options.duplicate_keys = DuplicateKeyPolicy::Error;
    options.merge_keys = MergeKeyPolicy::Error;
    options
}

/// Formats a location: `line 7, column 12: `
fn place(location: Location) -> String {
    match (location.line(), location.column()) {
        (0, _) => String::new(),
        (line, column) => format!("line {line}, column {column}: "),
    }
}

/// Describes common mistakes in our own words, with a hint. Any other error is reported without details, because the parser's message may
/// quote the file.
fn described(error: &Error) -> (String, Option<String>) {
    match error.without_snippet() {
        Error::SerdeUnknownField { field, expected, .. } => {
            let near = nearest(field, expected.iter().copied());
            let hint = near.map(|near| format!("did you mean `{near}`?"));
            (format!("there is no field {} here; there are {}", shown(field), expected.join(", ")), hint)
        }
        Error::SerdeMissingField { field, .. } => (format!("the field `{field}` is missing"), None),
        Error::DuplicateMappingKey { .. } => ("the same field appears twice".to_owned(), None),
        Error::QuotingRequired { .. } => {
            let why = "YAML reads it as a number or a boolean, and 1.30 as 1.3".to_owned();
            ("the value is a text and has to be in quotes".to_owned(), Some(why))
        }
        Error::MultipleDocuments { .. } => ("there is more than one YAML document".to_owned(), None),
        Error::Eof { .. } => ("the file is empty or ends too early".to_owned(), None),
        Error::InvalidBooleanStrict { .. } => ("expected `true` or `false`".to_owned(), None),
        Error::NullIntoString { .. } => ("expected a text, and there is no value".to_owned(), None),
        Error::MergeKeyNotAllowed { .. } => ("merge keys (`<<`) are not supported".to_owned(), None),
        Error::UnknownAnchor { .. } => ("there is no anchor of this name before it".to_owned(), None),
        Error::InvalidScalar { ty, .. } if ty.contains("integer") || ty.starts_with('u') => {
            ("expected a whole number that is not negative".to_owned(), None)
        }
        Error::Unexpected { expected, .. } if expected.contains("sequence") => ("expected a list".to_owned(), None),
        Error::Unexpected { expected, .. } if expected.contains("mapping") => {
            ("expected fields, each as `name: value`".to_owned(), None)
        }
        _ => {
            let hint = "a text with braces, brackets, `#` or `: ` has to be in single quotes".to_owned();
            ("is not a valid value here, or not valid YAML".to_owned(), Some(hint))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use schemars::generate::SchemaSettings;
    use schemars::transform::{RecursiveTransform, Transform as _};
    use schemars::{JsonSchema as _, Schema};
    use serde_json::{Value, json};

    use super::*;

    fn parsed(text: &str) -> Result<Document, ConfigError> {
        Document::parse(Path::new("p.yaml"), text.as_bytes())
    }

    fn refused(text: &str) -> String {
        let error = parsed(text).unwrap_err();
        [error.message].into_iter().chain(error.hint).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        for (text, expected) in [
            (
                "apiVersion: cluster-health/v1\nmachnes: []\n",
                "policy `p.yaml`: line 2, column 1: there is no field `machnes` here; there are apiVersion, expect, thresholds, machines, accept, require; did you mean `machines`?",
            ),
            ("machines: []\n", "policy `p.yaml`: line 1, column 1: the field `apiVersion` is missing"),
            (
                "apiVersion: cluster-health/v1\nexpect: {kubernetes: 1.30}\n",
                "policy `p.yaml`: line 2, column 22: the value is a text and has to be in quotes; YAML reads it as a number or a boolean, and 1.30 as 1.3",
            ),
            (
                "apiVersion: cluster-health/v1\nexpect: {}\nexpect: {}\n",
                "policy `p.yaml`: line 3, column 1: the same field appears twice",
            ),
            (
                "apiVersion: cluster-health/v1\nexpect: {workers: many}\n",
                "policy `p.yaml`: line 2, column 19: expected a whole number that is not negative",
            ),
            ("", "policy `p.yaml`: line 1, column 1: the file is empty or ends too early"),
            (
                "apiVersion: [",
                "policy `p.yaml`: line 1, column 13: is not a valid value here, or not valid YAML; a text with braces, brackets, `#` or `: ` has to be in single quotes",
            ),
        ] {
            assert_eq!(refused(text), expected, "{text}");
        }
    }

    #[test]
    fn a_kubeconfig_in_its_place_is_not_repeated() {
        let key = "LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVk";
        for text in [
            format!("apiVersion: v1\nclusters: []\nusers: [{{user: {{client-key-data: {key}}}}}]\n"),
            format!("{key}: 1\n"),
            format!("apiVersion: cluster-health/v1\nmachines: {key}\n"),
            format!("apiVersion: cluster-health/v1\nmachines: [{{name: w, state: off, because: {key}}}]\n"),
        ] {
            assert!(!refused(&text).contains(key), "{}", refused(&text));
        }
    }

    #[test]
    fn what_would_take_long_is_refused() {
        let head = "apiVersion: cluster-health/v1\n";
        for text in [
            format!("{head}machines: {}\n", "[".repeat(100_000)),
            format!("{head}a: &a [x]\n{}", "b: &b [*a, *a]\n".repeat(1000)),
            format!("{head}{}", "x".repeat(5 << 20)),
            format!("{head}<<: {{machines: []}}\n"),
        ] {
            assert!(parsed(&text).is_err());
        }
        let entry = "- {name: w-7, state: off, because: x, until: 2026-12-01}\n";
        assert_eq!(
            parsed(&format!("{head}machines:\n{}", entry.repeat(10_000))).unwrap().fields.machines.len(),
            10_000
        );
    }

    #[test]
    fn a_key_without_a_value_is_empty() {
        let text = "apiVersion: cluster-health/v1\nexpect:\nthresholds:\nmachines:\naccept:\n";
        assert!(parsed(text).unwrap().fields.machines.is_empty());
        assert!(refused("# nothing\n").starts_with("policy `p.yaml`: "));
        let two = "apiVersion: cluster-health/v1\n---\napiVersion: cluster-health/v1\n";
        assert!(refused(two).ends_with("there is more than one YAML document"), "{}", refused(two));
    }

    #[test]
    fn the_report_can_name_the_very_file() {
        let text = "apiVersion: cluster-health/v1\n";
        assert_eq!(parsed(text).unwrap().sha256, "a93d7daf0b3769a154cd87ea128cbe115e1b46dc2f98951402aedfa46ea31031");
    }

    /// The schema is committed, so that a policy can be written from it alone. `UPDATE=1` rewrites it.
    #[test]
    fn committed_files_have_the_schema_of_a_policy() {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("schema/policy.v1.json");
        let generator = SchemaSettings::draft2020_12().into_generator();
        let mut schema = generator.into_root_schema_for::<Fields>();
        RecursiveTransform(on_one_line).transform(&mut schema);
        let mut made = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "$id": "urn:cluster-health:policy:v1",
            "title": "cluster-health policy, version 1",
            "description": "The file of `--policy`. `cluster-health policy check FILE` checks one without a cluster.",
        });
        for (key, value) in schema.as_object().unwrap() {
            made.as_object_mut().unwrap().entry(key).or_insert_with(|| value.clone());
        }
        let made = format!("{made:#}\n");
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&path, &made).unwrap();
        }
        assert!(std::fs::read_to_string(&path).unwrap() == made, "{} is old: make generate", path.display());
        assert_eq!(Fields::schema_name(), "policy");
    }

    fn on_one_line(schema: &mut Schema) {
        if schema.get("format").and_then(Value::as_str).is_some_and(|format| format.starts_with("uint")) {
            schema.remove("format");
        }
        let description = schema.get("description").and_then(Value::as_str).map(|text| text.replace('\n', " "));
        if let Some(description) = description {
            schema.insert("description".to_owned(), description.into());
        }
    }
}
