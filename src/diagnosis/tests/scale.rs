//! Large clusters in trouble.

use super::*;

/// A cluster of `nodes` machines, with `down` workers that do not answer.
fn large(nodes: usize, down: usize) -> Snapshot {
    let mut snapshot = healthy();
    let worker = snapshot.node("w-1").unwrap().clone();
    let object = snapshot.kube_node_mut("w-1").clone();
    let lease = snapshot.kube().node_leases.as_ref().unwrap().by_name["w-1"].clone();
    for n in 2..=nodes - 3 {
        let (name, address) = (format!("w-{n}"), format!("10.1.{}.{}", n / 250, n % 250 + 1));
        let mut node = worker.clone();
        node.name.clone_from(&name);
        node.address.clone_from(&address);
        node.addresses = vec![address.clone()];
        node.talos.nodename = Ok(Some(name.clone()));
        if let Ok(contact) = &mut node.talos.contact {
            contact.address.clone_from(&address);
        }
        if n <= down + 1 {
            node.talos = TalosNode::unasked(&Gap::new(
                GapKind::NodeUnreachable,
                format!("dial tcp {address}:50000: no route to host"),
            ))
            .into();
        }
        snapshot.nodes.push(node);
        let mut object = object.clone();
        object.name.clone_from(&name);
        object.addresses = vec![address];
        if n <= down + 1 {
            let why = "Kubelet stopped posting node status.";
            object.conditions = vec![condition("Ready", "Unknown", "NodeStatusUnknown", why)];
        }
        snapshot.kube().nodes.as_mut().unwrap().push(object);
        snapshot.kube().node_leases.as_mut().unwrap().by_name.insert(name, lease.clone());
    }
    snapshot
}

fn compared(nodes: usize, down: usize) -> (usize, usize) {
    let snapshot = large(nodes, down);
    let verdicts = verdicts(&snapshot);
    let mut symptoms = Symptoms::new(&snapshot, &verdicts);
    assert_eq!(recognized_in(&mut symptoms).len(), 1);
    (symptoms.all().count(), symptoms.compared())
}

/// Ten times as many machines in trouble cause ten times the work, not a hundred times.
#[test]
fn no_problem_is_compared_with_all_others() {
    let (few, cost_of_few) = compared(40, 20);
    let (many, cost_of_many) = compared(400, 200);
    assert!(many >= 9 * few, "{few}, {many}");
    assert!(cost_of_many * few <= 2 * cost_of_few * many, "{cost_of_few} for {few}, {cost_of_many} for {many}");
    assert!(cost_of_many <= 20 * many, "{cost_of_many} for {many}");
}

#[test]
fn many_machines_that_are_down_are_one_trouble() {
    let mut snapshot = large(40, 4);
    snapshot.power_off("cp-3");
    let verdicts = verdicts(&snapshot);
    let made = diagnose(&snapshot, &verdicts);
    assert_eq!(made.len(), 1, "{made:#?}");
    assert_eq!(
        made[0].headline,
        "5 of 40 machines do not answer, a control plane among them: cp-3 (10.0.0.3), w-2 (10.1.0.3), w-3 (10.1.0.4) \
         and 2 more"
    );
    for name in ["cp-3", "w-2", "w-3", "w-4", "w-5"] {
        assert!(made[0].seen.iter().any(|seen| seen.target.name == name), "{name}");
        let of = |check: &str| made[0].explains.iter().any(|it| it.check == check && it.target.name == name);
        assert!(of("talos.nodes.reachable") && of("k8s.nodes.ready"), "{name}");
    }
    let made = diagnosed(&large(40, 3));
    assert_eq!(made.iter().map(|it| it.id).collect::<Vec<_>>(), ["node-down"; 3], "few are told one by one");
}

/// The index finds the same results as a comparison of all pairs.
#[test]
fn the_index_finds_all_that_is_about_the_same() {
    let mut snapshot = large(12, 4);
    crashes(&mut snapshot);
    stale_member(&mut snapshot);
    snapshot.talos_mut().endpoints[1].version = gap(GapKind::TimedOut);
    let verdicts = verdicts(&snapshot);
    let symptoms = Symptoms::new(&snapshot, &verdicts);
    let mut kinds: Vec<Kind> = symptoms.all().map(|sign| sign.target.kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    assert!(
        [Kind::Endpoint, Kind::EtcdMember, Kind::Node, Kind::Pod].iter().all(|kind| kinds.contains(kind)),
        "{kinds:?}"
    );
    for sign in symptoms.all() {
        let found: Vec<usize> = symptoms.about(sign.target).map(|it| it.at).collect();
        let same = symptoms.all().filter(|it| same_subject(it.target, sign.target)).map(|it| it.at);
        assert_eq!(found, same.collect::<Vec<_>>(), "{:?}", sign.target);
    }
}
