//! `require` of a policy: objects of the user's own and what has to hold of them; and what a round has seen of them.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::Requirement;
use crate::model::Severity;
use crate::text::json_path::JsonPath;

/// An entry of the policy.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Require {
    /// `ceph`; what is shown is [`Require::name`].
    pub(crate) id: String,
    pub(crate) of: Objects,
    /// All of them have to hold.
    pub(crate) demands: Vec<Demand>,
    /// Of so many objects; `None`: of all.
    pub(crate) at_least: Option<usize>,
    /// No object at all is as good as one.
    pub(crate) allow_none: bool,
    /// What it counts if the objects are seen and something does not hold.
    pub(crate) severity: Severity,
}

impl Require {
    /// What the names of all begin with.
    pub(crate) const PREFIX: &str = "policy.";

    /// Whether a policy may name a requirement so.
    pub(crate) fn is_id(text: &str) -> bool {
        let is_letter = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '-';
        (1..=40).contains(&text.len()) && text.chars().all(is_letter)
    }

    /// As it is shown, and as `--check`, `--skip` and `--warn-only` take it.
    pub(crate) fn name(&self) -> String {
        format!("{}{}", Self::PREFIX, self.id)
    }
}

/// Which objects.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Objects {
    pub(crate) plural: String,
    /// Empty: the core group.
    pub(crate) group: String,
    pub(crate) place: Place,
    pub(crate) name: Option<String>,
    /// As the API takes it, and what it means.
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
    /// The policy names none: right for objects that are in none.
    NoNamespace,
    Namespace(String),
    AllNamespaces,
}

impl Objects {
    /// `cephclusters.ceph.rook.io`, as kubectl takes it.
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

/// One `for`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Demand {
    /// As it was written.
    pub(crate) text: String,
    pub(crate) predicate: Predicate,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Predicate {
    Condition {
        kind: String,
        status: String,
    },
    /// The path leads to one value, which is this one.
    Equal {
        path: JsonPath,
        value: String,
        /// Stands for a field that the API leaves out.
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

/// What the API server has of an entry.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Served {
    Objects(RequiredObjects),
    /// Not this resource, or not in this way: why, in words.
    Not(String),
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RequiredObjects {
    /// The server's clock when the list was begun.
    pub(crate) date: Option<Timestamp>,
    pub(crate) objects: Vec<RequiredObject>,
}

/// As much of an object as the demands of its entry are about.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RequiredObject {
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
    pub(crate) created: Option<Timestamp>,
    pub(crate) is_deleted: bool,
    /// In digits: some controllers write the one that they have observed as a text.
    pub(crate) generation: Option<String>,
    /// `status.observedGeneration`
    pub(crate) observed_generation: Option<String>,
    /// Something stands in its status.
    pub(crate) has_status: bool,
    pub(crate) conditions: Vec<ObjectCondition>,
    /// Of the workloads of Kubernetes itself, and of a `PodDisruptionBudget`.
    pub(crate) replicas: Option<Replicas>,
    /// For each demand of the entry, where its path leads.
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

/// Pods of a workload. What is left out is 0, as Go has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Replicas {
    /// `None`: its status does not say.
    pub(crate) wanted: Option<i64>,
    /// Of those, as many as the strategy of updates replaces by itself.
    pub(crate) to_update: i64,
    pub(crate) updated: i64,
    pub(crate) ready: i64,
    pub(crate) available: i64,
    /// Those of earlier revisions that are still there.
    pub(crate) old: i64,
}

/// Where a path leads.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Found {
    /// The demand has no path, or it leads nowhere.
    #[default]
    Nothing,
    /// Text, a number or a boolean.
    One(Value),
    /// One list or mapping, and whether anything is in it.
    Composite { is_empty: bool },
    /// So many, and whether one of them is empty.
    Several { number: usize, is_any_empty: bool },
}
