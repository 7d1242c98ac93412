//! The Lease of `upgrade/upgrade-gate`: its holder, the machine that it names, and the conditions under which another rollout can take it.

use std::os::unix::fs::MetadataExt as _;

use super::*;

/// Returns the addresses of the upgraded machines, in order.
fn upgraded(home: &TempDir) -> Vec<String> {
    let calls = calls(home).into_iter().filter(|call| call.starts_with("talosctl upgrade"));
    calls.map(|call| call.split(' ').nth(3).unwrap().to_owned()).collect()
}

/// The rollout was interrupted, or talosctl failed, while the machine continues on its own and can reboot later.
#[test]
fn a_machine_whose_end_nobody_has_seen_is_the_first_of_the_next_rollout() {
    let workers_first = ["--first", "workers"];
    let fails = TALOSCTL.replace("does-nothing) ;;", "does-nothing) exit 1 ;;");
    let cut_off = TALOSCTL.replace("does-nothing) ;;", "does-nothing) gate; kill -TERM $gate; exec /bin/sleep 60 ;;");
    for (talosctl, code) in [(&fails, 1), (&cut_off, 143)] {
        let script = with_program(faked(), "talosctl", talosctl).file("upgrade-does", "127.0.0.3 does-nothing\n");
        let (outcome, home) = script.args(IMAGE).run_and_keep();
        outcome.is(code, &["cp-2 may still be upgrading"]);
        let lease = read(home.path(), "lease");
        assert!(lease.ends_with("|cp-2=b2|\n"), "nobody holds it, and it names the machine: {lease}");
        let next = || faked().file("machines", read(home.path(), "machines")).file("lease", &lease);
        let (outcome, home) = next().args(IMAGE).args(workers_first).run_and_keep();
        outcome.is(0, &["all 3 machines run v1.13.1"]);
        assert_eq!(upgraded(&home), ["127.0.0.3", "127.0.0.4"]);
        assert_eq!(machine_of_lease(&home), "");
        // If the next rollout stops before that machine, the Lease still names it.
        let (outcome, home) = next().file("gate-fails", "1 1\n").args(IMAGE).args(workers_first).run_and_keep();
        outcome.is(1, &["not healthy before cp-2"]);
        assert_eq!((upgrades(&home), machine_of_lease(&home).as_str()), (0, "cp-2=b2"));
    }
    // The upgrade was completed in the meantime.
    let of = |machine: &str| faked().file("lease", format!("7|u7|2026-01-01T00:00:00.000000Z|120|{machine}|\n"));
    let done = MACHINES.replace("127.0.0.3 control-plane v1.13.0", "127.0.0.3 control-plane v1.13.1");
    let (outcome, home) = of("cp-2=b1").file("machines", &done).args(IMAGE).args(workers_first).run_and_keep();
    outcome.is(0, &[]);
    assert_eq!(upgraded(&home), ["127.0.0.2", "127.0.0.4"]);
    assert_eq!(machine_of_lease(&home), "");
    // The machine runs the version of this rollout, but another rollout began to upgrade it to another version: it has not booted since, or
    // that is unknown.
    for machine in ["cp-2=b2", "cp-2=-", "cp-2"] {
        let (outcome, home) = of(machine).file("machines", &done).args(IMAGE).args(workers_first).run_and_keep();
        outcome.is(0, &["0 of 3 machines done"]);
        assert_eq!(upgraded(&home), ["127.0.0.3", "127.0.0.2", "127.0.0.4"], "{machine}");
        assert_eq!(machine_of_lease(&home), "");
    }
    for (machine, words) in [
        ("cp-9", "an earlier rollout has begun to upgrade cp-9, which is no longer part of the cluster"),
        ("cp-1\"; x", "names what cannot be a machine"),
    ] {
        let (outcome, home) = of(machine).args(IMAGE).run_and_keep();
        outcome.is(75, &[words]);
        assert_eq!(upgrades(&home), 0);
        assert_eq!(machine_of_lease(&home), machine, "it stays until somebody has looked");
    }
    // talosctl failed, but the machine has booted into the new version.
    let late = TALOSCTL.replace("does-nothing) ;;", "does-nothing) edit '$4 = tag; $6 = $6 \"b\"'; exit 1 ;;");
    let script = with_program(faked(), "talosctl", &late).file("upgrade-does", "127.0.0.2 does-nothing\n");
    let (outcome, home) = script.args(IMAGE).run_and_keep();
    outcome.is(1, &["talosctl failed for cp-1 (127.0.0.2) (exit code 1), which is now `done`"]);
    assert_eq!(machine_of_lease(&home), "");
}

/// A kubeconfig can be replaced during a rollout, and a PUT creates a Lease in a cluster that has none.
#[test]
fn a_lease_that_is_gone_is_lost_and_not_made_again() {
    for other in ["rm \"$HOME/lease\"", "sed -i 's/|u1|/|u3|/' \"$HOME/lease\""] {
        let moves = TALOSCTL.replace("image) [", &format!("image) {other}; ["));
        let (outcome, home) = with_program(faked(), "talosctl", &moves).args(IMAGE).run_and_keep();
        outcome.is(75, &["the Lease kube-system/upgrade-gate is lost: Error from server (Conflict)"]);
        assert_eq!(upgrades(&home), 0);
        assert!(!read(home.path(), "lease").contains("|u1|"), "{}", read(home.path(), "lease"));
    }
}

/// A holder with a wrong clock writes renew times that look expired.
#[test]
fn a_lease_that_is_renewed_is_held_whatever_the_clocks_say() {
    let (past, renews) = (
        "7|u7|2026-01-01T00:00:00.000000Z|120||other\n",
        "#!/bin/sh\ncase $1 in 30) sed -i s/7/8/ \"$HOME/lease\" ;; *) exec /bin/sleep \"$1\" ;; esac\n",
    );
    let (outcome, home) = with_program(faked(), "sleep", renews).file("lease", past).args(IMAGE).run_and_keep();
    outcome.is(75, &["another rollout holds the Lease kube-system/upgrade-gate: other"]);
    assert_eq!(upgrades(&home), 0);
    faked().file("lease", past).args(IMAGE).run().is(0, &[]);
}

/// kubectl prints nothing, or only a part of the requested fields.
#[test]
fn an_empty_answer_is_no_lease() {
    for (answer, to_write) in [
        ("exit", "exit"),
        ("echo '|'; exit", "echo '|'; exit"),
        ("echo '1|'; exit", "echo '1|'; exit"),
        ("echo '|u1'; exit", "echo '|u1'; exit"),
        // Cut off before its last word.
        ("printf '5|u1'; exit", "exit"),
        ("printf '5|u1||||'; exit", "exit"),
        ("printf '5|u1|||||en'; exit", "exit"),
    ] {
        let kubectl = KUBECTL.replace("body=$(cat)\n", &format!("body=$(cat)\n{to_write}\n"));
        let kubectl = kubectl.replace("sed 's/$/|end/' \"$HOME/lease\"; exit", answer);
        let (outcome, home) = with_program(faked(), "kubectl", &kubectl).args(IMAGE).run_and_keep();
        outcome.is(69, &["can be neither created nor read"]);
        assert_eq!(upgrades(&home), 0);
    }
}

/// Returns the name of a Lease holder that is a process of this host.
fn here(process: &str) -> String {
    let of = |name: &str| std::fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap();
    let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap();
    let user = std::fs::metadata("/proc/self").unwrap().uid();
    format!("{}/{}/{}/{user}/{process}", of("hostname").trim(), &of("random/boot_id")[..8], namespace.display())
}

/// Each rollout would take down another machine first.
#[test]
fn of_two_rollouts_at_once_one_stops_before_anything() {
    let (outcome, home) = faked().file("upgrade-does", "127.0.0.2 is-overtaken\n").args(IMAGE).run_and_keep();
    outcome.is(0, &["all 3 machines run v1.13.1"]);
    let second = read(home.path(), "second");
    assert!(second.contains("another rollout holds the Lease kube-system/upgrade-gate") && second.ends_with("75\n"));
    assert_eq!(upgrades(&home), 3, "{second}");
    let lease = read(home.path(), "lease");
    assert!(lease.ends_with("|\n"), "it is given up: {lease}");
    let again = faked().file("lease", lease).args(IMAGE).run();
    again.is(0, &[]);
}

#[test]
fn a_lease_is_taken_only_from_a_rollout_that_is_over() {
    const PAST: &str = "2026-01-01T00:00:00.000000Z";
    const FUTURE: &str = "2999-01-01T00:00:00.000000Z";
    let own_start = std::fs::read_to_string("/proc/self/stat").unwrap();
    let own_start = own_start.rsplit(") ").next().unwrap().split(' ').nth(19).unwrap().to_owned();
    let own = std::process::id();
    let (dead, alive) = (here("999999999.1"), here(&format!("{own}.{own_start}")));
    // The process ID has been reused since, as in a restarted container.
    let again = here(&format!("{own}.1"));
    let own = |holder: &str| format!("7|u7|{PAST}|2220||{holder}\n");
    for (lease, code) in [
        (own(""), 0),
        (own("other/0/pid:[1]/1"), 0),
        (own(&dead), 0),
        (format!("7|u7|{FUTURE}|2220||{dead}\n"), 0),
        (format!("7|u7|{FUTURE}|2220||other/0/pid:[1]/1\n"), 75),
        (format!("7|u7|{FUTURE}|2220||{alive}\n"), 75),
        (format!("7|u7|{FUTURE}|2220||{again}\n"), 0),
        // A live process that does not renew the Lease has released it, on every host.
        (own(&alive), 0),
        // A process of another user, whose state is unknown.
        (format!("7|u7|{FUTURE}|2220||{}\n", dead.replace("/999999999", "1/999999999")), 75),
        // Holders of an earlier version of this script contain less information.
        (format!("7|u7|{FUTURE}|2220||{}\n", here("999999999")), 75),
        // The Lease does not state its duration.
        (format!("7|u7|{PAST}|||other\n"), 75),
        (format!("7|u7|{PAST}|a[$(touch harm)]||other\n"), 75),
        ("7|u7||2220||other\n".to_owned(), 75),
    ] {
        let (outcome, home) = faked().file("lease", &lease).args(IMAGE).run_and_keep();
        assert_eq!(outcome.code, code, "{lease}: {outcome}");
        assert_eq!(upgrades(&home), if code == 0 { 3 } else { 0 }, "{lease}");
        assert!(code == 0 || outcome.stderr.contains("kubectl --namespace kube-system patch lease upgrade-gate"));
        assert!(!home.path().join("harm").exists());
    }
}

/// The signal arrives during the first write of the Lease, without an answer, or during a later one.
#[test]
fn a_signal_while_the_lease_is_written_leaves_none() {
    let written = "printf %s \"$((is + 1))|$uid\"\n";
    let signal = "kill -TERM \"$(field holderIdentity | sed 's|.*/||; s|[.].*||')\"";
    for (when, code) in [("$is = 0", 1), ("$is = 0", 0), ("$is = 1", 0), ("$is = 2", 0), ("$is = 2", 1)] {
        let signaled = format!("[ ! {when} ] || {{ {signal}; [ {code} = 0 ] || exit 1; }}\n{written}");
        let kubectl = KUBECTL.replace(written, &signaled);
        let (outcome, home) = with_program(faked(), "kubectl", &kubectl).args(IMAGE).run_and_keep();
        outcome.is(143, &["stopped: terminated"]);
        let lease = read(home.path(), "lease");
        assert!(lease.ends_with("|\n") && upgrades(&home) == 0, "{when} {code}: {lease}");
    }
    // A Lease that cannot be released is reported.
    let kubectl = KUBECTL.replace(written, &format!("{signal}; touch \"$HOME/forbidden\"; exit 1\n"));
    let (outcome, _) = with_program(faked(), "kubectl", &kubectl).args(IMAGE).run_and_keep();
    outcome.is(143, &["the Lease kube-system/upgrade-gate could not be given up. Once that rollout has ended, it is free after 120 s"]);
}

/// A step may last as long as the Lease, or longer.
#[test]
fn the_lease_is_renewed_while_a_step_lasts() {
    let (outcome, home) = faked().file("upgrade-does", "127.0.0.3 is-slow\n").args(IMAGE).run_and_keep();
    outcome.is(0, &["all 3 machines run v1.13.1"]);
    assert_eq!(upgrades(&home), 3);
    // A lost answer to a successful request does not lose the Lease.
    let loses = "printf %s \"$((is + 1))|$uid\"\n[ -e \"$HOME/lost\" ] || { touch \"$HOME/lost\"; exit 1; }\n";
    let kubectl = KUBECTL.replace("printf %s \"$((is + 1))|$uid\"\n", loses);
    let (outcome, _) = with_program(faked(), "kubectl", &kubectl).args(IMAGE).run_and_keep();
    outcome.is(0, &["all 3 machines run v1.13.1"]);
    let kubectl = KUBECTL
        .replace("printf %s \"$((is + 1))|$uid\"\n", "printf %s \"$((is + 1))|$uid\"\n[ $is -ne 2 ] || exit 1\n");
    let (outcome, home) = with_program(faked(), "kubectl", &kubectl).args(IMAGE).run_and_keep();
    outcome.is(0, &["all 3 machines run v1.13.1"]);
    assert_eq!(upgrades(&home), 3);
}

/// Another client was faster between the read and the write.
#[test]
fn a_lease_that_is_written_by_two_is_that_of_the_first() {
    let first = "8|u7|2999-01-01T00:00:00.000000Z|2220||other\n";
    for lease in [None, Some("7|u7|2026-01-01T00:00:00.000000Z|2220||\n")] {
        let script = lease.iter().fold(faked(), |script, lease| script.file("lease", lease));
        let (outcome, home) = script.file("overtakes", first).args(IMAGE).run_and_keep();
        assert_eq!((outcome.code, upgrades(&home)), (75, 0), "{outcome}");
        assert_eq!(read(home.path(), "lease"), first);
    }
    // If the Lease is lost during the rollout, no further step begins.
    let steals = TALOSCTL.replace("image) [", &format!("image) printf '{}' > \"$HOME/lease\"; [", first.trim()));
    let (outcome, home) = with_program(faked(), "talosctl", &steals).args(IMAGE).run_and_keep();
    outcome.is(75, &["the Lease kube-system/upgrade-gate is lost: Error from server (Conflict)"]);
    assert_eq!(upgrades(&home), 0);
    assert_eq!(read(home.path(), "lease").trim(), first.trim(), "it is not given up for another");
}

#[test]
fn without_the_right_to_a_lease_nothing_is_changed_unless_none_is_wanted() {
    let (outcome, home) = faked().file("forbidden", "").args(IMAGE).run_and_keep();
    outcome.is(69, &["can be neither created nor read", "Error from server (Forbidden)"]);
    assert_eq!(upgrades(&home), 0);
    let (outcome, home) = faked().file("forbidden", "").args(IMAGE).args(["--no-lock"]).run_and_keep();
    outcome.is(0, &[]);
    assert_eq!(upgrades(&home), 3);
}
