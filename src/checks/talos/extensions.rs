//! Checks whether each machine has the extensions that the policy expects.

use crate::assess::Assessment;
use crate::checks::Check;
use crate::checks::gaps::talos_fact;
use crate::checks::scope::each_node;
use crate::model::{CheckId, Fact, Hint, Outcome, Problem, Reason, Severity, Stage, Verdict};
use crate::snapshot::Node;

pub(in crate::checks) const EXTENSIONS: Check = Check {
    id: CheckId::TalosNodesExtensions,
    stage: Stage::Readiness,
    summary: "every machine has the system extensions that the policy expects",
    explain: "Runs with `expect.extensions` in a policy (`--policy`). Compares that list with the extensions that each machine \
reports (`ExtensionStatuses`), with or without the `siderolabs/` that the Image Factory puts before their names. It fails if one is \
missing, because the installer of the last upgrade did not have it.",
    severity: Severity::Fail,
    finds: &[Reason::ExtensionMissing],
    facts: &[Fact::TalosNodes, Fact::Extensions],
    judge: extensions,
};

fn extensions(cluster: &Assessment<'_>) -> Verdict {
    let expected = &cluster.asked.expect_extensions;
    if expected.is_empty() {
        return Verdict::skipped("no policy expects extensions");
    }
    each_node(cluster, |node, verdict| {
        let outcome = of_machine(cluster, node, expected).unwrap_or_else(|outcome| outcome);
        verdict.push(node.target(), outcome);
    })
}

fn of_machine(cluster: &Assessment<'_>, node: &Node, expected: &[String]) -> Result<Outcome, Outcome> {
    let installed = talos_fact(cluster, node, |talos| &talos.extensions, "its system extensions")?;
    let is_missing = |wanted: &&String| !installed.iter().any(|(name, _)| bare(name) == bare(wanted));
    let missing: Vec<&str> = expected.iter().filter(is_missing).map(String::as_str).collect();
    if missing.is_empty() {
        return Ok(Outcome::Pass(None));
    }
    let problem = Problem::fail(
        Reason::ExtensionMissing,
        format!("the extensions {}", expected.join(", ")),
        format!("not installed: {}", missing.join(", ")),
    );
    let look = Hint::run("{talosctl} -n {} get extensions", [node.address.as_str()]);
    Ok(Outcome::problem(problem.permanent().hint(look)))
}

/// Returns the name in the form that Talos reports.
fn bare(name: &str) -> &str {
    name.strip_prefix("siderolabs/").unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use crate::snapshot::{Gap, GapKind, Snapshot};
    use crate::testing::fixture::{healthy, verdict};

    fn judged(expected: &[&str], change: impl Fn(&mut Snapshot)) -> Vec<(String, &'static str, String)> {
        let mut snapshot = healthy();
        snapshot.asked.expect_extensions = expected.iter().map(|&name| name.to_owned()).collect();
        for node in &mut snapshot.nodes {
            node.talos.extensions = Ok(vec![("iscsi-tools".to_owned(), "v0.2.0".to_owned())]);
        }
        change(&mut snapshot);
        let verdict = verdict("talos.nodes.extensions", &snapshot);
        let problems = verdict.problems();
        problems.map(|(target, it)| (target.name.clone(), it.reason.code(), it.observed.clone())).collect()
    }

    #[test]
    fn a_missing_extension_fails_on_its_machine() {
        for name in ["iscsi-tools", "siderolabs/iscsi-tools"] {
            assert_eq!(judged(&[name], |_| {}), []);
            let missing = judged(&[name], |it| it.talos_of("w-1").extensions = Ok(Vec::new()));
            assert_eq!(missing, [("w-1".to_owned(), "extension-missing", format!("not installed: {name}"))]);
        }
        assert_eq!(judged(&["iscsi"], |_| {}).len(), 4, "no part of a name");
        assert_eq!(judged(&[], |it| it.talos_of("w-1").extensions = Ok(Vec::new())), []);
    }

    #[test]
    fn what_was_not_read_is_not_there_nor_missing() {
        let refused = judged(&["iscsi-tools"], |it| {
            it.talos_of("w-1").extensions = Err(Gap::new(GapKind::Forbidden, "test"));
        });
        assert_eq!(refused.len(), 1);
        assert_ne!(refused[0].1, "extension-missing");
    }
}
