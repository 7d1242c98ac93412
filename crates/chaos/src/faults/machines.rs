//! Faults of a machine: its power, network, clock and services.

use serde_json::json;

use super::{ALL_OF_IT, Does, Fault, On, Source, Touches, fault, resource, state};

pub(super) fn machines() -> Vec<Fault> {
    let status = ("MachineStatuses.runtime.talos.dev", "machine");
    let unmet = |name: &str, reason: &str| json!({"status": {"ready": false, "unmetConditions": [{"name": name, "reason": reason}]}});
    let gone = |name| Fault {
        shown: &[Source::Reach, Source::Node],
        said: &["node-down", "node-unreachable", "no-answer", "node-not-ready", "timed-out", "node-cut-off"],
        silences: ALL_OF_IT,
        stops_member: true,
        touches: Touches::Machine,
        ..state(name, On::Machine)
    };
    vec![
        gone("power-off"),
        Fault { spoils_endpoint: true, ..gone("unplug") },
        Fault {
            shown: &[Source::Reach],
            said: &["node-frozen", "machine-frozen", "timed-out", "no-answer", "node-unreachable"],
            silences: &[Source::Talos, Source::Ready, Source::Member, Source::StaticPod],
            touches: Touches::Machine,
            ..state("freeze-machined", On::Machine)
        },
        Fault {
            shown: &[Source::Ready],
            said: &["stage-not-running", "rebooting", "node-rebooting", "machine-rebooting"],
            silences: &[Source::Member, Source::Component, Source::StaticPod],
            stops_member: true,
            spoils_endpoint: true,
            touches: Touches::Machine,
            ..state("rebooting", On::Machine)
        },
        Fault {
            shown: &[Source::Reach],
            said: &["maintenance-mode"],
            silences: ALL_OF_IT,
            stops_member: true,
            spoils_endpoint: true,
            touches: Touches::Machine,
            ..state("maintenance", On::Machine)
        },
        Fault {
            shown: &[Source::Talos],
            said: &["time-not-synced", "clock-not-synchronized", "clock-not-synchronized"],
            touches: Touches::Clock,
            ..state("time-not-synced", On::Machine)
        },
        Fault {
            shown: &[Source::Ready, Source::Node],
            said: &["kubelet-unhealthy", "kubelet-crashes", "kubelet-down", "node-not-ready", "kubelet-not-running"],
            silences: &[Source::Component, Source::StaticPod],
            touches: Touches::Node,
            ..state("kubelet-crash", On::Machine)
        },
        Fault {
            does: Does::Warns,
            shown: &[Source::Node],
            said: &["cordoned", "nothing-schedulable"],
            ..state("cordon", On::Machine)
        },
        Fault {
            shown: &[Source::Ready],
            said: &["service-failed"],
            ..fault("stop-cri", On::Machine, |plan, node| {
                plan.change(json!({"do": "stop-service", "node": node, "service": "cri"}));
            })
        },
        Fault {
            shown: &[Source::Ready],
            said: &["service-failed"],
            ..fault("stop-trustd", On::ControlPlane, |plan, node| {
                plan.change(json!({"do": "stop-service", "node": node, "service": "trustd"}));
            })
        },
        Fault {
            shown: &[Source::Ready],
            said: &["service-failed"],
            ..fault("extension-failed", On::Machine, |plan, node| {
                plan.change(json!({"do": "service", "node": node, "service": "ext-iscsid", "state": "Failed",
                    "healthy": false, "message": "service not running", "event": "Failed to create runner: exit code 1"}));
            })
        },
        Fault {
            shown: &[Source::Ready],
            said: &["memory-too-small"],
            ..fault("memory-small", On::Machine, |plan, node| {
                plan.change(json!({"do": "machine", "node": node, "memory": [500_000, 100_000]}));
            })
        },
        Fault {
            does: Does::Warns,
            shown: &[Source::Ready],
            said: &["disk-nearly-full"],
            ..fault("var-nearly-full", On::Machine, |plan, node| {
                plan.change(json!({"do": "machine", "node": node, "var": [19_327_352_832_u64, 966_367_641]}));
            })
        },
        Fault {
            shown: &[Source::Ready],
            said: &["volume-failed"],
            fits: |case| case.release.talos != "1.5.5",
            ..resource(
                "volume-failed",
                On::Machine,
                ("VolumeStatuses.block.talos.dev", "EPHEMERAL"),
                json!({"phase": "failed", "errorMessage": "filesystem type mismatch: xfs != ext4"}),
            )
        },
        Fault {
            shown: &[Source::Ready],
            said: &["network-not-ready"],
            ..fault("no-connectivity", On::Machine, move |plan, node| {
                plan.resource(
                    Some(node),
                    "NetworkStatuses.net.talos.dev",
                    "status",
                    &json!({"connectivityReady": false}),
                );
            })
        },
        Fault {
            shown: &[Source::Ready],
            said: &["condition-unmet"],
            touches: Touches::Status,
            ..resource("not-ready", On::Machine, status, unmet("services", "ext-iscsid not healthy"))
        },
        Fault {
            shown: &[Source::Ready],
            said: &["stage-not-running", "service-blocks-boot", "boot-held-up"],
            touches: Touches::Status,
            ..resource(
                "booting",
                On::Machine,
                status,
                json!({"stage": "booting", "status": {"ready": false, "unmetConditions": []}}),
            )
        },
        Fault {
            shown: &[Source::Ready],
            said: &["stage-not-running", "machine-upgrading", "upgrading", "node-upgrading"],
            touches: Touches::Status,
            ..resource(
                "upgrading",
                On::Machine,
                status,
                json!({"stage": "upgrading", "status": {"ready": true, "unmetConditions": []}}),
            )
        },
        Fault {
            does: Does::Warns,
            shown: &[Source::Ready],
            said: &["diagnostic"],
            fits: |case| !["1.5.5"].contains(&case.release.talos),
            ..resource(
                "diagnostic",
                On::Machine,
                ("Diagnostics.runtime.talos.dev", "address-overlap"),
                json!({"message": "host and Kubernetes pod/service CIDR addresses overlap", "details": ["host: 10.244.0.5/24"]}),
            )
        },
        Fault {
            shown: &[Source::Talos],
            said: &["clock-skew"],
            touches: Touches::Clock,
            ..resource(
                "clock-off",
                On::Machine,
                ("AdjtimeStatuses.v1alpha1.talos.dev", "node"),
                json!({"offset": "45s"}),
            )
        },
        Fault {
            shown: &[Source::Clock],
            said: &["clock-skew"],
            touches: Touches::Clock,
            ..fault("clock-of-node-ahead", On::Machine, |plan, node| {
                plan.change(json!({"do": "machine", "node": node, "ahead": "60s"}));
            })
        },
        Fault {
            shown: &[Source::Clock],
            said: &["clock-skew"],
            touches: Touches::Clock,
            ..fault("clock-of-node-behind", On::Machine, |plan, node| {
                plan.change(json!({"do": "machine", "node": node, "ahead": "-60s"}));
            })
        },
        Fault {
            shown: &[Source::Talos],
            said: &["versions-mixed"],
            fits: |case| case.control_planes + case.workers > 1,
            ..fault("two-releases-apart", On::Machine, |plan, node| {
                plan.change(json!({"do": "machine", "node": node, "talos": "1.3.0"}));
            })
        },
    ]
}
