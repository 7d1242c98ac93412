//! Mutants in addition to those of cargo-mutants: in each match over the states of a machine, a kubelet or an endpoint, an arm does the
//! same as its neighbor.

use std::ops::Range;

use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};
use syn::{Arm, ExprMatch, Pat, Path};

use crate::list::{Genre, Mutant, Place, Span};

const STATES: [&str; 6] = ["Excuse", "Life", "NotJudged", "Serving", "Standing", "Why"];
/// Files in which these enums call themselves `Self`.
const OWN: [&str; 4] = ["src/assess/life.rs", "src/assess/need.rs", "src/assess/serving.rs", "src/assess/standing.rs"];

/// Returns the mutants of a file.
pub(crate) fn of(file: &str, source: &str) -> anyhow::Result<Vec<Mutant>> {
    let mut finder = Finder { file, source, mutants: Vec::new() };
    finder.visit_file(&syn::parse_file(source)?);
    Ok(finder.mutants)
}

struct Finder<'a> {
    file: &'a str,
    source: &'a str,
    mutants: Vec<Mutant>,
}

impl Finder<'_> {
    fn tells_states(&self, pattern: &Pat) -> bool {
        let mut names = Names { own: OWN.contains(&self.file), found: false };
        names.visit_pat(pattern);
        names.found
    }

    fn text(&self, range: Range<usize>) -> &str {
        &self.source[range]
    }

    fn replace(&mut self, arm: &Arm, by: &Arm) {
        let pattern =
            |arm: &Arm| self.text(arm.pat.span().byte_range()).split_whitespace().collect::<Vec<_>>().join(" ");
        let change = format!("replace the outcome of {} with that of {}", pattern(arm), pattern(by));
        let replacement = self.text(by.body.span().byte_range()).to_owned();
        if self.text(arm.body.span().byte_range()) == replacement {
            return;
        }
        let (start, end) = (arm.body.span().start(), arm.body.span().end());
        let place = |at: proc_macro2::LineColumn| Place { line: at.line, column: at.column + 1 };
        self.mutants.push(Mutant {
            file: self.file.to_owned(),
            name: format!("{}:{}:{}: {change}", self.file, start.line, start.column + 1),
            genre: Genre::ArmOutcome,
            replacement,
            span: Span { start: place(start), end: place(end) },
            key: String::new(),
        });
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if item.ident != "tests" {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_expr_match(&mut self, it: &'ast ExprMatch) {
        for (at, arm) in it.arms.iter().enumerate() {
            if !self.tells_states(&arm.pat) {
                continue;
            }
            let next = it.arms.get(at + 1).or_else(|| it.arms.get(at.checked_sub(1)?));
            if let Some(neighbor) = next {
                self.replace(arm, neighbor);
            }
        }
        visit::visit_expr_match(self, it);
    }
}

/// Whether a pattern names one of the states.
struct Names {
    own: bool,
    found: bool,
}

impl<'ast> Visit<'ast> for Names {
    fn visit_path(&mut self, path: &'ast Path) {
        let first = path.segments.first().map(|segment| segment.ident.to_string()).unwrap_or_default();
        self.found |= path.segments.len() > 1 && (STATES.contains(&&*first) || (self.own && first == "Self"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(source: &str) -> Vec<(String, String)> {
        let mutants = of("src/a.rs", source).unwrap().into_iter();
        mutants.map(|mutant| (mutant.name, mutant.replacement)).collect()
    }

    #[test]
    fn each_arm_does_what_its_neighbor_does() {
        let source = "fn f(it: Life) -> u8 {\n    match it {\n        Life::Works => 1,\n        Life::Silent | Life::Removed => 2,\n    }\n}\n";
        assert_eq!(
            found(source),
            [
                (
                    "src/a.rs:3:24: replace the outcome of Life::Works with that of Life::Silent | Life::Removed"
                        .to_owned(),
                    "2".to_owned()
                ),
                (
                    "src/a.rs:4:41: replace the outcome of Life::Silent | Life::Removed with that of Life::Works"
                        .to_owned(),
                    "1".to_owned()
                ),
            ]
        );
    }

    #[test]
    fn what_tells_no_states_or_changes_nothing_is_left_alone() {
        assert!(found("fn f() { match a { Some(it) => it, None => 0 } }").is_empty());
        assert!(found("fn f() { match a { Life::Works => 0, Life::Silent => 0 } }").is_empty());
        assert!(found("mod tests { fn f() { match a { Life::Works => 0, Life::Silent => 1 } } }").is_empty());
        assert_eq!(found("fn f() { match a { Some(Life::Works) => 0, None => 1 } }").len(), 1);
    }
}
