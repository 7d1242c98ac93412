//! Names: lists of names in one line, and their validation.

use std::fmt::{Display, Write as _};

/// Joins names: `cp-1, cp-2, cp-3`.
pub(crate) fn joined(names: impl IntoIterator<Item = impl Display>) -> String {
    let mut line = String::new();
    for name in names {
        if !line.is_empty() {
            line.push_str(", ");
        }
        let _ = write!(line, "{name}");
    }
    line
}

/// Lists up to `most` names and counts the rest: `cp-1, cp-2 and 7 more`. A single additional name is listed instead of
/// counted.
pub(crate) fn some(names: impl ExactSizeIterator<Item = impl Display>, most: usize) -> String {
    let more = if names.len() <= most + 1 { 0 } else { names.len() - most };
    let shown = names.len() - more;
    let line = joined(names.take(shown));
    if more == 0 { line } else { format!("{line} and {more} more") }
}

/// Returns true for a valid name of a Service or namespace. Other text is not inserted into requests.
pub(crate) fn is_label(name: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !name.is_empty() && name.len() <= 63 && name.bytes().all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_or_their_number() {
        assert_eq!(joined([""; 0]), "");
        assert_eq!(joined(["a", "b"]), "a, b");
        let of = |n: usize| some(["a", "b", "c", "d", "e"][..n].iter(), 2);
        assert_eq!([of(0), of(1), of(3), of(4)], ["", "a", "a, b, c", "a, b and 2 more"]);
    }

    #[test]
    fn only_names_become_part_of_a_request() {
        assert!(is_label("policy-controller-1") && !is_label("") && !is_label("../../api"));
        assert!(!is_label("a,b") && !is_label(&"a".repeat(64)));
    }
}
