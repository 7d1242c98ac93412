//! Troubles of etcd. The loss of the leader is not among them, because it follows from the members.

use serde_json::{Value, json};

use super::overlay::Subject;
use super::roots::Root;
use crate::cosi::kind;
use crate::version::TalosVersion;
use crate::world::{Alarm, AlarmKind, EtcdCluster, Member, Role, World};

/// Number of log entries that a learner has not applied yet.
const BEHIND: u64 = 1200;
/// Growth of a database beyond its quota in bytes: Talos's quota is 2 GiB.
const FULL: i64 = 2 << 30;

/// From this version on, values of arguments are lists.
const LISTS_SINCE: TalosVersion = TalosVersion::new(13, 0);

/// Methods that change a member panic if the machine has none, since tests only name machines that they created.
impl World {
    /// Stops etcd, like `talosctl service etcd stop`.
    pub fn etcd_stop(&mut self, node: &str) {
        self.end_etcd_troubles(node);
        self.stop_service(node, "etcd");
    }

    /// etcd accepts connections and answers nothing.
    pub fn etcd_freeze(&mut self, node: &str) {
        self.end_etcd_troubles(node);
        self.begin(Root::EtcdFrozen(self.named(node)));
    }

    pub fn etcd_start(&mut self, node: &str) {
        self.end_etcd_troubles(node);
        self.settle();
    }

    fn end_etcd_troubles(&mut self, node: &str) {
        let node = self.named(node);
        self.states.roots.remove(&Root::EtcdFrozen(node.clone()));
        self.states.roots.remove(&Root::Stopped(node, "etcd".to_owned()));
    }

    /// The member has just joined: it does not vote yet, and is behind.
    pub fn etcd_learner(&mut self, node: &str) {
        let member = self.member_mut(node);
        (member.learner, member.behind) = (true, BEHIND);
        self.settle();
    }

    /// The learner has caught up, and votes.
    pub fn etcd_promote(&mut self, node: &str) {
        let member = self.member_mut(node);
        (member.learner, member.behind) = (false, 0);
        self.settle();
    }

    /// Removes the member while its machine is running.
    pub fn etcd_remove_member(&mut self, node: &str) {
        let Some((at, _)) = self.machine(node) else { return };
        self.lift(&Subject::Member(at));
        for cluster in &mut self.etcd {
            if let Some(place) = cluster.members.iter().position(|member| member.machine == Some(at)) {
                self.states.removed_members.push((cluster.id, place, cluster.members.remove(place)));
            }
        }
        self.settle();
    }

    /// The removed member of the machine joins its cluster again.
    pub fn etcd_rejoin(&mut self, node: &str) {
        let at = self.machine(node).map(|(at, _)| at);
        let removed = &mut self.states.removed_members;
        let Some(found) = removed.iter().position(|(_, _, member)| member.machine == at) else { return };
        let (id, place, member) = removed.remove(found);
        if let Some(cluster) = self.etcd.iter_mut().find(|cluster| cluster.id == id) {
            cluster.members.insert(place.min(cluster.members.len()), member);
        }
        self.settle();
    }

    /// The member raises an alarm, which prevents all further writes. In the case of `NoSpace`, its database is full.
    pub fn etcd_alarm(&mut self, node: &str, kind: AlarmKind) {
        let id = self.member_mut(node).id;
        let alarm = Alarm { member: id, kind };
        if self.etcd.iter().any(|cluster| cluster.alarms.contains(&alarm)) {
            return;
        }
        if kind == AlarmKind::NoSpace {
            self.member_mut(node).grow(FULL);
        }
        if let Some(cluster) = self.etcd.iter_mut().find(|cluster| cluster.members.iter().any(|member| member.id == id))
        {
            cluster.alarms.push(alarm);
        }
        self.settle();
    }

    /// Clears all alarms of the member, and removes the data that filled its database.
    pub fn etcd_disarm(&mut self, node: &str) {
        let id = self.member_mut(node).id;
        let full = Alarm { member: id, kind: AlarmKind::NoSpace };
        if self.etcd.iter().any(|cluster| cluster.alarms.contains(&full)) {
            self.member_mut(node).grow(-FULL);
        }
        for cluster in &mut self.etcd {
            cluster.alarms.retain(|alarm| alarm.member != id);
        }
        self.settle();
    }

    /// Sets the quota of all control planes in bytes, as if etcd were restarted with it.
    pub fn etcd_quota(&mut self, bytes: i64) {
        let quota = bytes.to_string();
        let argument = if self.versions.talos < LISTS_SINCE { json!(quota) } else { json!([quota]) };
        for cluster in &mut self.etcd {
            cluster.quota = Some(bytes);
        }
        for machine in self.machines.values_mut() {
            let spec = |spec: &mut Value| spec["extraArgs"] = json!({"quota-backend-bytes": argument});
            machine.resources.edit(kind::ETCD_SPECS, "etcd", spec);
        }
        self.settle();
    }

    /// Changes the member of a machine, and everything that depends on it.
    pub fn change_member(&mut self, node: &str, change: impl FnOnce(&mut Member)) {
        change(self.member_mut(node));
        self.settle();
    }

    /// Adds a member to the cluster.
    pub(crate) fn add_member(&mut self, member: Member) {
        if let Some(cluster) = self.etcd.first_mut() {
            cluster.members.push(member);
        }
        self.settle();
    }

    /// The machines are configured, but etcd has not been bootstrapped.
    pub fn not_bootstrapped(&mut self) {
        if self.etcd.is_empty() {
            return;
        }
        let members: Vec<_> = self.machines.keys().map(|at| Subject::Member(*at)).collect();
        for member in members {
            self.lift(&member);
        }
        self.states.unborn_etcd = std::mem::take(&mut self.etcd);
        for machine in self.machines.values_mut().filter(|machine| machine.role == Role::ControlPlane) {
            // etcd has never passed this stage.
            if let Some(events) = &mut machine.service_mut("etcd").events {
                events.events.retain(|event| ["Starting", "Waiting"].contains(&event.state.as_str()));
            }
            machine.set_etcd_directory(false);
        }
        self.settle();
    }

    pub fn bootstrap(&mut self) {
        if self.etcd.is_empty() {
            self.etcd = std::mem::take(&mut self.states.unborn_etcd);
            let control_planes = self.machines.values_mut().filter(|machine| machine.role == Role::ControlPlane);
            control_planes.for_each(|machine| machine.set_etcd_directory(true));
        }
        self.settle();
    }

    /// The last control plane was bootstrapped separately, and is its own etcd cluster.
    pub fn bootstrapped_twice(&mut self) {
        let [cluster] = self.etcd.as_mut_slice() else { return };
        if cluster.members.len() < 2 {
            return;
        }
        let members: Vec<_> = cluster.members.pop().into_iter().collect();
        let second = EtcdCluster {
            id: cluster.id ^ 0xffff_0000,
            members,
            alarms: Vec::new(),
            storage: None,
            auth: None,
            ..*cluster
        };
        self.etcd.push(second);
        self.settle();
    }

    /// The last control plane joins the others.
    pub fn bootstrapped_once(&mut self) {
        let others: Vec<_> = self.etcd.drain(1.min(self.etcd.len())..).flat_map(|cluster| cluster.members).collect();
        if let Some(cluster) = self.etcd.first_mut() {
            cluster.members.extend(others);
        }
        self.settle();
    }

    fn member_mut(&mut self, node: &str) -> &mut Member {
        let at = self.machine(node).map(|(at, _)| at);
        let mut members = self.etcd.iter_mut().flat_map(|cluster| &mut cluster.members);
        let found = members.find(|member| at.is_some() && member.machine == at);
        found.unwrap_or_else(|| panic!("no machine with an etcd member is called `{node}`"))
    }
}

impl Member {
    fn grow(&mut self, bytes: i64) {
        self.db_size += bytes;
        self.db_size_in_use += bytes;
    }
}
