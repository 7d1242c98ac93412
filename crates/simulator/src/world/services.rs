//! The stage of a machine, and its services, which are visible in two answers: `ServiceList` and the resources
//! `Services`.

use jiff::Timestamp;
use serde_json::json;
use talos_api::machine::{ServiceEvent, ServiceEvents, ServiceHealth, ServiceInfo};

use super::Machine;
use crate::cosi::{kind, timestamp};

/// Maximum number of events per service that Talos keeps.
const EVENTS: usize = 64;

/// The health of a service before the first result of a check. The time is Go's zero.
pub(crate) const UNKNOWN: ServiceHealth = ServiceHealth {
    unknown: true,
    healthy: false,
    last_message: String::new(),
    last_change: Some(talos_api::google::protobuf::Timestamp { seconds: -62_135_596_800, nanos: 0 }),
};

impl Machine {
    /// Sets the stage of the machine (`running`). It is ready unless there are unmet conditions, given by name and
    /// reason (`services`, `etcd not healthy`).
    pub fn set_stage(&mut self, stage: &str, unmet: &[(&str, &str)]) {
        let conditions: Vec<_> = unmet.iter().map(|(name, reason)| json!({"name": name, "reason": reason})).collect();
        let spec = json!({"stage": stage, "status": {"ready": unmet.is_empty(), "unmetConditions": conditions}});
        self.resources.put(kind::MACHINE_STATUSES, "machine", spec);
    }

    /// The service with this id, for changes; [`tell_services`](Self::tell_services) has to be called afterwards.
    ///
    /// # Panics
    /// If it does not exist, since tests only name services that they created.
    pub fn service_mut(&mut self, id: &str) -> &mut ServiceInfo {
        let found = self.services.iter_mut().find(|service| service.id == id);
        found.unwrap_or_else(|| panic!("`{}` has no service `{id}`", self.name))
    }

    /// Sets the state of a service, with its reason. The service's health is unknown until the next check.
    ///
    /// # Panics
    /// If there is no such service.
    pub fn set_service_state(&mut self, id: &str, state: &str, message: &str, at: Timestamp) {
        let service = self.service_mut(id);
        state.clone_into(&mut service.state);
        service.health = Some(UNKNOWN);
        add_event(service, message, at);
        self.tell_services();
    }

    /// Sets the result of a running service's health check. `message` is the reason for a failure.
    ///
    /// # Panics
    /// If there is no such service.
    pub fn set_service_health(&mut self, id: &str, healthy: bool, message: &str, at: Timestamp) {
        let service = self.service_mut(id);
        service.health = Some(ServiceHealth {
            unknown: false,
            healthy,
            last_message: message.to_owned(),
            last_change: Some(timestamp(at)),
        });
        let event =
            if healthy { "Health check successful".to_owned() } else { format!("Health check failed: {message}") };
        add_event(service, &event, at);
        self.tell_services();
    }

    /// Updates the resources `Services`, of which there is one for each running service.
    pub fn tell_services(&mut self) {
        let told: Vec<_> = self.resources.list(kind::SERVICES).map(|(id, _)| id.to_owned()).collect();
        let runs = |id: &str| self.services.iter().any(|service| service.id == id && service.state == "Running");
        for id in told.iter().filter(|id| !runs(id)) {
            self.resources.remove(kind::SERVICES, id);
        }
        for service in self.services.iter().filter(|service| service.state == "Running") {
            let (healthy, unknown) = service.health.as_ref().map_or((false, true), |it| (it.healthy, it.unknown));
            let spec = json!({"running": true, "healthy": healthy, "unknown": unknown});
            self.resources.put(kind::SERVICES, &service.id, spec);
        }
    }
}

/// Adds an event to a service.
pub(crate) fn add_event(service: &mut ServiceInfo, message: &str, at: Timestamp) {
    let events = &mut service.events.get_or_insert_with(ServiceEvents::default).events;
    events.push(ServiceEvent { msg: message.to_owned(), state: service.state.clone(), ts: Some(timestamp(at)) });
    let surplus = events.len().saturating_sub(EVENTS);
    events.drain(..surplus);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Network;
    use crate::world::{Shape, World};

    #[test]
    fn resources_follow_the_services() {
        let mut world = World::healthy(&Network::claim().unwrap(), &Shape::default());
        let now = world.now();
        let machine = world.machine_mut("cp-2");
        machine.set_stage("running", &[("services", "etcd not healthy")]);
        let status = machine.resources.get(kind::MACHINE_STATUSES, "machine").unwrap().spec()["status"].clone();
        let unmet = json!([{"name": "services", "reason": "etcd not healthy"}]);
        assert_eq!(status, json!({"ready": false, "unmetConditions": unmet}));
        machine.set_service_health("etcd", false, "no leader", now);
        let spec = machine.resources.get(kind::SERVICES, "etcd").unwrap().spec();
        assert_eq!(spec, &json!({"running": true, "healthy": false, "unknown": false}));
        machine.set_service_state("etcd", "Waiting", "Error running", now);
        assert!(machine.resources.get(kind::SERVICES, "etcd").is_none());
        let service = machine.service_mut("etcd");
        assert_eq!(service.state, "Waiting");
        let last = service.events.as_ref().unwrap().events.last().unwrap();
        assert_eq!((last.msg.as_str(), last.state.as_str()), ("Error running", "Waiting"));
        machine.set_service_state("etcd", "Running", "Started task etcd", now);
        let spec = machine.resources.get(kind::SERVICES, "etcd").unwrap().spec();
        assert_eq!(spec, &json!({"running": true, "healthy": false, "unknown": true}));
        for _ in 0..EVENTS {
            machine.set_service_health("etcd", true, "", now);
        }
        assert_eq!(machine.service_mut("etcd").events.as_ref().unwrap().events.len(), EVENTS);
    }
}
