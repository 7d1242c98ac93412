//! `upgrade/upgrade-gate`: the order of its calls, the conditions under which it stops, and how it continues.

mod changes;
mod lease;

use std::path::Path;
use std::time::Duration;

use serde_json::json;
use simulator::world::{AlarmKind, Shape};
use tempfile::TempDir;

use super::{path, script, with_program, without_cluster};
use crate::cluster::{Cluster, cluster};
use crate::harness::{Outcome, Program, side_by_side};

/// Stands in for the program: plans from the file `machines`, and fails in the gate that `gate-fails` specifies (`COUNT CODE`).
const HEALTH: &str = r#"#!/bin/sh
[ "$1" != sanitize ] || exec "$REAL" sanitize
words="$* "
# Access to the cluster comes last.
case $words in *' --talosconfig '*) way="cluster-health --talosconfig${words#* --talosconfig}" && echo "${way% }" >> "$HOME/ways" ;; esac
words=${words%% --talosconfig*}
echo "cluster-health ${words% }" >> "$HOME/calls"
if [ "$1" != upgrade-plan ]; then
  [ -e "$HOME/gate-fails" ] || exit 0
  read -r at code < "$HOME/gate-fails"
  [ "$(grep '^cluster-health' "$HOME/calls" | grep -vc upgrade-plan)" != "$at" ] || exit "$code"
  exit 0
fi
printf 'node\taddress\trole\tleader\tversion\tkubelet\tstate\tcordoned\tboot-id\tschematic\tinstalled\tevidence\timage\t'
printf 'talos-cluster\tkubernetes-cluster\ttalosconfig\ttalos-context\ttalos-endpoints\tkubeconfig\tkube-context\tkube-server\n'
cluster=$(cat "$HOME/plan-of" 2> /dev/null || echo 'one= uid-1 /t/config prod 127.0.0.2:50000,127.0.0.3:50000 /k/config admin@prod -')
awk -v target="$3" -v words="$*" -v cluster="$(echo "$cluster" | tr ' ' '\t')" '
  { state = "to-do"
    if ($4 == "-") { state = "unknown"; code = 69 }
    else if ($4 == target) state = "done"
    else if (match(words, $1 "=[a-z0-9-]+") && substr(words, RSTART, RLENGTH) != $1 "=" $6) { state = "fell-back"; code = 1 }
    else if ($8 != "-") state = "installed-not-rebooted"
    print $1 "\t" $2 "\t" $3 "\tno\t" $4 "\tv1.35.4\t" state "\t" $5 "\t" $6 "\t" $7 "\t" $8 "\truns " $4 "\t-\t" cluster }
  END { exit code }' "$HOME/machines"
"#;

/// Stands in for talosctl: changes `machines` as `upgrade-does` specifies for an address, or performs an upgrade.
const TALOSCTL: &str = r#"#!/bin/sh
[ "$5" = --endpoints ] && echo "talosctl $1 $2 $3 $4 $5 $6" >> "$HOME/ways" && shift 6
case $* in
  *--help)
    case $* in image*)
      [ ! -e "$HOME/is-old" ] || { echo 'error: unknown command "image" for "talosctl"' >&2; exit 1; }
      echo 'talosctl image pull <image>'; exit ;;
    esac
    [ -e "$HOME/is-old" ] || echo '--drain-timeout duration'
    exit 0 ;;
esac
if [ "$1" = get ]; then
  echo "$*" >> "$HOME/looks"
  [ ! -e "$HOME/talos-fails" ] || { echo "talos-fails" >&2; exit 1; }
  printf 'node: x\nmetadata:\n    id: current\nspec:\n    clusterId: %s\n    clusterName: c\n' "$(cat "$HOME/talos-id" 2> /dev/null || echo one=)"
  exit
fi
echo "talosctl $*" >> "$HOME/calls"
# The last word after an option, by its name.
value() { echo "$words" | sed -n "s/.*$1 \([^ ]*\).*/\1/p"; }
words="$* "
address=$(value --nodes)
# Above the program that bounds this one is the script.
gate() { gate=$(awk '/^PPid/ { print $2 }' /proc/$PPID/status); }
edit() { awk -v address="$address" -v image="$image" '{ tag = image; sub(/.*:/, "", tag) } $2 == address {'"$1"'} { print }' "$HOME/machines" > "$HOME/new" && mv "$HOME/new" "$HOME/machines"; }
case $1 in
  etcd) [ -e "$HOME/snapshot-fails" ] || echo state > "$3" ;;
  image) [ ! -e "$HOME/pull-fails" ] ;;
  reboot) image=$(awk -v address="$address" '$2 == address { print $8 }' "$HOME/machines"); edit '$4 = tag; $5 = "no"; $6 = $6 "b"; $8 = "-"' ;;
  upgrade)
    image=$(value --image)
    does=$(sed -n "s/^$address //p" "$HOME/upgrade-does" 2> /dev/null)
    case $does in
      falls-back) edit '$6 = $6 "b"' ;;
      is-held-up) edit '$5 = "yes"; $8 = image'; exit 3 ;;
      is-not-rebooted) edit '$8 = image' ;;
      stays-cordoned) edit '$4 = tag; $5 = "yes"; $6 = $6 "b"' ;;
      is-lost) edit '$4 = "-"' ;;
      does-nothing) ;;
      is-slow)
        before=$(cat "$HOME/lease")
        until [ "$(cat "$HOME/lease")" != "$before" ]; do /bin/sleep 0.05; done
        edit '$4 = tag; $5 = "no"; $6 = $6 "b"; $8 = "-"' ;;
      moves) echo other= > "$HOME/talos-id"; edit '$4 = tag; $6 = $6 "b"' ;;
      says-much) printf 'node: \033[31mx\r::stop-commands::y\n##vso[task.complete result=Succeeded]\n'; edit '$4 = tag; $6 = $6 "b"' ;;
      is-overtaken) "$GATE" --image "$image" --first workers > "$HOME/second" 2>&1; echo $? >> "$HOME/second"; edit '$4 = tag; $6 = $6 "b"' ;;
      is-killed-before) gate; kill -9 $gate ;;
      is-killed-after) edit '$4 = tag; $6 = $6 "b"'; gate; kill -9 $gate ;;
      *) edit '$4 = tag; $5 = "no"; $6 = $6 "b"; $8 = "-"' ;;
    esac ;;
esac
"#;

/// Stands in for kubectl: `lease` is the Lease as an API server stores it (version, UID, time, seconds, machine, holder). It accepts no
/// second Lease, no old version and no other UID, and creates a missing Lease when one is written. `overtakes` is the Lease that another
/// client writes just before.
const KUBECTL: &str = r#"#!/bin/sh
echo "KUBECONFIG=$KUBECONFIG kubectl $1 $2 $3 $4" >> "$HOME/ways"
case $* in *' get namespace kube-system '*)
  [ ! -e "$HOME/kube-fails" ] || { echo "kube-fails" >&2; exit 1; }
  cat "$HOME/kube-id" 2> /dev/null || printf uid-1
  exit ;;
esac
[ ! -e "$HOME/forbidden" ] || { echo 'Error from server (Forbidden): leases is forbidden' >&2; exit 1; }
case $* in *' get lease '*)
  [ -e "$HOME/lease" ] || { echo 'Error from server (NotFound): leases "upgrade-gate" not found' >&2; exit 1; }
  sed 's/$/|end/' "$HOME/lease"; exit ;; esac
body=$(cat)
field() { echo "$body" | sed -n "s/.*\"$1\": \"\{0,1\}\([^\",}]*\).*/\1/p"; }
[ ! -e "$HOME/overtakes" ] || mv "$HOME/overtakes" "$HOME/lease"
exec 9> "$HOME/lease.lock"
flock 9
is=0 uid=u1
case $* in
  *' create '*) [ ! -e "$HOME/lease" ] || { echo 'Error from server (AlreadyExists): "upgrade-gate" already exists' >&2; exit 1; } ;;
  *)
    if [ -e "$HOME/lease" ]; then
      is=$(cut -d '|' -f 1 "$HOME/lease") uid=$(cut -d '|' -f 2 "$HOME/lease")
    else
      uid=''
    fi
    [ -z "$(field resourceVersion)" ] || [ "$(field resourceVersion)" = "$is" ] || { echo 'Error from server (Conflict): the object has been modified' >&2; exit 1; }
    [ -z "$(field uid)" ] || [ "$(field uid)" = "$uid" ] || { echo 'Error from server (Conflict): Precondition failed: UID' >&2; exit 1; }
    uid=${uid:-u2} ;;
esac
echo "$((is + 1))|$uid|$(field renewTime)|$(field leaseDurationSeconds)|$(field upgrading)|$(field holderIdentity)" > "$HOME/lease"
printf %s "$((is + 1))|$uid"
"#;

/// Time passes instantly, except between two looks at a process. With `uncordons`, cordoned machines are also uncordoned.
const SLEEP: &str = r#"#!/bin/sh
case $1 in 0.* | 1) exec /bin/sleep "$1" ;; esac
[ ! -e "$HOME/uncordons" ] || sed -i 's/ yes / no /' "$HOME/machines"
"#;

const IMAGE: [&str; 2] = ["--image", "registry.example/installer:v1.13.1"];
/// Node, address, role, version, cordoned, boot, schematic, installer.
const MACHINES: &str = "cp-1 127.0.0.2 control-plane v1.13.0 no b1 5c1 -
cp-2 127.0.0.3 control-plane v1.13.0 no b2 5c1 -
w-1 127.0.0.4 worker v1.13.0 no b3 5c2 -
";

/// A run in which all programs are stand-ins.
fn faked() -> Program {
    let script = without_cluster(path("upgrade/upgrade-gate")).file("machines", MACHINES);
    let script = with_program(script, "talosctl", TALOSCTL).env("GATE", path("upgrade/upgrade-gate"));
    let script = script.env("REAL", env!("CARGO_BIN_EXE_cluster-health"));
    let script = with_program(script, "kubectl", KUBECTL);
    with_program(with_program(script, "sleep", SLEEP), "cluster-health", HEALTH)
}

fn read(home: &Path, name: &str) -> String {
    std::fs::read_to_string(home.join(name)).unwrap_or_default()
}

/// Returns the calls without the plans, with placeholders for names that contain the time.
fn calls(home: &TempDir) -> Vec<String> {
    let time = regex::Regex::new(r"\d{8}T\d{6}Z").unwrap();
    let text = read(home.path(), "calls");
    let text = text.lines().filter(|line| !line.contains("upgrade-plan"));
    let private = regex::Regex::new(r"\S*/tmp\.\w{10}").unwrap();
    text.map(|line| private.replace(&time.replace(line, "TIME"), "PRIVATE").into_owned()).collect()
}

fn upgrades(home: &TempDir) -> usize {
    calls(home).iter().filter(|call| call.starts_with("talosctl upgrade")).count()
}

/// The command line of talosctl and of the program, according to the stand-in's first plan.
const WAY: &str = "talosctl --talosconfig /t/config --context prod --endpoints 127.0.0.2:50000,127.0.0.3:50000";
const WAY_OF_GATES: &str = "--talosconfig /t/config --context prod --endpoints 127.0.0.2:50000,127.0.0.3:50000 \
    --kubeconfig /k/config --kube-context admin@prod";

/// The snapshot is written to a private directory, in which no other user can place a link.
const SNAPSHOT: &str = "talosctl etcd snapshot PRIVATE/etcd-before-v1.13.1-TIME.snapshot --nodes 127.0.0.2";

/// Returns the calls of a rollout that completes.
fn all_calls() -> Vec<String> {
    let mut calls = Vec::new();
    for (node, address, margin) in [
        ("cp-1", "127.0.0.2", " --require-quorum-margin 1"),
        ("cp-2", "127.0.0.3", " --require-quorum-margin 1"),
        ("w-1", "127.0.0.4", ""),
    ] {
        let image = IMAGE[1];
        calls.push(format!(
            "cluster-health --wait-timeout 15m --upgrade-talos v1.13.1 --drain {node} --image {image}{margin}"
        ));
        calls.extend((node == "cp-1").then(|| SNAPSHOT.to_owned()));
        calls.push(format!("talosctl image pull {image} --namespace system --nodes {address}"));
        calls.push(format!(
            "talosctl upgrade --nodes {address} --image {image} --drain-timeout 5m --wait --timeout 30m"
        ));
        calls.push("cluster-health --wait-timeout 15m --stable-for 1m".to_owned());
    }
    calls.push("cluster-health --wait-timeout 15m --expect-talos v1.13.1".to_owned());
    calls
}

#[test]
fn machine_by_machine_with_a_gate_before_and_after_each() {
    let (outcome, home) = faked().args(IMAGE).run_and_keep();
    outcome.is(0, &["0 of 3 machines done", "all 3 machines run v1.13.1", "6 bytes, sha256 "]);
    assert_eq!(calls(&home), all_calls());
    let machines = read(home.path(), "machines");
    assert!(machines.lines().all(|line| line.contains("v1.13.1")), "{machines}");
}

#[test]
fn what_is_done_already_is_left_alone() {
    let done = MACHINES.replace("127.0.0.2 control-plane v1.13.0", "127.0.0.2 control-plane v1.13.1");
    let (outcome, home) = faked().file("machines", done).args(IMAGE).run_and_keep();
    outcome.is(0, &["1 of 3 machines done"]);
    assert!(calls(&home).iter().all(|call| !call.contains("127.0.0.2")), "{:?}", calls(&home));
    assert_eq!(upgrades(&home), 2);
    let (outcome, home) = faked().file("machines", MACHINES.replace("v1.13.0", "v1.13.1")).args(IMAGE).run_and_keep();
    outcome.is(0, &["3 of 3 machines done"]);
    assert_eq!(calls(&home), all_calls()[all_calls().len() - 1..], "the last gate is there all the same");
}

/// Observed with an earlier version of the gate: each machine rolled back, and each was reported as upgraded and healthy.
#[test]
fn a_machine_that_falls_back_ends_the_rollout_every_time() {
    let failing = || faked().file("upgrade-does", "127.0.0.2 falls-back\n127.0.0.3 falls-back\n").args(IMAGE);
    let (outcome, home) = failing().run_and_keep();
    outcome.is(1, &["cp-1 (127.0.0.2) fell back to its old version: runs v1.13.0", "No further machine is taken down"]);
    assert_eq!(upgrades(&home), 1);
    let (outcome, home) = failing().file("machines", read(home.path(), "machines")).run_and_keep();
    outcome.is(1, &["cp-1 (127.0.0.2) fell back"]);
    assert!(!outcome.stderr.contains("healthy"), "{outcome}");
    assert_eq!(upgrades(&home), 1);
}

#[test]
fn a_drain_that_is_held_up_is_told_and_the_same_command_only_reboots() {
    let (outcome, home) = faked().file("upgrade-does", "127.0.0.3 is-held-up\n").args(IMAGE).run_and_keep();
    let state = "talosctl failed for cp-2 (127.0.0.3) (exit code 3), which is now `installed-not-rebooted`";
    outcome.is(3, &[state, "cordoned: yes"]);
    assert_eq!(upgrades(&home), 2);
    let (outcome, home) = faked().file("machines", read(home.path(), "machines")).args(IMAGE).run_and_keep();
    outcome.is(0, &["rebooting cp-2 (127.0.0.3)", "all 3 machines run v1.13.1"]);
    let calls = calls(&home);
    let reboot = "talosctl reboot --nodes 127.0.0.3 --drain --drain-timeout 5m --wait --timeout 30m";
    assert!(calls.contains(&reboot.to_owned()), "{calls:?}");
    assert_eq!(upgrades(&home), 1, "the worker");
}

#[test]
fn another_image_that_waits_for_a_reboot_is_replaced() {
    let machines = MACHINES.replace("b1 5c1 -", "b1 5c1 registry.example/other:v1.13.1");
    let (outcome, home) = faked().file("machines", machines).args(IMAGE).run_and_keep();
    outcome.is(0, &[]);
    assert_eq!(upgrades(&home), 3);
}

#[test]
fn success_of_talosctl_is_no_evidence() {
    for (does, code, words) in [
        ("does-nothing", 1, "was not upgraded: runs v1.13.0"),
        ("is-not-rebooted", 1, "was not rebooted after the installation"),
        ("is-lost", 69, "it is not known what became of cp-1"),
        ("stays-cordoned", 1, "is still cordoned (kubectl uncordon cp-1)"),
    ] {
        let (outcome, home) = faked().file("upgrade-does", format!("127.0.0.2 {does}\n")).args(IMAGE).run_and_keep();
        outcome.is(code, &[words]);
        assert_eq!(upgrades(&home), 1, "{does}");
        assert_eq!(calls(&home), all_calls()[..4], "{does}: no gate makes up for it");
    }
    let later = faked().file("upgrade-does", "127.0.0.2 stays-cordoned\n").file("uncordons", "");
    later.args(IMAGE).run().is(0, &[]);
}

#[test]
fn a_machine_that_was_not_seen_stops_it_before_anything() {
    let machines = MACHINES.replace("127.0.0.4 worker v1.13.0", "127.0.0.4 worker -");
    let (outcome, home) = faked().file("machines", machines).args(IMAGE).run_and_keep();
    outcome.is(69, &["could not be seen (cluster-health upgrade-plan: exit code 69)"]);
    assert_eq!(calls(&home), [""; 0]);
}

/// The machine's own statement counts, and a machine without one may be a control plane.
#[test]
fn every_machine_that_may_be_a_control_plane_needs_the_margin_and_a_snapshot() {
    for (role, is_guarded) in [("control-plane", true), ("unknown", true), ("worker", false)] {
        let machines = format!("w-1 127.0.0.2 {role} v1.13.0 no b1 5c1 -\n");
        let (outcome, home) = faked().file("machines", machines).args(IMAGE).run_and_keep();
        outcome.is(0, &[]);
        let calls = calls(&home);
        assert_eq!(calls[0].ends_with("--require-quorum-margin 1"), is_guarded, "{calls:?}");
        assert_eq!(calls.contains(&SNAPSHOT.to_owned()), is_guarded, "{calls:?}");
    }
}

#[test]
fn no_control_plane_goes_without_a_snapshot() {
    let (outcome, home) = faked().file("snapshot-fails", "").args(IMAGE).run_and_keep();
    outcome.is(74, &["etcd snapshot of cp-1 (127.0.0.2)", "there is none, or it is empty"]);
    assert_eq!(upgrades(&home), 0);
    let files = |home: &TempDir| {
        let names = std::fs::read_dir(home.path()).unwrap().map(|it| it.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.contains("etcd")).collect::<Vec<_>>()
    };
    assert_eq!(files(&home), [""; 0], "nothing of it is left");
    let (outcome, home) = faked().args(IMAGE).run_and_keep();
    outcome.is(0, &[]);
    assert!(files(&home).len() == 1 && files(&home)[0].starts_with("etcd-before-v1.13.1-"), "{:?}", files(&home));
    let (outcome, home) = faked().args(IMAGE).args(["--no-snapshot"]).run_and_keep();
    outcome.is(0, &[]);
    assert!(calls(&home).iter().all(|call| !call.contains("snapshot")));
}

#[test]
fn an_image_that_cannot_be_pulled_stops_before_the_drain() {
    let (outcome, home) = faked().file("pull-fails", "").args(IMAGE).run_and_keep();
    outcome.is(1, &["cp-1 (127.0.0.2) cannot pull registry.example/installer:v1.13.1; it was not touched"]);
    assert_eq!(upgrades(&home), 0);
}

#[test]
fn an_old_talosctl_is_not_asked_for_what_it_does_not_have() {
    let (outcome, home) = faked().file("is-old", "").args(IMAGE).run_and_keep();
    outcome.is(0, &[]);
    assert!(calls(&home).iter().all(|call| !call.contains("drain-timeout") && !call.contains("image pull")));
    assert_eq!(upgrades(&home), 3);
}

#[test]
fn each_machine_has_its_own_image() {
    let images = |home: &TempDir| -> Vec<String> {
        let calls = calls(home).into_iter().filter(|call| call.starts_with("talosctl upgrade"));
        calls.map(|call| call.split(' ').nth(5).unwrap().to_owned()).collect()
    };
    let (outcome, home) = faked().args(["--image", "f.example/metal/{schematic}:v1.13.1"]).run_and_keep();
    outcome.is(0, &[]);
    assert_eq!(
        images(&home),
        ["f.example/metal/5c1:v1.13.1", "f.example/metal/5c1:v1.13.1", "f.example/metal/5c2:v1.13.1"]
    );

    let file = "# by name or address\n\ncp-1 a.example/i:v1.13.1\n127.0.0.3   b.example/i:v1.13.1\nw-1 c.example/{schematic}:v1.13.1\n";
    let (outcome, home) = faked().file("images", file).args(["--images", "images"]).run_and_keep();
    outcome.is(0, &[]);
    assert_eq!(images(&home), ["a.example/i:v1.13.1", "b.example/i:v1.13.1", "c.example/5c2:v1.13.1"]);

    // A missing image is detected before anything is changed.
    let (outcome, home) =
        faked().file("images", "cp-1 a.example/i:v1.13.1\n").args(["--images", "images"]).run_and_keep();
    outcome.is(2, &["`images` names no image for cp-2 (127.0.0.3)"]);
    assert_eq!(calls(&home), [""; 0]);
    let machines = MACHINES.replace("5c2", "-");
    let unknown = faked().file("machines", machines).args(["--image", "f.example/metal/{schematic}:v1.13.1"]);
    let (outcome, home) = unknown.run_and_keep();
    outcome.is(69, &["the schematic of w-1 (127.0.0.4) is not known"]);
    assert_eq!(calls(&home), [""; 0]);
}

#[test]
fn the_first_failure_stops_it_and_the_same_command_goes_on_there() {
    let cases = (1..=7).flat_map(|gate| [1, 69, 77, 78, 124, 143].map(|code| (gate, code)));
    side_by_side(cases, 8, |(at, code)| {
        let failing = faked().file("gate-fails", format!("{at} {code}\n"));
        let (outcome, home) = failing.args(IMAGE).run_and_keep();
        let words = ["upgrade-gate: stopped: ", "the same command goes on where it stopped", "upgrade-gate --image"];
        outcome.is(code, &words);
        let all = all_calls();
        let gates = all.iter().enumerate().filter(|(_, call)| call.starts_with("cluster-health"));
        let last = gates.map(|(at, _)| at).nth(at - 1).unwrap();
        assert_eq!(calls(&home), all[..=last], "nothing comes after the failure");

        let before = upgrades(&home);
        let (outcome, home) = faked().file("machines", read(home.path(), "machines")).args(IMAGE).run_and_keep();
        outcome.is(0, &["all 3 machines run v1.13.1"]);
        assert_eq!(before + upgrades(&home), 3, "each is upgraded once");
    });
}

/// A file that names the wrong machines is rejected before anything is changed.
#[test]
fn the_images_are_those_of_the_machines() {
    let all = "cp-1 a.example/i:v1.13.1\ncp-2 a.example/i:v1.13.1\nw-1 a.example/i:v1.13.1\n";
    for (more, words) in [
        ("w-9 a.example/i:v1.13.1\n10.0.0.9 a.example/i:v1.13.1\n", "not part of the cluster: w-9, 10.0.0.9"),
        ("127.0.0.3 b.example/i:v1.13.1\n", "names cp-2 (127.0.0.3) by its name and by its address"),
    ] {
        let script = faked().file("images", format!("{all}{more}")).args(["--images", "images"]);
        let (outcome, home) = script.run_and_keep();
        outcome.is(2, &[words]);
        assert_eq!(calls(&home), [""; 0]);
    }
}

/// The gate reacts to signals in every wait, even if talosctl and everything that it calls hang.
#[test]
fn a_signal_is_heard_while_talosctl_hangs() {
    let hangs = TALOSCTL.replace(
        "case $1 in\n",
        "[ $1 != upgrade ] || { kill -TERM \"$(cat \"$HOME/pid\")\"; exec sleep-really 60; }\ncase $1 in\n",
    );
    let script = with_program(faked(), "talosctl", &hangs);
    let script = with_program(script, "sleep-really", "#!/bin/sh\nexec /bin/sleep \"$@\"\n");
    // The parent of `timeout` is the script, so `timeout` can record its process ID.
    let script =
        with_program(script, "timeout", "#!/bin/sh\necho $PPID > \"$HOME/pid\"\nexec /usr/bin/timeout \"$@\"\n");
    let begun = std::time::Instant::now();
    let (outcome, home) = script.args(IMAGE).run_and_keep();
    outcome.is(143, &["terminated at cp-1; an upgrade that has begun goes on by itself", "the same command goes on"]);
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    assert_eq!(upgrades(&home), 1);
    // For other rollouts, the machine is still being upgraded.
    assert!(outcome.stderr.contains("cp-1 may still be upgrading. The next rollout finishes it"), "{outcome}");
    assert_eq!(machine_of_lease(&home), "cp-1=b1");
}

/// Returns the machine that the Lease names, with its boot ID.
fn machine_of_lease(home: &TempDir) -> String {
    read(home.path(), "lease").split('|').nth(4).unwrap_or_default().to_owned()
}

/// Variables that a job has set for other runs of cluster-health.
#[test]
fn variables_neither_narrow_a_gate_nor_add_to_it() {
    for (name, value) in [
        ("CHECK", "k8s.dns"),
        ("LEVEL", "etcd"),
        ("NODES", "cp-1"),
        ("NO_KUBERNETES", "true"),
        ("NO_TALOS", "true"),
        ("SKIP", "etcd.health"),
    ] {
        let name = format!("CLUSTER_HEALTH_{name}");
        let (outcome, home) = faked().env(&name, value).args(IMAGE).run_and_keep();
        outcome.is(2, &[&format!("`{name}` narrows what the gates look at")]);
        assert_eq!(calls(&home), [""; 0]);
    }
    let tells =
        HEALTH.replace("words=\"$* \"\n", "words=\"$* \"\nenv | grep ^CLUSTER_HEALTH_ >> \"$HOME/variables\"\n");
    let mut script = with_program(faked(), "cluster-health", &tells).env("CLUSTER_HEALTH_WARN_ONLY", "image-unknown");
    for name in ["DRAIN", "EXPECT_TALOS", "IMAGE", "UPGRADE_TALOS", "STABLE_FOR", "WAIT_TIMEOUT"] {
        script = script.env(&format!("CLUSTER_HEALTH_{name}"), "x");
    }
    let (outcome, home) = script.args(IMAGE).run_and_keep();
    outcome.is(0, &[]);
    let seen: std::collections::BTreeSet<_> = read(home.path(), "variables").lines().map(str::to_owned).collect();
    assert_eq!(seen, ["CLUSTER_HEALTH_WARN_ONLY=image-unknown".to_owned()].into());
}

/// A CI runner can close the log's pipe while a machine is being upgraded.
#[test]
fn a_log_that_is_gone_ends_nothing() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let (mut child, home) = faked().args(IMAGE).spawn_between(std::process::Stdio::null(), writer);
    assert_eq!((child.wait().unwrap().code(), upgrades(&home)), (Some(0), 3));
}

/// A talosctl that does not exit is killed, and the machine's state is read.
#[test]
fn a_talosctl_that_hangs_is_ended() {
    let script = with_program(
        faked(),
        "timeout",
        "#!/bin/sh\nshift 4\n\"$@\"\ncase $* in *' upgrade '*help) ;; *' upgrade '*) exit 124 ;; esac\n",
    );
    let (outcome, home) = script.file("upgrade-does", "127.0.0.2 does-nothing\n").args(IMAGE).run_and_keep();
    outcome.is(
        124,
        &[
            "talosctl upgrade did not end within 2160 s, or was killed (exit code 124)",
            "which is now `to-do`: runs v1.13.0",
        ],
    );
    assert_eq!(upgrades(&home), 1);
}

/// Simulates a runner that kills the job: only the state of the cluster remains.
#[test]
fn killed_anywhere_the_same_command_goes_on() {
    for address in ["127.0.0.2", "127.0.0.3", "127.0.0.4"] {
        for (does, again) in [("is-killed-before", 1), ("is-killed-after", 0)] {
            let killed = faked().file("upgrade-does", format!("{address} {does}\n")).args(IMAGE);
            let (outcome, home) = killed.run_and_keep();
            outcome.is(137, &[]);
            let before = upgrades(&home);
            let lease = read(home.path(), "lease");
            assert!(!lease.ends_with("|\n"), "it is held: {lease}");
            let again_there = faked().file("machines", read(home.path(), "machines")).file("lease", lease);
            let (outcome, home) = again_there.args(IMAGE).run_and_keep();
            outcome.is(0, &["all 3 machines run v1.13.1"]);
            assert_eq!(before + upgrades(&home), 3 + again, "{address} {does}");
        }
    }
}

/// Bash can lose track of a program that exits just as a signal arrives, and its message may then go to a file.
#[test]
fn a_signal_while_the_clusters_are_compared_is_told_and_ends_it() {
    let signal = "kill -TERM \"$(awk '/^PPid/ { print $2 }' /proc/$PPID/status)\"";
    for (program, of, answers) in
        [("talosctl", TALOSCTL, "  printf 'node: x"), ("kubectl", KUBECTL, "  cat \"$HOME/kube-id\"")]
    {
        for when in ["before", "after"] {
            let signaled = match when {
                "before" => of.replace(answers, &format!("  {signal}\n{answers}")),
                _ => of.replace(answers, &format!("  ({signal}) &\n{answers}")),
            };
            assert_ne!(signaled, of);
            let (outcome, home) = with_program(faked(), program, &signaled).args(IMAGE).run_and_keep();
            outcome.is(143, &["stopped: terminated"]);
            let lease = read(home.path(), "lease");
            assert!((lease.is_empty() || lease.ends_with("|\n")) && upgrades(&home) == 0, "{program} {when}: {lease}");
        }
    }
}

/// Messages of other programs go to a log, where CI systems look for commands.
#[test]
fn nothing_that_others_say_is_a_command_or_steers_a_terminal() {
    let bad = "\u{1b}[2J##vso[task.complete result=Succeeded]\r::stop-commands::x";
    let holder = format!("7|u7|2999-01-01T00:00:00.000000Z|2220||other{bad}\n");
    let fails = KUBECTL.replace("Error from server (Forbidden)", "Error \u{1b}[2J##vso[x]\r::stop-commands::x");
    let other = format!("{} uid-1 /t/config prod 127.0.0.2 /k/config a -", bad.replace(' ', ""));
    let odd = "::stop-commands fd00::1 control-plane v1.13.0 no b1 5c1 -\n";
    for (script, code) in [
        (faked().file("lease", holder), 75),
        (with_program(faked(), "kubectl", &fails).file("forbidden", ""), 69),
        (faked().file("upgrade-does", "127.0.0.2 says-much\n"), 0),
        (faked().file("talos-id", bad), 69),
        (faked().file("kube-id", bad), 69),
        (faked().file("plan-of", other), 69),
        (faked().file("machines", odd), 0),
    ] {
        let (outcome, _) = script.args(IMAGE).run_and_keep();
        assert_eq!(outcome.code, code, "{outcome}");
        for line in outcome.stdout.lines().chain(outcome.stderr.lines()).map(str::trim_start) {
            assert!(!line.contains('\u{1b}') && !line.contains('\r'), "{line:?}");
            assert!(!line.starts_with("::") && !line.contains("##vso["), "{line:?}");
        }
    }
}

/// Every call of talosctl and kubectl goes to the plan's cluster.
#[test]
fn every_call_goes_the_way_of_the_plan() {
    let ways = |home: &TempDir| {
        let text = read(home.path(), "ways");
        text.lines().map(str::to_owned).collect::<std::collections::BTreeSet<_>>()
    };
    let of_kubectl = "KUBECONFIG=/k/config kubectl --request-timeout 20s --context admin@prod";
    let of_gates = format!("cluster-health {WAY_OF_GATES}");
    let elsewhere = || faked().env("TALOSCONFIG", "/staging").env("KUBECONFIG", "/staging");
    let (outcome, home) = elsewhere().args(IMAGE).run_and_keep();
    outcome.is(0, &[]);
    assert_eq!(ways(&home), [of_kubectl, &of_gates, WAY].map(str::to_owned).into());
    let text = read(home.path(), "ways");
    // Each gate, and each plan except the first.
    let planned = read(home.path(), "calls").lines().filter(|call| call.starts_with("cluster-health")).count();
    assert_eq!(text.lines().filter(|way| *way == of_gates).count(), planned - 1);
    // Explicit credentials, with the same connection.
    let own = ["--talosconfig", "/a", "--talos-context", "b", "--kubeconfig", "/c", "--kube-context", "d"];
    let (outcome, home) = elsewhere().args(IMAGE).args(own).run_and_keep();
    outcome.is(0, &[]);
    let talosctl = "talosctl --talosconfig /a --context b --endpoints 127.0.0.2:50000,127.0.0.3:50000";
    let kubectl = "KUBECONFIG=/c kubectl --request-timeout 20s --context d";
    assert_eq!(ways(&home), [kubectl, &of_gates, talosctl].map(str::to_owned).into());
    // A pod's account is not in a file, credentials issued by Talos are not stored at all, and a colon separates files unless such a file
    // exists.
    for (kubeconfig, code, of_kubectl, of_gates) in [
        ("in-cluster", 0, "KUBECONFIG=/dev/null kubectl --request-timeout 20s ", " --in-cluster"),
        ("-", 78, "", ""),
        ("/k/a:/k/b", 0, "KUBECONFIG=/k/a:/k/b kubectl --request-timeout 20s ", ""),
        ("a:b", 0, "KUBECONFIG=a:b kubectl --request-timeout 20s --kubeconfig a:b", " --kubeconfig a:b"),
    ] {
        let plan = format!("one= uid-1 /t/config prod 127.0.0.2:50000,127.0.0.3:50000 {kubeconfig} - -");
        let (outcome, home) = elsewhere().file("a:b", "").file("plan-of", plan).args(IMAGE).run_and_keep();
        assert_eq!(outcome.code, code, "{outcome}");
        let of_gates = format!("cluster-health{}{of_gates}", &WAY["talosctl".len()..]);
        for way in ways(&home) {
            let is_expected = match way.split(' ').next().unwrap() {
                "talosctl" => way == WAY,
                "cluster-health" => way == of_gates,
                _ => !of_kubectl.is_empty() && way.starts_with(of_kubectl),
            };
            assert!(is_expected, "{way}");
        }
    }
    let endpoint =
        "one= uid-1 /t/config prod 127.0.0.2:50000,127.0.0.3:50000 /k/config admin@prod https://127.0.0.9:6443";
    let (outcome, home) = faked().file("plan-of", endpoint).args(IMAGE).run_and_keep();
    outcome.is(0, &[]);
    let of_gates = format!("{of_gates} --k8s-endpoint https://127.0.0.9:6443");
    assert!(ways(&home).contains(&of_gates), "{:?}", ways(&home));
    // A single place in the script defines how they are called.
    let quoted = regex::Regex::new(r#""[^"]*"|'[^']*'"#).unwrap();
    let script = super::text("upgrade/upgrade-gate");
    let code = script.lines().filter(|line| !line.trim_start().starts_with('#'));
    let code = code.map(|line| quoted.replace_all(line.split(" # ").next().unwrap(), "").into_owned());
    let is_called = |line: &String| line.contains("talosctl ") || line.contains("kubectl ");
    let calls: Vec<_> = code.filter(is_called).map(|line| line.trim().split(' ').next().unwrap().to_owned()).collect();
    // Only the check whether they are installed is separate.
    assert_eq!(calls, ["for", "talosctl=(talosctl", "kubectl=(env"]);
}

/// If an ID differs, is missing or cannot be read, nothing is changed and no Lease is written.
#[test]
fn nothing_is_touched_unless_all_see_the_planned_cluster() {
    let plan = |talos: &str, kubernetes: &str| {
        format!("{talos} {kubernetes} /t/config prod 127.0.0.2:50000,127.0.0.3:50000 /k/config admin@prod -")
    };
    for (file, content, words) in [
        ("talos-id", "other=".to_owned(), "talosctl reaches another cluster (Talos ID other=) than the plan (one=)"),
        ("talos-id", "\n".to_owned(), "talosctl reaches another cluster (Talos ID none)"),
        ("talos-fails", String::new(), "it could not be read which cluster talosctl or kubectl reaches: talos-fails"),
        (
            "kube-id",
            "uid-2".to_owned(),
            "kubectl reaches another cluster (kube-system has UID uid-2) than the plan (uid-1)",
        ),
        (
            "kube-id",
            String::new(),
            "it could not be read which cluster talosctl or kubectl reaches: the answer is empty",
        ),
        ("kube-fails", String::new(), "it could not be read which cluster talosctl or kubectl reaches: kube-fails"),
        ("plan-of", plan("-", "uid-1"), "the ID of the Talos cluster is unknown"),
        ("plan-of", plan("one=", "-"), "the UID of the namespace kube-system could not be read"),
        // The CA stands in for an ID, but Talos does have one.
        ("plan-of", plan("ca-sha256:a1", "uid-1"), "talosctl reaches another cluster (Talos ID one=)"),
    ] {
        let (outcome, home) = faked().file(file, content).args(IMAGE).run_and_keep();
        outcome.is(69, &["before the Lease is taken: ", words]);
        assert_eq!(calls(&home), [""; 0], "{words}");
        assert!(!home.path().join("lease").exists(), "{words}");
    }
    // Without a Lease, kubectl is not called, so it may lead elsewhere.
    faked().file("kube-id", "uid-2").args(IMAGE).args(["--no-lock"]).run().is(0, &[]);
    // If Talos has no ID, the plan's own talosconfig has the plan's own CA.
    let without = || faked().file("plan-of", plan("ca-sha256:a1", "uid-1")).file("talos-id", "\n").args(IMAGE);
    without().run().is(0, &[]);
    without().args(["--talosconfig", "/a"]).run().is(69, &["talosctl has to use the talosconfig of the plan"]);
}

/// Simulates the failover of an address, or a file that is replaced during the rollout.
#[test]
fn a_cluster_that_changes_on_the_way_ends_the_rollout() {
    let (outcome, home) = faked().file("upgrade-does", "127.0.0.2 moves\n").args(IMAGE).run_and_keep();
    outcome.is(69, &["after the reboot of cp-1 (127.0.0.2): talosctl reaches another cluster"]);
    assert_eq!(upgrades(&home), 1);
    let moves = "[ \"$1\" != upgrade-plan ] || [ ! -e \"$HOME/plan-of-2\" ] || mv \"$HOME/plan-of-2\" \"$HOME/plan-of\"\n                 [ \"$1\" != upgrade-plan ] || [ ! -e \"$HOME/plan-of-3\" ] || mv \"$HOME/plan-of-3\" \"$HOME/plan-of-2\"\n";
    let health = HEALTH.replace("echo \"cluster", &format!("{moves}echo \"cluster"));
    let other = "two= uid-1 /t/config prod 127.0.0.2:50000,127.0.0.3:50000 /k/config admin@prod -";
    let (outcome, home) =
        with_program(faked(), "cluster-health", &health).file("plan-of-3", other).args(IMAGE).run_and_keep();
    outcome.is(69, &["this plan is of another cluster"]);
    assert_eq!(upgrades(&home), 0);
    // A fact that one plan could not read is not a difference.
    let unseen = "- - /t/config prod 127.0.0.2:50000,127.0.0.3:50000 /k/config admin@prod -";
    let script = with_program(faked(), "cluster-health", &health).file("plan-of-3", unseen);
    script.args(IMAGE).run().is(0, &[]);
}

/// kubectl's exec plugins follow the same rule.
#[test]
fn no_program_comes_from_the_folder_in_which_it_is_started() {
    for path in [".", "", "bin"] {
        let inherited = std::env::var("PATH").unwrap();
        let (outcome, home) = faked().env("PATH", format!("{path}:{inherited}")).args(IMAGE).run_and_keep();
        outcome.is(2, &["PATH has an element that is not an absolute path"]);
        assert_eq!(calls(&home), [""; 0]);
    }
}

/// Any cordoned machine counts, regardless of who cordoned it.
#[test]
fn no_machine_is_taken_down_while_another_is_cordoned() {
    let cordoned = |name: &str, version: &str| {
        let (before, after) = (format!("{name} v1.13.0 no"), format!("{name} {version} yes"));
        faked().file("machines", MACHINES.replace(&before, &after)).args(IMAGE).run_and_keep()
    };
    let (outcome, home) = cordoned("127.0.0.4 worker", "v1.13.1");
    outcome.is(1, &["cp-1 (127.0.0.2) is not taken down while another machine is cordoned: w-1 (127.0.0.4)"]);
    assert_eq!(calls(&home), [""; 0]);
    // The machine's upgrade was started, perhaps by this rollout, so it is the first one.
    let (outcome, home) = cordoned("127.0.0.4 worker", "v1.13.0");
    outcome.is(0, &["all 3 machines run v1.13.1"]);
    assert!(calls(&home)[0].contains("--drain w-1"), "{:?}", calls(&home));
    let both = MACHINES.replace("v1.13.0 no", "v1.13.0 yes");
    let (outcome, home) = faked().file("machines", both).args(IMAGE).run_and_keep();
    outcome.is(1, &["cp-1 (127.0.0.2) is not taken down while another machine is cordoned: cp-2 (127.0.0.3), w-1"]);
    assert_eq!(upgrades(&home), 0);
}

#[test]
fn a_dry_run_changes_nothing() {
    let (outcome, home) = faked().args(IMAGE).args(["--dry-run"]).run_and_keep();
    outcome.is(0, &["cp-1 (127.0.0.2) control-plane runs v1.13.0 registry.example/installer:v1.13.1"]);
    let shown: Vec<_> = outcome.stdout.lines().map(str::trim_end).collect();
    let time = regex::Regex::new(r"\d{8}T\d{6}Z").unwrap();
    let shown: Vec<_> = shown.into_iter().map(|line| time.replace(line, "TIME").into_owned()).collect();
    // The plan's connection, quoted for a shell.
    let way = WAY.replace(',', "\\,");
    assert!(shown.iter().filter(|line| line.starts_with("talosctl")).all(|line| line.starts_with(&way)), "{shown:?}");
    let way_of_gates = format!(" {}", WAY_OF_GATES.replace(',', "\\,"));
    let gates = shown.iter().filter(|line| line.starts_with("cluster-health"));
    assert!(gates.clone().all(|line| line.ends_with(&way_of_gates)), "{shown:?}");
    let shown = shown.iter().map(|line| line.replace(&way, "talosctl").replace(&way_of_gates, ""));
    let shown: Vec<_> = shown.collect();
    assert_eq!(shown, all_calls().into_iter().map(|call| call.replace("PRIVATE", ".")).collect::<Vec<_>>());
    assert!(!outcome.stderr.contains("is healthy"), "nothing is claimed: {outcome}");
    assert_eq!(calls(&home), [""; 0]);
    assert_eq!(read(home.path(), "machines"), MACHINES);
}

#[test]
fn options_reach_the_programs() {
    let options = [
        "--quorum-margin",
        "0",
        "--wait-timeout",
        "9m",
        "--stable-for",
        "7s",
        "--upgrade-timeout",
        "3m",
        "--drain-timeout",
        "2m",
        "--first",
        "workers",
        "--snapshots",
        "/tmp",
        "--dry-run",
    ];
    let more = ["--image", "i:latest", "--upgrade-talos", "v1.13.2"];
    let machines = "cp-1 127.0.0.2 control-plane v1.13.0 no b1 5c1 -\n";
    let (outcome, home) = faked().file("machines", machines).args(options).args(more).run_and_keep();
    for expected in [
        "cluster-health --wait-timeout 9m --upgrade-talos v1.13.2 --drain cp-1 --image i:latest --require-quorum-margin 0",
        " etcd snapshot /tmp/etcd-before-v1.13.2-",
        " image pull i:latest --namespace system --nodes 127.0.0.2",
        " upgrade --nodes 127.0.0.2 --image i:latest --drain-timeout 2m --wait --timeout 3m",
        "cluster-health --wait-timeout 9m --stable-for 7s",
        "cluster-health --wait-timeout 9m --expect-talos v1.13.2",
    ] {
        outcome.is(0, &[expected]);
    }
    let plan = "cluster-health upgrade-plan --upgrade-talos v1.13.2 --first workers --output tsv";
    assert!(read(home.path(), "calls").starts_with(plan));
}

#[test]
fn what_is_typed_wrong_calls_nothing() {
    let typed = |arguments: &str| arguments.split(' ').map(str::to_owned).collect::<Vec<_>>();
    for (arguments, word) in [
        ("--first workers", "`--image` or `--images` is missing"),
        ("--image i:latest", "is no version of Talos"),
        ("--image i:v1.13.1 --images f", "exclude each other"),
        ("--images there-is-none", "cannot be read"),
        ("--images several", "the images are of several versions: v1.13.1 and v1.13.2"),
        ("--images twice", "`twice`, line 2: not `NODE IMAGE`, or a node twice"),
        ("--images short", "`short`, line 1: not `NODE IMAGE`"),
        ("--image i:v1.13.1 --quorum-margin one", "is a number"),
        ("--image i:v1.13.1 --first leader", "is `workers` or `control-planes`"),
        ("--image i:v1.13.1 --first", "needs a value"),
        ("--image i:v1.13.1 --upgrade-timeout 30", "is no duration"),
        ("--image i:v1.13.1 --drain-timeout never", "is no duration"),
        ("--image i:v1.13.1 --workers 127.0.0.2", "is not known"),
    ] {
        let script = faked().file("several", "cp-1 i:v1.13.1\ncp-2 i:v1.13.2\n");
        let script = script.file("twice", "cp-1 a:v1.13.1\ncp-1 b:v1.13.1\n").file("short", "cp-1\n");
        let (outcome, home) = script.args(typed(arguments)).run_and_keep();
        outcome.is(2, &[word]);
        assert_eq!(calls(&home), [""; 0], "{arguments}");
    }
    // A plan of another version of the program.
    let other = with_program(faked(), "cluster-health", "#!/bin/sh\n[ $1 = sanitize ] && exec cat\necho node state\n");
    other.args(IMAGE).run().is(70, &["its plan has other columns"]);
}

/// Waits until the test has applied the effect of the call to the simulated machine.
const FOLLOWED: &str = r#"#!/bin/sh
shift 6
case $* in
  *--help) exit 0 ;;
  get*) printf 'spec:\n    clusterId: %s\n' "$(cat "$HOME/talos-id")"; exit ;;
  etcd*) echo state > "$3" ;;
  upgrade*)
    echo "$3" > "$HOME/asked.new" && mv "$HOME/asked.new" "$HOME/asked"
    while [ -e "$HOME/asked" ]; do sleep 0.05; done ;;
esac
echo "talosctl $*" >> "$HOME/calls"
"#;

/// Returns the IDs by which Talos and Kubernetes identify a cluster.
pub(super) fn ids(cluster: &Cluster) -> (String, String) {
    cluster.change(|world| {
        let (_, machine) = world.machines.first_key_value().unwrap();
        let info = machine.resources.get("Infos.cluster.talos.dev", "current").unwrap();
        let system = world.kubernetes.object("namespaces", None, "kube-system").unwrap();
        let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
        (text(&info.spec()["clusterId"]), text(&system["metadata"]["uid"]))
    })
}

/// Runs the real program, which judges the simulated cluster once instead of waiting, and a talosctl that calls `upgrade` for the machine
/// at an address. Also returns the number of upgrades.
fn real(cluster: &Cluster, options: &[&str], upgrade: impl Fn(&Cluster, &str) + Sync) -> (Outcome, usize) {
    let once = format!(
        "#!/bin/sh\ncase $1 in upgrade-plan | sanitize) exec {0} \"$@\" ;; esac\nshift 2\nexec {0} \"$@\"\n",
        env!("CARGO_BIN_EXE_cluster-health")
    );
    let script = with_program(script(path("upgrade/upgrade-gate"), cluster), "talosctl", FOLLOWED);
    let script = with_program(script, "kubectl", KUBECTL);
    let script = with_program(script, "cluster-health", &once);
    let (talos, kubernetes) = ids(cluster);
    let script = script.file("talos-id", talos).file("kube-id", kubernetes);
    let home = script.home().to_owned();
    let done = std::sync::atomic::AtomicBool::new(false);
    let run = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                let asked = read(&home, "asked");
                if !asked.is_empty() {
                    upgrade(cluster, asked.trim());
                    std::fs::remove_file(home.join("asked")).unwrap();
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let image = ["--image", "registry.example/installer:v1.13.1", "--stable-for", "0s"];
        let run = script.args(image).args(options).run_and_keep();
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        run
    });
    (run.0, upgrades(&run.1))
}

/// Boots the machine with this version.
fn boots(cluster: &Cluster, address: &str, version: &str) {
    cluster.change(|world| {
        let machine = world.machines.get_mut(&address.parse().unwrap()).unwrap();
        machine.talos = Some(version.parse().unwrap());
        let name = machine.name.clone();
        let booted = json!({"status": {"nodeInfo": {"bootID": format!("{name}-again"), "osImage": format!("Talos (v{version})")}}});
        world.kubernetes.merge("nodes", None, &name, &booted);
    });
}

#[test]
fn a_healthy_cluster_is_upgraded() {
    let order = std::sync::Mutex::new(Vec::new());
    let cluster = cluster();
    let (outcome, count) = real(&cluster, &["--first", "workers"], |cluster, address| {
        order.lock().unwrap().push(cluster.named(address).to_owned());
        boots(cluster, address, "1.13.1");
    });
    outcome.is(0, &["0 of 4 machines done", "all 4 machines run v1.13.1"]);
    assert_eq!(count, 4);
    let order = order.into_inner().unwrap();
    let leader = cluster.change(|world| world.etcd[0].leader().unwrap().name.clone());
    assert_eq!((order[0].as_str(), &order[3]), ("worker-1", &leader), "{order:?}");
}

#[test]
fn a_machine_that_fell_back_is_seen_by_its_boot() {
    let (outcome, count) = real(&cluster(), &[], |cluster, address| boots(cluster, address, "1.13.0"));
    outcome.is(1, &["fell back to its old version", "its boot ID has changed"]);
    assert_eq!(count, 1);
}

#[test]
fn no_control_plane_is_taken_down_without_a_margin() {
    let alone = || Cluster::of(&Shape { control_planes: 1, ..Shape::default() });
    let nothing = |_: &Cluster, _: &str| unreachable!();
    let (outcome, count) = real(&alone(), &[], nothing);
    outcome.is(1, &["tolerates 0, 1 required", "stopped: the cluster is not healthy before cp-1"]);
    assert_eq!(count, 0);
}

#[test]
fn a_sick_cluster_is_not_upgraded() {
    let cluster = cluster();
    cluster.change(|world| world.etcd_alarm("cp-2", AlarmKind::NoSpace));
    let (outcome, count) = real(&cluster, &[], |_, _| unreachable!());
    outcome.is(1, &["etcd.alarms", "stopped: the cluster is not healthy before "]);
    assert_eq!(count, 0);
}
