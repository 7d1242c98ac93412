//! Changes come at their time.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::{Asked, Kind, Timeline, When, from_text};
use crate::cosi::kind;
use crate::pki::Pki;
use crate::state::ClusterState;
use crate::world::{CallFault, Misbehavior, Power, Server, Shape, Transport, World};
use crate::{Network, Simulator};

fn world() -> (Network, World) {
    let network = Network::claim().unwrap();
    let world = World::healthy(&network, &Shape { control_planes: 3, workers: 2, ..Shape::default() });
    (network, world)
}

fn timeline() -> Timeline {
    let (network, world) = world();
    Timeline::new(ClusterState::new(world, Pki::new().unwrap(), network.balancer()))
}

fn power(timeline: &Timeline, node: &str) -> Power {
    timeline.state.world().machine(node).unwrap().1.power
}

#[tokio::test(start_paused = true)]
async fn changes_come_at_their_time() {
    let timeline = timeline();
    let steps = r#"
        [[change]]
        at = "1m30s"
        end = "power-off"
        node = "worker-2"

        [[change]]
        do = "power-off"
        node = "worker-2"
    "#;
    timeline.play(from_text(steps).unwrap()).unwrap();
    assert_eq!(power(&timeline, "worker-2"), Power::Off);
    tokio::time::sleep(Duration::from_secs(89)).await;
    assert_eq!(power(&timeline, "worker-2"), Power::Off);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(power(&timeline, "worker-2"), Power::On);
}

#[tokio::test]
async fn changes_come_before_the_answer_to_a_call() {
    let timeline = timeline();
    let (first, second) = {
        let world = timeline.state.world();
        let mut machines = world.machines.keys();
        (*machines.next().unwrap(), *machines.next().unwrap())
    };
    let steps = r#"[
        {"when-asked": {"server": "apid", "node": "cp-1", "call": "Get *", "times": 2}, "do": "power-off", "node": "worker-1"},
        {"when-asked": {"call": "/api/v1/nodes"}, "do": "unplug", "node": "worker-2"}
    ]"#;
    timeline.play(from_text(steps).unwrap()).unwrap();
    for (server, call) in [
        (Server::Apid(first), "Get MachineStatuses"),
        (Server::Apid(first), "Version"),
        (Server::Apid(second), "Get Members"),
        (Server::Etcd(first), "Get Members"),
        (Server::Balancer, "/api/v1/nodes/worker-1"),
    ] {
        timeline.state.called(&server, call);
        assert_eq!((power(&timeline, "worker-1"), power(&timeline, "worker-2")), (Power::On, Power::On), "{call}");
    }
    timeline.state.called(&Server::Apid(first), "Get Members");
    assert_eq!(power(&timeline, "worker-1"), Power::Off);
    timeline.state.called(&Server::Balancer, "/api/v1/nodes");
    assert_eq!(power(&timeline, "worker-2"), Power::Unplugged);
}

#[tokio::test]
async fn all_changes_of_a_list_are_made_or_none() {
    let timeline = timeline();
    let steps = r#"[{"do": "power-off", "node": "worker-1"}, {"at": "1h", "do": "power-off", "node": "worker-3"}]"#;
    let error = timeline.play(from_text(steps).unwrap()).unwrap_err();
    assert_eq!(format!("{error:#}"), "change 2: there is no machine `worker-3`");
    assert_eq!(power(&timeline, "worker-1"), Power::On);
    let steps = r#"[{"do": "power-off", "node": "worker-1"}, {"do": "etcd-remove-member", "node": "cp-1"}, {"do": "etcd-learner", "node": "cp-1"}]"#;
    let error = timeline.play(from_text(steps).unwrap()).unwrap_err();
    assert_eq!(format!("{error:#}"), "change 3: `cp-1` has no etcd member");
    assert_eq!(power(&timeline, "worker-1"), Power::On);
}

#[test]
fn a_panic_leaves_the_world_as_it_was() {
    let timeline = timeline();
    let edit = || {
        timeline.state.change_wholly(|world| -> anyhow::Result<()> {
            world.power_off("worker-1");
            panic!("a state that nobody has thought of");
        })
    };
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(edit)).unwrap_err();
    assert_eq!(power(&timeline, "worker-1"), Power::On);
}

#[tokio::test(start_paused = true)]
async fn later_changes_need_not_be_possible_yet() {
    let timeline = timeline();
    let steps = r#"[
        {"do": "etcd-remove-member", "node": "cp-3"},
        {"at": "1s", "end": "etcd-learner", "node": "cp-3"},
        {"at": "2s", "end": "etcd-remove-member", "node": "cp-3"},
        {"at": "3s", "do": "etcd-learner", "node": "cp-3"}
    ]"#;
    timeline.play(from_text(steps).unwrap()).unwrap();
    tokio::time::sleep(Duration::from_secs(4)).await;
    let world = timeline.state.world();
    let (at, _) = world.machine("cp-3").unwrap();
    assert!(world.etcd_of(at).unwrap().1.learner);
}

#[test]
fn edits_change_what_they_name() {
    let (_network, mut world) = world();
    let steps = r#"
        [[change]]
        do = "resource"
        node = "cp-1"
        type = "Diagnostics.runtime.talos.dev"
        id = "a"
        merge = { message = "b", details = ["c"] }

        [[change]]
        do = "object"
        resource = "configmaps"
        namespace = "kube-system"
        name = "notes"
        merge = { data = { a = "b" } }

        [[change]]
        do = "object"
        resource = "configmaps"
        namespace = "kube-system"
        name = "notes"
        merge = { data = { c = "d" } }

        [[change]]
        do = "transport"
        server = "api-server"
        fault = { delay = "1.5s" }

        [[change]]
        do = "transport"
        server = "apid"
        node = "worker-1"
        fault = "silent-in-tls"

        [[change]]
        do = "call-fault"
        call = "Version"
        does = { fail = { code = 14, text = "no" } }
        times = 3

        [[change]]
        do = "clock"
        ahead = "-5m"

        [[change]]
        do = "service"
        node = "worker-1"
        service = "kubelet"
        healthy = false
        message = "no"
    "#;
    for step in from_text(steps).unwrap() {
        assert_eq!(step.when, When::Now);
        step.change.make(&mut world).unwrap();
    }
    let (at, machine) = world.machine("worker-1").unwrap();
    let health = machine.services.iter().find(|service| service.id == "kubelet").unwrap().health.clone().unwrap();
    assert_eq!((health.healthy, health.last_message.as_str()), (false, "no"));
    assert_eq!(machine.resources.get(kind::SERVICES, "kubelet").unwrap().spec()["healthy"], false);
    assert_eq!(world.transport[&Server::Apid(at)], Transport::SilentInTls);
    assert_eq!(world.transport.len(), 4);
    assert!(world.transport.values().any(|fault| *fault == Transport::Delay(Duration::from_millis(1500))));
    let fault = Misbehavior::Fail { code: 14, text: "no".to_owned() };
    assert_eq!(world.call_faults, [CallFault { times: Some(3), ..CallFault::all("Version", fault) }]);
    assert_eq!(world.clock_ahead, -300);
    let data = &world.kubernetes.object("configmaps", Some("kube-system"), "notes").unwrap()["data"];
    assert_eq!(*data, serde_json::json!({"a": "b", "c": "d"}));
    let (_, machine) = world.machine("cp-1").unwrap();
    let spec = machine.resources.get(kind::DIAGNOSTICS, "a").unwrap().spec();
    assert_eq!(*spec, serde_json::json!({"message": "b", "details": ["c"]}));
}

#[test]
fn what_cannot_be_is_said() {
    let (_network, world) = world();
    let error = |text: &str| match from_text(text) {
        Err(error) => format!("{error:#}"),
        Ok(steps) => format!("{:#}", steps[0].check(&world).unwrap_err()).replace("change 1: ", ""),
    };
    for (text, expected) in [
        ("{", "EOF while parsing"),
        ("7", "change 1: not an object"),
        (r#"{"do": "power-off", "node": "cp-1", "when": 1}"#, "change 1: `power-off`: unknown field `when`"),
        (r#"{"do": "clock", "ahead": "1m", "at": "-1s"}"#, "change 1: `at`"),
        (r#"{"end": "call-fault", "node": "cp-1"}"#, "change 1: `call-fault`: unknown field `node`"),
        (r#"{"do": "cordon", "end": "cordon", "node": "cp-1"}"#, "change 1: either `do` or `end`"),
        (r#"{"end": "clock", "ahead": "1m"}"#, "change 1: `clock`: there is no change `end clock`"),
        (
            r#"{"do": "cordon", "node": "cp-1", "at": "1s", "when-asked": {"call": "x"}}"#,
            "change 1: `at` and `when-asked`",
        ),
        (
            r#"{"do": "cordon", "node": "cp-1", "when-asked": {"call": "x", "times": 0}}"#,
            "change 1: `when-asked`: `times`",
        ),
        (
            r#"{"do": "cordon", "node": "cp-1", "when-asked": {"call": "x", "node": "y"}}"#,
            "`when-asked`: there is no machine `y`",
        ),
        (r#"{"do": "stop-service", "node": "worker-1", "service": "etcd"}"#, "`worker-1` has no service `etcd`"),
        (r#"{"do": "transport", "server": "etcd", "node": "worker-1", "fault": "refuse"}"#, "`worker-1` is a worker"),
        (
            r#"{"do": "transport", "server": "apid", "fault": "explode"}"#,
            "change 1: `transport`: unknown variant `explode`",
        ),
        (
            r#"{"do": "remove-object", "resource": "node", "name": "a"}"#,
            "there is no resource `node`; they are called like",
        ),
        (
            r#"{"do": "object", "resource": "pods", "name": "a", "merge": {}}"#,
            "`pods` are in namespaces: `namespace` is missing",
        ),
        (
            r#"{"do": "remove-object", "resource": "nodes", "namespace": "default", "name": "a"}"#,
            "`nodes` are in no namespace",
        ),
        (
            r#"{"do": "remove-resource", "node": "cp-1", "type": "members", "id": "a"}"#,
            "Talos 1.13.0 has no type `members`",
        ),
        (
            "title = \"x\"\n[cluster]\nworkers = 1\n[[change]]\nend = \"call-fault\"\n",
            "`[cluster]`: a cluster that runs",
        ),
        (r#"{"do": "clock", "ahead": "11y"}"#, "change 1: `clock`"),
        (r#"{"do": "clock", "ahead": "-90000h"}"#, "`ahead` is at most ten years"),
        (r#"{"at": "25h", "end": "call-fault"}"#, "change 1: `at` is at most 24h"),
        (
            r#"{"do": "object", "resource": "nodes", "name": "a", "merge": 7}"#,
            "change 1: `object`: invalid type: integer `7`, expected a map",
        ),
        (
            r#"{"do": "object", "resource": "nodes", "name": "a", "merge": {"metadata": null}}"#,
            "`merge`: `metadata` is an object",
        ),
        (
            r#"{"do": "object", "resource": "nodes", "name": "a", "merge": {"status": []}}"#,
            "`merge`: `status` is an object",
        ),
        (
            r#"{"do": "object", "resource": "nodes", "name": "a", "merge": {"metadata": {"name": null}}}"#,
            "`merge`: the name of an object cannot be changed",
        ),
        (
            r#"{"do": "object", "resource": "nodes", "name": "a", "merge": {"metadata": {"namespace": "b"}}}"#,
            "`merge`: the namespace of an object cannot be changed",
        ),
        (r#"{"do": "call-fault", "node": "cp-1", "call": "x", "does": "hang"}"#, "which server of `cp-1`"),
        (r#"{"do": "call-fault", "call": "x", "does": {"from": "cp-7"}}"#, "there is no machine `cp-7`"),
    ] {
        let error = error(text);
        assert!(error.starts_with(expected), "{text}: {error}");
    }
}

#[test]
fn a_call_is_counted_once_if_nothing_else_is_said() {
    let step = from_text(r#"{"do": "cordon", "node": "cp-1", "when-asked": {"server": "api-server", "call": "x"}}"#)
        .unwrap()
        .remove(0);
    let asked = Asked { server: Some(Kind::ApiServer), node: None, call: "x".to_owned(), times: 1 };
    assert_eq!(step.when, When::Asked(asked));
}

#[test]
fn the_readme_tells_of_every_state() {
    let readme = include_str!("../../README.md");
    for state in super::states::STATES {
        assert!(readme.contains(&format!("`{}`", state.name)), "{}", state.name);
    }
}

/// Sends a request. Returns status and body of the answer.
fn http(at: SocketAddr, request: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(at).unwrap();
    let length = body.len();
    let host = if request.contains("host: ") { String::new() } else { format!("host: {at}\r\n") };
    let (request, more) =
        request.split_once('\n').map_or((request, String::new()), |(line, more)| (line, format!("{more}\r\n")));
    write!(stream, "{request} HTTP/1.1\r\n{host}{more}connection: close\r\ncontent-length: {length}\r\n\r\n{body}")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

#[test]
fn a_running_cluster_is_controlled_over_http() {
    let (network, world) = world();
    let (first, _) = world.machine("cp-1").unwrap();
    let simulator = Simulator::start(network, world).unwrap();
    let at = simulator.control().unwrap();
    assert!(http(at, "GET /", "").1.starts_with("A simulated Talos cluster."));
    simulator.calls().count(&Server::Apid(first), "Version");
    let counts = format!(r#"[{{"server":{{"apid":"{first}"}},"call":"Version","times":1}}]"#);
    assert_eq!(http(at, "GET /calls", ""), (200, counts));
    assert_eq!(http(at, "DELETE /calls", "").0, 204);
    assert_eq!(http(at, "GET /calls", ""), (200, "[]".to_owned()));
    let file = "title = \"x\"\n[[change]]\ndo = \"cordon\"\nnode = \"worker-1\"\n";
    assert_eq!(http(at, "POST /changes", file).0, 204);
    let off = r#"{"do": "power-off", "node": "worker-1"}"#;
    assert_eq!(http(at, "POST /changes", off), (204, String::new()));
    assert_eq!(simulator.change(|world| world.machine("worker-1").unwrap().1.power), Power::Off);
    let wrong = http(at, "POST /changes", &off.replace("worker-1", "worker-7"));
    assert_eq!(wrong, (400, "change 1: there is no machine `worker-7`\n".to_owned()));
    assert_eq!(http(at, "POST /changes", &" ".repeat(2 << 20)).0, 400);
    assert_eq!(http(at, "GET /calls\norigin: http://example.com", "").0, 403);
    assert_eq!(http(at, "POST /changes\norigin: null", off).0, 403);
    assert_eq!(http(at, "GET /calls\nhost: example.com:50000", "").0, 403);
    assert_eq!(http(at, "PUT /changes", "").0, 405);
    assert_eq!(http(at, "GET /etc", "").0, 404);
}

#[test]
fn edits_say_what_no_state_does() {
    let (_, mut world) = world();
    let steps = r#"
        [[change]]
        do = "service"
        node = "worker-1"
        service = "ext-agent"
        state = "Waiting"
        event = "Waiting for file"

        [[change]]
        do = "remove-service"
        node = "worker-2"
        service = "kubelet"

        [[change]]
        do = "machine"
        node = "worker-1"
        talos = "1.12.6"
        memory = [1000, 500]
        ahead = "-1m"

        [[change]]
        do = "etcd-member"
        node = "cp-3"
        behind = 5000

        [[change]]
        do = "etcd-add-member"
        id = 7
        peer-urls = ["https://192.0.2.9:2380"]

        [[change]]
        do = "etcd-storage"
        version = "3.5.0"

        [[change]]
        do = "etcd-election"

        [[change]]
        do = "lease-stalls"
        namespace = "kube-system"
        name = "kube-scheduler"
        since = "5m"

        [[change]]
        do = "object"
        resource = "nodes"
        name = "cp-1"
        merge = {}
        remove = ["/metadata/labels/node-role.kubernetes.io~1control-plane"]
    "#;
    let term = world.etcd[0].raft_term;
    for step in from_text(steps).unwrap() {
        step.check(&world).unwrap();
        step.make(&mut world).unwrap();
    }
    let worker = world.machine("worker-1").unwrap().1;
    let agent = worker.services.iter().find(|service| service.id == "ext-agent").unwrap();
    assert_eq!(agent.events.as_ref().unwrap().events[0].msg, "Waiting for file");
    assert!(agent.health.as_ref().unwrap().unknown);
    assert_eq!((worker.talos, worker.memory), (Some("1.12.6".parse().unwrap()), (1000, 500)));
    assert_eq!(world.machine_clocks["worker-1"], -60);
    assert!(world.machine("worker-2").unwrap().1.services.iter().all(|service| service.id != "kubelet"));
    let etcd = &world.etcd[0];
    assert_eq!((etcd.members[2].behind, etcd.members[3].id, etcd.raft_term), (5000, 7, term + 1));
    assert_eq!(etcd.storage_version(&etcd.members[0]), "3.5.0");
    assert!(world.kubernetes.stalled_leases.contains_key("kube-system/kube-scheduler"));
    let labels = &world.kubernetes.object("nodes", None, "cp-1").unwrap()["metadata"]["labels"];
    assert!(labels["node-role.kubernetes.io/control-plane"].is_null(), "{labels}");
    assert_eq!(labels["kubernetes.io/hostname"], "cp-1");
}

#[test]
fn edits_that_cannot_be_are_told() {
    let (_, world) = world();
    for (step, why) in [
        (r#"{"do": "etcd-member", "node": "worker-1"}"#, "has no etcd member"),
        (r#"{"do": "api-server-failing", "node": "worker-1", "checks": []}"#, "has no such server"),
        (r#"{"do": "lease-stalls", "namespace": "a", "name": "b", "since": "1s"}"#, "no lease"),
        (r#"{"do": "service", "node": "cp-1", "service": "agent"}"#, "has no service"),
        (r#"{"do": "machine", "node": "cp-1", "talos": "2"}"#, "no version of Talos"),
        (r#"{"do": "object", "resource": "nodes", "name": "cp-1", "merge": {}, "remove": ["/metadata/name"]}"#, "name"),
    ] {
        let error = from_text(step).and_then(|steps| steps[0].check(&world)).unwrap_err();
        assert!(format!("{error:#}").contains(why), "{step}: {error:#}");
    }
}
