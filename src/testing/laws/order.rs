//! The order of machines, members and answers is not significant.

use std::collections::BTreeSet;

use proptest::prelude::*;

use crate::checks::Check;
use crate::diagnosis::diagnose;
use crate::model::Verdict;
use crate::snapshot::{
    Asked, ContainerState, CsiNode, EtcdEndpoint, EtcdMember, EtcdStatus, Flags, KubeNode, Kubernetes, Node, NodeRoom,
    Observed, Pod, PodState, Readyz, RequestedApis, RequiredObjects, Served, ServiceEndpoint, Snapshot, Talos,
    TalosNode,
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

    fn answer<T>(&mut self, list: &mut Observed<Vec<T>>) {
        if let Ok(list) = list {
            self.list(list);
        }
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
        let TalosNode {
            contact: _,
            machine_type: _,
            nodename: _,
            skips_registration: _,
            machine_status,
            services,
            time_status: _,
            adjtime: _,
            network_status: _,
            link_addresses,
            kube_prism: _,
            kube_span_peers,
            memory: _,
            volumes,
            mounts,
            diagnostics,
            kubelet_certificate: _,
            static_pods,
            user_pods,
            component_flags,
            static_pod_statuses,
            config_statuses,
            scheduler_enabled: _,
            controller_manager_enabled: _,
            bootstrap_manifests: _,
            manifests_applied,
            extra_manifests,
            etcd_member_id: _,
            etcd_status,
            etcd_members,
            etcd_alarms,
            etcd_spec: _,
            etcd_data_absent: _,
            kubelet_flags,
            extensions,
            installed: _,
            cluster_id: _,
        } = &mut **talos;
        if let Ok(Some(status)) = machine_status {
            self.list(&mut status.unmet);
        }
        self.answer(link_addresses);
        self.answer(kube_span_peers);
        self.answer(services);
        self.answer(volumes);
        self.answer(mounts);
        self.answer(diagnostics);
        self.answer(static_pods);
        self.answer(manifests_applied);
        self.answer(extra_manifests);
        self.list(user_pods);
        self.list(component_flags);
        for Flags { names, gates, plugins, .. } in component_flags {
            self.list(names);
            self.list(gates);
            self.list(plugins);
        }
        self.answer(static_pod_statuses);
        static_pod_statuses.iter_mut().flatten().for_each(|status| self.pod(&mut status.state));
        self.answer(config_statuses);
        self.etcd(etcd_status, etcd_members);
        self.answer(etcd_alarms);
        for Flags { names, gates, plugins, .. } in kubelet_flags.iter_mut().flatten() {
            self.list(names);
            self.list(gates);
            self.list(plugins);
        }
        self.answer(extensions);
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

    #[expect(clippy::too_many_lines, reason = "a line for each field")]
    fn kubernetes(&mut self, kubernetes: &mut Kubernetes) {
        let Kubernetes {
            credentials: _,
            passed_over,
            may_still_find: _,
            endpoint,
            endpoint_addresses,
            servers,
            nodes,
            node_leases: _,
            system_leases: _,
            pods,
            user_pods: _,
            daemon_sets,
            deployments,
            stateful_sets,
            plugin_namespaces,
            plugin_pods,
            starting_pods,
            pulling_pods,
            unplaced_pods,
            csi_nodes,
            attached_volumes,
            pod_events,
            bound_pods,
            disruption_budgets,
            node_room,
            volume_attachments,
            persistent_volumes,
            requested_apis,
            dns_endpoints,
            api_endpoints,
            signing_requests,
            validating_webhooks,
            mutating_webhooks,
            conversions,
            webhook_endpoints: _,
            api_services,
            version: _,
            cluster_uid: _,
            required,
        } = kubernetes;
        self.list(passed_over);
        self.list(endpoint_addresses);
        for Readyz { failed, .. } in servers.values_mut().flatten().chain(endpoint) {
            self.list(failed);
        }
        self.answer(nodes);
        for KubeNode { addresses, internal, overlay, taints, pod_cidrs, out_of, conditions, .. } in
            nodes.iter_mut().flatten()
        {
            self.list(pod_cidrs);
            self.list(out_of);
            self.list(addresses);
            self.list(internal);
            self.list(overlay);
            self.list(taints);
            self.list(conditions);
        }
        self.answer(pods);
        self.list(plugin_pods);
        for Pod { state, .. } in pods.iter_mut().flatten().chain(plugin_pods) {
            self.pod(state);
        }
        self.answer(daemon_sets);
        self.answer(deployments);
        self.answer(stateful_sets);
        self.answer(plugin_namespaces);
        self.answer(starting_pods);
        self.list(pulling_pods);
        self.list(unplaced_pods);
        self.answer(csi_nodes);
        for CsiNode { drivers, .. } in csi_nodes.iter_mut().flatten() {
            self.list(drivers);
        }
        self.answer(attached_volumes);
        self.answer(pod_events);
        self.answer(bound_pods);
        self.answer(disruption_budgets);
        self.answer(node_room);
        for NodeRoom { taints, .. } in node_room.iter_mut().flatten() {
            self.list(taints);
        }
        self.answer(volume_attachments);
        self.answer(persistent_volumes);
        for RequestedApis { apis, .. } in requested_apis.values_mut().flatten() {
            self.list(apis);
        }
        for endpoints in [dns_endpoints, api_endpoints] {
            self.answer(endpoints);
            for ServiceEndpoint { addresses, .. } in endpoints.iter_mut().flatten() {
                self.list(addresses);
            }
        }
        self.answer(signing_requests);
        self.answer(validating_webhooks);
        self.answer(mutating_webhooks);
        self.answer(conversions);
        self.answer(api_services);
        for served in required.values_mut().flatten() {
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
