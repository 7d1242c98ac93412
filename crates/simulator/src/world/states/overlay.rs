//! Overlays that replace healthy state, and their removal.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use talos_api::machine::{ServiceHealth, ServiceInfo};

use super::pods::Trouble;
use super::{kubernetes, pods};
use crate::cosi::{Resource, timestamp};
use crate::world::services::{UNKNOWN, add_event};
use crate::world::{Process, World, merge};

/// A part of the world that states change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Subject {
    /// The etcd member of a machine.
    Member(IpAddr),
    /// kube-apiserver of a machine.
    ApiServer(IpAddr),
    /// A Talos service.
    Service(IpAddr, String),
    /// A COSI resource: machine, type and id.
    Resource(IpAddr, String, String),
    /// A Kubernetes object: resource, namespace (or empty), name.
    Object(String, String, String),
    /// The renewal of a lease: `namespace/name`.
    Renewal(String),
}

/// The replacement of a subject's state. An overlay that is already in place is not applied again, so its times do not
/// change.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Overlay {
    Process(Process),
    Service(Service),
    /// The subject is missing.
    Gone,
    /// A spec that replaces the original.
    Spec(Value),
    /// Fields that replace those of the original (RFC 7396).
    Merge(Value),
    /// The status of a static pod in Talos.
    StaticPod(Trouble),
    Pod(Trouble),
    Node(kubernetes::Node),
    /// Number of pods of a `DaemonSet`, `Deployment` or `ReplicaSet` that are not ready.
    Unready(usize),
    /// Pods among the endpoints that are not ready.
    Endpoints(BTreeSet<String>),
    /// The machine that holds a lease.
    Holder(String),
    /// Seconds since the last renewal of a lease.
    Stalled(i64),
}

/// State of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Service {
    pub(super) state: &'static str,
    /// Result of the health check; `None` if there is none yet.
    pub(super) healthy: Option<bool>,
    pub(super) message: &'static str,
    pub(super) event: String,
}

/// The state that an overlay hides.
#[derive(Clone, Debug)]
pub(super) enum Original {
    Process(Process),
    Service(ServiceInfo),
    /// A resource with its spec.
    Resource(Box<Resource>, Value),
    Object(Value),
    Renewed,
}

impl World {
    /// Applies these overlays, and removes all others; limited to subjects of a kind.
    pub(super) fn show(&mut self, overlays: &BTreeMap<Subject, Overlay>, of_kind: fn(&Subject) -> bool) {
        let over: Vec<_> =
            self.states.overlays.keys().filter(|key| of_kind(key) && !overlays.contains_key(key)).cloned().collect();
        for subject in over {
            self.lift(&subject);
        }
        for (subject, overlay) in overlays.iter().filter(|(subject, _)| of_kind(subject)) {
            if self.states.overlays.get(subject) == Some(overlay) {
                continue;
            }
            let original = match self.states.originals.get(subject) {
                Some(original) => original.clone(),
                None => match self.read(subject) {
                    Some(original) => original,
                    // The subject does not exist in this world.
                    None => continue,
                },
            };
            self.lay(subject, &original, overlay);
            self.states.originals.insert(subject.clone(), original);
            self.states.overlays.insert(subject.clone(), overlay.clone());
        }
    }

    /// Restores the original state.
    pub(super) fn lift(&mut self, subject: &Subject) {
        self.states.overlays.remove(subject);
        if let Some(original) = self.states.originals.remove(subject) {
            self.write(subject, original);
        }
    }

    fn read(&self, subject: &Subject) -> Option<Original> {
        match subject {
            Subject::Member(at) => Some(Original::Process(self.etcd_of(*at)?.1.process)),
            Subject::ApiServer(at) => Some(Original::Process(self.machines.get(at)?.api_server.as_ref()?.process)),
            Subject::Service(at, id) => {
                let services = &self.machines.get(at)?.services;
                Some(Original::Service(services.iter().find(|service| service.id == *id)?.clone()))
            }
            Subject::Resource(at, kind, id) => {
                let resource = self.machines.get(at)?.resources.get(kind, id)?;
                Some(Original::Resource(Box::new(resource.clone()), resource.spec().clone()))
            }
            Subject::Object(resource, namespace, name) => {
                Some(Original::Object(self.kubernetes.object(resource, some(namespace), name)?.clone()))
            }
            Subject::Renewal(_) => Some(Original::Renewed),
        }
    }

    fn lay(&mut self, subject: &Subject, original: &Original, overlay: &Overlay) {
        let now = self.now();
        let shown = match (original, overlay) {
            (_, Overlay::Gone) => return self.remove(subject),
            (_, Overlay::Stalled(seconds)) => {
                if let Subject::Renewal(lease) = subject {
                    let since = now - SignedDuration::from_secs(*seconds);
                    self.kubernetes.stalled_leases.entry(lease.clone()).or_insert(since);
                }
                return;
            }
            (_, Overlay::Process(process)) => Original::Process(*process),
            (Original::Service(original), Overlay::Service(service)) => Original::Service(service.shown(original, now)),
            (Original::Resource(resource, spec), overlay) => {
                let mut spec = spec.clone();
                match overlay {
                    Overlay::Spec(other) => spec = other.clone(),
                    Overlay::Merge(patch) => merge(&mut spec, patch),
                    Overlay::StaticPod(trouble) => {
                        let Subject::Resource(_, _, id) = subject else { return };
                        pods::spoil(&mut spec, id.rsplit('/').next().unwrap_or(id), *trouble, now);
                    }
                    _ => return,
                }
                Original::Resource(resource.clone(), spec)
            }
            (Original::Object(original), overlay) => {
                let mut object = original.clone();
                match overlay {
                    Overlay::Merge(patch) => merge(&mut object, patch),
                    Overlay::Pod(trouble) => pods::spoil_pod(&mut object, *trouble, now),
                    Overlay::Node(node) => node.show(&mut object, now),
                    Overlay::Unready(pods) => pods::count(&mut object, *pods, now),
                    Overlay::Endpoints(unready) => pods::withdraw(&mut object, unready),
                    Overlay::Holder(node) => pods::take_lease(&mut object, node),
                    _ => return,
                }
                Original::Object(object)
            }
            _ => return,
        };
        self.write(subject, shown);
    }

    /// Sets the state of a subject; its versions, times and events continue.
    fn write(&mut self, subject: &Subject, value: Original) {
        let now = self.now();
        match (subject, value) {
            (Subject::Member(at), Original::Process(process)) => {
                let mut members = self.etcd.iter_mut().flat_map(|cluster| &mut cluster.members);
                if let Some(member) = members.find(|member| member.machine == Some(*at)) {
                    member.process = process;
                }
            }
            (Subject::ApiServer(at), Original::Process(process)) => {
                if let Some(server) = self.machines.get_mut(at).and_then(|machine| machine.api_server.as_mut()) {
                    server.process = process;
                }
            }
            (Subject::Service(at, id), Original::Service(mut service)) => {
                let Some(machine) = self.machines.get_mut(at) else { return };
                let Some(current) = machine.services.iter_mut().find(|service| service.id == *id) else { return };
                let last = service.events.take().and_then(|events| events.events.last().cloned());
                service.events = current.events.take();
                add_event(&mut service, &last.map(|last| last.msg).unwrap_or_default(), now);
                *current = service;
                machine.tell_services();
            }
            (Subject::Resource(at, kind, id), Original::Resource(mut resource, spec)) => {
                let Some(machine) = self.machines.get_mut(at) else { return };
                if machine.resources.get(kind, id).is_none() {
                    (resource.version, resource.created, resource.updated) = (1, now, now);
                    machine.resources.insert(kind, id, *resource);
                }
                machine.resources.put(kind, id, spec);
            }
            (Subject::Object(resource, ..), Original::Object(value)) => self.kubernetes.put(resource, value),
            (Subject::Renewal(lease), _) => {
                let now = self.now();
                self.kubernetes.resume_lease(lease, now);
            }
            _ => {}
        }
    }

    fn remove(&mut self, subject: &Subject) {
        match subject {
            Subject::Resource(at, kind, id) => {
                if let Some(machine) = self.machines.get_mut(at) {
                    machine.resources.remove(kind, id);
                }
            }
            Subject::Object(resource, namespace, name) => {
                self.kubernetes.remove(resource, some(namespace), name);
            }
            _ => {}
        }
    }
}

impl Service {
    /// The service in this state, with the event that caused it as its only one.
    fn shown(&self, original: &ServiceInfo, now: Timestamp) -> ServiceInfo {
        let health = self.healthy.map_or(UNKNOWN, |healthy| ServiceHealth {
            unknown: false,
            healthy,
            last_message: self.message.to_owned(),
            last_change: Some(timestamp(now)),
        });
        let mut service =
            ServiceInfo { id: original.id.clone(), state: self.state.to_owned(), events: None, health: Some(health) };
        add_event(&mut service, &self.event, now);
        service
    }
}

/// A namespace, or `None` if it is empty.
fn some(namespace: &str) -> Option<&str> {
    (!namespace.is_empty()).then_some(namespace)
}
