//! `upgrade/upgrade-gate`: changes between the gate and the command that takes a machine down, and the state of a machine afterwards.

use super::*;

/// Applies `what` to the stand-ins' files while the image is being pulled, which can take half an hour.
fn while_it_pulls(what: &str) -> Program {
    let pulls = TALOSCTL.replace("image) [", &format!("image) {what}; ["));
    assert_ne!(pulls, TALOSCTL);
    with_program(faked(), "talosctl", &pulls).args(IMAGE)
}

#[test]
fn what_happens_while_an_image_is_pulled_is_seen() {
    let edit = |change: &str| format!("sed -i 's/{change}/' \"$HOME/machines\"");
    for (change, code, words) in [
        ("127.0.0.4 worker v1.13.0 no/127.0.0.4 worker v1.13.0 yes", 1, "while another machine is cordoned: w-1"),
        ("127.0.0.4 worker v1.13.0 no/127.0.0.4 worker v1.13.0 -", 69, "is cordoned: w-1 (127.0.0.4) (not known)"),
        ("127.0.0.4 worker v1.13.0/127.0.0.4 worker -", 69, "could not be seen before the upgrade of cp-1"),
        ("no b1/no b9", 75, "cp-1 (127.0.0.2) has changed since the gate"),
        ("v1.13.0 no b1/v1.13.1 no b1", 75, "cp-1 (127.0.0.2) has changed since the gate: it runs v1.13.1"),
        ("b1 5c1 -/b1 5c1 custom:v1.13.1", 75, "cp-1 (127.0.0.2) has changed since the gate"),
        ("127.0.0.2 control-plane v1.13.0 no/127.0.0.2 control-plane v1.13.0 yes", 75, "cp-1 (127.0.0.2) has changed"),
        ("^cp-1 .*$/cp-9 127.0.0.9 control-plane v1.13.0 no b1 5c1 -", 69, "cp-1 (127.0.0.2) is no longer part"),
    ] {
        let (outcome, home) = while_it_pulls(&edit(change)).run_and_keep();
        outcome.is(code, &[words]);
        assert_eq!((upgrades(&home), machine_of_lease(&home).as_str()), (0, ""), "{change}");
    }
}

/// The stand-in's clock is ahead by the number in the file.
#[test]
fn a_gate_that_is_old_by_the_time_of_the_upgrade_is_repeated() {
    let date = "#!/bin/sh\n[ \"$*\" = +%s ] || exec /bin/date \"$@\"\necho $(($(/bin/date +%s) + $(cat \"$HOME/ahead\" 2> /dev/null || echo 0)))\n";
    for ahead in [400, -400] {
        let script = with_program(while_it_pulls(&format!("echo {ahead} > \"$HOME/ahead\"")), "date", date);
        let (outcome, home) = script.run_and_keep();
        outcome.is(0, &[]);
        let calls = calls(&home);
        let all = all_calls();
        // The gate, the snapshot, the pull; the gate again, the upgrade. The clock does not advance for the other machines.
        let mut expected = all.clone();
        expected.insert(3, all[0].clone());
        assert_eq!(calls, expected, "{ahead}");
        // A failure of the second gate ends the rollout.
        let script = with_program(while_it_pulls(&format!("echo {ahead} > \"$HOME/ahead\"")), "date", date);
        let (outcome, home) = script.file("gate-fails", "2 1\n").run_and_keep();
        outcome.is(1, &["the cluster is not healthy before cp-1"]);
        assert_eq!((upgrades(&home), machine_of_lease(&home).as_str()), (0, ""));
    }
}

/// A log without a reader blocks writes to it, for longer than the Lease lasts.
#[test]
fn nothing_waits_between_the_lease_and_the_command() {
    let script = super::super::text("upgrade/upgrade-gate");
    let lines: Vec<_> = script.lines().map(str::trim).collect();
    let begins: Vec<_> = lines.iter().enumerate().filter(|(_, line)| **line == "begin").collect();
    assert_eq!(begins.len(), 2);
    for (at, _) in begins {
        assert!(lines[at + 1].starts_with("bounded \"$seconds\" "), "{}", lines[at + 1]);
    }
    let end = lines.iter().position(|line| *line == "begin() {").unwrap();
    let end = end + lines[end..].iter().position(|line| *line == "}").unwrap();
    assert_eq!(lines[end - 2..end], ["keep_lock", "unfinished=$naming naming=''"]);
}

/// A success of talosctl does not prove that a machine has finished its upgrade, so the next rollout checks it first.
#[test]
fn a_machine_that_was_not_seen_to_reboot_stays_in_the_lease() {
    let only_version = TALOSCTL.replace("does-nothing) ;;", "does-nothing) edit '$4 = tag' ;;");
    for (talosctl, does, code, words, in_lease) in [
        (TALOSCTL, "does-nothing", 1, "was not upgraded", "cp-1=b1"),
        (TALOSCTL, "is-not-rebooted", 1, "was not rebooted", "cp-1=b1"),
        (TALOSCTL, "is-lost", 69, "it is not known what became of", "cp-1=b1"),
        (&only_version, "does-nothing", 1, "was not seen to reboot", "cp-1=b1"),
        (TALOSCTL, "falls-back", 1, "fell back", ""),
        (TALOSCTL, "stays-cordoned", 1, "is still cordoned", ""),
    ] {
        let script = with_program(faked(), "talosctl", talosctl).file("upgrade-does", format!("127.0.0.2 {does}\n"));
        let (outcome, home) = script.args(IMAGE).run_and_keep();
        outcome.is(code, &[words]);
        assert_eq!(machine_of_lease(&home), in_lease, "{does}");
        assert_eq!(outcome.stderr.contains("cp-1 may still be upgrading"), !in_lease.is_empty(), "{outcome}");
    }
}

/// A machine whose Node could not be read may be cordoned, so it counts as unavailable.
#[test]
fn a_machine_that_may_be_cordoned_is_away() {
    let machines = MACHINES.replace("127.0.0.4 worker v1.13.0 no", "127.0.0.4 worker v1.13.1 -");
    let (outcome, home) = faked().file("machines", machines).args(IMAGE).run_and_keep();
    outcome
        .is(69, &["cp-1 (127.0.0.2) is not taken down while another machine is cordoned: w-1 (127.0.0.4) (not known)"]);
    assert_eq!(calls(&home), [""; 0]);
}

/// Without a Lease, kube-system need not be readable: a UID that is read later does not count as another cluster, until it changes.
#[test]
fn an_id_that_is_read_late_is_the_clusters_from_then_on() {
    let next = "[ \"$1\" != upgrade-plan ] || { n=$(cat \"$HOME/n\" 2> /dev/null || echo 0); echo $((n + 1)) > \"$HOME/n\"; [ ! -e \"$HOME/plan-of.$n\" ] || mv \"$HOME/plan-of.$n\" \"$HOME/plan-of\"; }\n";
    let health = HEALTH.replace("words=\"$* \"\n", &format!("{next}words=\"$* \"\n"));
    let plan = |uid: &str| format!("one= {uid} /t/config prod 127.0.0.2:50000,127.0.0.3:50000 /k/config admin@prod -");
    let script = || {
        let script = with_program(faked(), "cluster-health", &health).args(IMAGE).args(["--no-lock"]);
        script.file("plan-of.0", plan("-")).file("plan-of.1", plan("uid-1"))
    };
    script().run().is(0, &[]);
    let (outcome, home) = script().file("plan-of.2", plan("uid-2")).run_and_keep();
    outcome.is(69, &["this plan is of another cluster", "uid-2 instead of uid-1"]);
    assert_eq!(upgrades(&home), 0);
}

/// Variables such as `input` belong to the script.
#[test]
fn no_variable_of_the_environment_is_taken_for_one_of_the_script() {
    let script = super::super::text("upgrade/upgrade-gate");
    let names = regex::Regex::new(r"\$\{?([a-z_]+)").unwrap();
    let names: std::collections::BTreeSet<_> = names.captures_iter(&script).map(|it| it[1].to_owned()).collect();
    let mut program = faked().args(IMAGE);
    for name in &names {
        program = program.env(name, "/there/is/none");
    }
    program.run().is(0, &["all 3 machines run v1.13.1"]);
}

/// If talosctl did not list its options in time, they are unknown rather than unsupported.
#[test]
fn a_talosctl_that_does_not_tell_its_options_stops_it() {
    let mute = TALOSCTL.replace("  *--help)\n", "  *--help)\n    echo killed >&2; exit 9\n");
    let (outcome, home) = with_program(faked(), "talosctl", &mute).args(IMAGE).run_and_keep();
    outcome.is(9, &["talosctl does not tell which options it has: killed"]);
    assert_eq!(upgrades(&home), 0);
}

/// The Lease may have been created without an answer, and cannot be read for a moment.
#[test]
fn a_lease_that_may_have_been_created_is_given_up() {
    let written = "printf %s \"$((is + 1))|$uid\"\n";
    let lost =
        KUBECTL.replace(written, &format!("[ $is != 0 ] || {{ touch \"$HOME/unreadable\"; exit 1; }}\n{written}"));
    let lost = lost.replace(
        "*' get lease '*)",
        "*' get lease '*) [ ! -e \"$HOME/unreadable\" ] || { rm \"$HOME/unreadable\"; exit 1; };",
    );
    let (outcome, home) = with_program(faked(), "kubectl", &lost).args(IMAGE).run_and_keep();
    outcome.is(69, &["can be neither created nor read"]);
    let lease = read(home.path(), "lease");
    assert!(lease.ends_with("|\n"), "{lease}");
}

/// The cluster does not respond for a moment, and another machine is cordoned by the time it does.
#[test]
fn what_happens_while_the_clusters_are_compared_is_seen() {
    let fails = "  [ ! -e \"$HOME/fails-once\" ] || { rm \"$HOME/fails-once\"; sed -i '/^w-1/s/ no / yes /' \"$HOME/machines\"; exit 1; }\n  echo \"$*\" >> \"$HOME/looks\"\n";
    let fails = TALOSCTL.replace("  echo \"$*\" >> \"$HOME/looks\"\n", fails);
    let fails = fails.replace("image) [", "image) touch \"$HOME/fails-once\"; [");
    let (outcome, home) = with_program(faked(), "talosctl", &fails).args(IMAGE).run_and_keep();
    outcome.is(1, &["while another machine is cordoned: w-1"]);
    assert_eq!(upgrades(&home), 0);
}

/// The kubelet reports its boot ID after Talos has answered.
#[test]
fn a_boot_id_that_comes_late_is_waited_for() {
    let late = TALOSCTL.replace("does-nothing) ;;", "does-nothing) edit '$4 = tag' ;;");
    let sleep = "#!/bin/sh\ncase $1 in 0.* | 1) exec /bin/sleep \"$1\" ;; esac\nsed -i '/v1.13.1/s/ b\\([1-3]\\) / b\\1b /' \"$HOME/machines\"\n";
    let script = with_program(with_program(faked(), "talosctl", &late), "sleep", sleep);
    let (outcome, home) = script.file("upgrade-does", "127.0.0.2 does-nothing\n").args(IMAGE).run_and_keep();
    outcome.is(0, &["all 3 machines run v1.13.1"]);
    assert_eq!(upgrades(&home), 3);
}

#[test]
fn without_a_boot_id_no_machine_is_taken_down() {
    let (outcome, home) = faked().file("machines", MACHINES.replace(" b1 ", " - ")).args(IMAGE).run_and_keep();
    outcome.is(69, &["the boot ID of cp-1 (127.0.0.2) is not known"]);
    assert_eq!(calls(&home), [""; 0]);
}

/// The rollback happens during the gate that requires the cluster to stay healthy.
#[test]
fn a_machine_that_falls_back_later_ends_the_rollout() {
    let health = HEALTH.replace(
        "  [ -e \"$HOME/gate-fails\" ] || exit 0\n",
        "  case $* in *--stable-for*) sed -i '/^cp-1/s/v1.13.1 no b1b/v1.13.0 no b1bb/' \"$HOME/machines\" ;; esac\n  exit 0\n",
    );
    let (outcome, home) = with_program(faked(), "cluster-health", &health).args(IMAGE).run_and_keep();
    outcome.is(1, &["cp-1 (127.0.0.2) ran v1.13.1 and no longer does: runs v1.13.0"]);
    assert_eq!(upgrades(&home), 1);
}

/// Plans take longer than a gate is valid.
#[test]
fn a_cluster_that_answers_too_slowly_ends_the_rollout() {
    let date = "#!/bin/sh\n[ \"$*\" = +%s ] || exec /bin/date \"$@\"\nn=$(($(cat \"$HOME/n\" 2> /dev/null || /bin/date +%s) + 70))\necho $n | tee \"$HOME/n\"\n";
    let (outcome, home) = with_program(faked(), "date", date).args(IMAGE).run_and_keep();
    outcome.is(69, &["the gate was a minute old before all else was seen"]);
    assert_eq!(upgrades(&home), 0);
}

/// Credentials that expire during the rollout, and a plan without a row.
#[test]
fn a_plan_without_machines_has_its_own_code() {
    let fails = HEALTH.replace("awk -v target", "[ ! -e \"$HOME/no-machine\" ] || exit 77\nawk -v target");
    let script = with_program(while_it_pulls("touch \"$HOME/no-machine\""), "cluster-health", &fails);
    let (outcome, home) = script.run_and_keep();
    outcome.is(
        77,
        &["could not be seen before the upgrade of cp-1 (127.0.0.2) (cluster-health upgrade-plan: exit code 77)"],
    );
    assert_eq!(upgrades(&home), 0);
}

/// During half a minute of watching, the Lease is released or cannot be read.
#[test]
fn a_lease_that_is_given_up_meanwhile_is_free() {
    let past = "7|u7|2026-01-01T00:00:00.000000Z|120||other\n";
    for (does, code, words) in [
        ("echo '8|u7|2026-01-01T00:00:00.000000Z|120||' > \"$HOME/lease\"", 0, "all 3 machines run"),
        ("rm \"$HOME/lease\"", 69, "could not be read again: Error from server (NotFound)"),
    ] {
        let sleep = format!("#!/bin/sh\ncase $1 in 30) {does} ;; *) exec /bin/sleep \"$1\" ;; esac\n");
        let script = with_program(faked(), "sleep", &sleep).file("lease", past);
        script.args(IMAGE).run().is(code, &[words]);
    }
}
