//! Clusters that change while the program waits for them.

use std::io::{BufRead as _, BufReader, Lines};
use std::process::{Child, ChildStderr};
use std::time::Duration;

use simulator::world::{CallFault, Misbehavior, Server, Transport};
use tempfile::TempDir;

use super::{NODES, READYZ, answers};
use crate::cluster::{Cluster, cluster};
use crate::harness::code;

/// A waiting run, and its progress so far.
struct Waiting {
    child: Child,
    progress: Lines<BufReader<ChildStderr>>,
    told: Vec<String>,
    _home: TempDir,
}

fn waiting(cluster: &Cluster, arguments: &[&str]) -> Waiting {
    let program =
        cluster.program().args(["--no-talos", "--wait-timeout", "30s", "--interval", "200ms"]).args(arguments);
    let (mut child, home) = program.spawn();
    let progress = BufReader::new(child.stderr.take().unwrap()).lines();
    Waiting { child, progress, told: Vec::new(), _home: home }
}

impl Waiting {
    /// Waits until a line of progress contains all of these words.
    #[track_caller]
    fn until(&mut self, words: &[&str]) {
        loop {
            let line =
                self.progress.next().unwrap_or_else(|| panic!("{words:?} never came: {:#?}", self.told)).unwrap();
            let found = words.iter().all(|word| line.contains(word));
            self.told.push(line);
            if found {
                return;
            }
        }
    }

    #[track_caller]
    fn ends(mut self, expected: i32) {
        self.told.extend(self.progress.by_ref().map_while(Result::ok));
        assert_eq!(code(self.child.wait().unwrap()), expected, "{:#?}", self.told);
    }
}

const CONTROL_PLANES: [&str; 3] = ["cp-1", "cp-2", "cp-3"];

/// Connections are refused, then accepted by a server that is not ready, then by a ready one.
#[test]
fn api_servers_that_start() {
    let cluster = cluster();
    let servers = CONTROL_PLANES.map(|name| cluster.api_server(name));
    cluster.change(|world| world.transport.extend(servers.map(|server| (server, Transport::Refuse))));
    let mut run = waiting(&cluster, &[]);
    run.until(&["wait", "k8s.api.endpoint", "closed"]);
    cluster.change(|world| {
        for name in CONTROL_PLANES {
            let hook = "poststarthook/rbac/bootstrap-roles".to_owned();
            world.machine_mut(name).api_server.as_mut().unwrap().failing = vec![hook];
        }
        world.transport.clear();
    });
    run.until(&["wait", "k8s.api.endpoint", "500", "[-]poststarthook/rbac/bootstrap-roles"]);
    cluster.change(|world| {
        for name in CONTROL_PLANES {
            world.machine_mut(name).api_server.as_mut().unwrap().failing.clear();
        }
    });
    run.ends(0);
}

#[test]
fn a_balancer_that_comes_and_goes() {
    let cluster = cluster();
    let mut run = waiting(&cluster, &["--stable-for", "2s"]);
    for _ in 0..2 {
        run.until(&["healthy for"]);
        cluster.change(|world| world.transport.insert(Server::Balancer, Transport::Refuse));
        run.until(&["wait", "k8s.api.endpoint", "connection refused"]);
        cluster.change(|world| world.transport.clear());
    }
    run.ends(0);
}

/// Makes the first answers to a path wrong; later ones are good.
fn at_first(cluster: &Cluster, path: &str, times: u64, code: u16, text: &str) {
    let does = Misbehavior::Fail { code, text: text.to_owned() };
    let fault = CallFault { times: Some(times), ..CallFault::all(path, does) };
    cluster.change(|world| world.call_faults.push(fault));
}

#[test]
fn what_ends_by_itself_is_waited_for() {
    for (path, times, code, text) in [
        (NODES, 3, 429, "Too many requests, please try again later."),
        (NODES, 3, 500, "etcdserver: leader changed"),
        (NODES, 3, 503, "apiserver is shutting down"),
        // Neither is final the first time: an API server that is starting has not loaded its rules yet.
        (NODES, 1, 401, "Unauthorized"),
        (NODES, 3, 403, "RBAC: clusterrole not found"),
        // From the endpoint and from three servers, twice each.
        (READYZ, 8, 500, "[-]poststarthook/rbac/bootstrap-roles failed: reason withheld\n"),
    ] {
        let cluster = cluster();
        at_first(&cluster, path, times, code, text);
        let judged = cluster.run(&["--no-talos", "--wait-timeout", "30s", "--interval", "50ms"]);
        judged.is(0, &[]);
        let rounds = judged.report["rounds"].as_u64().unwrap();
        assert!(rounds > 1 && rounds <= times + 1, "{path} {code}: {judged}");
    }
}

/// A lasting refusal is final, so the run does not wait for the deadline.
#[test]
fn credentials_that_are_refused_twice_end_the_run() {
    let cluster = cluster();
    answers(&cluster, "/*", Misbehavior::Fail { code: 401, text: "Unauthorized".to_owned() });
    let judged = cluster.run(&["--no-talos", "--wait-timeout", "30s", "--interval", "50ms"]);
    assert_eq!((judged.outcome.code, &judged.report["rounds"]), (77, &2.into()), "{judged}");
    judged.within(Duration::from_secs(10));
}

#[test]
fn the_deadline_holds_while_everything_hangs() {
    for path in ["/api*", "/*"] {
        let cluster = cluster();
        answers(&cluster, path, Misbehavior::Hang);
        let judged = cluster.run(&["--no-talos", "--wait-timeout", "3s", "--interval", "100ms"]);
        judged.within(Duration::from_millis(4500));
        assert_ne!(judged.outcome.code, 0, "{judged}");
        assert_eq!(judged.report["deadlineReached"], true, "{judged}");
        assert!(!judged.problems.is_empty(), "a round was complete: {judged}");
    }
}
