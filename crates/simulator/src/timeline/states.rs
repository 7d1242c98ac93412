//! States of machines and of the cluster, by their names in scenario files.

use anyhow::ensure;

use super::known;
use crate::world::{AlarmKind, Role, World};

/// A state with a name and, in most cases, a machine.
#[derive(Debug)]
pub struct State {
    /// `power-off`
    pub(crate) name: &'static str,
    of: Of,
    begin: Set,
    end: Set,
}

/// Sets a state; the name of the machine is empty for a state of the cluster.
type Set = fn(&mut World, &str);

/// The object of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    Cluster,
    Machine,
    ControlPlane,
    /// A control plane with an etcd member.
    Member,
}

const fn state(name: &'static str, of: Of, begin: Set, end: Set) -> State {
    State { name, of, begin, end }
}

pub(crate) static STATES: &[State] = &[
    state("power-off", Of::Machine, World::power_off, World::power_on),
    state("unplug", Of::Machine, World::unplug, World::plug),
    state("freeze-machined", Of::Machine, World::freeze_machined, World::thaw_machined),
    state("rebooting", Of::Machine, World::rebooting, World::booted),
    state("time-not-synced", Of::Machine, World::time_not_synced, World::time_synced),
    state("maintenance", Of::Machine, World::maintenance, World::configured),
    state("kubelet-crash", Of::Machine, World::kubelet_crash, World::kubelet_heals),
    state("etcd-stop", Of::ControlPlane, World::etcd_stop, World::etcd_start),
    state("etcd-freeze", Of::ControlPlane, World::etcd_freeze, World::etcd_start),
    state("etcd-learner", Of::Member, World::etcd_learner, World::etcd_promote),
    state("etcd-remove-member", Of::ControlPlane, World::etcd_remove_member, World::etcd_rejoin),
    state("etcd-no-space", Of::Member, |world, node| world.etcd_alarm(node, AlarmKind::NoSpace), World::etcd_disarm),
    state("etcd-corrupt", Of::Member, |world, node| world.etcd_alarm(node, AlarmKind::Corrupt), World::etcd_disarm),
    state("not-bootstrapped", Of::Cluster, |world, _| world.not_bootstrapped(), |world, _| world.bootstrap()),
    state(
        "bootstrapped-twice",
        Of::Cluster,
        |world, _| world.bootstrapped_twice(),
        |world, _| world.bootstrapped_once(),
    ),
    state("api-server-stop", Of::ControlPlane, World::api_server_stop, World::api_server_start),
    state("api-server-freeze", Of::ControlPlane, World::api_server_freeze, World::api_server_start),
    state("scheduler-broken", Of::ControlPlane, World::scheduler_broken, World::scheduler_heals),
    state(
        "controller-manager-broken",
        Of::ControlPlane,
        World::controller_manager_broken,
        World::controller_manager_heals,
    ),
    state("cordon", Of::Machine, World::cordon, World::uncordon),
    state("cni-missing", Of::Cluster, |world, _| world.cni_missing(), |world, _| world.cni_heals()),
    state("pods-cannot-start", Of::Machine, World::pods_cannot_start, World::pods_start),
    state("pods-cannot-restart", Of::Machine, World::pods_cannot_restart, World::pods_restart),
    state("dns-scaled-to-zero", Of::Cluster, |world, _| world.dns_scaled_to_zero(), |world, _| world.dns_scaled_up()),
];

impl State {
    pub(crate) fn is_of_a_node(&self) -> bool {
        self.of != Of::Cluster
    }

    /// Begins or ends the state; `node` is empty for a state of the cluster.
    ///
    /// # Errors
    /// If the machine has no etcd member at the moment.
    pub(super) fn make(&self, world: &mut World, node: &str, ends: bool) -> anyhow::Result<()> {
        if self.of == Of::Member {
            let (at, _) = known(world, node)?;
            ensure!(world.etcd_of(at).is_some(), "`{node}` has no etcd member");
        }
        (if ends { self.end } else { self.begin })(world, node);
        Ok(())
    }

    /// Checks that the machine exists and is of the right kind, regardless of its state.
    pub(crate) fn check(&self, world: &World, node: &str) -> anyhow::Result<()> {
        if !self.is_of_a_node() {
            return Ok(());
        }
        let (_, machine) = known(world, node)?;
        if self.of != Of::Machine {
            let name = self.name;
            ensure!(machine.role == Role::ControlPlane, "`{node}` is a worker, and `{name}` is about control planes");
        }
        Ok(())
    }
}
