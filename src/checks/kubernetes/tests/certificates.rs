//! `k8s.api.certificates` and `k8s.nodes.csrs`

use jiff::SignedDuration;

use crate::checks::kubernetes::tests::{judge, no, said, status};
use crate::model::{Hint, Status};
use crate::snapshot::{GapKind, RequestState, SigningRequest, Snapshot, Validity};
use crate::testing::fixture::{healthy, now};

const SERVING: &str = "k8s.api.certificates";
const REQUESTS: &str = "k8s.nodes.csrs";

fn hours(from: i64, to: i64) -> Validity {
    let at = |hours| now() + SignedDuration::from_hours(hours);
    Validity { not_before: at(from), not_after: at(to) }
}

fn with_server(certificate: Option<Validity>) -> Snapshot {
    let mut snapshot = healthy();
    snapshot.kube().servers.get_mut("cp-2").unwrap().as_mut().unwrap().certificate = certificate;
    snapshot
}

#[test]
fn certificates_are_renewed_in_time() {
    const YEAR: i64 = 365 * 24;
    for (certificate, expected) in [
        (Some(hours(-YEAR / 2, YEAR / 2)), None),
        (Some(hours(-YEAR + 31 * 24, 31 * 24)), None),
        (Some(hours(-YEAR + 29 * 24, 29 * 24)), Some("warn certificate-expires-soon cp-2")),
        // A certificate that is short-lived on purpose: a tenth of its lifetime counts.
        (Some(hours(-20, 4)), None),
        (Some(hours(-22, 2)), Some("warn certificate-expires-soon cp-2")),
        (None, Some("error unreadable-answer cp-2")),
    ] {
        let snapshot = with_server(certificate.clone());
        assert_eq!(said(&snapshot, SERVING), Vec::from_iter(expected.map(str::to_owned)), "{certificate:?}");
    }
    let mut snapshot = healthy();
    snapshot.kube().endpoint.as_mut().unwrap().certificate = Some(hours(-YEAR, 24));
    assert_eq!(said(&snapshot, SERVING), ["warn certificate-expires-soon https://k8s.example:6443"]);
}

#[test]
fn an_expired_certificate_fails_where_it_stopped_us() {
    let mut snapshot = healthy();
    snapshot.kube().servers.insert("cp-2".to_owned(), no(GapKind::PeerCertificateExpired));
    assert_eq!(said(&snapshot, SERVING), ["fail server-certificate-expired cp-2 < k8s.api.servers"]);
    snapshot.kube().endpoint = no(GapKind::PeerCertificateExpired);
    assert!(
        said(&snapshot, SERVING)
            .contains(&"fail server-certificate-expired https://k8s.example:6443 < k8s.api.endpoint".to_owned())
    );
}

#[test]
fn a_server_that_shows_none_does_not_pass() {
    for kind in [GapKind::TimedOut, GapKind::UnknownCa, GapKind::Broken, GapKind::ConnectionRefused] {
        let mut snapshot = healthy();
        snapshot.kube().servers.insert("cp-2".to_owned(), no(kind));
        assert_eq!(said(&snapshot, SERVING), ["blocked cp-2 < k8s.api.servers"], "{kind:?}");
    }
    // The server is alive by its lease, but its certificate is not observed.
    let mut snapshot = healthy();
    snapshot.kube().servers.insert("cp-2".to_owned(), no(GapKind::NoRoute));
    let verdict = judge(&snapshot, SERVING);
    let of = |name: &str| verdict.findings.iter().find(|it| it.target.name == name).unwrap().outcome.status();
    assert_eq!((of("cp-1"), of("cp-2"), verdict.status()), (Status::Pass, Status::Skip, Status::Pass));
    snapshot.kube().servers.clear();
    assert_eq!(said(&snapshot, SERVING).len(), 3);
    snapshot.kube().endpoint = no(GapKind::TimedOut);
    assert!(said(&snapshot, SERVING).contains(&"blocked https://k8s.example:6443 < k8s.api.endpoint".to_owned()));
}

#[test]
fn a_server_that_is_not_ready_still_shows_its_certificate() {
    let mut snapshot = with_server(Some(hours(-300 * 24, 24)));
    snapshot.kube().servers.get_mut("cp-2").unwrap().as_mut().unwrap().status = 500;
    assert_eq!(said(&snapshot, SERVING), ["warn certificate-expires-soon cp-2"]);
}

fn request(name: &str, user: &str) -> SigningRequest {
    SigningRequest {
        name: name.to_owned(),
        signer: "kubernetes.io/kubelet-serving".to_owned(),
        user: user.to_owned(),
        state: RequestState::Pending,
    }
}

#[test]
fn pending_requests_are_named_with_their_node() {
    let mut snapshot = healthy();
    let requests = snapshot.kube().signing_requests.as_mut().unwrap();
    requests.extend([
        request("csr-2", "system:node:w-1"),
        request("csr-1", "system:node:w-1"),
        request("csr-3", "system:bootstrap:abc"),
        request("csr-4", "system:node:w-9"),
        SigningRequest { signer: "example.com/other".to_owned(), ..request("csr-5", "somebody") },
    ]);
    assert_eq!(said(&snapshot, REQUESTS), ["warn csr-pending cluster", "warn csr-pending w-1", "warn csr-pending w-9"]);
    let verdict = judge(&snapshot, REQUESTS);
    let observed: Vec<_> = verdict.problems().map(|(_, problem)| problem.observed.as_str()).collect();
    assert!(observed.contains(&"csr-1, csr-2 of system:node:w-1 are pending"), "{observed:?}");
    snapshot.node_mut("w-1").leaving = true;
    assert_eq!(said(&snapshot, REQUESTS), ["warn csr-pending cluster", "warn csr-pending w-9"]);
}

/// The request was approved, but the controller manager does not sign it.
#[test]
fn approved_requests_are_named_until_their_certificate_is_issued() {
    let mut snapshot = healthy();
    let unissued = SigningRequest { state: RequestState::Unissued, ..request("csr-1", "system:node:w-1") };
    snapshot.kube().signing_requests.as_mut().unwrap().extend([unissued, request("csr-2", "system:node:w-1")]);
    assert_eq!(said(&snapshot, REQUESTS), ["warn csr-not-issued w-1", "warn csr-pending w-1"]);
    let verdict = judge(&snapshot, REQUESTS);
    let observed: Vec<_> = verdict.problems().map(|(_, problem)| problem.observed.as_str()).collect();
    assert_eq!(observed[1], "csr-1 of system:node:w-1 is approved, but not issued");
}

/// A kubelet repeats its request after each denial; one certificate is enough.
#[test]
fn denied_requests_are_named_unless_another_of_that_kubelet_is_issued() {
    let mut snapshot = healthy();
    let denied = |name, user| SigningRequest { state: RequestState::Denied, ..request(name, user) };
    let issued = |name, user| SigningRequest { state: RequestState::Settled, ..request(name, user) };
    let requests = snapshot.kube().signing_requests.as_mut().unwrap();
    requests.clear();
    requests.extend([denied("csr-1", "system:node:w-1"), denied("csr-2", "system:node:cp-2")]);
    requests.extend([issued("csr-3", "system:node:cp-2"), denied("csr-4", "system:node:w-9"), denied("csr-5", "eve")]);
    assert_eq!(said(&snapshot, REQUESTS), ["warn csr-denied w-1"]);
    // The client certificate is a different one.
    let client = "kubernetes.io/kube-apiserver-client-kubelet".to_owned();
    snapshot.kube().signing_requests.as_mut().unwrap()[2].signer = client;
    assert_eq!(said(&snapshot, REQUESTS), ["warn csr-denied cp-2", "warn csr-denied w-1"]);
}

#[test]
fn a_refusal_of_the_list_alone_is_skipped() {
    let mut snapshot = healthy();
    snapshot.kube().signing_requests = no(GapKind::Forbidden);
    assert_eq!(status(&snapshot, REQUESTS), Status::Skip);
    snapshot.kube().signing_requests = no(GapKind::TimedOut);
    assert_eq!(said(&snapshot, REQUESTS), ["error timed-out cluster"]);
    snapshot.kube().signing_requests = Ok(Vec::new());
    assert_eq!(status(&snapshot, REQUESTS), Status::Pass);
    snapshot.kube().nodes = no(GapKind::Forbidden);
    assert_eq!(said(&snapshot, REQUESTS), ["blocked cluster < k8s.api.identity"]);
}

/// Several requests do not show which one the kubelet still waits for, and only a person can vouch for a new machine.
#[test]
fn only_the_one_request_of_a_known_kubelet_is_proposed_for_approval() {
    let proposed = |requests: Vec<SigningRequest>| {
        let mut snapshot = healthy();
        snapshot.kube().signing_requests = Ok(requests);
        let verdict = judge(&snapshot, REQUESTS);
        let hints: Vec<Hint> = verdict.problems().flat_map(|(_, problem)| problem.hints.clone()).collect();
        hints.contains(&Hint::remedy("{kubectl} certificate approve {}", ["csr-1"]))
    };
    let serving = || request("csr-1", "system:node:w-1");
    assert!(proposed(vec![serving()]));
    assert!(!proposed(vec![serving(), request("csr-2", "system:node:w-1")]));
    let signer = |signer: &str| SigningRequest { signer: signer.to_owned(), ..serving() };
    assert!(!proposed(vec![signer("kubernetes.io/kube-apiserver-client-kubelet")]));
    assert!(!proposed(vec![signer("")]));
}
