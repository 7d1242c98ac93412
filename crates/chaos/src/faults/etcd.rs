//! Faults in etcd.

use serde_json::{Value, json};

use super::{Does, Fault, On, Source, Touches, fault, state};
use crate::case::Case;

pub(super) fn etcd() -> Vec<Fault> {
    let several: fn(&Case) -> bool = |case| case.control_planes > 1;
    let stopped = |name| Fault {
        shown: &[Source::Ready],
        said: &[
            "etcd-unhealthy",
            "etcd-starting",
            "service-failed",
            "quorum-lost",
            "etcd-quorum-lost",
            "etcd-member-down",
            "learner",
            "not-a-member",
            "etcd-member-removed",
            "etcd-member-stuck-joining",
            "never-bootstrapped",
            // Reported when only Talos is queried.
            "condition-unmet",
        ],
        silences: &[Source::Member],
        stops_member: true,
        spoils_endpoint: true,
        touches: Touches::Member,
        ..state(name, On::ControlPlane)
    };
    let member = |name, does, said, change: Value| Fault {
        does,
        shown: &[Source::Member],
        said,
        touches: Touches::Member,
        ..fault(name, On::ControlPlane, move |plan, node| {
            let mut change = change.clone();
            (change["do"], change["node"]) = ("etcd-member".into(), node.into());
            plan.change(change);
        })
    };
    vec![
        stopped("etcd-stop"),
        stopped("etcd-freeze"),
        Fault { fits: several, ..stopped("etcd-learner") },
        Fault { fits: several, ..stopped("etcd-remove-member") },
        Fault {
            shown: &[Source::Member],
            said: &["alarm-nospace", "etcd-nospace", "etcd-out-of-space"],
            spoils_endpoint: true,
            touches: Touches::Member,
            ..state("etcd-no-space", On::ControlPlane)
        },
        Fault {
            shown: &[Source::Member],
            said: &["alarm-corrupt", "etcd-corrupt"],
            spoils_endpoint: true,
            touches: Touches::Member,
            ..state("etcd-corrupt", On::ControlPlane)
        },
        member("etcd-lags", Does::Breaks, &["lagging"], json!({"behind": 4500})),
        member(
            "etcd-nearly-full",
            Does::Breaks,
            &["space-nearly-full"],
            json!({"db-size": 2_083_059_138_u64, "db-size-in-use": 2_000_000_000}),
        ),
        member(
            "etcd-filling",
            Does::Warns,
            &["space-nearly-full"],
            json!({"db-size": 1_825_361_100, "db-size-in-use": 1_800_000_000}),
        ),
        member(
            "etcd-fragmented",
            Does::Warns,
            &["fragmented"],
            json!({"db-size": 524_288_000, "db-size-in-use": 104_857_600}),
        ),
        Fault {
            shown: &[Source::Members],
            said: &["stale-member", "etcd-member-without-machine"],
            touches: Touches::Etcd,
            ..fault("etcd-stale-member", On::Cluster, |plan, _| {
                plan.change(json!({"do": "etcd-add-member", "id": 15783, "name": "old-cp", "peer-urls": ["https://192.0.2.9:2380"]}));
            })
        },
        Fault {
            shown: &[Source::Members],
            said: &["stale-member", "etcd-member-without-machine"],
            touches: Touches::Etcd,
            ..fault("etcd-unstarted-member", On::Cluster, |plan, _| {
                plan.change(json!({"do": "etcd-add-member", "id": 15783, "peer-urls": ["https://192.0.2.9:2380"]}));
            })
        },
        Fault {
            shown: &[Source::Ready],
            // The last two when only Talos is queried.
            said: &["never-bootstrapped", "etcd-starting", "boot-held-up", "service-blocks-boot"],
            touches: Touches::Bootstrap,
            spoils_endpoint: true,
            ..state("not-bootstrapped", On::Cluster)
        },
        Fault {
            shown: &[Source::Members],
            said: &["split-cluster", "etcd-split", "bootstrapped-twice"],
            touches: Touches::Etcd,
            spoils_endpoint: true,
            fits: |case| case.control_planes > 2,
            ..state("bootstrapped-twice", On::Cluster)
        },
    ]
}
