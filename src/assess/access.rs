//! What stands between us and what a machine, or Kubernetes, tells.

use std::borrow::Cow;

use super::certificate::{self, Fault};
use crate::model::Role;
use crate::snapshot::{Contact, Gap, GapKind, Kubernetes, Node, Observed, Service, Snapshot};

/// What stands between us and every Talos machine at once.
pub(crate) enum TalosAccess<'a> {
    /// `--no-talos`.
    LeftOut,
    /// A machine that answered proves it, whatever else looks wrong.
    Open,
    /// The credentials cannot be used, or no endpoint works.
    Closed(Cow<'a, Gap>),
}

/// What stands between us and one machine.
pub(crate) enum MachineAccess<'a> {
    Open(&'a Contact),
    Closed(&'a Gap),
    /// Name of the machine that answers in place of this one.
    Other(&'a str),
}

impl<'a> MachineAccess<'a> {
    pub(crate) fn of(node: &'a Node) -> Self {
        match &node.talos.contact {
            Err(gap) => Self::Closed(gap),
            Ok(contact) => match &contact.answered_by_other {
                Some(other) => Self::Other(other),
                None => Self::Open(contact),
            },
        }
    }
}

/// What stands between us and Kubernetes, before anybody is asked.
pub(crate) enum KubernetesAccess<'a> {
    /// `--no-kubernetes`.
    LeftOut,
    Open(&'a Kubernetes),
    /// The credentials are missing or cannot be read.
    NoCredentials(&'a Gap),
    /// The credentials would go to this address in the clear.
    Insecure(&'a str),
    /// The client certificate cannot be used.
    Unusable(Fault),
}

/// What the machine itself has answered.
pub(crate) fn contact(node: &Node) -> Option<&Contact> {
    match MachineAccess::of(node) {
        MachineAccess::Open(contact) => Some(contact),
        _ => None,
    }
}

pub(super) fn kubernetes(snapshot: &Snapshot) -> KubernetesAccess<'_> {
    let Some(kubernetes) = &snapshot.kubernetes else { return KubernetesAccess::LeftOut };
    let credentials = match &kubernetes.credentials {
        Err(gap) => return KubernetesAccess::NoCredentials(gap),
        Ok(it) if !it.server.starts_with("https://") => return KubernetesAccess::Insecure(&it.server),
        Ok(credentials) => credentials,
    };
    let fault = credentials.certificate.as_ref().and_then(|it| certificate::worst(it, snapshot.taken));
    fault.map_or(KubernetesAccess::Open(kubernetes), KubernetesAccess::Unusable)
}

pub(super) fn talos(snapshot: &Snapshot) -> TalosAccess<'_> {
    let Some(talos) = &snapshot.talos else { return TalosAccess::LeftOut };
    if snapshot.nodes.iter().any(|node| node.talos.contact.is_ok()) {
        return TalosAccess::Open;
    }
    let closed = |kind, text| TalosAccess::Closed(Cow::Owned(Gap::new(kind, text)));
    match &talos.credentials {
        Err(gap) => return TalosAccess::Closed(Cow::Borrowed(gap)),
        Ok(credentials) => {
            if certificate::lets_nobody_in(credentials, snapshot.taken) {
                return match &credentials.account {
                    Some(_) => closed(GapKind::SignatureRefused, "the key of the service account cannot be used"),
                    None => closed(GapKind::ClientCertificateRefused, "the client certificate cannot be used"),
                };
            }
        }
    }
    let forwards = |role: &Observed<Option<Role>>| !matches!(role, Ok(Some(Role::Worker)));
    let mut answering = talos.endpoints.iter().filter(|endpoint| endpoint.version.is_ok()).peekable();
    if answering.peek().is_some() {
        return if answering.any(|endpoint| forwards(&endpoint.role)) {
            TalosAccess::Open
        } else {
            closed(GapKind::NoForwarding, "the endpoints are workers, which cannot forward requests")
        };
    }
    match talos.endpoints.first().map(|endpoint| &endpoint.version) {
        Some(Err(gap)) => TalosAccess::Closed(Cow::Borrowed(gap)),
        _ => closed(GapKind::NotAsked, "the talosconfig has no endpoint"),
    }
}

/// A named Talos service of a machine.
pub(crate) fn service<'a>(node: &'a Node, id: &str) -> Option<&'a Service> {
    worst_service(node.talos.services.as_ref().ok()?, id)
}

/// The service of this name; of two that contradict each other, the one that is not well.
pub(crate) fn worst_service<'a>(services: &'a [Service], id: &str) -> Option<&'a Service> {
    services.iter().filter(|service| service.id == id).min_by_key(|service| service.is_healthy())
}

/// The machine says that this service runs and is healthy.
pub(crate) fn tells_healthy(node: &Node, id: &str) -> bool {
    service(node, id).is_some_and(Service::is_healthy)
}
