//! Commands that are proposed, and commands that must not be.

use super::*;

/// A single endpoint would be the next problem.
#[test]
fn all_control_planes_are_proposed_as_endpoints() {
    let snapshot = broken(|snapshot| snapshot.talos_mut().endpoints[0].role = Ok(Some(Role::Worker)));
    let made = diagnosed(&snapshot);
    let remedies: Vec<_> = made[0].next.iter().filter(|hint| matches!(hint, Hint::Remedy { .. })).collect();
    let Hint::Remedy { command, arguments } = remedies[0] else { unreachable!() };
    assert!(command.ends_with("config endpoint {*}"), "{command}");
    assert_eq!(arguments[2..], ["10.0.0.1", "10.0.0.2", "10.0.0.3"]);
}

/// Returns the commands of all diagnoses that change something.
fn changes(snapshot: &Snapshot) -> Vec<&'static str> {
    let hints = diagnosed(snapshot).into_iter().flat_map(|diagnosis| diagnosis.next);
    hints
        .filter_map(|hint| match hint {
            Hint::Remedy { command, .. } => Some(command),
            _ => None,
        })
        .collect()
}

/// A worker that has been off for half an hour looks like a removed one.
#[test]
fn no_node_is_deleted_that_may_only_be_off() {
    let mut snapshot = broken(|snapshot| unreached(snapshot, GapKind::NodeUnreachable));
    snapshot.node_mut("w-1").sources.discovery = false;
    silent(&mut snapshot);
    let made = diagnosed(&snapshot);
    assert!(made[0].headline.starts_with("w-1 (10.0.0.4) was removed or has long been off"), "{}", made[0].headline);
    assert_eq!(changes(&snapshot), [""; 0]);
}

/// Only this cluster's Kubernetes can show that the machine is unknown.
#[test]
fn no_member_is_removed_on_the_word_of_another_cluster() {
    let mut snapshot = broken(stale_member);
    assert_eq!(changes(&snapshot), ["{talosctl} -n {} etcd remove-member {}"]);
    for node in snapshot.kube().nodes.as_mut().unwrap() {
        node.name.insert_str(0, "other-");
        node.addresses.clear();
    }
    assert_eq!(changes(&snapshot), [""; 0]);
}

/// etcd accepts no second learner: the wiped member would be left outside.
#[test]
fn no_corrupt_member_is_replaced_while_another_one_joins() {
    let mut snapshot = broken(|snapshot| raise(snapshot, &AlarmKind::Corrupt));
    assert_eq!(changes(&snapshot).len(), 4);
    for name in ["cp-1", "cp-2", "cp-3"] {
        snapshot.talos_of(name).etcd_members.as_mut().unwrap()[2].is_learner = true;
    }
    assert_eq!(changes(&snapshot), [""; 0]);
}

/// The machine's old vote has to be removed before it joins again.
#[test]
fn a_voter_that_was_wiped_is_not_configured_at_once() {
    assert_eq!(changes(&broken(|snapshot| unreached(snapshot, GapKind::Maintenance))).len(), 1);
    let voter = broken(|snapshot| {
        snapshot.node_mut("cp-3").talos = TalosNode::unasked(&Gap::new(GapKind::Maintenance, "maintenance")).into();
    });
    assert!(ids(&voter).contains(&"machine-unconfigured"));
    assert_eq!(changes(&voter), [""; 0]);
}

/// No API server was looked for, so there may be unknown control planes with data.
#[test]
fn no_cluster_is_bootstrapped_that_may_have_been() {
    let mut snapshot = broken(never_bootstrapped);
    assert_eq!(changes(&snapshot), ["{talosctl} -n {} bootstrap"]);
    snapshot.kube().endpoint = Err(Gap::not_asked());
    for server in snapshot.kube().servers.values_mut() {
        *server = Err(Gap::not_asked());
    }
    assert_eq!(ids(&snapshot), ["cluster-not-bootstrapped"]);
    assert_eq!(changes(&snapshot), [""; 0]);
}

/// Removes the information of one source.
const BLINDED: &[(&str, Break)] = &[
    ("discovery", |snapshot| {
        snapshot.talos_mut().discovery = gap(GapKind::TimedOut);
        snapshot.nodes.iter_mut().for_each(|node| node.sources.discovery = false);
    }),
    ("the talosconfig", |snapshot| {
        snapshot.talos_mut().endpoints.truncate(1);
        snapshot.nodes.iter_mut().for_each(|node| node.sources.talosconfig = false);
    }),
    ("the services of Talos", |snapshot| {
        snapshot.nodes.iter_mut().for_each(|node| node.talos.services = gap(GapKind::TimedOut));
    }),
    ("the data of etcd", |snapshot| {
        snapshot.nodes.iter_mut().for_each(|node| node.talos.etcd_data_absent = gap(GapKind::TimedOut));
    }),
    ("the members of etcd", |snapshot| {
        no_lists(snapshot);
        no_statuses(snapshot);
    }),
    ("the endpoint of Kubernetes", |snapshot| {
        snapshot.kubernetes.iter_mut().for_each(|it| it.endpoint = gap(GapKind::NameNotFound));
    }),
    ("the API servers", |snapshot| {
        let servers = snapshot.kubernetes.iter_mut().flat_map(|it| it.servers.values_mut());
        servers.for_each(|server| *server = gap(GapKind::ConnectTimedOut));
    }),
    ("the nodes of Kubernetes", |snapshot| {
        snapshot.kubernetes.iter_mut().for_each(|it| it.nodes = gap(GapKind::TimedOut));
    }),
];

/// Returns whether the command cannot be undone.
fn destroys(command: &str) -> bool {
    ["bootstrap", "remove-member", "member remove", "reset", "wipe", "delete"].iter().any(|it| command.contains(it))
}

/// Returns all such commands that problems and diagnoses propose.
fn destructive(snapshot: &Snapshot) -> BTreeSet<String> {
    let verdicts = verdicts(snapshot);
    let of_problems = verdicts.iter().flat_map(|(_, verdict)| verdict.problems()).flat_map(|(_, it)| it.hints.clone());
    let all: Vec<Hint> = of_problems.chain(diagnose(snapshot, &verdicts).into_iter().flat_map(|it| it.next)).collect();
    let commands = all.iter().filter_map(|hint| match hint {
        Hint::Try { command, arguments } | Hint::Remedy { command, arguments } => Some((command, arguments)),
        Hint::Likely(_) | Hint::Rendered { .. } => None,
    });
    let destructive = commands.filter(|(command, _)| destroys(command));
    destructive.map(|(command, arguments)| format!("{command} {}", arguments.join(" "))).collect()
}

/// A command that cannot be undone needs two sources that agree: without either of them, it is not proposed, and no missing information
/// leads to further such proposals.
#[test]
fn what_destroys_rests_on_two_sources() {
    let worlds = CASES.iter().map(|case| (case.cause, case.trouble));
    let mut proposed = BTreeSet::new();
    for (title, trouble) in worlds.chain(rules::MORE.iter().copied()) {
        let whole = broken(trouble);
        if whole.talos.is_none() {
            continue;
        }
        let all = destructive(&whole);
        let mut needs: std::collections::BTreeMap<&String, usize> = all.iter().map(|command| (command, 0)).collect();
        for (source, blind) in BLINDED {
            let mut snapshot = whole.clone();
            blind(&mut snapshot);
            let left = destructive(&snapshot);
            assert!(left.is_subset(&all), "{title}: {left:?} without {source}");
            for (command, needs) in &mut needs {
                *needs += usize::from(!left.contains(*command));
            }
        }
        for (command, needs) in needs {
            assert!(needs >= 2, "{title}: {command} rests on {needs}");
            proposed.insert(command.split(' ').find(|word| destroys(word)).unwrap().to_owned());
        }
    }
    assert_eq!(proposed, ["bootstrap", "remove-member", "reset"].map(str::to_owned).into());
}

/// The report of such a run does not show whether the other control planes were seen.
#[test]
fn nothing_is_destroyed_by_a_run_that_leaves_control_planes_out() {
    let worlds = CASES.iter().map(|case| (case.cause, case.trouble));
    for (title, trouble) in worlds.chain(rules::MORE.iter().copied()) {
        let whole = broken(trouble);
        let nodes = whole.nodes.iter().enumerate();
        let known = nodes.filter(|(_, node)| node.role == Role::ControlPlane && node.sources.discovery);
        for (left_out, _) in known {
            let mut snapshot = whole.clone();
            snapshot.nodes[left_out].out_of_scope = true;
            assert_eq!(destructive(&snapshot), BTreeSet::new(), "{title} without {}", whole.nodes[left_out].name);
        }
    }
}

/// There may be unknown control planes, and data on one of them.
#[test]
fn no_cluster_is_bootstrapped_of_which_only_a_part_may_be_known() {
    let bootstrap = ["{talosctl} -n {} bootstrap"];
    let mut snapshot = broken(never_bootstrapped);
    snapshot.nodes.iter_mut().for_each(|node| node.sources.discovery = false);
    assert_eq!(changes(&snapshot), [""; 0], "only the talosconfig names them");
    snapshot.asked.expect_control_planes = Some(3);
    assert_eq!(changes(&snapshot), bootstrap);
    snapshot.asked.expect_control_planes = Some(5);
    assert_eq!(changes(&snapshot), [""; 0], "there are to be more");
    snapshot.asked.expect_control_planes = None;
    snapshot.asked.control_plane_nodes = CONTROL_PLANES.map(str::to_owned).to_vec();
    snapshot.nodes.iter_mut().for_each(|node| node.sources.flags = true);
    assert_eq!(changes(&snapshot), bootstrap);
    snapshot.kube().servers.insert("cp-2".to_owned(), gap(GapKind::ConnectTimedOut));
    assert_eq!(changes(&snapshot), [""; 0], "an API server may be behind a firewall");
}

/// Every option that a run was given to find this cluster.
fn found_by() -> report::Sources {
    let options = |options: &[&str]| options.iter().map(|it| (*it).to_owned()).collect();
    report::Sources {
        talosctl_options: options(&["--talosconfig", "t", "--context", "prod", "-e", "10.0.0.1"]),
        kubectl_options: options(&["--kubeconfig", "k", "--context", "kube-prod"]),
        etcdctl_options: options(&["--endpoints", "https://10.0.0.1:2379", "--cacert", "ca"]),
        ..report::Sources::default()
    }
}

/// A pasted command reaches this cluster and no other, regardless of the shell's defaults.
#[test]
fn every_command_names_this_cluster() {
    let sources = found_by();
    let worlds = CASES.iter().map(|case| case.trouble).chain(rules::MORE.iter().map(|(_, trouble)| *trouble));
    let mut commands = BTreeSet::new();
    for snapshot in worlds.map(broken) {
        let verdicts = verdicts(&snapshot);
        let problems = verdicts.iter().flat_map(|(_, verdict)| verdict.problems()).map(|(_, it)| it.hints.clone());
        let diagnoses = diagnose(&snapshot, &verdicts).into_iter().map(|it| it.next);
        let hints: Vec<Hint> = problems.chain(diagnoses).flatten().collect();
        commands.extend(hints.iter().filter_map(|hint| report::view::hints::render(hint, &sources)?.command));
    }
    assert!(commands.len() > 40, "{}", commands.len());
    for command in commands {
        let parts: Vec<&str> = command.split(' ').collect();
        let has = |option: &str| parts.contains(&option);
        let local = has("config") && !has("new");
        let named = match () {
            // A machine without a configuration is queried without one, at its own address.
            () if has("--insecure") => has("talosctl") && has("-n"),
            () if has("talosctl") && local => has("--talosconfig") && has("--context"),
            () if has("talosctl") => ["--talosconfig", "--context", "-e", "-n"].iter().all(|it| has(it)),
            () if has("kubectl") => has("--kubeconfig") && has("--context"),
            () if has("etcdctl") => has("--endpoints") && has("--cacert"),
            () => command.starts_with("ssh ") || command.starts_with("nc -vz "),
        };
        assert!(named, "{command}");
    }
}

/// Kubernetes still uses the old name of a machine whose hostname has changed.
#[test]
fn a_node_is_called_as_kubernetes_calls_it() {
    let mut snapshot = broken(|snapshot| unreached(snapshot, GapKind::NodeUnreachable));
    "w-old".clone_into(&mut snapshot.kube_node_mut("w-1").name);
    let hints: Vec<Hint> = diagnosed(&snapshot).into_iter().flat_map(|it| it.next).collect();
    assert!(hints.contains(&Hint::run("{kubectl} describe node {}", ["w-old"])), "{hints:?}");
    assert!(!hints.contains(&Hint::run("{kubectl} describe node {}", ["w-1"])), "{hints:?}");
}
