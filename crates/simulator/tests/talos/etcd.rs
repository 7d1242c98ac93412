//! Talos's answers about etcd.

use std::time::Duration;

use simulator::Simulator;
use simulator::world::{Alarm, AlarmKind, Process, TalosVersion};
use talos_api::google::protobuf::Empty;
use talos_api::machine::machine_service_client::MachineServiceClient;
use talos_api::machine::{EtcdMemberListRequest, EtcdMemberStatus};
use tokio::time::Instant;
use tonic::{Code, Request};

use crate::client::{Channel, SOON, admin, cluster, failed};

async fn status(client: &mut MachineServiceClient<Channel>) -> EtcdMemberStatus {
    let answer = tokio::time::timeout(SOON, client.etcd_status(Empty {})).await.unwrap();
    answer.unwrap().into_inner().messages.remove(0).member_status.unwrap()
}

fn processes(simulator: &Simulator, processes: [Process; 3]) {
    simulator.change(|world| {
        for (member, process) in world.etcd[0].members.iter_mut().zip(processes) {
            member.process = process;
        }
    });
}

fn soon<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(Duration::from_millis(300));
    request
}

const OWN: EtcdMemberListRequest = EtcdMemberListRequest { query_local: true };
const ANY: EtcdMemberListRequest = EtcdMemberListRequest { query_local: false };

#[tokio::test]
async fn members_status_and_alarms_are_told() {
    let simulator = cluster(|world| {
        let member = world.etcd[0].members[1].id;
        world.etcd[0].alarms = vec![Alarm { member, kind: AlarmKind::Corrupt }];
        world.etcd[0].members[0].behind = 11;
    });
    let mut client = admin(&simulator, "cp-1").await;
    let members = client.etcd_member_list(OWN).await.unwrap().into_inner().messages.remove(0);
    assert_eq!(members.legacy_members, ["cp-1", "cp-2", "cp-3"]);
    let (first, second) = (members.members[0].id, members.members[1].id);

    let told = status(&mut client).await;
    assert_eq!((told.member_id, told.leader), (first, first));
    assert_eq!(told.raft_index - told.raft_applied_index, 11);
    assert_eq!(told.errors, [format!("memberID:{second} alarm:CORRUPT ")]);
    assert_eq!((told.protocol_version.as_str(), told.storage_version.as_str()), ("3.6.9", "3.6.0"));
    simulator.change(|world| world.versions.talos = TalosVersion::new(10, 1));
    assert_eq!(status(&mut client).await.storage_version, "");

    let alarms = client.etcd_alarm_list(Empty {}).await.unwrap().into_inner().messages.remove(0).member_alarms;
    assert_eq!((alarms.len(), alarms[0].member_id, alarms[0].alarm), (1, second, 2));
}

#[tokio::test]
async fn without_a_leader_some_answers_are_missing() {
    let simulator = cluster(|_| {});
    processes(&simulator, [Process::Running, Process::Stopped, Process::Stopped]);
    let mut client = admin(&simulator, "cp-1").await;
    let told = status(&mut client).await;
    assert_eq!((told.leader, told.errors), (0, vec!["etcdserver: no leader".to_owned()]));
    let began = Instant::now();
    let members = failed(client.etcd_member_list(OWN).await);
    assert_eq!(members, (Code::Unknown, "etcdserver: no leader".to_owned()));
    assert!(began.elapsed() >= Duration::from_secs(2));
    assert_eq!(failed(client.etcd_alarm_list(soon(Empty {})).await).0, Code::DeadlineExceeded);
}

#[tokio::test]
async fn a_silent_member_hangs_and_others_answer_for_it() {
    let simulator = cluster(|_| {});
    for process in [Process::Stopped, Process::Frozen] {
        processes(&simulator, [process, Process::Running, Process::Running]);
        let mut client = admin(&simulator, "cp-1").await;
        assert_eq!(failed(client.etcd_status(soon(Empty {})).await).0, Code::DeadlineExceeded);
        assert_eq!(failed(client.etcd_member_list(soon(OWN)).await).0, Code::DeadlineExceeded);
        assert_eq!(client.etcd_member_list(ANY).await.unwrap().into_inner().messages[0].members.len(), 3);
    }
    simulator.change(|world| world.etcd.clear());
    let mut client = admin(&simulator, "cp-1").await;
    assert_eq!(failed(client.etcd_member_list(soon(ANY)).await).0, Code::DeadlineExceeded);
    assert_eq!(failed(client.etcd_status(soon(Empty {})).await).0, Code::DeadlineExceeded);
}

#[tokio::test]
async fn learners_tell_nothing_but_their_status() {
    let simulator = cluster(|world| world.etcd[0].members[0].learner = true);
    let mut client = admin(&simulator, "cp-1").await;
    let refused = (Code::Unknown, "etcdserver: rpc not supported for learner".to_owned());
    assert_eq!(failed(client.etcd_member_list(OWN).await), refused);
    assert_eq!(failed(client.etcd_alarm_list(Empty {}).await), refused);
    assert!(status(&mut client).await.is_learner);
}
