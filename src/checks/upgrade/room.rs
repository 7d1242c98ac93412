//! Checks whether the pods of each machine fit on the others while it is away.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::places::{Bar, Places, unreadable};
use super::{bound_pods, each_to_go, is_evicted, not_asked, pods_named, some_of};
use crate::assess::Assessment;
use crate::checks::Check;
use crate::checks::gaps::{says_nothing, unregistered};
use crate::model::{CheckId, Fact, Hint, Outcome, Problem, Reason, Severity, Stage, Verdict};
use crate::snapshot::{Amounts, BoundPod, Node, has_ended};

pub(in crate::checks) const ROOM: Check = Check {
    id: CheckId::UpgradeRoom,
    stage: Stage::Upgrade,
    summary: "the pods of each machine to be upgraded or drained fit on the others",
    explain: "Runs with `--upgrade-talos`, for every machine as the next one, and with `--drain NODE`, for that one. Counts \
as the scheduler does: what the other nodes have allocatable, minus the requests of their own pods, has to cover the \
requests of the evicted pods that a controller recreates. Cordoned nodes, those with \
one of Kubernetes' own taints, and those that start no pods (they no longer report, are under pressure, or create no sandboxes) take \
none, even if they are tolerated or outside of `--nodes`; node selectors, required node affinity, tolerations, the node affinity of volumes and devices are honored.\n\n\
It fails if a pod requests more than any suitable node has left, or if all pods together request more than those nodes have \
left together, or if all machines that take a pod are cordoned or have a temporary taint. It warns if no \
placement was found for all of them, or if less than 20 % of the CPU or memory would be left. It also warns about pods that \
fit on no other node and stay Pending until the machine is back. Pods that have ended take no room.\n\n\
Not counted: rules between pods (affinity, topology spread), priorities, and nodes that an autoscaler would add.",
    severity: Severity::Fail,
    finds: &[Reason::NodeUnknown, Reason::NodesContradict, Reason::PodsDoNotFit, Reason::LittleRoom, Reason::PinnedPod],
    facts: &[
        Fact::TalosNodes,
        Fact::KubeNodes,
        Fact::NodeLeases,
        Fact::BoundPods,
        Fact::NodeRoom,
        Fact::PersistentVolumes,
        Fact::StartingPods,
        Fact::PodEvents,
    ],
    judge: room,
};

fn room(cluster: &Assessment<'_>) -> Verdict {
    if !cluster.asked.upgrade.takes_down_machines() {
        return not_asked("--drain");
    }
    match Plan::of(cluster) {
        Ok(mut plan) => {
            let fine = |which: &str| format!("the pods of {which} fit on the other machines");
            each_to_go(cluster, fine, |node, verdict| of_machine(cluster, node, &mut plan, verdict))
        }
        Err(outcome) => Verdict::whole(outcome),
    }
}

fn of_machine(cluster: &Assessment<'_>, node: &Node, plan: &mut Plan<'_>, verdict: &mut Verdict) {
    let Some(object) = cluster.object(node) else { return verdict.push(node.target(), unregistered(node)) };
    let Some(place) = plan.places.at.get(object.name.as_str()).copied() else {
        return verdict.push(node.target(), says_nothing("the node's allocatable resources", "it is not in the list"));
    };
    let problems = plan.without(place);
    if problems.is_empty() {
        verdict.ok(node.target());
    }
    for problem in problems {
        let hint = Hint::run("{kubectl} describe node {}", [object.name.as_str()]);
        verdict.problem(node.target(), problem.hint(hint));
    }
}

/// The resource of which each pod takes one, regardless of its other requests.
const PODS: &str = "pods";

/// Amounts of resources that may run out.
type Left<'a> = BTreeMap<&'a str, i128>;

/// A pod that has to move, and the index of its kind in [`Places`].
type Moving<'a> = (&'a BoundPod, usize);

/// The current distribution of pods and the remaining resources.
struct Plan<'a> {
    /// Resources left on each node, in the order of the list of nodes.
    left: Vec<Left<'a>>,
    allocatable: Vec<&'a Amounts>,
    moving: Vec<Vec<Moving<'a>>>,
    places: Places<'a>,
    /// Whether a node accepts pods of a kind, by kind and node.
    is_taker: Vec<Vec<bool>>,
    /// Resources left and allocatable on all nodes that accept any of these kinds.
    sums: HashMap<BTreeSet<usize>, Sums<'a>>,
}

#[derive(Clone, Default)]
struct Sums<'a> {
    /// The number of nodes.
    takers: usize,
    left: Left<'a>,
    allocatable: Left<'a>,
}

impl<'a> Plan<'a> {
    fn of(cluster: &'a Assessment<'_>) -> Result<Self, Outcome> {
        let pods = bound_pods(cluster)?;
        let mut places = Places::of(cluster, pods.iter().filter(|pod| is_evicted(pod)))?;
        let allocatable: Option<Vec<&Amounts>> = places.nodes.iter().map(|node| node.allocatable.as_ref()).collect();
        let allocatable = allocatable.ok_or_else(|| unreadable("a node's allocatable resources"))?;
        let mut left: Vec<Left<'_>> = allocatable.iter().map(|it| signed(it).collect()).collect();
        let mut moving = vec![Vec::new(); left.len()];
        for pod in pods.iter().filter(|pod| !has_ended(&pod.phase)) {
            let Some(&at) = places.at.get(pod.node.as_str()) else { continue };
            let requests = pod.needs.requests.as_ref().ok_or_else(|| unreadable("what a pod requests"))?;
            subtract(&mut left[at], requests);
            let is_moved = is_evicted(pod) && !pod.deleting && pod.controller.is_some();
            if is_moved && !places.is_held_by_volumes(pod, &pod.node) {
                moving[at].push((pod, places.kind(pod)));
            }
        }
        // The emptiest nodes come first, because the next pod most likely fits there.
        places.sort_takers(|at| std::cmp::Reverse(left[at].get("cpu").copied()));
        let is_taker = (0..places.kinds()).map(|kind| {
            let mut by_node = vec![false; left.len()];
            for &at in places.takers(kind) {
                by_node[at] = true;
            }
            by_node
        });
        let is_taker = is_taker.collect();
        Ok(Self { left, allocatable, moving, places, is_taker, sums: HashMap::new() })
    }

    /// Returns the obstacles to moving this node's pods.
    fn without(&mut self, gone: usize) -> Vec<Problem> {
        let places = &self.places;
        let is_taken = |(_, kind): &Moving<'a>| places.takers(*kind).iter().any(|&at| at != gone);
        let (mut moving, pinned): (Vec<Moving<'a>>, Vec<_>) = self.moving[gone].iter().copied().partition(is_taken);
        let mut problems = self.pinned(gone, &pinned);
        if moving.is_empty() {
            return problems;
        }
        moving.sort_by_key(|(pod, _)| std::cmp::Reverse(["cpu", "memory"].map(|it| amount(pod, it))));
        let stranded = self.stranded(gone, &moving);
        let kinds: BTreeSet<usize> = moving.iter().map(|(_, kind)| *kind).collect();
        let all = self.sums(gone, &kinds);
        let too_much = if stranded.is_empty() { None } else { self.too_much(gone, &moving, &stranded, &kinds, &all) };
        problems.extend(too_much.or_else(|| little_room(&moving, &stranded, &all)));
        problems
    }

    /// Reports pods that no other node accepts, or only nodes that are closed for now.
    fn pinned(&self, gone: usize, pods: &[Moving<'a>]) -> Vec<Problem> {
        let node = self.places.nodes[gone].name.as_str();
        let is_shut_out = |(pod, _): &Moving<'a>| !self.places.shut_elsewhere(pod, node).is_empty();
        let (shut_out, pinned): (Vec<Moving<'a>>, Vec<_>) = pods.iter().copied().partition(is_shut_out);
        let shut: BTreeMap<&str, Bar<'_>> =
            shut_out.iter().flat_map(|(pod, _)| self.places.shut_elsewhere(pod, node)).collect();
        let shut_out = (!shut_out.is_empty()).then(|| others_shut(&shut_out, &shut));
        let pinned = (!pinned.is_empty()).then(|| pinned_here(&pinned));
        shut_out.into_iter().chain(pinned).collect()
    }

    /// Returns the pods for which no node is left, if each pod in turn is placed on the first node where it fits.
    fn stranded(&self, gone: usize, moving: &[Moving<'a>]) -> Vec<&'a BoundPod> {
        let mut used: HashMap<usize, Left<'a>> = HashMap::new();
        let mut next: HashMap<usize, usize> = HashMap::new();
        let mut stranded = Vec::new();
        for (pod, kind) in moving {
            let takers = self.places.takers(*kind);
            let requests = requests(pod);
            // The search resumes where the previous one ended, so that the same full nodes are not tried each time.
            let begin = next.get(kind).copied().unwrap_or_default();
            let places = takers[begin..].iter().chain(&takers[..begin]).zip(begin..);
            let found = places.filter(|(at, _)| **at != gone).find(|(at, _)| {
                let left = used.get(at).unwrap_or(&self.left[**at]);
                fits(left, requests)
            });
            match found {
                Some((at, place)) => {
                    next.insert(*kind, (place + 1) % takers.len());
                    subtract(used.entry(*at).or_insert_with(|| self.left[*at].clone()), requests);
                }
                None => stranded.push(*pod),
            }
        }
        stranded
    }

    /// Totals of the nodes that accept any of these kinds, except the one that goes down.
    fn sums(&mut self, gone: usize, kinds: &BTreeSet<usize>) -> Sums<'a> {
        let mut sums = self.sums.get(kinds).cloned().unwrap_or_else(|| {
            let takers: BTreeSet<usize> = kinds.iter().flat_map(|&kind| self.places.takers(kind)).copied().collect();
            let mut sums = Sums { takers: takers.len(), ..Sums::default() };
            for at in takers {
                add(&mut sums.left, self.left[at].iter().map(|(resource, left)| (*resource, (*left).max(0))));
                add(&mut sums.allocatable, signed(self.allocatable[at]));
            }
            self.sums.insert(kinds.clone(), sums.clone());
            sums
        });
        if kinds.iter().any(|&kind| self.is_taker[kind][gone]) {
            sums.takers -= 1;
            add(&mut sums.left, self.left[gone].iter().map(|(resource, left)| (*resource, -(*left).max(0))));
            add(&mut sums.allocatable, signed(self.allocatable[gone]).map(|(resource, amount)| (resource, -amount)));
        }
        sums
    }

    /// Reports nodes that lack only a slot for the pod, because each runs its maximum number of pods.
    fn no_slot(&self, pod: &BoundPod, takers: impl Iterator<Item = usize>) -> Option<Problem> {
        let lacks_only_a_slot = |at: &usize| lacking(&self.left[*at], requests(pod)).all(|resource| resource == PODS);
        let described = |at: usize| {
            let limit = self.allocatable[at].get(PODS).copied().unwrap_or_default();
            let runs = i128::from(limit) - self.left[at].get(PODS).copied().unwrap_or_default();
            format!("{} runs {runs} of {limit} pods", self.places.nodes[at].name)
        };
        let full: Vec<String> = takers.filter(lacks_only_a_slot).map(described).collect();
        let observed = format!("{}: no place for {}", some_of(&full), name_of(pod));
        (!full.is_empty()).then(|| Problem::fail(Reason::PodsDoNotFit, EXPECTED, observed))
    }

    /// Proves that the pods do not fit in any arrangement.
    fn too_much(
        &mut self,
        gone: usize,
        moving: &[Moving<'a>],
        stranded: &[&'a BoundPod],
        kinds: &BTreeSet<usize>,
        all: &Sums<'a>,
    ) -> Option<Problem> {
        let is_stranded = |pod: &BoundPod| stranded.iter().any(|it| std::ptr::eq(*it, pod));
        for (pod, kind) in moving.iter().filter(|(pod, _)| is_stranded(pod)) {
            let mut takers = self.places.takers(*kind).iter().filter(|at| **at != gone);
            if !takers.any(|at| fits(&self.left[*at], requests(pod))) {
                let takers = self.places.takers(*kind).iter().copied().filter(|at| *at != gone);
                let names = || takers.clone().map(|at| self.places.nodes[at].name.as_str()).collect::<Vec<_>>();
                return Some(self.no_slot(pod, takers.clone()).unwrap_or_else(|| too_large(pod, &names())));
            }
        }
        for kind in kinds {
            let of_kind: Vec<Moving<'a>> = moving.iter().filter(|(_, it)| it == kind).copied().collect();
            if let Some(problem) = in_total(&of_kind, &self.sums(gone, &BTreeSet::from([*kind]))) {
                return Some(problem);
            }
        }
        in_total(moving, all)
    }
}

fn requests(pod: &BoundPod) -> &Amounts {
    const NONE: &Amounts = &Amounts::new();
    pod.needs.requests.as_ref().unwrap_or(NONE)
}

fn amount(pod: &BoundPod, resource: &str) -> u64 {
    requests(pod).get(resource).copied().unwrap_or_default()
}

fn signed(amounts: &Amounts) -> impl Iterator<Item = (&str, i128)> {
    amounts.iter().map(|(resource, amount)| (resource.as_str(), i128::from(*amount)))
}

fn add<'a>(sum: &mut Left<'a>, more: impl Iterator<Item = (&'a str, i128)>) {
    for (resource, amount) in more {
        *sum.entry(resource).or_default() += amount;
    }
}

fn subtract<'a>(left: &mut Left<'a>, requests: &'a Amounts) {
    add(left, signed(requests).map(|(resource, amount)| (resource, -amount)));
}

fn fits(left: &Left<'_>, requests: &Amounts) -> bool {
    lacking(left, requests).next().is_none()
}

/// Returns the resources of which less is left than requested.
fn lacking<'a>(left: &'a Left<'_>, requests: &'a Amounts) -> impl Iterator<Item = &'a str> {
    let is_short = |(resource, amount): &(&str, i128)| *amount > left.get(resource).copied().unwrap_or_default();
    signed(requests).filter(|(_, amount)| *amount > 0).filter(move |it| is_short(it)).map(|(resource, _)| resource)
}

fn pinned_here(pinned: &[Moving<'_>]) -> Problem {
    let names: Vec<String> = pinned.iter().map(|(pod, _)| name_of(pod)).collect();
    let stays = if names.len() == 1 { "stays" } else { "stay" };
    let observed =
        format!("{} cannot run on any other machine and {stays} Pending until this one is back", pods_named(&names));
    Problem::warn(Reason::PinnedPod, "another machine that takes each of its pods", observed).permanent()
}

/// Reports pods whose other machines are closed for now. `shut` has these machines by name, each with its obstacle.
fn others_shut(pods: &[Moving<'_>], shut: &BTreeMap<&str, Bar<'_>>) -> Problem {
    let names: Vec<String> = pods.iter().map(|(pod, _)| name_of(pod)).collect();
    let are_cordoned = shut.values().all(|by| *by == Bar::Cordon);
    let machines: Vec<String> = shut
        .iter()
        .map(|(machine, by)| if are_cordoned { (*machine).to_owned() } else { format!("{machine} ({by})") })
        .collect();
    let which = if shut.len() == 1 { "the machine that takes" } else { "all machines that take" };
    let state = match (shut.len(), are_cordoned) {
        (1, true) => "is cordoned",
        (1, false) => "accepts no pods",
        (_, true) => "are cordoned",
        (_, false) => "accept no pods",
    };
    let observed = format!("{which} {} {state}: {}", pods_named(&names), some_of(&machines));
    // Something is wrong with the others, and another check may report it.
    let lost = shut.iter().filter(|(_, by)| matches!(by, Bar::Fault(_))).map(|(machine, _)| *machine);
    let problem = Problem::fail(Reason::PodsDoNotFit, EXPECTED, observed).on(lost);
    match shut.keys().collect::<Vec<_>>()[..] {
        [node] if are_cordoned => problem.hint(Hint::remedy("{kubectl} uncordon {}", [*node])),
        [node] => problem.hint(Hint::run("{kubectl} describe node {}", [*node])),
        _ => problem.hint(Hint::run("{kubectl} get nodes", [])),
    }
}

fn name_of(pod: &BoundPod) -> String {
    format!("{}/{}", pod.namespace, pod.name)
}

const EXPECTED: &str = "room for its pods on the others";

fn machines(count: usize) -> String {
    if count == 1 {
        "the machine that takes it".to_owned()
    } else {
        format!("any of the {count} machines that take it")
    }
}

fn too_large(pod: &BoundPod, takers: &[&str]) -> Problem {
    let requests: Vec<String> = signed(requests(pod))
        .filter(|(resource, amount)| *resource != PODS && *amount > 0)
        .map(|(resource, amount)| quantity(resource, amount))
        .collect();
    let requests = if requests.is_empty() { "a place".to_owned() } else { requests.join(" and ") };
    let (who, look) = match takers {
        [only] => (format!("{only}, the only machine that takes it,"), Some(only)),
        several => (machines(several.len()), None),
    };
    let observed = format!("pod {} requests {requests}, more than {who} has left", name_of(pod));
    let problem = Problem::fail(Reason::PodsDoNotFit, EXPECTED, observed);
    look.into_iter().fold(problem, |it, name| it.hint(Hint::run("{kubectl} describe node {}", [*name])))
}

/// Reports a resource of which the pods together request more than is left in total.
fn in_total(moving: &[Moving<'_>], sums: &Sums<'_>) -> Option<Problem> {
    let requested = requested(moving);
    let short = |(resource, amount): &(&&str, &i128)| **amount > sums.left.get(**resource).copied().unwrap_or_default();
    let (resource, amount) = requested.iter().find(short)?;
    let left = sums.left.get(*resource).copied().unwrap_or_default();
    let (pods, machines) = (moving.len(), sums.takers);
    let pods = if pods == 1 { "1 pod requests".to_owned() } else { format!("{pods} pods request") };
    let takers = if machines == 1 {
        "the machine that takes them has".to_owned()
    } else {
        format!("the {machines} machines that take them have")
    };
    let observed = format!("{pods} {}, and {takers} {} left", quantity(resource, *amount), quantity(resource, left));
    Some(Problem::fail(Reason::PodsDoNotFit, EXPECTED, observed))
}

fn requested<'a>(moving: &[Moving<'a>]) -> Left<'a> {
    let mut sum = Left::new();
    for (pod, _) in moving {
        add(&mut sum, signed(requests(pod)));
    }
    sum
}

fn little_room(moving: &[Moving<'_>], stranded: &[&BoundPod], all: &Sums<'_>) -> Option<Problem> {
    const EXPECTED: &str = "20 % left on the others, and room for each pod";
    if !stranded.is_empty() {
        let names: Vec<String> = stranded.iter().map(|pod| name_of(pod)).collect();
        let observed = format!("no placement was found for {}, though all would fit in total", pods_named(&names));
        return Some(Problem::warn(Reason::LittleRoom, EXPECTED, observed));
    }
    let requested = requested(moving);
    let of = |amounts: &Left<'_>, resource: &str| amounts.get(resource).copied().unwrap_or_default();
    let low = |resource: &&str| {
        let (left, all) = (of(&all.left, resource) - of(&requested, resource), of(&all.allocatable, resource));
        // Pods that do not request the resource do not reduce it.
        of(&requested, resource) > 0 && left * 5 < all
    };
    let resource = ["cpu", "memory"].into_iter().find(low)?;
    let (left, all) = (of(&all.left, resource) - of(&requested, resource), of(&all.allocatable, resource));
    let percent = left * 100 / all.max(1);
    let observed = format!("{percent} % would be left: {} of {}", quantity(resource, left), quantity(resource, all));
    Some(Problem::warn(Reason::LittleRoom, EXPECTED, observed))
}

/// Formats `1.5 CPU`, `3.2 GiB of memory`, `2 nvidia.com/gpu`.
fn quantity(resource: &str, amount: i128) -> String {
    let tenths =
        |unit: i128| format!("{}.{}", amount / unit, amount % unit * 10 / unit).trim_end_matches(".0").to_owned();
    match resource {
        "cpu" => format!("{} CPU", tenths(1000)),
        "memory" if amount < 1 << 30 => format!("{} MiB of memory", tenths(1 << 20)),
        "memory" => format!("{} GiB of memory", tenths(1 << 30)),
        PODS => format!("{amount} pod slots"),
        _ => format!("{amount} {resource}"),
    }
}
