//! The second opinion.

use crate::model::{Hint, Status};
use crate::snapshot::{Gap, GapKind, Observed, ServerProgress, Snapshot};
use crate::testing::fixture::{certificate, gap, healthy, said};
use crate::testing::judged::{hints, judge, lines, observed, status, wrong};

const SERVER: &str = "talos.server";

fn told(progress: Vec<ServerProgress>, end: Observed<()>) -> Snapshot {
    let mut snapshot = healthy();
    let check = snapshot.talos_mut().server.as_mut().unwrap();
    (check.progress, check.end) = (progress, end);
    snapshot
}

fn messages(messages: &[&str], end: Observed<()>) -> Snapshot {
    told(messages.iter().copied().map(said).collect(), end)
}

const WRONG: [&str; 4] = [
    "waiting for etcd to be healthy: ...",
    "waiting for etcd to be healthy: OK",
    "waiting for kubelet to be healthy: ...",
    "waiting for kubelet to be healthy: 1 error occurred: * 10.0.0.2: service is not healthy: kubelet",
];

#[test]
fn what_it_found_is_shown() {
    let expected = ["etcd to be healthy: OK", "10.0.0.1:50000 found nothing wrong (1 OK)"];
    assert_eq!(lines(SERVER, &healthy()), expected);
}

#[test]
fn its_failure_is_one() {
    for end in [gap(GapKind::TimedOut), gap(GapKind::ServerError), Ok(())] {
        let snapshot = messages(&WRONG, end);
        assert_eq!(wrong(SERVER, &snapshot), ["kubelet to be healthy: fail server-check-failed"]);
        assert_eq!(observed(SERVER, &snapshot), ["1 error occurred: * 10.0.0.2: service is not healthy: kubelet"]);
    }
    // The latest message about a condition counts.
    let healed = [&WRONG[..], &["waiting for kubelet to be healthy: OK"]].concat();
    assert_eq!(status(SERVER, &messages(&healed, Ok(()))), Status::Pass);
}

#[test]
fn what_is_cut_off_is_neither_success_nor_failure() {
    for kind in [GapKind::Broken, GapKind::Malformed, GapKind::TooLarge, GapKind::ConnectionRefused] {
        assert_eq!(status(SERVER, &messages(&WRONG, gap(kind))), Status::Error, "{kind:?}");
        assert_eq!(status(SERVER, &messages(&WRONG[..2], gap(kind))), Status::Error, "{kind:?}");
    }
}

#[test]
fn only_an_end_with_a_result_is_a_success() {
    for progress in [
        &[][..],
        &["discovered nodes: [\"10.0.0.1\"]"],
        &["waiting for kube-proxy to report ready: SKIP"],
        &["waiting for etcd to be healthy: ok"],
        &["all is OK"],
    ] {
        assert!(!status(SERVER, &messages(progress, Ok(()))).is_fine(), "{progress:?}");
    }
    let begun = messages(&WRONG[..3], Ok(()));
    assert_eq!(wrong(SERVER, &begun), ["10.0.0.1:50000: error server-check-unfinished"]);
    assert_eq!(observed(SERVER, &begun), ["the stream ended too early; it was waiting for kubelet to be healthy"]);
    let late = messages(&WRONG[..3], gap(GapKind::TimedOut));
    assert_eq!(wrong(SERVER, &late), ["10.0.0.1:50000: error server-check-unfinished"]);
    let canceled = messages(&WRONG[..2], Err(Gap::new(GapKind::ServerError, "context canceled")));
    assert_eq!(status(SERVER, &canceled), Status::Error);
}

#[test]
fn errors_of_nodes_are_honored() {
    let error = |hostname: &str, kind| ServerProgress {
        hostname: hostname.to_owned(),
        message: String::new(),
        error: Some(Gap::new(kind, "connection refused")),
    };
    let with =
        |errors: Vec<ServerProgress>| told([WRONG[..2].iter().copied().map(said).collect(), errors].concat(), Ok(()));
    let snapshot = with(vec![error("10.0.0.3", GapKind::NodeUnreachable)]);
    assert_eq!(wrong(SERVER, &snapshot), ["10.0.0.3: fail server-check-failed"]);
    let unnamed = with(vec![error("", GapKind::ServerError)]);
    assert_eq!(wrong(SERVER, &unnamed), ["10.0.0.1:50000: fail server-check-failed"]);
    let refused = with(vec![error("10.0.0.3", GapKind::Forbidden)]);
    assert_eq!(status(SERVER, &refused), Status::Skip);
    let both = with(vec![error("10.0.0.2", GapKind::ServerError), error("10.0.0.3", GapKind::Forbidden)]);
    assert_eq!(status(SERVER, &both), Status::Fail, "a refusal excuses nothing that was seen");
}

#[test]
fn a_role_that_may_not_ask_is_a_skip() {
    let refused = || gap::<()>(GapKind::Forbidden);
    let mut snapshot = messages(&WRONG[..2], refused());
    assert_eq!(status(SERVER, &snapshot), Status::Skip, "and what it found before is no pass");
    assert!(judge(SERVER, &snapshot).findings.len() == 1);
    // A refused administrator is a different case.
    let credentials = snapshot.talos_mut().credentials.as_mut().unwrap();
    credentials.certificate = Some(certificate(&["os:admin"]));
    assert_eq!(wrong(SERVER, &snapshot), ["10.0.0.1:50000: error role-too-low, for ever"]);
}

#[test]
fn nobody_to_ask() {
    let mut snapshot = healthy();
    snapshot.talos_mut().server = gap(GapKind::NotAsked);
    assert_eq!(wrong(SERVER, &snapshot), ["cluster: error no-answer"]);
    snapshot.talos_mut().endpoints.iter_mut().for_each(|endpoint| endpoint.version = gap(GapKind::ConnectionRefused));
    for name in crate::testing::fixture::NODES {
        snapshot.talos_of(name).contact = gap(GapKind::NotAsked);
    }
    assert_eq!(wrong(SERVER, &snapshot), ["cluster: blocked talos.endpoints"]);
    assert_eq!(status(SERVER, &healthy().without_talos()), Status::Skip);
}

#[test]
fn who_may_not_ask_and_who_cannot_be_asked() {
    let asked = |kind| {
        let mut snapshot = healthy();
        snapshot.talos_mut().server = gap(kind);
        snapshot
    };
    assert_eq!(status(SERVER, &asked(GapKind::Forbidden)), Status::Skip);
    assert_eq!(wrong(SERVER, &asked(GapKind::NoForwarding)), ["cluster: error endpoint-is-worker"]);
    assert_eq!(wrong(SERVER, &asked(GapKind::TimedOut)), ["cluster: error timed-out"]);
}

#[test]
fn what_went_wrong_is_not_called_well_at_the_end() {
    assert_eq!(lines(SERVER, &messages(&WRONG, Ok(()))), ["etcd to be healthy: OK"]);
}

#[test]
fn only_a_check_that_had_begun_is_unfinished() {
    let end = |messages_: &[&str], kind| wrong(SERVER, &messages(messages_, gap(kind)));
    let unfinished = ["10.0.0.1:50000: error server-check-unfinished"];
    assert_eq!(end(&WRONG[..2], GapKind::TimedOut), unfinished);
    assert_eq!(end(&WRONG[..2], GapKind::ServerError), unfinished);
    assert_eq!(end(&[], GapKind::TimedOut), unfinished);
    assert_ne!(end(&[], GapKind::ServerError), unfinished, "it refused at once");
    assert_ne!(end(&WRONG[..2], GapKind::Broken), unfinished, "the way to it broke off");
    let longer = Hint::likely("it takes longer on a large cluster: raise `--attempt-timeout`");
    assert!(hints(SERVER, &messages(&WRONG[..2], gap(GapKind::TimedOut))).contains(&longer));
    assert!(!hints(SERVER, &messages(&WRONG[..2], gap(GapKind::ServerError))).contains(&longer));
}
