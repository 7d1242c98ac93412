//! etcd's own API, asked over TLS by somebody else's client.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::time::Duration;

use etcd_client::{
    AlarmAction, AlarmType, Certificate, Client, ConnectOptions, Error, GetOptions, Identity, TlsOptions,
};
use simulator::pki::Flaw;
use simulator::world::{Alarm, AlarmKind, CallFault, Member, Misbehavior, Process, Shape, World};
use simulator::{Network, Simulator};
use tokio::time::timeout;
use tonic::Code;

/// For what never comes.
const NEVER: Duration = Duration::from_millis(300);

fn cluster(edit: impl FnOnce(&mut World)) -> Simulator {
    let network = Network::claim().unwrap();
    let mut world = World::healthy(&network, &Shape::default());
    edit(&mut world);
    Simulator::start(network, world).unwrap()
}

fn options(simulator: &Simulator) -> ConnectOptions {
    // Fails if another test was first.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let credentials = simulator.etcd_credentials(Flaw::None).unwrap();
    let identity = Identity::from_pem(credentials.client.certificate, credentials.client.key);
    let tls = TlsOptions::new().ca_certificate(Certificate::from_pem(credentials.ca)).identity(identity);
    ConnectOptions::new().with_tls(tls)
}

/// A client of the member with this number, counted from 0.
async fn client(simulator: &Simulator, member: usize) -> Client {
    Client::connect([&simulator.etcd_endpoints()[member]], Some(options(simulator))).await.unwrap()
}

/// Code and text of a refusal.
fn refusal<T>(answer: Result<T, Error>) -> (Code, String) {
    match answer {
        Ok(_) => panic!("it was answered"),
        Err(Error::GRpcStatus(status)) => (status.code(), status.message().to_owned()),
        Err(error) => panic!("{error}"),
    }
}

fn stop(world: &mut World, members: std::ops::Range<usize>, process: Process) {
    for member in &mut world.etcd[0].members[members] {
        member.process = process;
    }
}

#[tokio::test]
async fn a_healthy_member_tells_how_it_is() {
    let simulator = cluster(|world| world.etcd[0].members[1].behind = 5);
    let cluster = simulator.change(|world| world.etcd[0].clone());
    let mut client = client(&simulator, 1).await;

    let status = client.status().await.unwrap();
    let header = status.header().unwrap();
    assert_eq!((header.cluster_id(), header.member_id()), (cluster.id, cluster.members[1].id));
    assert_eq!((status.leader(), status.raft_term()), (cluster.members[0].id, cluster.raft_term));
    assert_eq!(status.raft_applied_index() + 5, status.raft_index());
    assert_eq!((status.version(), status.is_learner()), (cluster.members[1].version.as_str(), false));
    assert_eq!((status.db_size(), status.raft_used_db_size()), (20 << 20, 8 << 20));
    assert!(status.errors().is_empty());

    let list = client.member_list().await.unwrap();
    let members: Vec<_> = list.members().iter().map(|member| (member.id(), member.name().to_owned())).collect();
    let expected: Vec<_> = cluster.members.iter().map(|member| (member.id, member.name.clone())).collect();
    assert_eq!(members, expected);
    assert_eq!(client.get("health", None).await.unwrap().count(), 0);
    assert!(client.alarm(AlarmAction::Get, AlarmType::None, None).await.unwrap().alarms().is_empty());
}

#[tokio::test]
async fn without_a_quorum_only_what_a_member_knows_by_itself_is_answered() {
    let simulator = cluster(|world| stop(world, 1..3, Process::Stopped));
    let mut client = client(&simulator, 0).await;
    let status = client.status().await.unwrap();
    assert_eq!((status.leader(), status.errors()), (0, &["etcdserver: no leader".to_owned()][..]));
    assert_eq!(client.member_list().await.unwrap().members().len(), 3);
    client.get("health", Some(GetOptions::new().with_serializable())).await.unwrap();

    let mut waiting = client.clone();
    let mut waiting = Box::pin(waiting.get("health", None));
    assert!(timeout(NEVER, &mut waiting).await.is_err());
    let alarms = timeout(NEVER, client.alarm(AlarmAction::Get, AlarmType::None, None)).await;
    assert!(alarms.is_err());
    simulator.change(|world| stop(world, 1..3, Process::Running));
    waiting.await.unwrap();
}

#[tokio::test]
async fn who_requires_a_leader_is_told_at_once() {
    let simulator = cluster(|world| stop(world, 1..3, Process::Frozen));
    assert!(timeout(NEVER, client(&simulator, 0).await.get("health", None)).await.is_err());
    let options = options(&simulator).with_require_leader(true);
    let mut client = Client::connect([&simulator.etcd_endpoints()[0]], Some(options)).await.unwrap();
    let refused = refusal(client.get("health", None).await);
    assert_eq!(refused, (Code::Unavailable, "etcdserver: no leader".into()));
}

#[tokio::test]
async fn a_learner_tells_its_status_and_refuses_the_rest() {
    let text = "etcdserver: rpc not supported for learner";
    for (version, code) in [("3.6.9", Code::FailedPrecondition), ("3.5.21", Code::Unavailable)] {
        let simulator = cluster(|world| {
            let member = &mut world.etcd[0].members[2];
            (member.learner, member.version) = (true, version.to_owned());
        });
        let mut client = client(&simulator, 2).await;
        assert!(client.status().await.unwrap().is_learner());
        client.get("health", Some(GetOptions::new().with_serializable())).await.unwrap();
        assert_eq!(refusal(client.get("health", None).await), (code, text.to_owned()));
        assert_eq!(refusal(client.member_list().await), (code, text.to_owned()));
        let alarms = client.alarm(AlarmAction::Get, AlarmType::None, None).await;
        assert_eq!(refusal(alarms), (code, text.to_owned()));
    }
}

#[tokio::test]
async fn every_member_tells_the_alarms_of_all() {
    let simulator = cluster(|world| {
        let cluster = &mut world.etcd[0];
        cluster.alarms = vec![
            Alarm { member: cluster.members[0].id, kind: AlarmKind::NoSpace },
            Alarm { member: cluster.members[1].id, kind: AlarmKind::Corrupt },
        ];
    });
    let ids = simulator.change(|world| [0, 1].map(|member| world.etcd[0].members[member].id));
    let mut client = client(&simulator, 2).await;
    let alarms = client.alarm(AlarmAction::Get, AlarmType::None, None).await.unwrap();
    let alarms: Vec<_> = alarms.alarms().iter().map(|alarm| (alarm.member_id(), alarm.alarm())).collect();
    assert_eq!(alarms, [(ids[0], AlarmType::Nospace), (ids[1], AlarmType::Corrupt)]);
    let of_one = client.alarm(AlarmAction::Get, AlarmType::Corrupt, None).await.unwrap();
    assert_eq!(of_one.alarms().len(), 1);
    let expected = [format!("memberID:{} alarm:NOSPACE ", ids[0]), format!("memberID:{} alarm:CORRUPT ", ids[1])];
    assert_eq!(client.status().await.unwrap().errors(), expected);
}

#[tokio::test]
async fn members_that_never_started_and_second_clusters_are_told_apart() {
    let simulator = cluster(|world| {
        let mut second = world.etcd[0].clone();
        second.id = 7;
        second.members = vec![world.etcd[0].members.pop().unwrap()];
        let unstarted = Member { id: 1, peer_urls: vec!["https://192.0.2.1:2380".into()], ..Member::default() };
        world.etcd[0].members.push(unstarted);
        world.etcd.push(second);
    });
    let list = client(&simulator, 0).await.member_list().await.unwrap();
    let unstarted = &list.members()[0];
    assert_eq!((list.members().len(), unstarted.name(), unstarted.client_urls().len()), (3, "", 0));
    let list = client(&simulator, 2).await.member_list().await.unwrap();
    assert_eq!((list.members().len(), list.header().unwrap().cluster_id()), (1, 7));
}

#[tokio::test]
async fn calls_misbehave_as_they_are_told_to() {
    let simulator = cluster(|_| {});
    let mut client = client(&simulator, 0).await;
    let tell = |does| simulator.change(|world| world.call_faults = vec![CallFault::all("Status", does)]);
    let ids = simulator.change(|world| [0, 1].map(|member| world.etcd[0].members[member].id));

    tell(Misbehavior::Hang);
    assert!(timeout(NEVER, client.status()).await.is_err());
    assert_eq!(client.member_list().await.unwrap().members().len(), 3);
    tell(Misbehavior::Fail { code: 8, text: "etcdserver: too many requests".into() });
    let refused = refusal(client.status().await);
    assert_eq!(refused, (Code::ResourceExhausted, "etcdserver: too many requests".into()));
    tell(Misbehavior::Empty);
    let status = client.status().await.unwrap();
    assert!(status.header().is_none() && status.version().is_empty());
    tell(Misbehavior::From("cp-2".into()));
    assert_eq!(client.status().await.unwrap().header().unwrap().member_id(), ids[1]);
    tell(Misbehavior::Late(NEVER));
    assert!(timeout(NEVER, client.status()).await.is_err());
    client.status().await.unwrap();
    tell(Misbehavior::Stall);
    assert!(timeout(NEVER, client.status()).await.is_err());
    for does in [Misbehavior::Garbage, Misbehavior::Cut, Misbehavior::Endless] {
        tell(does.clone());
        assert!(client.status().await.is_err(), "{does:?}");
    }
    let counts = simulator.calls().counts();
    assert!(counts.iter().any(|count| count.call == "MemberList" && count.times == 1));
}
