//! The failures that every health check must detect, and the shapes that none may reject. Each of them has a row.

use std::collections::BTreeSet;
use std::sync::Arc;

use libtest_mimic::{Failed, Trial};

use crate::row::Row;

/// Groups of failures, and the number of failures in each: `ACC-1` to `ACC-13`.
const FAILURES: [(&str, usize); 10] = [
    ("ACC", 13),
    ("BOOT", 11),
    ("UPG", 27),
    ("NODE", 10),
    ("ETCD", 16),
    ("K8S", 12),
    ("KUB", 10),
    ("NET", 4),
    ("TIME", 1),
    ("TRUST", 2),
];

/// Clusters that are healthy, even if they look unusual.
const SHAPES: [&str; 34] = [
    "SHAPE-usual",
    "SHAPE-single-node",
    "SHAPE-control-planes-only",
    "SHAPE-kube-proxy-off",
    "SHAPE-dns-off",
    "SHAPE-scheduler-disabled",
    "SHAPE-controller-manager-disabled",
    "SHAPE-extension-service",
    "SHAPE-container-mode",
    "SHAPE-several-networks",
    "SHAPE-dual-stack",
    "SHAPE-ipv6",
    "SHAPE-mixed-versions",
    "SHAPE-short-lived-credentials",
    "SHAPE-load-balancer-certificate",
    "SHAPE-servers-out-of-reach",
    "SHAPE-foreign-nodes",
    "SHAPE-autoscaled",
    "SHAPE-without-kubernetes",
    "SHAPE-siderolink",
    "SHAPE-omni",
    "SHAPE-kube-prism-off",
    "SHAPE-no-discovery",
    "SHAPE-one-control-plane-named",
    "SHAPE-only-the-vip-named",
    "SHAPE-kubespan",
    "SHAPE-translated-addresses",
    "SHAPE-long-node-leases",
    "SHAPE-posing-nodes",
    "SHAPE-extensions",
    "SHAPE-kubelet-flags",
    "SHAPE-schematic",
    "SHAPE-etcd-follows",
    "SHAPE-etcd-image",
];

/// Simulated releases and roles; all other rows use os:reader on a current release.
const POSES: [&str; 6] = ["RELEASE-1.5", "RELEASE-1.9", "RELEASE-1.12", "RELEASE-1.14", "ROLE-operator", "ROLE-admin"];

/// Returns the trial that compares the rows with the catalog.
pub(crate) fn trials(rows: &[Arc<Row>]) -> Vec<Trial> {
    let failures = FAILURES.iter().flat_map(|(group, last)| (1..=*last).map(move |number| format!("{group}-{number}")));
    let catalog: BTreeSet<String> = failures.chain(SHAPES.map(str::to_owned)).chain(POSES.map(str::to_owned)).collect();
    let rows: BTreeSet<String> = rows.iter().flat_map(|row| row.ids.iter().cloned()).collect();
    let compare = move || {
        let missing: Vec<_> = catalog.difference(&rows).collect();
        let unknown: Vec<_> = rows.difference(&catalog).collect();
        let same = missing.is_empty() && unknown.is_empty();
        if same { Ok(()) } else { Err(Failed::from(format!("without a row: {missing:?}; in no catalog: {unknown:?}"))) }
    };
    vec![Trial::test("every failure of the catalog has a row", compare)]
}
