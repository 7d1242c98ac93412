//! APIs that the new Kubernetes no longer serves.

use super::*;
use crate::snapshot::RequestedApi;

const APIS: &str = "upgrade.apis";

fn with(node: &str, change: impl FnOnce(&mut RequestedApi)) -> Snapshot {
    let mut snapshot = before(None, Some("1.36.0"));
    let requested = snapshot.kube().requested_apis.get_mut(node).unwrap().as_mut().unwrap();
    change(&mut requested.apis[0]);
    snapshot
}

#[test]
fn what_the_target_lacks_was_not_requested() {
    let snapshot = before(None, Some("1.36.0"));
    assert_eq!(
        lines(APIS, &snapshot),
        ["no API that Kubernetes 1.36 has removed was requested since 2026-01-14 12:00 UTC"]
    );
    assert_eq!(status(APIS, &before(Some("1.14.1"), None)), Status::Skip);
}

#[test]
fn one_server_that_was_asked_for_a_removed_one_is_enough() {
    for (removed, is_gone) in [("1.36", true), ("1.9", true), ("1.37", false), ("", false), ("2.0", false)] {
        let snapshot = with("cp-2", |api| removed.clone_into(&mut api.removed));
        let expected: &[&str] = match removed {
            "2.0" => &["cp-2: error unreadable-answer"],
            _ if is_gone => &["cp-2: fail removed-api-requested, for ever"],
            _ => &[],
        };
        assert_eq!(wrong(APIS, &snapshot), expected, "{removed}");
    }
    let snapshot = with("cp-3", |api| {
        *api = RequestedApi {
            group: "flowcontrol.apiserver.k8s.io".to_owned(),
            version: "v1beta3".to_owned(),
            resource: "flowschemas".to_owned(),
            subresource: "status".to_owned(),
            removed: "1.32".to_owned(),
        };
    });
    let seen = observed(APIS, &snapshot);
    let name = "flowcontrol.apiserver.k8s.io/v1beta3 flowschemas/status (removed in 1.32)";
    assert!(seen[0].starts_with("requested since its start at 2026-01-14") && seen[0].ends_with(name), "{seen:?}");
}

#[test]
fn a_server_that_was_not_seen_is_no_pass() {
    let mut refused = before(None, Some("1.36.0"));
    refused.kube().requested_apis.insert("cp-2".to_owned(), gap(GapKind::Forbidden));
    assert_eq!(wrong(APIS, &refused), ["cp-2: error forbidden, for ever"]);
    assert!(likely(APIS, &refused)[0].contains("`cluster-health rbac --upgrade`"));
    for kind in [GapKind::ConnectTimedOut, GapKind::TooLarge, GapKind::Malformed, GapKind::NotAsked] {
        let mut snapshot = before(None, Some("1.36.0"));
        snapshot.kube().requested_apis.insert("cp-2".to_owned(), gap(kind));
        assert_eq!(status(APIS, &snapshot), Status::Error, "{kind:?}");
    }
    let mut none = before(None, Some("1.36.0"));
    none.kube().requested_apis.clear();
    assert_eq!(status(APIS, &none), Status::Error);
    assert_eq!(wrong(APIS, &before(None, Some("1.99.0"))), ["cluster: error target-unknown, for ever"]);
}

/// A cluster behind Omni, which receives the credentials and forwards requests to one of the servers.
#[test]
fn where_no_server_can_be_queried_directly_the_endpoint_answers_for_one() {
    let mut snapshot = before(None, Some("1.36.0"));
    let kubernetes = snapshot.kube();
    let endpoint = kubernetes.credentials.as_ref().unwrap().server.clone();
    let requested = kubernetes.requested_apis["cp-1"].clone();
    for (name, server) in &mut kubernetes.servers {
        *server = gap(GapKind::Untrusted);
        kubernetes.requested_apis.insert(name.clone(), gap(GapKind::Untrusted));
    }
    assert_eq!(status(APIS, &snapshot), Status::Error, "the endpoint was not asked");
    snapshot.kube().requested_apis.insert(endpoint.clone(), requested);
    assert_eq!(wrong(APIS, &snapshot), ["cluster: warn requests-partly-seen, for ever"]);
    snapshot.kube().requested_apis.insert(endpoint, gap(GapKind::Forbidden));
    assert_eq!(wrong(APIS, &snapshot), ["cluster: error forbidden, for ever"]);
    // A server of which nothing is known is not covered by the others.
    let requested = snapshot.kube().requested_apis["cp-1"].clone();
    assert!(requested.is_err());
    snapshot
        .kube()
        .system_leases
        .as_mut()
        .unwrap()
        .by_name
        .retain(|_, lease| lease.hostname.as_deref() != Some("cp-2"));
    snapshot.kube().api_endpoints.as_mut().unwrap().clear();
    assert_eq!(status(APIS, &snapshot), Status::Blocked);
}
