//! Access to machines and to Kubernetes, and the obstacles to it.

use std::borrow::Cow;

use super::certificate::{self, Fault};
use crate::model::Role;
use crate::snapshot::{Contact, Gap, GapKind, Kubernetes, Node, Observed, Service, Snapshot};

/// Access to the Talos machines in general.
pub(crate) enum TalosAccess<'a> {
    /// `--no-talos`.
    LeftOut,
    /// A machine answered, which proves access regardless of any other problem.
    Open,
    /// The credentials cannot be used, or no endpoint works.
    Closed(Cow<'a, Gap>),
}

/// Access to one machine.
pub(crate) enum MachineAccess<'a> {
    Open(&'a Contact),
    Closed(&'a Gap),
    /// The name of the machine that answers in place of this one.
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

/// Access to Kubernetes, as far as it is known before any request.
pub(crate) enum KubernetesAccess<'a> {
    /// `--no-kubernetes`.
    LeftOut,
    Open(&'a Kubernetes),
    /// The credentials are missing or cannot be read.
    NoCredentials(&'a Gap),
    /// The credentials would be sent to this address unencrypted.
    Insecure(&'a str),
    /// The client certificate cannot be used.
    Unusable(Fault),
}

/// Returns the contact if the machine itself answered.
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

/// Returns a Talos service of a machine by name.
pub(crate) fn service<'a>(node: &'a Node, id: &str) -> Option<&'a Service> {
    worst_service(node.talos.services.as_ref().ok()?, id)
}

/// Returns the service with this name. If there are two that contradict each other, returns the unhealthy one.
pub(crate) fn worst_service<'a>(services: &'a [Service], id: &str) -> Option<&'a Service> {
    services.iter().filter(|service| service.id == id).min_by_key(|service| service.is_healthy())
}

/// Returns true if the machine reports that this service is running and healthy.
pub(crate) fn tells_healthy(node: &Node, id: &str) -> bool {
    service(node, id).is_some_and(Service::is_healthy)
}
