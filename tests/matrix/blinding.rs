//! A run that cannot see a problem does not report a healthy cluster: rows with a trouble, in each of which one call is lost.
//!
//! The laws of the judges try every fact in process; this is a sample that goes through sockets, parsers and the built program: whole runs,
//! and runs with `--check` for one failing check. `BLIND=3000` makes the sample larger.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::IpAddr;
use std::sync::Arc;

use anyhow::ensure;
use libtest_mimic::{Failed, Trial};
use simulator::Count;
use simulator::world::{CallFault, Misbehavior, Server, World};

use crate::row::Row;
use crate::run::judged;

/// Number of whole runs in the sample, and of runs with a single check.
const USUAL: usize = 100;

/// Ways to lose a call, for gRPC and for HTTP.
const WAYS: [(&str, Misbehavior, Misbehavior); 6] = [
    ("refused", fail(7), fail(403)),
    ("unimplemented", fail(12), fail(404)),
    ("failing", fail(13), fail(500)),
    ("empty", Misbehavior::Empty, Misbehavior::Empty),
    ("garbage", Misbehavior::Garbage, Misbehavior::Garbage),
    ("silent", Misbehavior::Hang, Misbehavior::Hang),
];

const fn fail(code: u16) -> Misbehavior {
    Misbehavior::Fail { code, text: String::new() }
}

/// Rows and calls whose loss hides the trouble, and why nothing else can show it. A name may end in `*`.
const HIDDEN: &[(&str, &str, &str)] = &[
    (
        "k8s-10-workload-unavailable",
        "/apis/apps/v1/namespaces/kube-system/deployments",
        "a complete list without the workload is that of a cluster without it",
    ),
    (
        "k8s-11-agent-that-is-counted",
        "/api/v1/namespaces/cilium/pods",
        "if no pod is listed, the status of the DaemonSet is all there is",
    ),
    ("time-1-skew", "Get AdjtimeStatuses", "its lease, which tells of the same clock, is right here"),
    (
        "node-5-duplicate-control-plane",
        "Version",
        "a machine that is known by name alone and does not answer is what one looks like that was reinstalled: a warning",
    ),
];

/// One lost call.
#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord)]
struct Loss {
    call: String,
    /// The affected server; `None` means all servers.
    at: Option<(Kind, String)>,
    way: usize,
}

/// The kind of server on a machine.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Apid,
    ApiServer,
    Etcd,
}

impl Kind {
    fn of(server: &Server) -> Option<(Self, IpAddr)> {
        match server {
            Server::Apid(at) => Some((Self::Apid, *at)),
            Server::ApiServer(at) => Some((Self::ApiServer, *at)),
            Server::Etcd(at) => Some((Self::Etcd, *at)),
            Server::Balancer | Server::Kubelet(_) | Server::Omni => None,
        }
    }

    fn at(self, address: IpAddr) -> Server {
        match self {
            Self::Apid => Server::Apid(address),
            Self::ApiServer => Server::ApiServer(address),
            Self::Etcd => Server::Etcd(address),
        }
    }
}

impl Loss {
    fn happen(&self, world: &mut World) {
        let (_, grpc, http) = &WAYS[self.way];
        let does = if self.call.starts_with('/') { http } else { grpc };
        let address = |name: &String| world.machine(name).map(|(address, _)| address).unwrap();
        let server = self.at.as_ref().map(|(kind, name)| kind.at(address(name)));
        world.call_faults.push(CallFault { server, ..CallFault::all(&self.call, does.clone()) });
    }

    /// Returns whether the loss is allowed to hide the trouble of a row.
    fn may_hide(&self, row: &Row) -> bool {
        let fits = |name: &str, found: &str| {
            name.strip_suffix('*').map_or_else(|| name == found, |beginning| found.starts_with(beginning))
        };
        HIDDEN.iter().any(|(name, call, _)| fits(name, &row.name) && fits(call, &self.call))
    }

    /// Returns the error of a run of the row with this loss.
    fn wrong(&self, row: &Row) -> Option<String> {
        let (Self { call, at, way }, ran) = (self, judged(row, |world| self.happen(world)));
        let of = at.as_ref().map_or_else(String::new, |(kind, name)| format!(" of {kind:?} {name}"));
        let wrong = match ran {
            Ok((_, seen)) if seen.outcome.code == 0 && !self.may_hide(row) => seen.to_string(),
            Ok(_) => return None,
            Err(error) => format!("{error:#}"),
        };
        Some(format!("{call}{of} {}: {wrong}", WAYS[*way].0))
    }
}

/// Returns one trial for each row in the sample.
pub(crate) fn trials(rows: &[Arc<Row>]) -> Vec<Trial> {
    let runs = std::env::var("BLIND").ok().and_then(|runs| runs.parse().ok()).unwrap_or(USUAL);
    let is_sick =
        |row: &&Arc<Row>| row.expect.exit != 0 && row.cannot.is_none() && row.known_wrong.is_none() && !row.ipv6;
    let sick: Vec<_> = rows.iter().filter(is_sick).collect();
    let share = |at: usize| (at + 1) * runs / sick.len() - at * runs / sick.len();
    let shares = sick.iter().enumerate().map(|(at, row)| (*row, share(at))).filter(|(_, share)| *share > 0);
    shares.flat_map(|(row, share)| [whole(Arc::clone(row), share), alone(Arc::clone(row), share)]).collect()
}

fn whole(row: Arc<Row>, share: usize) -> Trial {
    Trial::test(format!("blind: {}", row.name), move || {
        let wrong: Vec<_> = losses(&row, share)?.iter().filter_map(|loss| loss.wrong(&row)).collect();
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n").into()) }
    })
}

/// Returns a trial of each failing check of the row on its own, with this number of losses in total.
fn alone(row: Arc<Row>, share: usize) -> Trial {
    Trial::test(format!("blind alone: {}", row.name), move || {
        // These options require additional checks.
        let needs_more = |it: &String| it.starts_with("--expect-") || it == "--require-quorum-margin";
        if row.arguments.iter().any(needs_more) {
            return Ok(());
        }
        let failing: BTreeSet<&str> =
            row.expect.problems.iter().chain(&row.expect.explained).filter_map(|it| it.split(' ').next()).collect();
        let mut wrong = Vec::new();
        for (at, check) in failing.iter().enumerate() {
            let share = (at + 1) * share / failing.len() - at * share / failing.len();
            let alone = row.alone(check);
            // A check that only warns does not fail on its own.
            if share == 0 || judged(&alone, |_| ())?.1.outcome.code == 0 {
                continue;
            }
            let lost = losses(&alone, share)?;
            wrong.extend(lost.iter().filter_map(|loss| Some(format!("--check {check}: {}", loss.wrong(&alone)?))));
        }
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n").into()) }
    })
}

/// Returns some of the calls that a run of the row makes, lost in every way, for all queried servers and for each of them. The order is
/// reproducible, but different for each row.
fn losses(row: &Row, share: usize) -> Result<Vec<Loss>, Failed> {
    let mut losses = all_losses(row).map_err(|error| format!("{error:#}"))?;
    losses.truncate(share);
    Ok(losses)
}

fn all_losses(row: &Row) -> anyhow::Result<Vec<Loss>> {
    let (cluster, seen) = judged(row, |_| ())?;
    ensure!(seen.outcome.code != 0, "nothing is wrong here:\n{seen}");
    let mut losses = BTreeSet::new();
    for Count { server, call, .. } in cluster.simulator().calls().counts() {
        let Some((kind, address)) = Kind::of(&server) else { continue };
        let name = cluster.change(|world| world.machines.get(&address).map(|machine| machine.name.clone()));
        for way in 0..WAYS.len() {
            losses.insert(Loss { call: call.clone(), at: None, way });
            losses.extend(name.clone().map(|name| Loss { call: call.clone(), at: Some((kind, name)), way }));
        }
    }
    let mut losses = Vec::from_iter(losses);
    losses.sort_by_cached_key(|loss| {
        let mut hash = DefaultHasher::new();
        (&row.name, &row.arguments, loss).hash(&mut hash);
        hash.finish()
    });
    Ok(losses)
}
