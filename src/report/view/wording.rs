//! Words and figures that several formats have in common.

use crate::model::{Kind, Outcome, Status, Target};
use crate::report::{CheckReport, NotSelected, Selection};
use crate::text::sanitize::clean;
use crate::text::wrapped;

/// Returns `cp-1 (10.0.0.1)`.
pub(crate) fn shown(target: &Target) -> String {
    clean(&target.to_string())
}

/// Returns `cp-3 (10.0.0.3)` or `cp-3 (10.0.0.3, id 8e9e05c52164694d)`.
pub(crate) fn named(target: &Target) -> String {
    let mut details = Vec::new();
    if let Some(address) = target.address.as_ref().filter(|address| **address != target.name) {
        details.push(clean(address));
    }
    if let Some(id) = &target.id {
        details.push(format!("id {}", clean(id)));
    }
    let name = clean(&target.name);
    if details.is_empty() { name } else { format!("{name} ({})", details.join(", ")) }
}

/// Returns `1 round` or `2 rounds`.
pub(crate) fn count(n: usize, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

/// Returns the noun for [`count`].
pub(crate) fn plural_kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Cluster => "result",
        Kind::Credentials => "source",
        Kind::Endpoint => "endpoint",
        Kind::Node => "node",
        Kind::EtcdMember => "etcd member",
        Kind::Pod => "pod",
        Kind::Workload => "workload",
        Kind::Webhook => "webhook configuration",
        Kind::ApiService => "APIService",
        Kind::Policy => "policy item",
        Kind::ServerCheck => "server check",
    }
}

pub(crate) fn label(kind: Kind, many: bool) -> &'static str {
    match (kind, many) {
        (Kind::Cluster, _) => "cluster",
        (Kind::Credentials, _) => "source",
        (Kind::Endpoint, false) => "endpoint",
        (Kind::Endpoint, true) => "endpoints",
        (Kind::Node, false) => "node",
        (Kind::Node, true) => "nodes",
        (Kind::EtcdMember, false) => "member",
        (Kind::EtcdMember, true) => "members",
        (Kind::Pod, false) => "pod",
        (Kind::Pod, true) => "pods",
        (Kind::Workload, false) => "workload",
        (Kind::Workload, true) => "workloads",
        (Kind::Webhook, false) => "webhook configuration",
        (Kind::Webhook, true) => "webhook configurations",
        (Kind::ApiService, false) => "APIService",
        (Kind::ApiService, true) => "APIServices",
        (Kind::Policy, false) => "entry",
        (Kind::Policy, true) => "entries",
        (Kind::ServerCheck, false) => "check",
        (Kind::ServerCheck, true) => "checks",
    }
}

/// Returns the predicate of a line: `connected` for `Node cp-1 (10.0.0.1): connected`.
pub(crate) fn said_of<'a>(target: &Target, line: &'a str) -> &'a str {
    match line.rsplit_once(": ") {
        Some((_, said)) if target.kind != Kind::Cluster => said,
        _ => line,
    }
}

pub(crate) fn not_selected(by: NotSelected) -> String {
    format!("not selected ({})", by.words())
}

/// Returns why a check as a whole was skipped, or was not run at all.
pub(crate) fn skip_reason(check: &CheckReport) -> Option<String> {
    if let Selection::NotSelected(by) = check.selection {
        return Some(not_selected(by));
    }
    let mut reasons: Vec<String> = Vec::new();
    if check.shown_status() == Status::Skip {
        for finding in &check.findings {
            if let Outcome::Skip(reason) = &finding.outcome {
                let reason = clean(reason);
                if !reasons.contains(&reason) {
                    reasons.push(reason);
                }
            }
        }
    }
    (!reasons.is_empty()).then(|| reasons.join("; "))
}

pub(crate) fn field(name: &str, text: &str) -> String {
    format!("  {name:<9} {text}")
}

/// Returns `lead` and the items, separated by commas, on lines that are not longer than `columns` unless an item is.
pub(crate) fn wrap(lead: &str, items: Vec<String>, columns: usize) -> Vec<String> {
    let last = items.len().saturating_sub(1);
    let items = items.into_iter().enumerate().map(|(n, item)| if n == last { item } else { item + "," });
    wrapped(lead, &" ".repeat(lead.chars().count()), items, columns)
}
