//! Converts leases to facts.

use std::time::Duration;

use super::lists::{Item, Kept, Listed};
use super::wire::coordination;
use crate::snapshot::{Lease, Leases};

impl Kept for Lease {
    type Object = coordination::Lease;

    fn of(lease: coordination::Lease) -> Self {
        let spec = lease.spec.unwrap_or_default();
        Self {
            namespace: lease.metadata.namespace.unwrap_or_default(),
            // Set later, by comparison with earlier samples.
            moved_within: None,
            still_for: None,
            renewed: spec.renew_time.map(|time| time.0),
            resource_version: lease.metadata.resource_version.unwrap_or_default(),
            hostname: lease.metadata.labels.and_then(|mut labels| labels.remove("kubernetes.io/hostname")),
            holder: spec.holder_identity.filter(|holder| !holder.is_empty()),
            lasts: spec
                .lease_duration_seconds
                .and_then(|seconds| u64::try_from(seconds).ok())
                .filter(|seconds| *seconds > 0)
                .map(Duration::from_secs),
        }
    }
}

/// The change of a lease since earlier samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Movement {
    pub(super) moved_within: Option<Duration>,
    pub(super) still_for: Option<Duration>,
}

/// Returns the leases. `movement` compares name and resource version with earlier samples.
pub(super) fn leases(listed: Listed<Lease>, movement: impl Fn(&str, &str) -> Movement) -> Leases {
    let lease = |item: Item<Lease>| {
        let Movement { moved_within, still_for } = movement(&item.name, &item.kept.resource_version);
        (item.name, Lease { moved_within, still_for, ..item.kept })
    };
    let (date, last_date) = (listed.date, listed.last_date);
    Leases { date, last_date, by_name: listed.items.into_iter().map(lease).collect() }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::observe::kubernetes::objects::tests::read;

    #[test]
    fn leases_keep_renewal_holder_and_the_clock_of_the_server() {
        let items = vec![read(json!({
            "metadata": {"name": "cp-1", "resourceVersion": "20", "labels": {"kubernetes.io/hostname": "cp-1"}},
            "spec": {"holderIdentity": "cp-1", "renewTime": "2026-11-21T13:52:13.123456Z"},
        }))];
        let date = Some("2026-11-21T13:52:14Z".parse().unwrap());
        let leases = leases(Listed { date, last_date: date, items }, |name, version| {
            let is_known = (name, version) == ("cp-1", "20");
            Movement { moved_within: is_known.then_some(Duration::from_secs(12)), still_for: None }
        });
        assert_eq!(leases.date, date);
        let lease = &leases.by_name["cp-1"];
        assert_eq!(lease.moved_within, Some(Duration::from_secs(12)));
        assert_eq!(lease.renewed, Some("2026-11-21T13:52:13.123456Z".parse().unwrap()));
        assert_eq!((lease.hostname.as_deref(), lease.holder.as_deref()), (Some("cp-1"), Some("cp-1")));
    }

    #[test]
    fn a_lease_says_how_long_it_lasts() {
        let lasts = |seconds: Value| {
            let spec = json!({"holderIdentity": "w-1", "leaseDurationSeconds": seconds});
            Lease::of(read(json!({"metadata": {"name": "w-1"}, "spec": spec}))).lasts
        };
        assert_eq!(lasts(json!(300)), Some(Duration::from_secs(300)));
        for none in [json!(null), json!(0), json!(-40)] {
            assert_eq!(lasts(none.clone()), None, "{none}");
        }
    }
}
