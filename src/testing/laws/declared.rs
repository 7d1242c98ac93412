//! `--check` requests only the facts that the check declares, so these must be sufficient for its findings.

use crate::model::Status;
use crate::snapshot::GapKind;
use crate::testing::laws::corruption::sick;
use crate::testing::laws::removal::removals;
use crate::testing::laws::{judged, verdicts};

#[test]
fn what_fails_fails_by_the_facts_that_its_check_declares() {
    let mut wrong = Vec::new();
    for (name, _, snapshot) in sick() {
        let failing = verdicts(&snapshot).into_iter().filter(|(_, verdict)| verdict.status() == Status::Fail);
        for (check, _) in failing {
            let mut alone = snapshot.clone();
            for removal in removals(&snapshot).iter().filter(|removal| !check.facts.contains(&removal.fact)) {
                (removal.apply)(&mut alone, Some(GapKind::NotAsked));
            }
            let status = judged(check, &alone).status();
            if status.is_fine() {
                wrong.push(format!("{}: {status:?} of {name}", check.id));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of them:\n{}", wrong.len(), wrong.join("\n"));
}
