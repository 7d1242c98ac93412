//! The order of machines, members and answers is not significant.

use std::collections::BTreeSet;

use proptest::prelude::*;

use crate::checks::Check;
use crate::diagnosis::diagnose;
use crate::model::Verdict;
use crate::snapshot::{
    Asked, ContainerState, CsiNode, Damage, EtcdEndpoint, EtcdMember, EtcdStatus, Flags, KubeNode, Kubernetes, Node,
    NodeRoom, Observed, Pod, PodState, Readyz, RequestedApis, RequiredObjects, Served, ServiceEndpoint, Snapshot,
    Talos, TalosNode,
};
use crate::testing::laws::monotony::{fail, failure};
use crate::testing::laws::worlds::any_world;
use crate::testing::laws::{config, said, verdicts};

/// Shuffles lists. Each order only has to differ from the previous one.
struct Shuffle(u64);

impl Shuffle {
    fn below(&mut self, bound: usize) -> usize {
        // Knuth's constants; the upper bits are the better ones.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % bound
    }

    fn list<T>(&mut self, list: &mut [T]) {
        for last in (1..list.len()).rev() {
            let other = self.below(last + 1);
            list.swap(last, other);
        }
    }

    fn answer(&mut self, answer: &mut dyn Damage) {
        answer.shuffle(&mut |bound| self.below(bound));
    }

    /// Each struct is destructured, so that lists in future fields are not forgotten.
    fn snapshot(&mut self, snapshot: &mut Snapshot) {
        let Snapshot { taken: _, asked, talos, kubernetes, external_etcd, nodes, memory } = snapshot;
        let Asked {
            nodes: named,
            control_plane_nodes,
            worker_nodes,
            expect_control_planes: _,
            expect_workers: _,
            expect_talos: _,
            expect_kubernetes: _,
            expect_extensions,
            thresholds: _,
            policy,
            upgrade: _,
            max_unready_workers: _,
            require_quorum_margin: _,
            fail_on_node_condition: _,
            k8s_endpoint: _,
            deadline: _,
            nodes_may_wait: _,
            skipped: _,
            order: _,
        } = asked;
        self.list(named);
        self.list(control_plane_nodes);
        self.list(worker_nodes);
        self.list(expect_extensions);
        self.list(&mut policy.machines);
        self.list(&mut policy.accept);
        if let Some(Talos { credentials: _, endpoints, discovery: _, server: _ }) = talos {
            self.list(endpoints);
        }
        if let Some(kubernetes) = kubernetes {
            self.kubernetes(kubernetes);
        }
        if let Some(endpoints) = external_etcd {
            self.list(endpoints);
        }
        for EtcdEndpoint { address: _, status, members, alarms } in external_etcd.iter_mut().flatten() {
            self.etcd(status, members);
            self.answer(alarms);
        }
        self.list(nodes);
        for node in nodes {
            self.node(node);
        }
        memory.etcd_members.iter_mut().for_each(|members| self.list(members));
    }

    fn node(&mut self, node: &mut Node) {
        let Node {
            name: _,
            hostname: _,
            address: _,
            addresses,
            own_addresses,
            machine_id: _,
            own_machine_id: _,
            role: _,
            sources: _,
            is_talos: _,
            leaving: _,
            out_of_scope: _,
            api_port: _,
            talos,
        } = node;
        self.list(addresses);
        self.list(own_addresses);
        talos.answers_mut().into_iter().for_each(|(.., answer)| self.answer(answer));
        let TalosNode { machine_status, static_pod_statuses, etcd_status, etcd_members, .. } = &mut **talos;
        if let Ok(Some(status)) = machine_status {
            self.list(&mut status.unmet);
        }
        static_pod_statuses.iter_mut().flatten().for_each(|status| self.pod(&mut status.state));
        self.etcd(etcd_status, etcd_members);
        let TalosNode { user_pods, component_flags, kubelet_flags, .. } = &mut **talos;
        self.list(user_pods);
        self.list(component_flags);
        for Flags { names, gates, plugins, .. } in component_flags.iter_mut().chain(kubelet_flags.iter_mut().flatten())
        {
            self.list(names);
            self.list(gates);
            self.list(plugins);
        }
    }

    fn etcd(&mut self, status: &mut Observed<EtcdStatus>, members: &mut Observed<Vec<EtcdMember>>) {
        if let Ok(status) = status {
            self.list(&mut status.errors);
        }
        self.answer(members);
        for EtcdMember { id: _, name: _, peer_urls, client_urls, is_learner: _ } in members.iter_mut().flatten() {
            self.list(peer_urls);
            self.list(client_urls);
        }
    }

    fn pod(&mut self, state: &mut PodState) {
        let PodState { phase: _, ready: _, containers, message: _ } = state;
        self.list::<ContainerState>(containers);
    }

    fn kubernetes(&mut self, kubernetes: &mut Kubernetes) {
        kubernetes.answers_mut().into_iter().for_each(|(.., answer)| self.answer(answer));
        self.list(&mut kubernetes.passed_over);
        self.list(&mut kubernetes.endpoint_addresses);
        self.list(&mut kubernetes.plugin_pods);
        self.list(&mut kubernetes.pulling_pods);
        self.list(&mut kubernetes.unplaced_pods);
        for Readyz { failed, .. } in kubernetes.servers.values_mut().flatten().chain(&mut kubernetes.endpoint) {
            self.list(failed);
        }
        for KubeNode { addresses, internal, overlay, taints, pod_cidrs, out_of, conditions, .. } in
            kubernetes.nodes.iter_mut().flatten()
        {
            self.list(pod_cidrs);
            self.list(out_of);
            self.list(addresses);
            self.list(internal);
            self.list(overlay);
            self.list(taints);
            self.list(conditions);
        }
        for Pod { state, .. } in kubernetes.pods.iter_mut().flatten().chain(&mut kubernetes.plugin_pods) {
            self.pod(state);
        }
        for CsiNode { drivers, .. } in kubernetes.csi_nodes.iter_mut().flatten() {
            self.list(drivers);
        }
        for NodeRoom { taints, .. } in kubernetes.node_room.iter_mut().flatten() {
            self.list(taints);
        }
        for RequestedApis { apis, .. } in kubernetes.requested_apis.values_mut().flatten() {
            self.list(apis);
        }
        for endpoints in [&mut kubernetes.dns_endpoints, &mut kubernetes.api_endpoints] {
            for ServiceEndpoint { addresses, .. } in endpoints.iter_mut().flatten() {
                self.list(addresses);
            }
        }
        for served in kubernetes.required.values_mut().flatten() {
            if let Served::Objects(RequiredObjects { objects, .. }) = served {
                self.list(objects);
            }
        }
    }
}

/// Returns causes, and the problems that they explain. If two dead machines could explain the same problem, the order decides which one
/// does.
fn causes(snapshot: &Snapshot, verdicts: &[(&'static Check, Verdict)]) -> (Vec<&'static str>, BTreeSet<String>) {
    let diagnoses = diagnose(snapshot, verdicts);
    let explained = diagnoses.iter().flat_map(|diagnosis| &diagnosis.explains);
    let explained = explained.map(|it| format!("{} {} {}", it.check, it.target, it.reason.code())).collect();
    let mut ids: Vec<_> = diagnoses.iter().map(|diagnosis| diagnosis.id).collect();
    ids.sort_unstable();
    (ids, explained)
}

proptest! {
    #![proptest_config(config(192))]

    #[test]
    fn order_means_nothing(
        shape in any_world(),
        broken in prop::collection::vec(failure(), 0..4),
        seed in any::<u64>(),
    ) {
        let mut snapshot = shape.world();
        for failure in broken {
            fail(&mut snapshot, failure);
        }
        let mut shuffled = snapshot.clone();
        Shuffle(seed).snapshot(&mut shuffled);
        let (before, after) = (verdicts(&snapshot), verdicts(&shuffled));
        prop_assert_eq!(said(&before), said(&after));
        prop_assert_eq!(causes(&snapshot, &before), causes(&shuffled, &after));
    }
}
