//! Text from the cluster that is crafted to have an effect.

use simulator::world::kind;

use crate::cluster::cluster;
use crate::documents::FORMATS;

/// Colors, a title, a bell, a newline before a CI command, a tag, and right-to-left text.
const HOSTILE: &str =
    "\u{1b}[31mred\u{1b}]0;title\u{7}\r\n::error::owned\n##vso[task.complete]\u{9b}2J</failure>]]>\u{202e}kcab\u{0}end";

#[test]
fn no_format_passes_it_on() {
    let cluster = cluster();
    cluster.change(|world| {
        let now = world.now();
        let machine = world.machine_mut("worker-1");
        machine.set_service_health("kubelet", false, HOSTILE, now);
        machine.set_service_state("cri", HOSTILE, HOSTILE, now);
        machine.set_stage("running", &[(HOSTILE, HOSTILE)]);
    });
    for format in FORMATS {
        // Progress contains the same text.
        let outcome = cluster.program().args(["-v", "-o", format]).run();
        assert_eq!(outcome.code, 1, "{format}: {outcome}");
        assert!(format == "prometheus" || outcome.stdout.contains("owned"), "{format}: {outcome}");
        for text in [&outcome.stdout, &outcome.stderr] {
            let control = |character: char| character.is_control() && character != '\n';
            assert!(!text.contains(control), "{format}: {outcome}");
            assert!(!text.contains(['\u{202e}', '\u{9b}']), "{format}: {outcome}");
            assert!(
                !text.lines().any(|line| line.starts_with("::") || line.starts_with("##vso")),
                "{format}: {outcome}"
            );
        }
        // Readers of the document unescape its strings.
        if format == "json" {
            let strings = outcome.json().to_string();
            assert!(
                !strings.contains("\\u001b") && !strings.contains("\\u0007") && !strings.contains("\\u0000"),
                "{outcome}"
            );
        }
    }
}

#[test]
fn a_machine_has_a_hostile_name() {
    let cluster = cluster();
    cluster.change(|world| {
        let resources = &mut world.machine_mut("worker-1").resources;
        resources.edit(kind::NODENAMES, "nodename", |spec| spec["nodename"] = HOSTILE.into());
    });
    let judged = cluster.run(&[]);
    judged.is(1, &[("talos.nodes.reachable", "answered-by-other-node", "worker-1")]);
    let judged = cluster.program().args(["-o", "junit"]).run();
    assert!(!judged.stdout.contains(|character: char| character.is_control() && character != '\n'), "{judged}");
}
