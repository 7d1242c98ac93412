//! Extensions that the new image must contain.

use super::*;

const EXTENSIONS: &str = "upgrade.extensions";
const NONE: &str = "376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba";
const PLAIN: &str = "ghcr.io/siderolabs/installer:v1.14.1";

/// A cluster whose machines run schematic `a…` with its extensions.
fn with(image: &str) -> Snapshot {
    let mut snapshot = before(Some("1.14.1"), None);
    snapshot.asked.upgrade.image = Some(image.to_owned());
    for node in NODES {
        runs(&mut snapshot, node, &id('a'), &["iscsi-tools", "modules.dep"]);
    }
    snapshot
}

fn id(digit: char) -> String {
    digit.to_string().repeat(64)
}

fn runs(snapshot: &mut Snapshot, node: &str, schematic: &str, extensions: &[&str]) {
    let extensions = extensions.iter().map(|name| ((*name).to_owned(), "v1".to_owned()));
    let schematic = (!schematic.is_empty()).then(|| ("schematic".to_owned(), schematic.to_owned()));
    snapshot.talos_of(node).extensions = Ok(extensions.chain(schematic).collect());
}

fn of(schematic: &str) -> Snapshot {
    with(&format!("factory.talos.dev/metal-installer/{schematic}:v1.14.1"))
}

#[test]
fn the_schematic_of_the_machine_keeps_what_it_has() {
    for snapshot in [
        of(&id('a')),
        of("{schematic}"),
        with(&format!("mirror.example/factory.talos.dev/installer-secureboot/{}:v1.14.1@sha256:00", id('a'))),
    ] {
        assert_eq!(lines(EXTENSIONS, &snapshot), ["the image has the extensions of every machine"]);
    }
}

#[test]
fn an_image_without_extensions_loses_them() {
    for snapshot in [of(NONE), with(PLAIN), with("ghcr.io/siderolabs/installer@sha256:00")] {
        let all = NODES.map(|node| format!("{node}: fail extensions-lost, for ever"));
        assert_eq!(wrong(EXTENSIONS, &snapshot), all);
        assert_eq!(observed(EXTENSIONS, &snapshot)[0], "iscsi-tools would be lost: the image has none");
    }
    // A schematic with kernel arguments or an overlay.
    let mut other = with(PLAIN);
    runs(&mut other, "w-1", &id('a'), &[]);
    assert_eq!(observed(EXTENSIONS, &other)[3], "the customization of schematic aaaaaaaaaaaa would be lost");
    // The image was not made by an Image Factory.
    runs(&mut other, "w-1", "", &["mine"]);
    assert_eq!(observed(EXTENSIONS, &other)[3], "mine would be lost: the image has none");
}

#[test]
fn what_an_image_has_that_nobody_runs_is_not_known() {
    for (image, why) in [
        (format!("factory.talos.dev/metal-installer/{}:v1.14.1", id('b')), "no machine runs schematic bbbbbbbbbbbb"),
        ("registry.example/siderolabs/installer:v1.14.1".to_owned(), "the image names no schematic"),
    ] {
        let mut snapshot = with(&image);
        assert_eq!(wrong(EXTENSIONS, &snapshot), NODES.map(|node| format!("{node}: error image-unknown, for ever")));
        let expected = format!("it runs schematic aaaaaaaaaaaa with iscsi-tools; {why}");
        assert_eq!(observed(EXTENSIONS, &snapshot)[0], expected);
        // A machine without extensions has nothing to lose.
        for node in NODES {
            runs(&mut snapshot, node, if node == "w-1" { "" } else { NONE }, &[]);
        }
        assert_eq!(status(EXTENSIONS, &snapshot), Status::Pass, "{image}");
    }
    let mut snapshot = of("{schematic}");
    runs(&mut snapshot, "w-1", "", &["mine"]);
    assert_eq!(wrong(EXTENSIONS, &snapshot), ["w-1: error image-unknown, for ever"]);
}

#[test]
fn a_machine_that_runs_the_image_shows_what_it_has() {
    let mut snapshot = of(&id('b'));
    runs(&mut snapshot, "cp-1", &id('b'), &["util-linux-tools", "iscsi-tools"]);
    assert_eq!(status(EXTENSIONS, &snapshot), Status::Pass);
    runs(&mut snapshot, "w-1", &id('a'), &["iscsi-tools", "nvidia"]);
    assert_eq!(wrong(EXTENSIONS, &snapshot), ["w-1: fail extensions-lost, for ever"]);
    assert_eq!(observed(EXTENSIONS, &snapshot), ["nvidia would be lost: schematic bbbbbbbbbbbb lacks them"]);
    // The machine itself did not answer.
    snapshot.talos_of("cp-1").contact = gap(GapKind::TimedOut);
    assert_eq!(wrong(EXTENSIONS, &snapshot)[1], "cp-2: error image-unknown, for ever");
}

#[test]
fn without_an_image_nothing_is_compared() {
    let mut snapshot = before(Some("1.14.1"), None);
    assert_eq!(status(EXTENSIONS, &snapshot), Status::Skip);
    snapshot = of(&id('a'));
    snapshot.talos_of("w-1").extensions = gap(GapKind::TimedOut);
    assert_eq!(wrong(EXTENSIONS, &snapshot), ["w-1: error timed-out"]);
    snapshot = with(PLAIN);
    snapshot.asked.upgrade.drain = Some("w-1".to_owned());
    assert_eq!(wrong(EXTENSIONS, &snapshot), ["w-1: fail extensions-lost, for ever"], "the one that goes");
}
