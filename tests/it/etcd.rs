//! etcd through its own API, for clusters whose etcd is not run by Talos: `--etcd-endpoints`.

use std::time::Duration;

use simulator::EtcdCredentials;
use simulator::pki::Flaw;
use simulator::world::{AlarmKind, CallFault, EtcdAuth, EtcdUser, Member, Misbehavior, Server, Transport, World};

use crate::cluster::{Cluster, Judgment, Said, cluster};
use crate::harness::{Program, side_by_side};

const MEMBERS: [&str; 3] = ["cp-1", "cp-2", "cp-3"];

fn run(cluster: &Cluster) -> Judgment {
    asked(cluster, &cluster.simulator().etcd_endpoints(), &cluster.simulator().etcd_credentials(Flaw::None).unwrap())
}

/// Queries only etcd, at these endpoints.
fn asked(cluster: &Cluster, endpoints: &[String], credentials: &EtcdCredentials) -> Judgment {
    judged(cluster, program(cluster, endpoints, credentials))
}

fn judged(cluster: &Cluster, program: Program) -> Judgment {
    let judged = cluster.judgment(program.run());
    judged.within(Duration::from_secs(13));
    judged
}

fn program(cluster: &Cluster, endpoints: &[String], credentials: &EtcdCredentials) -> Program {
    cluster
        .program()
        .file("ca.crt", &credentials.ca)
        .file("client.crt", &credentials.client.certificate)
        .file("client.key", &credentials.client.key)
        .args(["--no-talos", "--no-kubernetes", "-o", "json"])
        .args(["--etcd-cacert", "ca.crt", "--etcd-cert", "client.crt", "--etcd-key", "client.key"])
        .args(["--etcd-endpoints", &endpoints.join(",")])
}

fn etcd(cluster: &Cluster, name: &str) -> Server {
    Server::Etcd(cluster.address(name))
}

#[test]
fn healthy() {
    run(&cluster()).is(0, &[]);
}

/// Every transport fault, with the exit code and reason for a member that has it. `None` means that nothing is wrong.
fn transports() -> Vec<(Transport, Option<(i32, &'static str)>)> {
    vec![
        (Transport::Refuse, Some((1, "connection-refused"))),
        (Transport::Blackhole, Some((69, "timed-out"))),
        (Transport::Silent, Some((1, "timed-out"))),
        (Transport::Close, Some((69, "no-answer"))),
        (Transport::PlainHttp, Some((69, "no-answer"))),
        (Transport::Garbage, Some((69, "no-answer"))),
        (Transport::SilentInTls, Some((1, "timed-out"))),
        (Transport::WrongCa, Some((1, "unknown-ca"))),
        (Transport::Expired, Some((1, "server-certificate-expired"))),
        (Transport::NotYetValid, Some((1, "server-certificate-expired"))),
        (Transport::WrongName, Some((1, "name-not-in-certificate"))),
        // gRPC requires it.
        (Transport::NoAlpn, Some((69, "no-answer"))),
        (Transport::Delay(Duration::from_millis(20)), None),
        (Transport::Drip(Duration::from_millis(50)), Some((1, "timed-out"))),
    ]
}

/// Returns the problems of a member that cannot be queried while others answer: it is reported once, and the failure tolerance is unknown,
/// unless the member refuses connections and is therefore down.
fn mute(reason: &'static str) -> Vec<(&'static str, &'static str, &'static str)> {
    let tolerance = if reason == "connection-refused" { "no-tolerance" } else { "no-answer" };
    vec![("etcd.leader", reason, "cp-1"), ("etcd.tolerance", tolerance, "cluster")]
}

/// The check that usually reports a silent member for all others does not run.
#[test]
fn a_check_that_was_asked_for_alone_tells_its_own_cause() {
    let cluster = cluster();
    cluster.change(|world| world.etcd_freeze("cp-1"));
    let simulator = cluster.simulator();
    let credentials = simulator.etcd_credentials(Flaw::None).unwrap();
    let alone = program(&cluster, &simulator.etcd_endpoints(), &credentials).args(["--check", "etcd.alarms"]);
    judged(&cluster, alone).is(69, &[("etcd.alarms", "timed-out", "cp-1")]);
}

#[test]
fn one_member_of_three() {
    side_by_side(transports(), 6, |(transport, reason)| {
        let cluster = cluster();
        let member = etcd(&cluster, "cp-1");
        cluster.change(|world| world.transport.insert(member, transport));
        let judged = run(&cluster);
        match reason {
            Some((code, reason)) => judged.is(code, &mute(reason)),
            None => judged.is(0, &[]),
        };
    });
}

#[test]
fn all_members() {
    side_by_side(transports(), 6, |(transport, reason)| {
        let cluster = cluster();
        let members = MEMBERS.map(|name| (etcd(&cluster, name), transport.clone()));
        cluster.change(|world| world.transport.extend(members));
        let judged = run(&cluster);
        match reason {
            Some(_) => judged.is(69, &[("etcd.quorum", "quorum-unproven", "cluster")]),
            None => judged.is(0, &[]),
        };
    });
}

/// All requests of a round share one connection, and the order of their answers is random.
#[test]
fn no_member_passes_by_its_first_answer() {
    for members in [&MEMBERS[..1], &MEMBERS] {
        let cluster = cluster();
        let servers: Vec<_> = members.iter().map(|name| (etcd(&cluster, name), Transport::CloseAfter(1))).collect();
        cluster.change(|world| world.transport.extend(servers));
        let judged = run(&cluster);
        assert_eq!(judged.outcome.code, 69, "{judged}");
        let is_silence = |it: &Said| ["no-answer", "quorum-unproven"].contains(&it.reason.as_str());
        assert!(judged.problems.iter().all(is_silence), "{judged}");
    }
}

fn fail(code: u16) -> Misbehavior {
    Misbehavior::Fail { code, text: "it broke".to_owned() }
}

/// Possible answers of a call, with the reason that is then reported for the member.
fn misbehaviors() -> Vec<(Misbehavior, &'static str)> {
    vec![
        (Misbehavior::Hang, "timed-out"),
        (Misbehavior::Stall, "timed-out"),
        (Misbehavior::Empty, "unreadable-answer"),
        (Misbehavior::Garbage, "no-answer"),
        (Misbehavior::Cut, "no-answer"),
        (Misbehavior::Endless, "answer-too-large"),
        (fail(1), "timed-out"),
        (fail(4), "timed-out"),
        (fail(8), "no-answer"),
        (fail(12), "no-answer"),
        (fail(14), "no-answer"),
        (fail(2), "no-answer"),
        (fail(7), "etcd-access-denied"),
        (fail(16), "etcd-access-denied"),
    ]
}

/// Each call, with the checks that need its answer.
const CALLS: [(&str, &[&str]); 4] = [
    ("Status", &["etcd.alarms", "etcd.leader", "etcd.learners"]),
    ("MemberList", &["etcd.learners", "etcd.members.consistent"]),
    ("Alarm", &["etcd.alarms"]),
    // Shows whether there is a quorum for the list.
    ("Range", &["etcd.learners", "etcd.members.consistent"]),
];

fn spoil(cluster: &Cluster, name: &str, call: &str, does: Misbehavior) {
    let server = Some(etcd(cluster, name));
    cluster.change(|world| world.call_faults.push(CallFault { server, ..CallFault::all(call, does) }));
}

/// Two of three members answer wrongly, each in a different way.
#[test]
fn every_answer_of_a_member_is_missed_by_the_checks_that_need_it() {
    let cases = CALLS.iter().flat_map(|call| {
        let ways = misbehaviors();
        ways.chunks(2).map(move |ways| (call, ways.to_vec())).collect::<Vec<_>>()
    });
    side_by_side(cases, 6, |((call, checks), ways)| {
        let cluster = cluster();
        let mut said = Vec::new();
        for (target, (does, reason)) in [("cp-1", &ways[0]), ("cp-2", &ways[1])] {
            spoil(&cluster, target, call, does.clone());
            said.extend(checks.iter().map(|check| (*check, *reason, target)));
        }
        let refused = ways.iter().any(|(_, reason)| *reason == "etcd-access-denied");
        if *call == "Status" {
            // A member that cannot be queried may be up.
            said.push(("etcd.tolerance", if refused { "etcd-access-denied" } else { "no-answer" }, "cluster"));
        }
        run(&cluster).is(if refused { 77 } else { 69 }, &said);
    });
}

#[test]
fn an_answer_that_no_member_gives_is_no_evidence() {
    let ways = [Misbehavior::Hang, Misbehavior::Empty, Misbehavior::Garbage, fail(14)];
    let cases = CALLS.iter().flat_map(|(call, _)| ways.iter().map(move |does| (*call, does.clone())));
    side_by_side(cases, 6, |(call, does)| {
        let cluster = cluster();
        for name in MEMBERS {
            spoil(&cluster, name, call, does.clone());
        }
        let judged = run(&cluster);
        let check = if call == "Alarm" { "etcd.alarms" } else { "etcd.quorum" };
        assert_eq!((judged.outcome.code, judged.status(check)), (69, "error"), "{call} {does:?}: {judged}");
    });
}

/// Behind a load balancer, each request may reach another member. Lists and alarms are the same on every member, and a read that needs a
/// quorum proves it for all; but a member's status is only its own.
#[test]
fn one_member_that_answers_for_all() {
    for (call, code, said) in [
        ("MemberList", 0, &[][..]),
        ("Alarm", 0, &[]),
        ("Range", 0, &[]),
        ("Status", 69, &[("etcd.tolerance", "no-answer", "cluster")]),
    ] {
        let cluster = cluster();
        for name in MEMBERS {
            spoil(&cluster, name, call, Misbehavior::From("cp-2".to_owned()));
        }
        run(&cluster).is(code, said);
    }
}

/// A fault of etcd, with the expected exit code and problems.
type Case = (fn(&mut World), i32, Vec<(&'static str, &'static str, &'static str)>);

fn states() -> Vec<Case> {
    vec![
        (|world| world.etcd_stop("cp-1"), 1, mute("connection-refused")),
        (|world| world.etcd_freeze("cp-1"), 1, mute("timed-out")),
        (
            |world| {
                world.etcd_stop("cp-2");
                world.etcd_stop("cp-3");
            },
            1,
            vec![("etcd.quorum", "quorum-lost", "cluster")],
        ),
        (World::not_bootstrapped, 69, vec![("etcd.quorum", "quorum-unproven", "cluster")]),
        (
            |world| world.etcd_learner("cp-3"),
            1,
            vec![
                // A learner only answers requests for its status.
                ("etcd.alarms", "no-answer", "cp-3"),
                ("etcd.learners", "learner", "cp-3"),
                ("etcd.tolerance", "two-members", "cluster"),
            ],
        ),
        (
            |world| world.etcd_alarm("cp-3", AlarmKind::NoSpace),
            1,
            vec![("etcd.alarms", "alarm-nospace", "cp-3"), ("etcd.space", "space-nearly-full", "cp-3")],
        ),
        (|world| fill(world, "3.6.9"), 1, vec![("etcd.space", "space-nearly-full", "cp-3")]),
        // An older version does not report its quota, and it differs from the others in any case.
        (|world| fill(world, "3.5.21"), 0, VERSIONS.to_vec()),
        (|world| world.change_member("cp-3", |member| member.behind = 1200), 1, vec![("etcd.lag", "lagging", "cp-3")]),
        (|world| world.change_member("cp-3", |member| member.version = "3.5.21".into()), 0, VERSIONS.to_vec()),
        (|world| world.etcd_alarm("cp-3", AlarmKind::Corrupt), 1, vec![("etcd.alarms", "alarm-corrupt", "cp-3")]),
        (
            World::bootstrapped_twice,
            1,
            vec![
                ("etcd.leader", "leaders-differ", "cluster"),
                ("etcd.members.consistent", "split-cluster", "cluster"),
                ("etcd.tolerance", "two-members", "cluster"),
            ],
        ),
        (
            // A member that was added but never started, so that all others are needed.
            |world| {
                let peer_urls = vec!["https://127.0.0.1:2380".to_owned()];
                world.etcd[0].members.push(Member { id: 77, peer_urls, ..Member::default() });
            },
            1,
            vec![("etcd.tolerance", "no-tolerance", "cluster")],
        ),
    ]
}

const VERSIONS: [(&str, &str, &str); 1] = [("etcd.versions", "versions-mixed", "cluster")];

/// Makes the database of a member of this version nearly as large as its quota.
fn fill(world: &mut World, version: &str) {
    world.etcd_quota(1 << 30);
    world.change_member("cp-3", |member| member.version = version.into());
    world.change_member("cp-3", |member| (member.db_size, member.db_size_in_use) = ((1 << 30) - 1000, 1 << 29));
}

#[test]
fn states_of_etcd() {
    side_by_side(states(), 6, |(make, code, said)| {
        let cluster = cluster();
        cluster.change(make);
        run(&cluster).is(code, &said);
    });
}

#[test]
fn credentials_of_other_clusters_and_other_times() {
    let (ours, other) = (cluster(), cluster());
    let good = ours.simulator().etcd_credentials(Flaw::None).unwrap();
    let foreign = other.simulator().etcd_credentials(Flaw::None).unwrap();
    let refused = (77, "client-certificate-refused", "");
    let unknown = (69, "quorum-unproven", "--etcd-cacert");
    for (credentials, (code, reason, words)) in [
        (ours.simulator().etcd_credentials(Flaw::Expired).unwrap(), refused),
        (EtcdCredentials { ca: good.ca.clone(), ..foreign.clone() }, refused),
        (EtcdCredentials { ca: foreign.ca.clone(), ..good }, unknown),
        (foreign, unknown),
    ] {
        let judged = asked(&ours, &ours.simulator().etcd_endpoints(), &credentials);
        assert_eq!(judged.outcome.code, code, "{judged}");
        assert_eq!(judged.of("etcd.quorum"), [(reason, "cluster")], "{judged}");
        assert!(judged.outcome.stdout.contains(words), "{judged}");
    }
}

#[test]
fn endpoints_that_are_not_the_members() {
    let (ours, other) = (cluster(), cluster());
    let credentials = ours.simulator().etcd_credentials(Flaw::None).unwrap();
    let own = ours.simulator().etcd_endpoints();
    let unproven = ("etcd.quorum", "quorum-unproven", "cluster");
    let unknown = ("etcd.tolerance", "no-answer", "cluster");
    // An endpoint that is given three times counts once.
    asked(&ours, &[&own[..1], &own[..1], &own[..1]].concat(), &credentials).is(69, &[unknown]);
    asked(&ours, &own[..1], &credentials).is(69, &[unknown]);
    let plain: Vec<_> = own.iter().map(|url| url.replace("https", "http")).collect();
    asked(&ours, &plain, &credentials).is(69, &[unproven]);
    // Another cluster has another CA.
    let strange = [&own[..2], &other.simulator().etcd_endpoints()[..1]].concat();
    let judged = asked(&ours, &strange, &credentials);
    assert_eq!((judged.outcome.code, judged.status("etcd.leader")), (69, "error"), "{judged}");
}

/// The endpoints belong to another cluster, and Talos shows that ours has members of its own.
#[test]
fn another_etcd_vouches_for_nothing() {
    let (ours, other) = (cluster(), cluster());
    let credentials = other.simulator().etcd_credentials(Flaw::None).unwrap();
    let run = || {
        let program = ours
            .program()
            .file("ca.crt", &credentials.ca)
            .file("client.crt", &credentials.client.certificate)
            .file("client.key", &credentials.client.key)
            .args(["-o", "json", "--attempt-timeout", "60s"])
            .args(["--etcd-cacert", "ca.crt", "--etcd-cert", "client.crt", "--etcd-key", "client.key"])
            .args(["--etcd-endpoints", &other.simulator().etcd_endpoints().join(",")]);
        ours.judgment(program.run())
    };
    let judged = run();
    assert_eq!(judged.outcome.code, 1, "{judged}");
    assert_eq!(judged.of("etcd.members.nodes").len(), 3, "{judged}");
    ours.change(|world| world.etcd_alarm("cp-3", AlarmKind::Corrupt));
    assert_eq!(run().of("etcd.alarms"), [("alarm-corrupt", "cp-3")]);
}

/// Enables authentication, with a user `health` that has the role `root`.
fn with_users(world: &mut World) {
    let user = EtcdUser { name: "health".to_owned(), password: PASSWORD.to_owned(), root: true };
    world.etcd[0].auth = Some(EtcdAuth::of([user]));
}

const PASSWORD: &str = "gE7-streng_geheim";

/// Queries these endpoints as that user.
fn as_user(cluster: &Cluster, endpoints: &[String], password: &str) -> Program {
    let credentials = cluster.simulator().etcd_credentials(Flaw::None).unwrap();
    program(cluster, endpoints, &credentials).etcd_user("health", password)
}

/// Returns the servers that received this call, or any call for `*`.
fn asked_for(cluster: &Cluster, call: &str) -> Vec<Server> {
    let counts = cluster.simulator().calls().counts();
    let of_etcd = counts.into_iter().filter(|count| matches!(count.server, Server::Etcd(_)));
    of_etcd.filter(|count| call == "*" || count.call == call).map(|count| count.server).collect()
}

#[test]
fn a_password_is_shown_to_the_endpoints_alone() {
    let cluster = cluster();
    cluster.change(with_users);
    let endpoints = cluster.simulator().etcd_endpoints();
    judged(&cluster, as_user(&cluster, &endpoints, PASSWORD)).is(0, &[]);
    // One token is used for all of them.
    assert_eq!(asked_for(&cluster, "Authenticate").len(), 1);
    cluster.simulator().calls().reset();
    judged(&cluster, as_user(&cluster, &endpoints[2..], PASSWORD))
        .is(69, &[("etcd.tolerance", "no-answer", "cluster")]);
    assert!(asked_for(&cluster, "*").iter().all(|server| *server == etcd(&cluster, "cp-3")));
}

#[test]
fn a_password_reaches_no_server_that_is_not_verified() {
    let flaws = [Transport::WrongCa, Transport::Expired, Transport::WrongName, Transport::NoAlpn, Transport::PlainHttp];
    side_by_side(flaws, 5, |flaw| {
        let cluster = cluster();
        cluster.change(with_users);
        let members = MEMBERS.map(|name| (etcd(&cluster, name), flaw.clone()));
        cluster.change(|world| world.transport.extend(members));
        let endpoints = cluster.simulator().etcd_endpoints();
        let judged = judged(&cluster, as_user(&cluster, &endpoints, PASSWORD));
        assert_eq!((judged.outcome.code, asked_for(&cluster, "*")), (69, Vec::new()), "{flaw:?}: {judged}");
    });
    // The password is not sent in plain text either, even if the other endpoints use TLS.
    let cluster = cluster();
    let mut endpoints = cluster.simulator().etcd_endpoints();
    endpoints[1] = endpoints[1].replace("https", "http");
    let outcome = as_user(&cluster, &endpoints, PASSWORD).run();
    outcome.is(78, &["a password is never sent to `http://`"]);
    assert!(asked_for(&cluster, "*").is_empty());
}

#[test]
fn neither_password_nor_token_is_shown() {
    for (password, code) in [(PASSWORD, 0), ("gE7-geraten_geheim", 77)] {
        let cluster = cluster();
        cluster.change(with_users);
        let endpoints = cluster.simulator().etcd_endpoints();
        let program = as_user(&cluster, &endpoints, password);
        let (outcome, home) = program.args(["-vv", "--trace", "trace.json"]).run_and_keep();
        assert_eq!(outcome.code, code, "{}", outcome.stderr);
        let trace = std::fs::read_to_string(home.path().join("trace.json")).unwrap();
        for text in [&outcome.stdout, &outcome.stderr, &trace] {
            assert!(!text.contains("geheim") && !text.contains("simulated."), "{text}");
        }
    }
}
