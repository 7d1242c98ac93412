//! States of machines and of the cluster, by their names in scenario files.

use anyhow::ensure;

use super::known;
use crate::world::{Role, World};

/// A state with a name and, in most cases, a machine.
#[derive(Debug)]
pub(crate) struct State {
    /// `power-off`
    pub(crate) name: &'static str,
    pub(crate) of: Of,
}

/// The object of a state, with the method that sets the state.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Of {
    Cluster(fn(&mut World)),
    Machine(fn(&mut World, &str)),
    ControlPlane(fn(&mut World, &str)),
    /// A control plane with an etcd member.
    Member(fn(&mut World, &str)),
}

const fn cluster(name: &'static str, make: fn(&mut World)) -> State {
    State { name, of: Of::Cluster(make) }
}

const fn machine(name: &'static str, make: fn(&mut World, &str)) -> State {
    State { name, of: Of::Machine(make) }
}

const fn control_plane(name: &'static str, make: fn(&mut World, &str)) -> State {
    State { name, of: Of::ControlPlane(make) }
}

const fn member(name: &'static str, make: fn(&mut World, &str)) -> State {
    State { name, of: Of::Member(make) }
}

/// Each state is followed by the one that ends it.
pub(crate) static STATES: &[State] = &[
    machine("power-off", World::power_off),
    machine("power-on", World::power_on),
    machine("unplug", World::unplug),
    machine("plug", World::plug),
    machine("freeze-machined", World::freeze_machined),
    machine("thaw-machined", World::thaw_machined),
    machine("rebooting", World::rebooting),
    machine("booted", World::booted),
    machine("time-not-synced", World::time_not_synced),
    machine("time-synced", World::time_synced),
    machine("maintenance", World::maintenance),
    machine("configured", World::configured),
    machine("kubelet-crash", World::kubelet_crash),
    machine("kubelet-heals", World::kubelet_heals),
    control_plane("etcd-stop", World::etcd_stop),
    control_plane("etcd-freeze", World::etcd_freeze),
    control_plane("etcd-start", World::etcd_start),
    member("etcd-learner", World::etcd_learner),
    member("etcd-promote", World::etcd_promote),
    control_plane("etcd-remove-member", World::etcd_remove_member),
    control_plane("etcd-rejoin", World::etcd_rejoin),
    member("etcd-no-space", |world, node| world.etcd_alarm(node, crate::world::AlarmKind::NoSpace)),
    member("etcd-corrupt", |world, node| world.etcd_alarm(node, crate::world::AlarmKind::Corrupt)),
    member("etcd-disarm", World::etcd_disarm),
    cluster("not-bootstrapped", World::not_bootstrapped),
    cluster("bootstrap", World::bootstrap),
    cluster("bootstrapped-twice", World::bootstrapped_twice),
    cluster("bootstrapped-once", World::bootstrapped_once),
    control_plane("api-server-stop", World::api_server_stop),
    control_plane("api-server-freeze", World::api_server_freeze),
    control_plane("api-server-start", World::api_server_start),
    control_plane("scheduler-broken", World::scheduler_broken),
    control_plane("scheduler-heals", World::scheduler_heals),
    control_plane("controller-manager-broken", World::controller_manager_broken),
    control_plane("controller-manager-heals", World::controller_manager_heals),
    machine("cordon", World::cordon),
    machine("uncordon", World::uncordon),
    cluster("cni-missing", World::cni_missing),
    cluster("cni-heals", World::cni_heals),
    machine("pods-cannot-start", World::pods_cannot_start),
    machine("pods-start", World::pods_start),
    machine("pods-cannot-restart", World::pods_cannot_restart),
    machine("pods-restart", World::pods_restart),
    cluster("dns-scaled-to-zero", World::dns_scaled_to_zero),
    cluster("dns-scaled-up", World::dns_scaled_up),
];

impl State {
    pub(crate) fn is_of_a_node(&self) -> bool {
        !matches!(self.of, Of::Cluster(_))
    }

    /// Sets the state; `node` is empty for a state of the cluster.
    ///
    /// # Errors
    /// If the world has no such machine, or it is of another kind, or it has no etcd member at the moment.
    pub(crate) fn make(&self, world: &mut World, node: &str) -> anyhow::Result<()> {
        self.check(world, node)?;
        if matches!(self.of, Of::Member(_)) {
            let (at, _) = known(world, node)?;
            ensure!(world.etcd_of(at).is_some(), "`{node}` has no etcd member");
        }
        match self.of {
            Of::Cluster(make) => make(world),
            Of::Machine(make) | Of::ControlPlane(make) | Of::Member(make) => make(world, node),
        }
        Ok(())
    }

    /// Checks that the machine exists and is of the right kind, regardless of its state.
    pub(crate) fn check(&self, world: &World, node: &str) -> anyhow::Result<()> {
        if !self.is_of_a_node() {
            return Ok(());
        }
        let (_, machine) = known(world, node)?;
        if !matches!(self.of, Of::Machine(_)) {
            let name = self.name;
            ensure!(machine.role == Role::ControlPlane, "`{node}` is a worker, and `{name}` is about control planes");
        }
        Ok(())
    }
}
