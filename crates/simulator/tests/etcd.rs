//! Tests etcd's own API over TLS with an independent client.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::time::Duration;

use etcd_client::{
    AlarmAction, AlarmType, Certificate, Client, ConnectOptions, Error, GetOptions, Identity, TlsOptions,
};
use simulator::pki::Flaw;
use simulator::world::{Alarm, AlarmKind, CallFault, EtcdAuth, EtcdUser, Member, Misbehavior, Process, Shape, World};
use simulator::{Network, Simulator};
use tokio::time::timeout;
use tonic::Code;

/// Time to wait for events that never happen.
const NEVER: Duration = Duration::from_millis(300);

fn cluster(edit: impl FnOnce(&mut World)) -> Simulator {
    let network = Network::claim().unwrap();
    let mut world = World::healthy(&network, &Shape::default());
    edit(&mut world);
    Simulator::start(network, world).unwrap()
}

fn options(simulator: &Simulator) -> ConnectOptions {
    // This fails if another test has already installed it.
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

/// Code and text of an error.
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

#[tokio::test]
async fn users_are_known_by_their_tokens() {
    let user = |name: &str, root| EtcdUser { name: name.to_owned(), password: "geheim".to_owned(), root };
    let simulator = cluster(|world| {
        world.etcd[0].auth = Some(EtcdAuth::of([user("root", true), user("health", false)]));
        world.etcd[0].members[2].learner = true;
    });
    let version = |version: &str| {
        simulator.change(|world| world.etcd[0].members.iter_mut().for_each(|it| it.version = version.to_owned()));
    };
    let login = async |member: usize, name: &str, password: &str| {
        let options = options(&simulator).with_user(name, password);
        Client::connect([&simulator.etcd_endpoints()[member]], Some(options)).await
    };
    let empty = (Code::InvalidArgument, "etcdserver: user name is empty".to_owned());
    let denied = (Code::PermissionDenied, "etcdserver: permission denied".to_owned());

    let mut nobody = client(&simulator, 0).await;
    let (mut health, mut root) =
        (login(0, "health", "geheim").await.unwrap(), login(1, "root", "geheim").await.unwrap());
    for (of_version, is_of_root_alone) in [("3.5.31", true), ("3.5.32", false), ("3.6.8", true), ("3.6.12", false)] {
        version(of_version);
        assert_eq!(refusal(nobody.status().await), empty);
        assert_eq!(refusal(nobody.get("health", None).await), empty);
        assert_eq!(nobody.member_list().await.is_ok(), is_of_root_alone);
        assert_eq!(
            health.status().await.map_err(|error| refusal(Err::<(), _>(error))).err(),
            is_of_root_alone.then(|| denied.clone())
        );
        assert_eq!(refusal(health.get("health", None).await), denied);
        health.member_list().await.unwrap();
        root.status().await.unwrap();
        root.get("health", None).await.unwrap();
    }
    version("3.5.23");
    nobody.status().await.unwrap();
    let wrong = (Code::InvalidArgument, "etcdserver: authentication failed, invalid user ID or password".to_owned());
    assert_eq!(refusal(login(0, "root", "geraten").await), wrong);
    assert_eq!(refusal(login(0, "nobody", "geheim").await), wrong);
    assert_eq!(refusal(login(2, "root", "geheim").await).1, "etcdserver: rpc not supported for learner");

    version("3.6.12");
    simulator.change(|world| world.etcd[0].auth.as_mut().unwrap().tokens.clear());
    assert_eq!(refusal(root.status().await), (Code::Unauthenticated, "etcdserver: invalid auth token".to_owned()));
    simulator.change(|world| world.etcd[0].auth = None);
    let disabled = (Code::FailedPrecondition, "etcdserver: authentication is not enabled".to_owned());
    assert_eq!(refusal(login(0, "root", "geheim").await), disabled);
    nobody.status().await.unwrap();
}
