//! Patterns with `*`.

/// Returns true if `pattern` matches the whole text. `*` matches any number of characters, including none. The number of steps is at most
/// the product of the two lengths, for any pattern.
pub(crate) fn fits(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut at, mut seen) = (0, 0);
    // The position of the last `*`, and the position up to which it matches the text so far.
    let mut star = None;
    while seen < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, seen));
                at += 1;
            }
            Some(byte) if *byte == text[seen] => (at, seen) = (at + 1, seen + 1),
            _ => {
                let Some((before, taken)) = star else { return false };
                star = Some((before, taken + 1));
                (at, seen) = (before + 1, taken + 1);
            }
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_anything() {
        for (pattern, text, expected) in [
            ("w-3", "w-3", true),
            ("w-3", "w-33", false),
            ("w-*", "w-", true),
            ("w-*", "cp-1", false),
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("kube-system/coredns-*", "kube-system/coredns-7d9-x", true),
            ("*-1", "w-1-1", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("k*s", "käs", true),
        ] {
            assert_eq!(fits(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn a_pattern_of_many_stars_takes_no_time() {
        assert!(!fits(&"a*".repeat(5000), &"a".repeat(4000)));
        assert!(!fits(&format!("{}b", "*a".repeat(2000)), &"a".repeat(5000)));
    }
}
