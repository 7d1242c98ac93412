//! Upgrades of etcd, and arguments with which it does not start.

use super::*;
use crate::snapshot::EtcdSpec;
use crate::testing::fixture::CONTROL_PLANES;

const ETCD: &str = "upgrade.etcd";

/// A cluster whose control planes run this Talos with this version of etcd.
fn runs_etcd(talos: &str, etcd: &str, target: &str) -> Snapshot {
    let mut snapshot = before(Some(target), None);
    runs(&mut snapshot, &NODES, talos);
    for name in CONTROL_PLANES {
        etcd_is(&mut snapshot, name, etcd);
    }
    snapshot
}

fn etcd_is(snapshot: &mut Snapshot, name: &str, etcd: &str) {
    let status = snapshot.etcd_status_mut(name);
    etcd.clone_into(&mut status.version);
    status.storage_version = format!("{}.0", etcd.rsplit_once('.').unwrap().0);
    spec(snapshot, name).image = format!("registry.k8s.io/etcd:v{etcd}");
}

fn spec<'a>(snapshot: &'a mut Snapshot, name: &str) -> &'a mut EtcdSpec {
    snapshot.talos_of(name).etcd_spec.as_mut().unwrap().as_mut().unwrap()
}

/// Repeats a finding for each control plane.
fn of_each(what: &str) -> Vec<String> {
    CONTROL_PLANES.iter().map(|name| format!("{name}: {what}")).collect()
}

#[test]
fn etcd_goes_to_the_next_minor_version_from_a_patch_that_is_new_enough() {
    for (talos, etcd, target, line) in [
        ("v1.13.1", "3.6.11", "1.14.1", "etcd is ready for Talos v1.14.1: 3.6.11 to 3.7.1"),
        ("v1.12.12", "3.6.14", "1.14.7", "etcd is ready for Talos v1.14.7: 3.6.14 to 3.7.4"),
        ("v1.13.0", "3.6.9", "1.13.9", "etcd is ready for Talos v1.13.9: 3.6.9 to 3.6.12"),
        ("v1.13.4", "3.6.12", "1.13.9", "etcd is ready for Talos v1.13.9: 3.6.12 stays"),
        ("v1.14.1", "3.7.1", "1.14.1", "etcd is ready for Talos v1.14.1: 3.7.1 stays"),
    ] {
        let snapshot = runs_etcd(talos, etcd, target);
        assert_eq!(lines(ETCD, &snapshot), [line], "{:#?}", judge(ETCD, &snapshot));
    }
    for (talos, etcd, target, first) in [
        ("v1.13.0", "3.6.9", "1.14.1", "upgrade Talos to v1.13.10 (etcd 3.6.14) first"),
        ("v1.12.7", "3.6.9", "1.14.7", "upgrade Talos to v1.12.12 (etcd 3.6.14) first"),
        ("v1.10.8", "3.5.21", "1.11.2", "upgrade Talos to v1.10.9 (etcd 3.5.26) first"),
        ("v1.10.8", "3.5.21", "1.14.1", "upgrade Talos to v1.10.9 (etcd 3.5.26), then to v1.12.12 (etcd 3.6.14) first"),
        ("v1.13.0", "3.6.9", "1.14.0", "upgrade Talos to v1.13.10 (etcd 3.6.14) first"),
    ] {
        let snapshot = runs_etcd(talos, etcd, target);
        assert_eq!(wrong(ETCD, &snapshot), of_each("fail etcd-too-old, for ever"), "{talos} to {target}");
        assert_eq!(likely(ETCD, &snapshot), [first; 3]);
    }
    let few = runs_etcd("v1.10.9", "3.5.26", "1.12.12");
    assert_eq!(wrong(ETCD, &few), of_each("warn etcd-too-old, for ever"), "3.5.32 is recommended");
}

#[test]
fn no_minor_version_is_skipped() {
    let snapshot = runs_etcd("v1.10.9", "3.5.26", "1.14.1");
    assert_eq!(wrong(ETCD, &snapshot), of_each("fail etcd-too-old, for ever"));
    assert_eq!(likely(ETCD, &snapshot)[0], "upgrade Talos to v1.12.12 (etcd 3.6.14) first");
    let expected = judge(ETCD, &snapshot).problems().next().unwrap().1.expected.clone();
    assert_eq!(expected, "etcd 3.6, because etcd 3.7 follows and no minor version can be skipped");
    let back = runs_etcd("v1.14.1", "3.7.1", "1.13.9");
    let mut two = back;
    spec(&mut two, "cp-1").image = "registry.k8s.io/etcd:v3.5.32".to_owned();
    assert_eq!(wrong(ETCD, &two)[0], "cp-1: fail etcd-downgrade, for ever");
}

/// The oldest member decides, even after the others have been upgraded.
#[test]
fn one_member_below_keeps_all_from_going() {
    let mut snapshot = runs_etcd("v1.13.4", "3.6.12", "1.14.1");
    snapshot.etcd_status_mut("cp-2").version = "3.6.10".to_owned();
    assert_eq!(wrong(ETCD, &snapshot), ["cp-2: fail etcd-too-old, for ever"]);
    // The upgrade is half complete.
    let mut mixed = runs_etcd("v1.13.4", "3.6.12", "1.14.1");
    runs(&mut mixed, &["cp-1"], "v1.14.1");
    etcd_is(&mut mixed, "cp-1", "3.7.1");
    mixed.etcd_status_mut("cp-1").storage_version = "3.6.0".to_owned();
    assert_eq!(
        lines(ETCD, &mixed),
        ["etcd is ready for Talos v1.14.1: 3.6.12 to 3.7.1, 3.7.1 stays"],
        "{:#?}",
        judge(ETCD, &mixed)
    );
    etcd_is(&mut mixed, "cp-3", "3.6.4");
    runs(&mut mixed, &["cp-3"], "v1.13.4");
    assert_eq!(wrong(ETCD, &mixed), ["cp-3: fail etcd-too-old, for ever"]);
    assert_eq!(
        likely(ETCD, &mixed),
        ["set `cluster.etcd.image` to etcd 3.6.11 or newer first, on every control plane"],
        "no release of Talos changes an image that is set"
    );
}

#[test]
fn an_image_that_is_set_stays() {
    let with = |etcd: &str, talos: &str, target: &str| {
        let mut snapshot = runs_etcd(talos, "3.6.12", target);
        etcd_is(&mut snapshot, "cp-3", etcd);
        snapshot
    };
    // Talos before 1.14 also starts 3.6, and the other members are upgraded first.
    let pinned = with("3.6.16", "v1.13.4", "1.14.1");
    assert_eq!(
        lines(ETCD, &pinned),
        ["etcd is ready for Talos v1.14.1: 3.6.12 to 3.7.1, 3.6.16 stays"],
        "{:#?}",
        judge(ETCD, &pinned)
    );
    let old = with("3.5.32", "v1.13.4", "1.14.1");
    assert_eq!(
        wrong(ETCD, &old),
        ["cp-3: fail etcd-too-old, for ever", "cp-3: fail etcd-image-unfit, for ever"],
        "one member of 3.5 keeps the others from 3.7, and does not start itself"
    );
    let mut all_old = runs_etcd("v1.13.4", "3.5.32", "1.14.1");
    assert_eq!(wrong(ETCD, &all_old), of_each("fail etcd-image-unfit, for ever"));
    assert_eq!(observed(ETCD, &all_old), ["the image of etcd is 3.5.32"; 3]);
    all_old.asked.upgrade.talos = Some("1.13.9".to_owned());
    assert_eq!(wrong(ETCD, &all_old), [""; 0]);
    let new = with("3.7.1", "v1.12.12", "1.13.9");
    assert!(wrong(ETCD, &new).contains(&"cp-3: fail etcd-image-unfit, for ever".to_owned()));
    let newer = with("3.8.0", "v1.13.4", "1.14.1");
    assert_eq!(wrong(ETCD, &newer), ["cp-3: error target-unknown, for ever"], "once, whatever else is unknown for it");
}

/// The machine configuration sets the image, and etcd has not been restarted since.
#[test]
fn an_image_that_is_older_than_what_runs_is_a_downgrade() {
    let with = |running: &str, image: &str, target: &str| {
        let talos = if running.starts_with("3.7") { "v1.14.1" } else { "v1.13.4" };
        let mut snapshot = runs_etcd(talos, running, target);
        spec(&mut snapshot, "cp-2").image = format!("registry.k8s.io/etcd:v{image}");
        snapshot
    };
    let back = with("3.7.1", "3.6.16", "1.14.7");
    assert_eq!(wrong(ETCD, &back), ["cp-2: fail etcd-downgrade, for ever"]);
    assert!(observed(ETCD, &back)[0].starts_with("etcd 3.7.1 to 3.6.16, and the storage version is 3.7.0 on cp-1"));
    // The others would be upgraded to 3.7 while this member is too old for it.
    let patch = with("3.6.12", "3.6.9", "1.14.1");
    assert_eq!(wrong(ETCD, &patch), ["cp-2: fail etcd-too-old, for ever"]);
    assert_eq!(observed(ETCD, &patch), ["the image of etcd is 3.6.9"]);
    assert_eq!(wrong(ETCD, &with("3.6.12", "3.6.9", "1.13.9")), [""; 0], "within a minor version etcd goes back");
}

/// The image can be set to Talos' default, which cannot be distinguished from the default itself.
#[test]
fn an_image_that_equals_the_default_is_said_to_follow() {
    let told = |snapshot: &Snapshot| judge(ETCD, snapshot).left_out.clone();
    let follows = told(&runs_etcd("v1.13.4", "3.6.12", "1.14.1"));
    assert_eq!(
        follows,
        [
            "whether `cluster.etcd.image` names the image of cp-1, cp-2, cp-3: it is the default of the Talos that runs, so etcd is expected to follow Talos"
        ]
    );
    assert_eq!(told(&runs_etcd("v1.13.4", "3.6.12", "1.13.9")), [""; 0], "the same either way");
    assert_eq!(told(&runs_etcd("v1.13.4", "3.6.16", "1.14.1")), [""; 0], "it is set");
}

#[test]
fn etcd_does_not_start_with_what_it_has_removed_or_talos_denies() {
    let with = |talos: &str, etcd: &str, target: &str, arguments: &[&str]| {
        let mut snapshot = runs_etcd(talos, etcd, target);
        spec(&mut snapshot, "cp-2").arguments = arguments.iter().map(|&it| it.to_owned()).collect();
        snapshot
    };
    for (talos, etcd, target, argument, why) in [
        ("v1.13.4", "3.6.12", "1.14.1", "experimental-memory-mlock", "removed in etcd 3.7"),
        ("v1.13.4", "3.6.12", "1.14.1", "discovery", "removed in etcd 3.7"),
        ("v1.10.9", "3.5.26", "1.11.2", "enable-v2", "removed in etcd 3.6"),
        ("v1.10.9", "3.5.26", "1.11.2", "proxy-read-timeout", "removed in etcd 3.6"),
        ("v1.13.4", "3.6.12", "1.14.1", "feature-gates", "denied by Talos 1.14"),
        ("v1.13.4", "3.6.12", "1.14.1", "tls-min-version", "denied by Talos 1.14"),
        ("v1.13.4", "3.6.12", "1.14.1", "watch-progress-notify-interval", "denied by Talos 1.14"),
        ("v1.13.4", "3.6.12", "1.14.1", "listen-client-http-urls", "denied by Talos 1.14"),
        // The image is set to 3.6, which still has the flag, and Talos denies no additional arguments.
        ("v1.13.4", "3.6.12", "1.13.9", "experimental-initial-corrupt-check", "denied by Talos 1.13"),
    ] {
        let snapshot = with(talos, etcd, target, &[argument, "quota-backend-bytes"]);
        let refused: Vec<_> = wrong(ETCD, &snapshot).into_iter().filter(|it| it.contains("flag")).collect();
        assert_eq!(refused, ["cp-2: fail etcd-flag-refused, for ever"], "{argument}");
        let expected = format!("etcd has --{argument} ({why})");
        assert!(observed(ETCD, &snapshot).contains(&expected), "{:?}", observed(ETCD, &snapshot));
    }
    // 3.6 has the flag, but the 3.5 of the downgrade does not.
    let back = with("v1.11.2", "3.6.4", "1.10.9", &["max-learners"]);
    assert!(observed(ETCD, &back).contains(&"etcd has --max-learners (new in etcd 3.6)".to_owned()));
    for (target, etcd, argument) in [
        ("1.14.1", "3.6.16", "experimental-memory-mlock"),
        ("1.14.1", "3.6.12", "my-own"),
        ("1.13.9", "3.6.12", "experimental-memory-mlock"),
        ("1.13.9", "3.6.12", "feature-gates"),
        ("1.14.1", "3.6.12", "election-timeout"),
        ("1.14.1", "3.6.12", "max-learners"),
    ] {
        assert_eq!(wrong(ETCD, &with("v1.13.4", etcd, target, &[argument])), [""; 0], "{argument} with {etcd}");
    }
    let own = with("v1.13.4", "3.6.12", "1.14.1", &["my-own", "quota-backend-bytes"]);
    let left_out = judge(ETCD, &own).left_out.clone();
    assert!(
        left_out.contains(&"--my-own: no etcd that cluster-health knows (3.5 to 3.7) has it".to_owned()),
        "{left_out:?}"
    );
    let many = with("v1.13.4", "3.6.12", "1.14.1", &["proxy", "feature-gates", "data-dir", "discovery"]);
    assert_eq!(
        observed(ETCD, &many),
        [
            "etcd has --data-dir (denied by Talos 1.14), --discovery (removed in etcd 3.7), --feature-gates (denied by Talos 1.14) and 1 more"
        ]
    );
}

#[test]
fn etcd_goes_back_only_while_its_data_is_of_the_older_version() {
    let back = || runs_etcd("v1.14.1", "3.7.1", "1.13.9");
    assert_eq!(wrong(ETCD, &back()), of_each("fail etcd-downgrade, for ever"));
    assert_eq!(
        observed(ETCD, &back())[0],
        "etcd 3.7.1 to 3.6.12, and the storage version is 3.7.0 on cp-1, cp-2, cp-3"
    );
    let mut enabled = back();
    for name in CONTROL_PLANES {
        enabled.etcd_status_mut(name).storage_version = "3.6.0".to_owned();
    }
    assert_eq!(lines(ETCD, &enabled), ["etcd is ready for Talos v1.13.9: 3.7.1 to 3.6.12"]);
    enabled.etcd_status_mut("cp-3").storage_version = "3.7.0".to_owned();
    assert_eq!(wrong(ETCD, &enabled), of_each("fail etcd-downgrade, for ever"), "not yet on every member");
    enabled.etcd_status_mut("cp-3").storage_version.clear();
    assert_eq!(wrong(ETCD, &enabled), of_each("error no-answer, for ever"), "it is not known");
    // Not all members run 3.7, so the cluster version is still 3.6.
    let mut mixed = back();
    runs(&mut mixed, &["cp-2"], "v1.13.4");
    etcd_is(&mut mixed, "cp-2", "3.6.12");
    for name in ["cp-1", "cp-3"] {
        mixed.etcd_status_mut(name).storage_version = "3.6.0".to_owned();
    }
    assert_eq!(wrong(ETCD, &mixed), [""; 0]);
    // The image stays the same, and so does etcd.
    let mut set = runs_etcd("v1.14.1", "3.6.16", "1.13.9");
    assert_eq!(wrong(ETCD, &set), [""; 0]);
    set.asked.upgrade.talos = Some("1.14.0".to_owned());
    assert_eq!(wrong(ETCD, &set), [""; 0]);
}

#[test]
fn a_release_whose_etcd_is_not_known_never_passes() {
    for target in ["1.14.2", "1.14.99", "1.14.0-beta.1", "1.14.0-rc.0"] {
        let snapshot = runs_etcd("v1.13.4", "3.6.12", target);
        assert_eq!(wrong(ETCD, &snapshot), of_each("error target-unknown, for ever"), "{target}");
    }
    for target in ["1.99.0", "2.14.0", "x"] {
        let snapshot = runs_etcd("v1.13.4", "3.6.12", target);
        assert_eq!(wrong(ETCD, &snapshot), ["cluster: error target-unknown, for ever"], "{target}");
    }
    let from = runs_etcd("v1.13.4-dirty", "3.6.12", "1.14.1");
    assert_eq!(wrong(ETCD, &from), of_each("error target-unknown, for ever"));
    // Machines that already run this release keep their image.
    let mut there = runs_etcd("v1.14.99", "3.7.1", "1.14.99");
    assert_eq!(wrong(ETCD, &there), [""; 0]);
    runs(&mut there, &["w-1"], "v1.13.0");
    assert_eq!(wrong(ETCD, &there), [""; 0], "a worker has no etcd");
}

#[test]
fn what_was_not_read_is_no_pass() {
    let before = || runs_etcd("v1.13.4", "3.6.12", "1.14.1");
    let mut unread = before();
    unread.talos_of("cp-2").etcd_spec = gap(GapKind::TimedOut);
    assert_eq!(wrong(ETCD, &unread), ["cp-2: error timed-out, see etcd.space"]);
    unread.talos_of("cp-2").etcd_spec = gap(GapKind::Forbidden);
    assert_eq!(wrong(ETCD, &unread), ["cp-2: error role-too-low, for ever, see etcd.space"]);
    unread.talos_of("cp-2").etcd_spec = Ok(None);
    assert_eq!(wrong(ETCD, &unread), ["cp-2: error no-answer"]);
    for image in
        ["", "etcd", "registry.example:5000/etcd", "registry.k8s.io/etcd@sha256:5eed", "registry.k8s.io/etcd:main"]
    {
        let mut unnamed = before();
        spec(&mut unnamed, "cp-2").image = image.to_owned();
        assert_eq!(wrong(ETCD, &unnamed), ["cp-2: error no-answer"], "{image}");
    }
    let mut named = before();
    spec(&mut named, "cp-2").image = "registry.example:5000/mirror/etcd:3.6.12-0@sha256:5eed".to_owned();
    assert_eq!(wrong(ETCD, &named), [""; 0]);
    let mut silent = before();
    silent.talos_of("cp-2").etcd_status = gap(GapKind::TimedOut);
    assert!(!status(ETCD, &silent).is_fine(), "{:?}", wrong(ETCD, &silent));
    let mut unversioned = before();
    unversioned.etcd_status_mut("cp-2").version.clear();
    assert_eq!(wrong(ETCD, &unversioned), ["cp-2: error no-answer"]);
    let mut off = before();
    off.power_off("cp-2");
    assert!(!status(ETCD, &off).is_fine(), "{:?}", wrong(ETCD, &off));
    assert_eq!(wrong(ETCD, &off).len(), 1, "its member is not reported once more");
    let mut stranger = before();
    let mut members = stranger.talos_of("cp-1").etcd_members.clone().unwrap();
    let mut other = members[0].clone();
    (other.id, other.name) = (7, "cp-9".to_owned());
    members.push(other);
    for name in CONTROL_PLANES {
        stranger.talos_of(name).etcd_members = Ok(members.clone());
    }
    assert!(!status(ETCD, &stranger).is_fine(), "{:?}", wrong(ETCD, &stranger));
    assert_eq!(status(ETCD, &super::before(None, Some("1.36.0"))), Status::Skip);
}

/// A downgrade was enabled, which takes the data of all members back first.
#[test]
fn data_older_than_every_member_goes_nowhere() {
    let mut back = runs_etcd("v1.13.10", "3.6.14", "1.14.1");
    assert_eq!(wrong(ETCD, &back), [""; 0]);
    for name in CONTROL_PLANES {
        back.etcd_status_mut(name).storage_version = "3.5.0".to_owned();
    }
    let wrong = wrong(ETCD, &back);
    assert!(wrong.len() == 3 && wrong.iter().all(|it| it.contains("fail etcd-too-old")), "{wrong:?}");
}
