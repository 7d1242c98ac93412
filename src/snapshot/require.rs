//! `require` of a policy: the user's own objects, the demands on them, and their state in a round.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::Requirement;
use crate::model::Severity;
use crate::text::json_path::JsonPath;

/// An entry of the policy.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Require {
    /// `ceph`; users see [`Require::name`].
    pub(crate) id: String,
    pub(crate) of: Objects,
    /// The demands; all of them must be met.
    pub(crate) demands: Vec<Demand>,
    /// Number of objects that must meet the demands; `None` means all.
    pub(crate) at_least: Option<usize>,
    /// The absence of any object is accepted.
    pub(crate) allow_none: bool,
    /// The severity if the objects were read and a demand is not met.
    pub(crate) severity: Severity,
}

impl Require {
    /// The prefix of all names.
    pub(crate) const PREFIX: &str = "policy.";

    /// Returns whether `text` is a valid id of a requirement.
    pub(crate) fn is_id(text: &str) -> bool {
        let is_letter = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '-';
        (1..=40).contains(&text.len()) && text.chars().all(is_letter)
    }

    /// Returns the name that is shown, and that `--check`, `--skip` and `--warn-only` accept.
    pub(crate) fn name(&self) -> String {
        format!("{}{}", Self::PREFIX, self.id)
    }
}

/// The objects that an entry selects.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Objects {
    pub(crate) plural: String,
    /// Empty for the core group.
    pub(crate) group: String,
    pub(crate) place: Place,
    pub(crate) name: Option<String>,
    /// The selector in the form that the API takes, and its parsed requirements.
    pub(crate) selector: Option<(String, Vec<Requirement>)>,
    pub(crate) field_selector: Option<(String, Vec<FieldIs>)>,
}

/// One part of a field selector.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FieldIs {
    /// `spec.type`
    pub(crate) path: String,
    pub(crate) is_not: bool,
    pub(crate) value: String,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Place {
    /// The policy names no namespace, which is right for cluster-scoped objects.
    NoNamespace,
    Namespace(String),
    AllNamespaces,
}

impl Objects {
    /// Returns the name that kubectl takes: `cephclusters.ceph.rook.io`.
    pub(crate) fn resource(&self) -> String {
        if self.group.is_empty() { self.plural.clone() } else { format!("{}.{}", self.plural, self.group) }
    }

    pub(crate) fn namespace(&self) -> Option<&str> {
        match &self.place {
            Place::Namespace(namespace) => Some(namespace),
            Place::NoNamespace | Place::AllNamespaces => None,
        }
    }
}

/// One `for` of an entry.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Demand {
    /// The text as it was written.
    pub(crate) text: String,
    pub(crate) predicate: Predicate,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Predicate {
    Condition {
        kind: String,
        status: String,
    },
    /// The path leads to one value, and it is this one.
    Equal {
        path: JsonPath,
        value: String,
        /// The value that is assumed for a field that the API omits.
        or_else: Option<String>,
    },
    /// The path leads to something that is not empty.
    Present(JsonPath),
    Younger {
        path: JsonPath,
        than: SignedDuration,
    },
    Current,
}

impl Predicate {
    pub(crate) fn path(&self) -> Option<&JsonPath> {
        match self {
            Self::Equal { path, .. } | Self::Present(path) | Self::Younger { path, .. } => Some(path),
            Self::Condition { .. } | Self::Current => None,
        }
    }
}

/// The API server's answer for an entry.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Served {
    Objects(RequiredObjects),
    /// The resource is not served, or not in this way, with the reason in words.
    Not(String),
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RequiredObjects {
    /// The server's clock when the list began.
    pub(crate) date: Option<Timestamp>,
    pub(crate) objects: Vec<RequiredObject>,
}

/// The part of an object that the demands of its entry need.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RequiredObject {
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
    pub(crate) created: Option<Timestamp>,
    pub(crate) is_deleted: bool,
    /// The generation in digits, because some controllers write the observed one as a string.
    pub(crate) generation: Option<String>,
    /// `status.observedGeneration`
    pub(crate) observed_generation: Option<String>,
    /// The status is not empty.
    pub(crate) has_status: bool,
    pub(crate) conditions: Vec<ObjectCondition>,
    /// Only for Kubernetes' own workloads and for `PodDisruptionBudget`s.
    pub(crate) replicas: Option<Replicas>,
    /// The result of each demand's path, in the order of the demands.
    pub(crate) found: Vec<Found>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ObjectCondition {
    pub(crate) kind: String,
    pub(crate) status: String,
    pub(crate) reason: String,
    pub(crate) message: String,
    pub(crate) observed_generation: Option<String>,
}

/// Pods of a workload. Omitted numbers are 0, as in Go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Replicas {
    /// `None` if the status does not report it.
    pub(crate) wanted: Option<i64>,
    /// Number of wanted pods that the update strategy replaces automatically.
    pub(crate) to_update: i64,
    pub(crate) updated: i64,
    pub(crate) ready: i64,
    pub(crate) available: i64,
    /// Pods of earlier revisions that still exist.
    pub(crate) old: i64,
}

/// The result of following a path.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Found {
    /// The demand has no path, or it leads nowhere.
    #[default]
    Nothing,
    /// Text, a number or a boolean.
    One(Value),
    /// One list or mapping.
    Composite { is_empty: bool },
    /// Several values, and whether any of them is empty.
    Several { number: usize, is_any_empty: bool },
}
