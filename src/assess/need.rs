//! Determines on which machines a DaemonSet should have pods, and on which one is missing.

use std::collections::{HashMap, HashSet};

use super::Assessment;
use super::life::Life;
use super::population::Machine;
use super::standing::Standing;
use super::workloads::says_ready;
use crate::snapshot::{KubeNode, Node, OWN_TAINTS, Pod, Spread, System, Taint, Workload};

/// A machine without a working pod of a DaemonSet.
pub(crate) struct Place<'a, 'p> {
    pub(crate) node: &'a Node,
    /// Pods that exist but do not work.
    pub(crate) pods: Vec<&'p Pod>,
    /// The reason why a pod may be missing here; `None` if it may not.
    pub(crate) excuse: Option<Excuse>,
    /// Whether the DaemonSet does not want a pod on this node. Kubernetes lets existing pods keep running.
    pub(crate) is_surplus: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Excuse {
    /// The machine is a guest, or no check judges it.
    NotJudged,
    /// The node is not ready, silent or removed, so no pod on it counts as ready.
    Unready,
}

/// The pods that a DaemonSet lacks.
#[derive(Default)]
pub(crate) struct Shortfall<'a, 'p> {
    pub(crate) places: Vec<Place<'a, 'p>>,
    /// Number of additional pods that are missing according to the status, in unknown places. They are not excused.
    pub(crate) unplaced: usize,
}

impl<'a, 'p> Shortfall<'a, 'p> {
    /// Returns places where a pod may not be missing.
    pub(crate) fn unexcused(&self) -> impl Iterator<Item = &Place<'a, 'p>> {
        self.places.iter().filter(|place| place.excuse.is_none() && !place.is_surplus)
    }

    /// Returns true if every missing pod is excused.
    pub(crate) fn is_excused(&self) -> bool {
        self.unplaced == 0 && self.unexcused().next().is_none()
    }
}

/// Pods of the DaemonSet by the name of their node.
type ByNode<'p> = HashMap<&'p str, Vec<&'p Pod>>;

impl<'a> Assessment<'a> {
    /// Finds the missing pods of a DaemonSet. `works` returns true if a pod counts as available; `needs_one` returns true if the machine
    /// needs a pod regardless of the DaemonSet's node selection.
    pub(crate) fn shortfall<'p>(
        &self,
        set: &Workload,
        pods: &[&'p Pod],
        works: impl Fn(&Pod) -> bool,
        needs_one: impl Fn(&Node) -> bool,
    ) -> Shortfall<'a, 'p> {
        let mut by_node: ByNode<'_> = HashMap::new();
        for pod in pods {
            by_node.entry(pod.node.as_deref().unwrap_or_default()).or_default().push(pod);
        }
        let missing = set.missing();
        // The pods of the namespace were not read, so the nodes of the existing ones are unknown.
        let is_unlisted =
            pods.is_empty() && set.available > 0 && !self.all_pods().any(|pod| pod.namespace == set.namespace);
        let wanted = if is_unlisted { None } else { self.wanting(set) };
        let (mut places, mut others) = (Vec::new(), Vec::new());
        for (node, machine) in self.snapshot.nodes.iter().zip(&self.machines) {
            let name = self.name_in_kubernetes(node);
            // Two machines can match one Node.
            let here = by_node.get(name).cloned().unwrap_or_default();
            // One working pod is enough: during a rolling update there may be two.
            if here.iter().any(|pod| works(pod)) {
                continue;
            }
            let is_wanted = wanted.as_ref().map(|wanted| wanted.contains(name));
            let is_certain = !here.is_empty() || is_wanted == Some(true) || needs_one(node);
            let is_surplus = is_wanted == Some(false) && !needs_one(node);
            let place = Place { node, pods: here, excuse: self.excuse(name, machine.standing), is_surplus };
            if is_certain {
                places.push(place);
            } else if is_wanted.is_none() && may_lack_one(machine, is_unlisted) {
                others.push(place);
            }
        }
        // The other machines that should have a pod are unknown, so every one of them has to be excused. At most as many pods can be
        // missing there as the DaemonSet lacks.
        let unplaced = missing.saturating_sub(places.iter().filter(|place| !place.is_surplus).count());
        let elsewhere = set.replicas().saturating_sub(pods.len());
        if unplaced <= others.len().min(elsewhere) && others.iter().all(|place| place.excuse.is_some()) {
            others.truncate(unplaced);
            places.append(&mut others);
            return Shortfall { places, unplaced: 0 };
        }
        Shortfall { places, unplaced }
    }

    /// Returns the names of the nodes on which a DaemonSet wants a pod, as its controller counts them. `None` if its status has a different
    /// count, so that the nodes are unknown.
    pub(crate) fn wanting(&self, set: &Workload) -> Option<HashSet<&'a str>> {
        let objects = self.list(|kubernetes| &kubernetes.nodes)?;
        let mut wanting = HashSet::new();
        for object in objects {
            if takes(object, &set.spread, &object.taints)? {
                wanting.insert(object.name.as_str());
            }
        }
        let is_it = set.is_observed() && usize::try_from(set.desired) == Ok(wanting.len());
        is_it.then_some(wanting)
    }

    fn excuse(&self, name: &str, standing: Standing) -> Option<Excuse> {
        match standing {
            Standing::Guest | Standing::NotJudged(_) => Some(Excuse::NotJudged),
            Standing::Judged => match self.life(name) {
                // A node in unknown state may not lack a pod.
                Life::Works | Life::Unknown => None,
                Life::Down | Life::Unready | Life::Silent | Life::Removed => Some(Excuse::Unready),
            },
        }
    }
}

/// Returns true if a machine without a listed pod may lack one. If no pod is listed at all (`is_unlisted`), a ready node is assumed to have
/// its pod. A virtual node does not run containers.
fn may_lack_one(machine: &Machine<'_>, is_unlisted: bool) -> bool {
    let Some(object) = machine.object else { return false };
    let runs_containers = machine.standing.is_judged() || object.system() != System::Virtual;
    let has_own = runs_containers && says_ready(object);
    !(is_unlisted && has_own)
}

/// Returns true if the controller creates a pod on this node. `None` if a selector operator is unknown.
fn takes<'a>(object: &KubeNode, spread: &Spread, taints: impl IntoIterator<Item = &'a Taint>) -> Option<bool> {
    let repels = |taint: &Taint| {
        let is_hard = matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute");
        is_hard && !is_always_tolerated(taint, spread.host_network) && !spread.placement.tolerates(taint)
    };
    Some(spread.placement.selects(&object.name, &object.labels)? && !taints.into_iter().any(repels))
}

/// Returns true if the DaemonSet wants a pod on this node, ignoring taints that Kubernetes sets while the node is not ready.
pub(crate) fn takes_when_ready(set: &Workload, object: &KubeNode) -> bool {
    let lasting = object.taints.iter().filter(|taint| !taint.key.starts_with(OWN_TAINTS));
    takes(object, &set.spread, lasting) == Some(true)
}

/// Returns true for taints tolerated by the tolerations that the controller adds to the template's.
fn is_always_tolerated(taint: &Taint, host_network: bool) -> bool {
    let Some(condition) = taint.key.strip_prefix(OWN_TAINTS) else { return false };
    match condition {
        "not-ready" | "unreachable" => taint.effect == "NoExecute",
        "disk-pressure" | "memory-pressure" | "pid-pressure" | "unschedulable" => taint.effect == "NoSchedule",
        "network-unavailable" => taint.effect == "NoSchedule" && host_network,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::{Requirement, Snapshot, Term};
    use crate::testing::fixture::{healthy, taint};

    /// The nodes on which kube-proxy wants a pod, by its template. `counted` is the desired number in its status.
    fn wanting(counted: i32, change: impl FnOnce(&mut Snapshot, &mut Workload)) -> Option<Vec<String>> {
        let mut snapshot = healthy();
        let mut set = snapshot.kube().daemon_sets.as_ref().unwrap()[0].clone();
        set.desired = counted;
        change(&mut snapshot, &mut set);
        let wanting = Assessment::of(&snapshot).wanting(&set)?;
        let mut names: Vec<_> = wanting.into_iter().map(str::to_owned).collect();
        names.sort_unstable();
        Some(names)
    }

    fn select(key: &str, operator: &str) -> Vec<Term> {
        let requirement = Requirement { key: key.to_owned(), operator: operator.to_owned(), values: Vec::new() };
        vec![Term { labels: vec![requirement], fields: Vec::new() }]
    }

    #[test]
    fn a_daemon_set_wants_the_nodes_that_its_controller_counts() {
        let some = |names: &[&str]| Some(names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>());
        let all = ["cp-1", "cp-2", "cp-3", "w-1"];
        assert_eq!(wanting(4, |_, _| {}), some(&all));
        assert_eq!(wanting(3, |_, _| {}), None, "its status counts others");
        assert_eq!(wanting(4, |_, set| set.observed_generation = None), None, "nobody has counted");
        // Control planes have their taint.
        assert_eq!(wanting(1, |_, set| set.spread = Spread::default()), some(&["w-1"]));
        let disk = |snapshot: &mut Snapshot| {
            let labels = &mut snapshot.kube_node_mut("w-1").labels;
            labels.insert("disk".to_owned(), "ssd".to_owned());
        };
        let by_label = |snapshot: &mut Snapshot, set: &mut Workload| {
            disk(snapshot);
            set.spread.placement.labels.insert("disk".to_owned(), "ssd".to_owned());
        };
        assert_eq!(wanting(1, by_label), some(&["w-1"]));
        let by_affinity = |operator: &'static str| {
            move |snapshot: &mut Snapshot, set: &mut Workload| {
                disk(snapshot);
                set.spread.placement.terms = Some(select("disk", operator));
            }
        };
        assert_eq!(wanting(3, by_affinity("DoesNotExist")), some(&all[..3]));
        assert_eq!(wanting(3, by_affinity("Resembles")), None, "of no known meaning");
        assert_eq!(wanting(4, |snapshot, _| snapshot.kube().nodes = Err(crate::snapshot::Gap::not_asked())), None);
    }

    #[test]
    fn its_controller_tolerates_some_taints_of_kubernetes_by_itself() {
        for (key, effect, host_network, is_wanted) in [
            ("not-ready", "NoExecute", false, true),
            ("not-ready", "NoSchedule", false, false),
            ("unreachable", "NoExecute", false, true),
            ("disk-pressure", "NoSchedule", false, true),
            ("unschedulable", "NoSchedule", false, true),
            ("network-unavailable", "NoSchedule", true, true),
            ("network-unavailable", "NoSchedule", false, false),
            ("out-of-service", "NoExecute", false, false),
        ] {
            let change = |snapshot: &mut Snapshot, set: &mut Workload| {
                let taint = Taint { effect: effect.to_owned(), ..taint(&format!("node.kubernetes.io/{key}")) };
                snapshot.kube_node_mut("w-1").taints = vec![taint];
                set.spread = Spread { host_network, ..Spread::default() };
            };
            let expected = is_wanted.then(|| vec!["w-1".to_owned()]);
            let wanting = wanting(1, change).filter(|it| !it.is_empty());
            assert_eq!(wanting, expected, "{key}:{effect}");
        }
    }

    /// Returns the places that lack a kube-proxy pod and the number of further missing pods, if the status reports one available pod too
    /// few.
    fn lacking(change: impl FnOnce(&mut Snapshot, &mut Workload)) -> (Vec<(String, Option<Excuse>)>, usize) {
        let mut snapshot = healthy();
        let mut set = snapshot.kube().daemon_sets.as_ref().unwrap()[0].clone();
        set.available -= 1;
        change(&mut snapshot, &mut set);
        let cluster = Assessment::of(&snapshot);
        let pods: Vec<&Pod> = cluster.all_pods().filter(|pod| pod.name.starts_with("kube-proxy")).collect();
        let works = |pod: &Pod| crate::assess::workloads::is_well(&pod.state);
        let Shortfall { places, unplaced } = cluster.shortfall(&set, &pods, works, |_| false);
        (places.into_iter().map(|place| (place.node.name.clone(), place.excuse)).collect(), unplaced)
    }

    #[test]
    fn an_excuse_names_the_place_that_it_excuses() {
        let remove = |snapshot: &mut Snapshot, node: &str| {
            let of_node = |pod: &Pod| pod.name.starts_with("kube-proxy") && pod.node.as_deref() == Some(node);
            snapshot.kube().pods.as_mut().unwrap().retain(|pod| !of_node(pod));
        };
        let at = |name: &str, excuse| (vec![(name.to_owned(), excuse)], 0);
        assert_eq!(lacking(|_, _| {}), (Vec::new(), 1), "every node has one");
        assert_eq!(lacking(|snapshot, _| remove(snapshot, "w-1")), at("w-1", None));
        let leaving = |snapshot: &mut Snapshot| snapshot.node_mut("w-1").leaving = true;
        let of_leaving = lacking(|snapshot, _| {
            leaving(snapshot);
            remove(snapshot, "w-1");
        });
        assert_eq!(of_leaving, at("w-1", Some(Excuse::NotJudged)));
        // The DaemonSet wants three pods, on unknown nodes: the machine that is being removed may not be among them.
        let of_either = |removed: &'static [&'static str]| {
            lacking(move |snapshot, set| {
                leaving(snapshot);
                for name in removed {
                    remove(snapshot, name);
                }
                (set.desired, set.available) = (3, 2);
            })
        };
        assert_eq!(of_either(&["w-1"]), (Vec::new(), 1), "it has as many pods as it wants");
        assert_eq!(of_either(&["w-1", "cp-3"]), (Vec::new(), 1));
    }
}
