//! The status that each etcd member reports about itself: space, lag, version.

use serde_json::json;
use simulator::world::Member;

use super::side_by_side;
use crate::cluster::{Cluster, cluster, release};

const GIB: i64 = 1 << 30;

fn space(cluster: &Cluster, code: i32, said: &[(&str, &str)]) {
    let said: Vec<_> = said.iter().map(|(reason, node)| ("etcd.space", *reason, *node)).collect();
    cluster.run(&["--no-kubernetes"]).is(code, &said);
}

/// Arguments have one value before 1.13, and a list of values since then.
#[test]
fn the_quota_of_the_configuration_counts() {
    side_by_side(["1.12.6", "1.13.0"], 2, |talos| {
        let cluster = release(talos);
        let fill = |member: &mut Member| (member.db_size, member.db_size_in_use) = (2 * GIB - 1000, 2 * GIB - 2000);
        cluster.change(|world| world.change_member("cp-2", fill));
        space(&cluster, 1, &[("space-nearly-full", "cp-2")]);
        cluster.change(|world| world.etcd_quota(8 * GIB));
        space(&cluster, 0, &[]);
        cluster.change(|world| world.etcd_quota(2 * GIB + GIB / 4));
        space(&cluster, 0, &[("space-nearly-full", "cp-2")]);
    });
}

#[test]
fn a_fragmented_database_is_a_warning() {
    let cluster = cluster();
    cluster
        .change(|world| world.change_member("cp-3", |member| (member.db_size, member.db_size_in_use) = (GIB, GIB / 8)));
    space(&cluster, 0, &[("fragmented", "cp-3")]);
}

#[test]
fn a_member_that_stands_still_is_seen_in_two_samples() {
    let cluster = cluster();
    cluster.change(|world| world.change_member("cp-3", |member| member.behind = 5000));
    cluster.run(&["--no-kubernetes"]).is(69, &[("etcd.lag", "no-answer", "cp-3")]);
    cluster.change(|world| world.change_member("cp-3", |member| member.behind = 1500));
    let before = cluster.asked("cp-3", "EtcdStatus");
    cluster.run(&["--no-kubernetes"]).is(1, &[("etcd.lag", "lagging", "cp-3")]);
    assert_eq!(cluster.asked("cp-3", "EtcdStatus") - before, 2);
}

/// The member has caught up by the second sample.
#[test]
fn a_member_that_catches_up_is_not_lagging() {
    let cluster = cluster();
    cluster.change(|world| world.change_member("cp-3", |member| member.behind = 1500));
    cluster.when_asked(json!({"end": "etcd-learner", "node": "cp-3"}), "cp-3", "EtcdStatus", 2);
    cluster.run(&["--no-kubernetes"]).is(0, &[]);
}

#[test]
fn versions_that_differ_are_a_warning() {
    let cluster = cluster();
    cluster.change(|world| world.change_member("cp-3", |member| member.version = "3.5.21".into()));
    cluster.run(&["--no-kubernetes"]).is(0, &[("etcd.versions", "versions-mixed", "cluster")]);
}
