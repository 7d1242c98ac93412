//! Observations that differ only in their target: many machines in the same trouble are shown together.
//!
//! Anything that is left out is counted, and `-v` and the JSON report name it.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::Hash;

use super::style::TextStyle;
use crate::diagnosis::Seen;
use crate::model::{CheckId, Problem, Reason, Severity, Target};
use crate::text::sanitize::clean;
use crate::text::some;

/// If a check has more problems than this, they are grouped, in at most this number of lines.
pub(crate) const LINES: usize = 10;
/// Limit for problems that only follow from others.
pub(crate) const FEW: usize = 3;
/// Number of blocked checks that are listed.
const BLOCKED: usize = 8;
/// Number of names up to which all are listed. A grid has as many rows.
pub(crate) const NAMES: usize = 40;
/// Number of names that are listed if there are more than [`NAMES`].
pub(crate) const SOME: usize = 10;
/// Number of names that represent a group.
const EXAMPLES: usize = 2;

/// An observation about a target.
pub(crate) trait Observation {
    /// Properties other than the text that have to be equal for two observations to be alike.
    type Kind: Eq + Hash;
    fn kind(&self, outline: impl Fn(&str) -> String) -> Self::Kind;
    fn observed(&self) -> &str;
    /// Returns the weight: heavier observations come first.
    fn weight(&self) -> Option<Severity> {
        None
    }
}

impl Observation for Problem {
    type Kind = (Severity, Reason, Option<CheckId>, String);

    fn kind(&self, outline: impl Fn(&str) -> String) -> Self::Kind {
        (self.severity, self.reason, self.explained_by, outline(&self.expected))
    }

    fn observed(&self) -> &str {
        &self.observed
    }

    fn weight(&self) -> Option<Severity> {
        Some(self.severity)
    }
}

impl Observation for Seen {
    type Kind = ();

    fn kind(&self, _: impl Fn(&str) -> String) {}

    fn observed(&self) -> &str {
        &self.observed
    }
}

/// Content of a line.
#[derive(Debug)]
pub(crate) struct Told<'a, T> {
    /// Targets: `w-1 (10.0.0.4), w-2 (10.0.0.5) and 298 more`.
    pub(crate) whom: String,
    /// The observation about all, or about the first as an example.
    pub(crate) observed: String,
    /// Target of the first observation.
    pub(crate) target: &'a Target,
    pub(crate) first: &'a T,
}

/// Observations that share a line; never empty.
type Group<'a, T> = Vec<(&'a Target, &'a T)>;

impl<'a, T: Observation> Told<'a, T> {
    fn of(group: &Group<'a, T>, name: fn(&Target) -> String) -> Self {
        let (target, first) = group[0];
        let observed = clean(first.observed());
        let is_same = group.iter().all(|(_, other)| other.observed() == first.observed());
        Self {
            whom: some(group.iter().map(|(target, _)| name(target)), EXAMPLES),
            observed: if is_same { observed } else { format!("e.g. {observed}") },
            target,
            first,
        }
    }
}

/// Returns a line for each observation, as `line` makes it, and the number of observations without room. More than `most` are grouped: one
/// line for those that are alike, the most severe and largest groups first.
pub(crate) fn lines<'a, T: Observation>(
    all: &[(&'a Target, &'a T)],
    most: usize,
    name: fn(&Target) -> String,
    style: &TextStyle,
    line: impl Fn(&Told<'a, T>) -> String,
) -> (Vec<String>, usize) {
    let groups =
        if style.verbose || all.len() <= most { all.iter().map(|one| vec![*one]).collect() } else { grouped(all) };
    let shown = if style.verbose || groups.len() <= most { groups.len() } else { most - 1 };
    let lines = groups[..shown].iter().map(|group| line(&Told::of(group, name))).collect();
    (lines, groups[shown..].iter().map(Vec::len).sum())
}

/// Returns the list of checks that something blocks.
pub(crate) fn blocked(ids: impl IntoIterator<Item = CheckId>, style: &TextStyle) -> Vec<String> {
    let ids: Vec<String> = ids.into_iter().map(|id| id.to_string()).collect();
    let more = if style.verbose || ids.len() <= BLOCKED + 1 { 0 } else { ids.len() - BLOCKED };
    let shown = ids.len() - more;
    let counted = (more > 0).then(|| format!("and {more} more checks"));
    ids.into_iter().take(shown).chain(counted).collect()
}

/// Returns the line in place of those that are left out.
pub(crate) fn more(left: usize) -> String {
    format!("(and {left} more; -v and -o json name each)")
}

fn grouped<'a, T: Observation>(all: &[(&'a Target, &'a T)]) -> Vec<Group<'a, T>> {
    let mut groups: Vec<Group<'a, T>> = Vec::new();
    let mut known: HashMap<(T::Kind, String), usize> = HashMap::new();
    for &(target, one) in all {
        let outline = |text: &str| outline(target, text);
        let group = *known.entry((one.kind(outline), outline(one.observed()))).or_insert(groups.len());
        match groups.get_mut(group) {
            Some(group) => group.push((target, one)),
            None => groups.push(vec![(target, one)]),
        }
    }
    groups.sort_by_key(|group| Reverse((group[0].1.weight(), group.len())));
    groups
}

/// Returns the text without details that distinguish one machine from the next: its own name and address, and figures.
pub(crate) fn outline(target: &Target, text: &str) -> String {
    let mut text = text.to_owned();
    for own in [Some(&target.name), target.address.as_ref(), target.node.as_ref()].into_iter().flatten() {
        if !own.is_empty() {
            text = text.replace(own.as_str(), "#");
        }
    }
    let mut outline = String::with_capacity(text.len());
    for c in text.chars() {
        let c = if c.is_ascii_digit() { '#' } else { c };
        if c != '#' || !outline.ends_with('#') {
            outline.push(c);
        }
    }
    outline
}

#[cfg(test)]
mod tests {
    use super::super::wording::shown;
    use super::*;
    use crate::model::Kind;

    fn fails(observed: &str) -> Problem {
        Problem::fail(Reason::NodeUnreachable, "an answer", observed)
    }

    fn told(observed: &[String], verbose: bool) -> (Vec<String>, usize) {
        told_of(observed.iter().map(|observed| fails(observed)), verbose)
    }

    fn told_of(problems: impl Iterator<Item = Problem>, verbose: bool) -> (Vec<String>, usize) {
        let target = |n: usize| Target::new(Kind::Node, format!("w-{n}")).with_address(format!("10.0.0.{n}"));
        let problems: Vec<_> = problems.enumerate().map(|(n, problem)| (target(n), problem)).collect();
        let problems: Vec<_> = problems.iter().map(|(target, problem)| (target, problem)).collect();
        let style = TextStyle { verbose, ..TextStyle::default() };
        lines(&problems, LINES, shown, &style, |it| format!("{}: {}", it.whom, it.observed))
    }

    #[test]
    fn a_few_are_told_one_by_one() {
        let same = vec!["refused".to_owned(); LINES];
        assert_eq!(told(&same, false).0.len(), LINES);
        assert_eq!(told(&same, false).0[9], "w-9 (10.0.0.9): refused");
    }

    #[test]
    fn many_are_told_by_what_they_have_in_common() {
        let same = vec!["refused".to_owned(); 300];
        assert_eq!(told(&same, false).0, ["w-0 (10.0.0.0), w-1 (10.0.0.1) and 298 more: refused"]);
        assert_eq!(told(&same, true).0.len(), 300);
        let mut own: Vec<_> = (0..20).map(|n| format!("dial tcp 10.0.0.{n}:50000: no route to host")).collect();
        own[3] = "w-3 hangs".to_owned();
        own.push("w-20 hangs".to_owned());
        assert_eq!(
            told(&own, false).0,
            [
                "w-0 (10.0.0.0), w-1 (10.0.0.1) and 17 more: e.g. dial tcp 10.0.0.0:50000: no route to host",
                "w-3 (10.0.0.3), w-20 (10.0.0.20): e.g. w-3 hangs"
            ]
        );
    }

    #[test]
    fn what_has_no_room_is_counted() {
        let mut each: Vec<_> = ('a'..='z').map(|c| format!("broken in the way {c}")).collect();
        each.extend(["broken in the way z".to_owned(), "broken in the way z".to_owned()]);
        let (told, left) = told(&each, false);
        assert_eq!((told.len(), left), (LINES - 1, 17));
        assert_eq!(told[0], "w-25 (10.0.0.25), w-26 (10.0.0.26), w-27 (10.0.0.27): broken in the way z");
    }

    /// A failure comes first, however many warnings there are.
    #[test]
    fn a_failure_has_room_before_warnings() {
        let warns = |c: char| Problem::warn(Reason::NodeUnreachable, "an answer", format!("slow in the way {c}"));
        let warnings = ('a'..='z').flat_map(|c| [warns(c), warns(c)]);
        let (told, _) = told_of(warnings.chain([fails("gone")]), false);
        assert_eq!(told[0], "w-52 (10.0.0.52): gone");
    }

    #[test]
    fn another_name_is_another_text() {
        let target = Target::new(Kind::Pod, "").with_address("10.0.0.1");
        assert_eq!(outline(&target, "10.0.0.1 and 10.0.0.22, 5 MiB"), "# and #.#.#.#, # MiB");
    }
}
