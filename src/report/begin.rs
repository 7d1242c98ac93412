//! Where to begin: the last lines of a report, which are all that many a reader of a log looks at.

use super::Report;
use super::alike::names;
use super::diagnoses;
use super::hints::Rendered;
use super::problems::{Block, hint_lines};
use super::sanitise::brief;
use super::style::{Paint, paint};
use super::text::{TextStyle, shown};
use crate::checks::Severity;

/// Troubles that are named here. With the verdict below them they fill ten lines.
const LAST: usize = 3;
/// A last block of no more lines than this is read with the verdict, and says all of this itself.
const SHORT: usize = 8;
/// Longest text, in characters, of what stands in full further up.
pub(super) const BRIEF: usize = 160;
/// Machines that are named of those that share a trouble.
const NAMES: usize = 2;

/// Each trouble briefly, the one to begin with last: diagnoses before what has none, and causes before what follows from them.
pub(super) fn write(report: &Report, blocks: &[Block<'_>], style: &TextStyle, lines: &mut Vec<String>) {
    let of_diagnoses = report.diagnoses.iter().map(|it| (brief(&it.headline, BRIEF), diagnoses::next(it, report)));
    let failures = blocks.iter().rev().filter(|block| block.severity != Severity::Warn);
    let of_blocks = failures.map(|block| (headline(block), block.hints(report)));
    let troubles: Vec<(String, Vec<Rendered>)> = of_diagnoses.chain(of_blocks).collect();
    let last_block = lines.iter().rev().take_while(|line| !line.is_empty()).count();
    if troubles.is_empty() || report.diagnoses.is_empty() && last_block <= SHORT {
        return;
    }
    lines.push(String::new());
    if troubles.len() > LAST {
        lines.push(format!("(and {} more above)", troubles.len() - LAST));
    }
    for (n, (headline, hints)) in troubles.iter().enumerate().take(LAST).rev() {
        lines.push(format!("{}: {headline}", paint(style.colour, Paint::Bad, "begin with")));
        // Looking comes before changing.
        let commands = ["try", "remedy"].map(|kind| hints.iter().find(|it| it.kind == kind && it.command.is_some()));
        for hint in commands.into_iter().flatten().take(if n == 0 { 2 } else { 1 }) {
            hint_lines(hint.kind, std::slice::from_ref(hint), lines);
        }
    }
}

/// `10.0.0.4 (w-1): talos.nodes.memory failed: 512 MiB`
fn headline(block: &Block<'_>) -> String {
    let whom = names(block.problems.iter().map(|(target, _)| shown(target)), NAMES);
    let (check, word, observed) = (block.check.check.id, block.word(), &block.problems[0].1.observed);
    brief(&format!("{whom}: {check} {word}: {observed}"), BRIEF)
}
