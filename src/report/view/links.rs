//! Links to the documentation in text, for terminals that support them (OSC 8).

use std::fmt::Write as _;

use crate::checks;
use crate::diagnosis;
use crate::model::{Page, Reason};

/// Returns a line in which each check ID, and any topic after `explain`, is a link to its page.
pub(crate) fn linked(line: &str) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
    let (mut linked, mut before, mut rest) = (String::with_capacity(line.len()), "", line);
    while let Some(first) = rest.chars().next() {
        // A color is not part of the word that it paints.
        let end = if first == '\u{1b}' { rest.find('m').map(|at| at + 1) } else { rest.find(|c| !is_part(c)) };
        let end = end.unwrap_or(rest.len()).max(first.len_utf8());
        let (word, after) = rest.split_at(end);
        let name = word.trim_end_matches('.');
        if let Some(page) = page(name, before == "explain") {
            let _ = write!(linked, "\u{1b}]8;;{page}\u{1b}\\{name}\u{1b}]8;;\u{1b}\\{}", &word[name.len()..]);
        } else {
            linked.push_str(word);
        }
        if is_part(first) {
            before = word;
        }
        rest = after;
    }
    linked
}

fn page(name: &str, is_topic: bool) -> Option<Page> {
    let check = checks::ALL.iter().find(|check| check.id.name() == name).map(|check| Page::Check(check.id));
    check.or_else(|| is_topic.then(|| Reason::find(name)).flatten().map(Page::Reason)).or_else(|| {
        let cause = is_topic.then(|| diagnosis::find(name)).flatten()?;
        Some(Page::Cause(cause.id))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::CheckId;

    fn link(page: Page, text: &str) -> String {
        format!("\u{1b}]8;;{page}\u{1b}\\{text}\u{1b}]8;;\u{1b}\\")
    }

    #[test]
    fn ids_of_checks_are_links_and_nothing_else_is() {
        let quorum = link(Page::Check(CheckId::EtcdQuorum), "etcd.quorum");
        let id = CheckId::EtcdQuorum.name();
        assert_eq!(linked(&format!("see {id}.")), format!("see {quorum}."));
        assert_eq!(linked(&format!("\u{1b}[36m{id}\u{1b}[0m")), format!("\u{1b}[36m{quorum}\u{1b}[0m"));
        for plain in ["", "quorum-lost", "node-down of cp-1 (10.0.0.1)", "\u{1b}[2m✓ etcd\u{1b}[0m", "\u{1b}"] {
            assert_eq!(linked(plain), plain);
        }
    }

    #[test]
    fn what_can_be_explained_is_a_link_to_its_explanation() {
        let reason = link(Page::Reason(Reason::QuorumLost), "quorum-lost");
        let cause = link(Page::Cause("node-down"), "node-down");
        assert_eq!(linked("cluster-health explain quorum-lost"), format!("cluster-health explain {reason}"));
        assert_eq!(linked("cluster-health explain node-down"), format!("cluster-health explain {cause}"));
    }
}
