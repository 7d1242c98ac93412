//! One trouble for each cause, and the facts that the cause requires.

use super::*;

pub(super) const CASES: &[Case] = &[
    Case {
        cause: "bootstrap-manifests-missing",
        trouble: nothing_applied,
        needs: &[|snapshot| snapshot.talos_of("cp-2").manifests_applied = gap(GapKind::TimedOut)],
    },
    Case {
        cause: "credentials-expired",
        trouble: |snapshot| talos_certificate(snapshot).not_after = ago(3600),
        needs: &[|snapshot| snapshot.talos_mut().credentials = gap(GapKind::Malformed)],
    },
    Case {
        cause: "talosconfig-of-another-cluster",
        trouble: |snapshot| endpoints(snapshot, GapKind::UnknownCa),
        needs: &[|snapshot| snapshot.talos_mut().endpoints[1].version = gap(GapKind::ConnectTimedOut)],
    },
    Case {
        cause: "kubeconfig-of-another-cluster",
        trouble: |snapshot| {
            for (n, node) in snapshot.kube().nodes.as_mut().unwrap().iter_mut().enumerate() {
                node.name = format!("other-{n}");
                node.addresses = vec![format!("10.9.0.{n}")];
            }
        },
        needs: &[NO_NODES],
    },
    Case {
        cause: "worker-as-endpoint",
        trouble: |snapshot| snapshot.talos_mut().endpoints[0].role = Ok(Some(Role::Worker)),
        needs: &[|snapshot| snapshot.talos_mut().endpoints[0].role = gap(GapKind::TimedOut)],
    },
    Case {
        cause: "talos-role-insufficient",
        trouble: |snapshot| snapshot.talos_of("cp-1").etcd_alarms = gap(GapKind::Forbidden),
        needs: &[|snapshot| snapshot.talos_of("cp-1").etcd_alarms = gap(GapKind::TimedOut)],
    },
    Case {
        cause: "etcd-rights-missing",
        trouble: |snapshot| {
            external_etcd(snapshot);
            for endpoint in snapshot.external_etcd.as_mut().unwrap() {
                endpoint.alarms = gap(GapKind::Forbidden);
            }
        },
        needs: &[|snapshot| {
            for endpoint in snapshot.external_etcd.as_mut().unwrap() {
                endpoint.alarms = gap(GapKind::ServerError);
            }
        }],
    },
    Case {
        cause: "etcd-endpoint-mute",
        trouble: |snapshot| mute_endpoint(snapshot, GapKind::ConnectionRefused),
        needs: &[
            |snapshot| mute_endpoint(snapshot, GapKind::ConnectTimedOut),
            |snapshot| listed(snapshot, |members| members.truncate(2)),
            |snapshot| snapshot.external_etcd = None,
        ],
    },
    Case {
        cause: "etcd-member-never-started",
        trouble: |snapshot| {
            external_etcd(snapshot);
            listed(snapshot, |members| members.push(unstarted()));
        },
        needs: &[
            |snapshot| listed(snapshot, |members| "cp-4".clone_into(&mut members[3].name)),
            |snapshot| listed(snapshot, |members| members[3].is_learner = true),
            |snapshot| listed(snapshot, Vec::clear),
        ],
    },
    Case {
        cause: "kubernetes-rights-missing",
        trouble: |snapshot| {
            snapshot.kube().daemon_sets = gap(GapKind::Forbidden);
            snapshot.memory = snapshot.memory.after(snapshot, Duration::ZERO);
            snapshot.memory.elapsed = Duration::from_secs(100);
        },
        needs: &[|snapshot| snapshot.kube().daemon_sets = gap(GapKind::ServerError)],
    },
    Case {
        cause: "certificate-renewal-broken",
        trouble: |snapshot| snapshot.talos_mut().endpoints[2].version = gap(GapKind::PeerCertificateExpired),
        needs: &[
            |snapshot| snapshot.talos_mut().endpoints[2].version = gap(GapKind::TimedOut),
            |snapshot| endpoints(snapshot, GapKind::PeerCertificateExpired),
        ],
    },
    Case {
        cause: "certificate-renewal-broken",
        trouble: |snapshot| {
            let why = "tls: failed to verify certificate: x509: certificate has expired or is not yet valid";
            snapshot.node_mut("w-1").talos = TalosNode::unasked(&Gap::new(GapKind::NodeUnreachable, why)).into();
        },
        needs: &[|snapshot| unreached(snapshot, GapKind::NodeUnreachable)],
    },
    Case {
        cause: "clock-not-synchronized",
        trouble: |snapshot| {
            snapshot.talos_of("cp-2").time_status.as_mut().unwrap().as_mut().unwrap().synced = false;
        },
        needs: &[|snapshot| snapshot.talos_of("cp-2").time_status = gap(GapKind::TimedOut)],
    },
    Case {
        cause: "kubelet-certificate-unapproved",
        trouble: |snapshot| {
            let request = &mut snapshot.kube().signing_requests.as_mut().unwrap()[0];
            request.state = crate::snapshot::RequestState::Pending;
            "system:node:cp-2".clone_into(&mut request.user);
            snapshot.talos_of("cp-2").static_pod_statuses = Ok(Vec::new());
        },
        needs: &[
            |snapshot| snapshot.kube().signing_requests = gap(GapKind::Forbidden),
            |snapshot| "system:node:cp-3".clone_into(&mut snapshot.kube().signing_requests.as_mut().unwrap()[0].user),
        ],
    },
    Case {
        cause: "kubelet-without-certificate",
        trouble: |snapshot| {
            let request = &mut snapshot.kube().signing_requests.as_mut().unwrap()[0];
            request.state = crate::snapshot::RequestState::Pending;
            "kubernetes.io/kube-apiserver-client-kubelet".clone_into(&mut request.signer);
            "system:node:w-1".clone_into(&mut request.user);
            snapshot.kube().nodes.as_mut().unwrap().retain(|node| node.name != "w-1");
        },
        needs: &[
            |snapshot| snapshot.kube().signing_requests.as_mut().unwrap()[0].user = "system:bootstrap:abc".to_owned(),
            |snapshot| snapshot.kube().signing_requests = gap(GapKind::Forbidden),
        ],
    },
    Case {
        cause: "etcd-joining",
        trouble: |snapshot| joins_etcd(snapshot, "cp-3"),
        needs: &[
            |snapshot| "Failed".clone_into(&mut snapshot.service_mut("cp-3", "etcd").state),
            |snapshot| {
                let event = crate::snapshot::ServiceEvent {
                    message: "Running pre state".to_owned(),
                    state: "Preparing".to_owned(),
                    at: Some(ago(900)),
                };
                snapshot.service_mut("cp-3", "etcd").last_event = Some(event);
            },
        ],
    },
    Case {
        cause: "machine-not-joined",
        trouble: not_joined,
        needs: &[
            |snapshot| unreached(snapshot, GapKind::NodeUnreachable),
            |snapshot| {
                snapshot.kube().nodes.as_mut().unwrap().push(crate::testing::fixture::Shape::default().kube_node(3));
            },
        ],
    },
    Case {
        cause: "api-path-blocked",
        trouble: |snapshot| {
            for name in CONTROL_PLANES {
                snapshot.kube().servers.insert(name.to_owned(), gap(GapKind::ConnectTimedOut));
            }
            snapshot.kube().endpoint = gap(GapKind::ConnectTimedOut);
            lists(snapshot, GapKind::ConnectTimedOut);
        },
        needs: &[
            // An accepted but unserved connection shows that a server exists, and so does an answer.
            |snapshot| snapshot.kube().endpoint = gap(GapKind::TimedOut),
            |snapshot| *snapshot.kube().servers.get_mut("cp-2").unwrap() = gap(GapKind::TimedOut),
            |snapshot| {
                let pods = snapshot.talos_of("cp-2").static_pod_statuses.as_mut().unwrap();
                for pod in pods {
                    pod.state.ready = Some(false);
                }
            },
            |snapshot| snapshot.talos_of("cp-2").static_pod_statuses = gap(GapKind::TimedOut),
        ],
    },
    Case {
        cause: "machine-going-down",
        trouble: |snapshot| goes_down(snapshot, "w-1", "rebooting"),
        needs: &[
            |snapshot| snapshot.talos_of("w-1").machine_status = gap(GapKind::TimedOut),
            |snapshot| snapshot.machine_status_mut("w-1").stage = "running".to_owned(),
            |snapshot| snapshot.machine_status_mut("w-1").stage = "booting".to_owned(),
        ],
    },
    Case {
        cause: "machine-unconfigured",
        trouble: |snapshot| unreached(snapshot, GapKind::Maintenance),
        needs: &[|snapshot| unreached(snapshot, GapKind::NodeUnreachable)],
    },
    Case {
        cause: "machine-renamed",
        trouble: |snapshot| {
            let contact = snapshot.talos_of("w-1").contact.as_mut().unwrap();
            contact.answered_by_other = Some("talos-u4e-prh".to_owned());
            snapshot.node_mut("w-1").sources.discovery = false;
            silent(snapshot);
        },
        needs: &[
            |snapshot| snapshot.talos_mut().discovery = gap(GapKind::TimedOut),
            |snapshot| unreached(snapshot, GapKind::NodeUnreachable),
        ],
    },
    Case {
        cause: "node-removed-but-listed",
        trouble: |snapshot| {
            unreached(snapshot, GapKind::NodeUnreachable);
            snapshot.node_mut("w-1").sources.discovery = false;
            silent(snapshot);
        },
        needs: &[|snapshot| snapshot.talos_mut().discovery = gap(GapKind::TimedOut)],
    },
    Case {
        cause: "autoscaler-removes-nodes",
        trouble: |snapshot| {
            snapshot.asked.expect_workers = Some(1);
            snapshot.node_mut("w-1").leaving = true;
        },
        needs: &[|snapshot| snapshot.asked.expect_workers = None, |snapshot| snapshot.asked.expect_workers = Some(2)],
    },
    Case {
        cause: "node-certificate-refused",
        trouble: |snapshot| {
            let why = "authentication handshake failed: tls: failed to verify certificate: x509: certificate signed by unknown authority";
            snapshot.node_mut("w-1").talos = TalosNode::unasked(&Gap::new(GapKind::NodeUnreachable, why)).into();
        },
        needs: &[|snapshot| unreached(snapshot, GapKind::NodeUnreachable)],
    },
    Case {
        cause: "talos-api-refused",
        trouble: refused,
        needs: &[
            |snapshot| unreached(snapshot, GapKind::NodeUnreachable),
            |snapshot| snapshot.node_mut("w-1").talos.contact = Err(Gap::not_asked()),
        ],
    },
    Case {
        cause: "node-down",
        trouble: |snapshot| {
            unreached(snapshot, GapKind::NodeUnreachable);
            silent(snapshot);
        },
        needs: &[|snapshot| snapshot.node_mut("w-1").talos.contact = Err(Gap::not_asked())],
    },
    Case {
        cause: "node-hangs",
        trouble: |snapshot| {
            snapshot.power_off("cp-3");
            snapshot.node_mut("cp-3").talos =
                TalosNode::unasked(&Gap::new(GapKind::TimedOut, "no answer in 5 s")).into();
            snapshot.talos_mut().endpoints[2].version = gap(GapKind::TimedOut);
        },
        needs: &[|snapshot| snapshot.talos_mut().endpoints[2].version = gap(GapKind::ConnectTimedOut)],
    },
    Case {
        cause: "talos-api-cut-off",
        trouble: |snapshot| {
            unreached(snapshot, GapKind::NodeUnreachable);
            snapshot.memory.rounds = 1;
            snapshot.kube().node_leases.as_mut().unwrap().by_name.get_mut("w-1").unwrap().moved_within =
                Some(Duration::from_secs(12));
        },
        needs: &[
            |snapshot| snapshot.kube().node_leases = gap(GapKind::TimedOut),
            |snapshot| snapshot.memory.rounds = 0,
            |snapshot| snapshot.memory.answered.extend(["w-1".to_owned()]),
            NO_NODES,
            |snapshot| snapshot.node_mut("w-1").talos.contact = Err(Gap::not_asked()),
        ],
    },
    Case {
        cause: "cluster-not-bootstrapped",
        trouble: never_bootstrapped,
        needs: &[
            |snapshot| snapshot.talos_of("cp-2").etcd_data_absent = gap(GapKind::TimedOut),
            |snapshot| snapshot.talos_of("cp-2").services = gap(GapKind::TimedOut),
        ],
    },
    Case {
        cause: "bootstrapped-twice",
        trouble: |snapshot| {
            let mut other = members(snapshot);
            other.retain(|member| member.name == "cp-3");
            let mut rest = members(snapshot);
            rest.retain(|member| member.name != "cp-3");
            snapshot.set_members(&rest);
            snapshot.talos_of("cp-3").etcd_members = Ok(other);
        },
        needs: &[no_lists],
    },
    Case {
        cause: "boot-held-up",
        trouble: |snapshot| {
            stage(snapshot, "w-1", "booting");
            service(snapshot, "w-1", "cri", "Waiting");
        },
        needs: &[
            |snapshot| snapshot.talos_of("w-1").services = gap(GapKind::TimedOut),
            |snapshot| snapshot.talos_of("w-1").machine_status = gap(GapKind::TimedOut),
        ],
    },
    Case { cause: "etcd-out-of-space", trouble: |snapshot| raise(snapshot, &AlarmKind::NoSpace), needs: &[no_alarms] },
    Case { cause: "etcd-data-corrupt", trouble: |snapshot| raise(snapshot, &AlarmKind::Corrupt), needs: &[no_alarms] },
    Case { cause: "etcd-quorum-lost", trouble: quorum_lost, needs: &[no_statuses] },
    Case {
        cause: "etcd-member-stuck-joining",
        trouble: |snapshot| {
            snapshot.etcd_status_mut("cp-3").is_learner = true;
            let mut members = members(snapshot);
            members[2].is_learner = true;
            snapshot.set_members(&members);
        },
        needs: &[|snapshot| {
            no_lists(snapshot);
            no_statuses(snapshot);
        }],
    },
    Case { cause: "etcd-member-without-machine", trouble: stale_member, needs: &[no_lists] },
    Case {
        cause: "etcd-member-removed",
        trouble: |snapshot| {
            let mut left = members(snapshot);
            left.retain(|member| member.name != "cp-3");
            snapshot.set_members(&left);
            service(snapshot, "cp-3", "etcd", "Preparing");
            snapshot.talos_of("cp-3").etcd_members = gap(GapKind::ConnectionRefused);
            snapshot.talos_of("cp-3").etcd_status = gap(GapKind::ConnectionRefused);
        },
        needs: &[no_lists, no_statuses, |snapshot| snapshot.talos_of("cp-3").services = gap(GapKind::TimedOut)],
    },
    Case {
        cause: "etcd-works-nowhere",
        trouble: etcd_is_down_everywhere,
        needs: &[|snapshot| snapshot.talos_of("cp-3").services = gap(GapKind::TimedOut)],
    },
    Case {
        cause: "etcd-member-down",
        trouble: |snapshot| service(snapshot, "cp-3", "etcd", "Waiting"),
        needs: &[no_lists, no_statuses, |snapshot| snapshot.talos_of("cp-3").services = gap(GapKind::TimedOut)],
    },
    Case {
        cause: "kubelet-not-running",
        trouble: |snapshot| service(snapshot, "w-1", "kubelet", "Waiting"),
        needs: &[|snapshot| snapshot.talos_of("w-1").services = gap(GapKind::TimedOut)],
    },
    Case {
        cause: "no-controller-manager-left",
        trouble: |snapshot| crash_everywhere(snapshot, "kube-controller-manager"),
        needs: &[|snapshot| {
            *state_of(snapshot, "cp-2", "kube-controller-manager") = running_pod("kube-controller-manager");
        }],
    },
    Case {
        cause: "no-scheduler-left",
        trouble: |snapshot| crash_everywhere(snapshot, "kube-scheduler"),
        needs: &[|snapshot| *state_of(snapshot, "cp-2", "kube-scheduler") = running_pod("kube-scheduler")],
    },
    Case {
        cause: "webhook-refuses-writes",
        trouble: |snapshot| snapshot.kube().webhook_endpoints.values_mut().for_each(|it| *it = Ok(Vec::new())),
        needs: &[|snapshot| snapshot.kube().webhook_endpoints.values_mut().for_each(|it| *it = gap(GapKind::TimedOut))],
    },
    Case {
        cause: "component-crash-looping",
        trouble: crashes,
        needs: &[|snapshot| {
            snapshot.talos_of("cp-2").static_pod_statuses = gap(GapKind::TimedOut);
        }],
    },
    Case {
        cause: "load-balancer-down",
        trouble: |snapshot| snapshot.kube().endpoint = gap(GapKind::ConnectTimedOut),
        needs: &[|snapshot| *snapshot.kube().servers.get_mut("cp-2").unwrap() = gap(GapKind::ConnectTimedOut)],
    },
    Case {
        cause: "api-lists-unanswered",
        trouble: |snapshot| {
            let kubernetes = snapshot.kube();
            kubernetes.nodes = gap(GapKind::TimedOut);
            kubernetes.pods = gap(GapKind::TimedOut);
            kubernetes.node_leases = gap(GapKind::TimedOut);
            kubernetes.daemon_sets = gap(GapKind::TimedOut);
            kubernetes.deployments = gap(GapKind::TimedOut);
        },
        needs: &[
            |snapshot| snapshot.kube().nodes = gap(GapKind::Forbidden),
            |snapshot| snapshot.kube().pods = healthy().kube().pods.clone(),
            |snapshot| snapshot.kube().endpoint = gap(GapKind::TimedOut),
        ],
    },
    Case {
        cause: "no-api-server-works",
        trouble: |snapshot| {
            snapshot.kube().endpoint = gap(GapKind::TimedOut);
            for name in CONTROL_PLANES {
                *snapshot.kube().servers.get_mut(name).unwrap() = gap(GapKind::TimedOut);
            }
        },
        needs: &[
            |snapshot| *snapshot.kube().servers.get_mut("cp-2").unwrap() = Err(Gap::not_asked()),
            |snapshot| snapshot.kube().endpoint = healthy().kube().endpoint.clone(),
            |snapshot| {
                snapshot.nodes.clear();
                snapshot.kube().servers.clear();
            },
        ],
    },
    Case {
        cause: "api-server-down",
        trouble: |snapshot| *snapshot.kube().servers.get_mut("cp-2").unwrap() = gap(GapKind::TimedOut),
        needs: &[|snapshot| *snapshot.kube().servers.get_mut("cp-2").unwrap() = Err(Gap::not_asked())],
    },
    Case { cause: "network-plugin-missing", trouble: no_network, needs: &[NO_NODES] },
    Case {
        cause: "node-agent-not-running",
        trouble: |snapshot| cannot_pull(snapshot, "ErrImagePull"),
        needs: &[
            |snapshot| snapshot.kube().pods = gap(GapKind::TimedOut),
            |snapshot| snapshot.kube().daemon_sets = gap(GapKind::TimedOut),
            |snapshot| cannot_pull(snapshot, "ContainerCreating"),
        ],
    },
    Case {
        cause: "kubelet-not-registered",
        trouble: not_registered,
        needs: &[
            |snapshot| service(snapshot, "w-1", "kubelet", "Waiting"),
            |snapshot| snapshot.talos_of("w-1").services = gap(GapKind::TimedOut),
            |snapshot| snapshot.talos_of("w-1").nodename = gap(GapKind::TimedOut),
        ],
    },
    Case {
        cause: "dns-switched-off",
        trouble: |snapshot| {
            snapshot.kube().dns_endpoints = Ok(Vec::new());
            let dns = &mut snapshot.kube().deployments.as_mut().unwrap()[0];
            (dns.desired, dns.available) = (0, 0);
        },
        needs: &[
            |snapshot| snapshot.kube().deployments = gap(GapKind::TimedOut),
            |snapshot| snapshot.kube().dns_endpoints = gap(GapKind::TimedOut),
        ],
    },
    Case {
        cause: "dns-crash-looping",
        trouble: |snapshot| {
            snapshot.kube().dns_endpoints = Ok(Vec::new());
            dns_pods(snapshot).for_each(|pod| {
                pod.state.ready = Some(false);
                pod.state.containers = vec![ContainerState {
                    name: "coredns".to_owned(),
                    restarts: 7,
                    waiting_reason: Some("CrashLoopBackOff".to_owned()),
                    exit_code: Some(1),
                    ..ContainerState::default()
                }];
            });
        },
        needs: &[
            |snapshot| snapshot.kube().pods = gap(GapKind::TimedOut),
            |snapshot| snapshot.kube().dns_endpoints = gap(GapKind::TimedOut),
            |snapshot| dns_pods(snapshot).for_each(|pod| pod.state.containers.clear()),
            |snapshot| dns_pods(snapshot).for_each(|pod| pod.labels.clear()),
        ],
    },
    Case {
        cause: "unsupported-jump",
        trouble: |snapshot| {
            snapshot.asked.upgrade = Upgrade { talos: Some("1.14.1".to_owned()), ..Upgrade::default() };
            "v1.11.2".clone_into(&mut snapshot.talos_of("w-1").contact.as_mut().unwrap().version.tag);
        },
        needs: &[
            |snapshot| snapshot.talos_of("w-1").contact = gap(GapKind::TimedOut),
            |snapshot| snapshot.asked.upgrade = Upgrade::default(),
        ],
    },
    Case {
        cause: "api-removed",
        trouble: |snapshot| {
            snapshot.kube().requested_apis.get_mut("cp-2").unwrap().as_mut().unwrap().apis[0].removed =
                "1.32".to_owned();
        },
        needs: &[
            |snapshot| *snapshot.kube().requested_apis.get_mut("cp-2").unwrap() = gap(GapKind::Forbidden),
            |snapshot| snapshot.asked.upgrade = Upgrade::default(),
        ],
    },
    Case {
        cause: "drain-blocked",
        trouble: |snapshot| snapshot.kube().disruption_budgets.as_mut().unwrap()[0].disruptions_allowed = 0,
        needs: &[
            |snapshot| snapshot.kube().disruption_budgets = gap(GapKind::Forbidden),
            |snapshot| snapshot.kube().bound_pods = gap(GapKind::Forbidden),
        ],
    },
    Case {
        cause: "no-room",
        trouble: |snapshot| {
            for pod in snapshot.kube().bound_pods.as_mut().unwrap().iter_mut().filter(|pod| pod.namespace == "default")
            {
                pod.needs.requests = Some(amounts(&[("cpu", 3000), ("pods", 1)]));
            }
        },
        needs: &[
            |snapshot| snapshot.kube().node_room = gap(GapKind::Forbidden),
            |snapshot| snapshot.kube().bound_pods = gap(GapKind::Forbidden),
        ],
    },
    Case {
        cause: "upgrade-half-done",
        trouble: half_upgraded,
        needs: &[
            NO_NODES,
            |snapshot| snapshot.talos_of("w-1").contact = gap(GapKind::TimedOut),
            |snapshot| snapshot.talos_of("w-1").machine_status = gap(GapKind::TimedOut),
        ],
    },
];

fn etcd_is_down_everywhere(snapshot: &mut Snapshot) {
    for name in ["cp-1", "cp-2", "cp-3"] {
        service(snapshot, name, "etcd", "Failed");
        let talos = snapshot.talos_of(name);
        talos.etcd_status = gap(GapKind::ConnectionRefused);
        talos.etcd_members = gap(GapKind::ConnectionRefused);
    }
}
