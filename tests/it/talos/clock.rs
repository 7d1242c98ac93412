//! Clocks that differ from the local one.

use crate::cluster::{Cluster, cluster};

const HOUR: i64 = 3600;

fn ahead(seconds: i64) -> Cluster {
    let cluster = cluster();
    cluster.change(|world| world.clock_ahead = seconds);
    cluster
}

/// Machines issue their own certificates, by their own clock, for one day; here, half an hour ago.
#[test]
fn a_difference_that_voids_certificates_is_named_as_such() {
    let expected = ["cp-1", "cp-2", "cp-3"].map(|machine| ("talos.endpoints", "server-certificate-expired", machine));
    for (seconds, words) in [(HOUR, "is not valid yet"), (31 * 60, "is not valid yet"), (-48 * HOUR, "has expired")] {
        let judged = ahead(seconds).run(&[]);
        judged.is(69, &expected);
        let observed = judged.check("talos.endpoints")["problems"][0]["observed"].as_str().unwrap();
        assert!(observed.ends_with(words), "{seconds}: {judged}");
        assert!(judged.outcome.stdout.contains("a clock is wrong"), "{seconds}: {judged}");
    }
}

/// Leases and ages are compared with the clock of the machine that wrote them.
#[test]
fn a_cluster_that_is_behind_is_no_less_healthy() {
    ahead(-HOUR).run(&[]).is(0, &[]);
}
