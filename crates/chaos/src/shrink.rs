//! Finds the smallest case that breaks the same law.

use crate::case::Case;

/// Maximum number of runs for one finding.
const MOST: usize = 80;
/// Maximum number of runs if the case waits, because each run then takes a quarter of a minute.
const MOST_WAITS: usize = 16;

/// Leaves out everything that the finding does not need.
pub(crate) fn shrink(case: &Case, still: impl Fn(&Case) -> bool) -> Case {
    let waits = case.choices.iter().any(|choice| choice.waits.is_some());
    let (mut best, mut left) = (case.clone(), if waits { MOST_WAITS } else { MOST });
    loop {
        let mut better = None;
        for candidate in smaller(&best) {
            if left == 0 {
                return best;
            }
            left -= 1;
            if still(&candidate) {
                better = Some(candidate);
                break;
            }
        }
        match better {
            Some(better) => best = better,
            None => return best,
        }
    }
}

/// Cases that are a little smaller, the largest reductions first.
fn smaller(case: &Case) -> Vec<Case> {
    let mut all = Vec::new();
    for at in 0..case.faults.len() {
        let mut less = case.clone();
        less.faults.remove(at);
        all.push(less);
    }
    for at in 0..case.shapes.len() {
        let mut less = case.clone();
        less.shapes.remove(at);
        all.push(less);
    }
    for at in 0..case.choices.len() {
        let mut less = case.clone();
        less.choices.remove(at);
        all.push(less);
    }
    let usual = Case::default();
    if case.shuffle > 0 {
        all.push(Case { shuffle: 0, ..case.clone() });
    }
    if case.release.talos != usual.release.talos {
        all.push(Case { release: usual.release, ..case.clone() });
    }
    let sizes = [
        (3, 1),
        (1, 0),
        (1, 1),
        (3, 0),
        (2, 0),
        (case.control_planes, case.workers / 2),
        (case.control_planes, case.workers.saturating_sub(1)),
    ];
    for (control_planes, workers) in sizes {
        let less = control_planes + workers < case.control_planes + case.workers;
        if less && control_planes <= case.control_planes && workers <= case.workers {
            all.push(Case { control_planes, workers, ..case.clone() });
        }
    }
    for at in 0..case.faults.len() {
        let planted = &case.faults[at];
        if planted.from.is_some() || planted.until.is_some() {
            let mut less = case.clone();
            (less.faults[at].from, less.faults[at].until) = (None, None);
            all.push(less);
        }
        // The first machine of the same role is simpler.
        let first = planted.machine.map(|machine| crate::case::Machine { number: 1, ..machine });
        if first != planted.machine {
            let mut less = case.clone();
            less.faults[at].machine = first;
            all.push(less);
        }
    }
    all.retain(Case::is_sound);
    all
}
