//! Estimates the cost of parsing a YAML text before a parser reads it.
//!
//! The libyaml version linked here does not limit nesting: it scans all open brackets for each token, and the reader keeps every event of
//! the text. A megabyte of `[` would therefore take ten seconds, and sixteen of `- ` three gigabytes. Nothing is parsed here, so the counts
//! include quoted text and are never lower than a parser's.

use std::collections::HashSet;

/// Maximum number of open brackets. The same limit is built into versions of libyaml that check it.
const NESTED: usize = 1000;

/// Limits for a text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) bytes: usize,
    /// Scalars, lists, mappings.
    pub(crate) events: usize,
    /// Steps of scanning open brackets: a million take about three milliseconds.
    pub(crate) steps: usize,
}

impl Bounds {
    /// Returns true if `text` can be parsed within the limits.
    pub(crate) fn hold(self, text: &str) -> bool {
        text.len() <= self.bytes && self.pay(&cost(text))
    }

    /// Like [`Bounds::hold`], but for JSON, where quotes can be recognized.
    pub(crate) fn hold_json(self, text: &str) -> bool {
        text.len() <= self.bytes && self.pay(&Cost { brackets: depth(text), ..cost(text) })
    }

    fn pay(self, cost: &Cost) -> bool {
        let Cost { events, brackets } = *cost;
        events <= self.events && brackets <= NESTED && brackets.saturating_mul(events) <= self.steps
    }
}

/// An upper bound of the cost of parsing.
#[derive(Debug, PartialEq, Eq)]
struct Cost {
    events: usize,
    /// Counts every opening bracket as unclosed, because only a parser can match them.
    brackets: usize,
}

/// Estimates the cost, based on the fact that each item, and each key with its value, has a sign of its own.
fn cost(text: &str) -> Cost {
    let bytes = text.as_bytes();
    let ends = |at: usize| bytes.get(at + 1).is_none_or(u8::is_ascii_whitespace);
    let mut cost = Cost { events: 1, brackets: 0 };
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'[' | b'{' => cost = Cost { events: cost.events + 2, brackets: cost.brackets + 1 },
            b':' | b',' => cost.events += 2,
            // These characters have no meaning within words and numbers.
            b'-' | b'?' if ends(at) => cost.events += 2,
            _ => {}
        }
    }
    cost
}

/// Returns the nesting depth of the brackets of JSON.
fn depth(json: &str) -> usize {
    let (mut depth, mut most, mut bytes) = (0_usize, 0, json.bytes());
    while let Some(byte) = bytes.next() {
        match byte {
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            b'"' => {
                while let Some(byte) = bytes.next().filter(|byte| *byte != b'"') {
                    if byte == b'\\' {
                        bytes.next();
                    }
                }
            }
            _ => {}
        }
        most = most.max(depth);
    }
    most
}

/// Returns true if the text refers to an anchor of its own, so that it can expand to more than its length.
pub(crate) fn may_unfold(text: &str) -> bool {
    let anchors: HashSet<&str> = names(text, '&').collect();
    !anchors.is_empty() && names(text, '*').any(|name| anchors.contains(name))
}

fn names(text: &str, sign: char) -> impl Iterator<Item = &str> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let name = move |rest: &'_ str| rest.find(|c| !is_name(c)).unwrap_or(rest.len());
    text.match_indices(sign)
        .map(move |(at, _)| &text[at + 1..][..name(&text[at + 1..])])
        .filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { bytes: 64 << 10, events: 8192, steps: 4 << 20 };

    #[test]
    fn what_takes_a_parser_long_is_not_given_to_it() {
        for bomb in ["[", "{", "- ", "? ", "[[],", "\"]\"[", "a: [", "-\n", "? -\t", "{a: ", ": ", "---\n"] {
            let text = bomb.repeat(60_000 / bomb.len());
            assert!(!BOUNDS.hold(&text), "{bomb}");
        }
        assert!(!BOUNDS.hold(&"a".repeat(BOUNDS.bytes + 1)));
        // Few brackets that contain many values.
        let wide = Bounds { bytes: 4 << 20, events: 1 << 20, ..BOUNDS };
        assert!(!wide.hold(&format!("{}{}", "[".repeat(900), "a,".repeat(100_000))));
        assert!(wide.hold(&"a,".repeat(100_000)));
    }

    #[test]
    fn texts_of_machines_are_given_to_it() {
        let text = "phase: Running\nmessage: 'panic: {\"level\":\"error\",\"at\":\"12:00:00\"}, [1 2 3] -- * &Foo{} *errors.err'\n";
        assert!(BOUNDS.hold(&text.repeat(60)) && !may_unfold(text));
        let names = "nodeId: --- a-b-c\n".repeat(2000);
        assert_eq!(cost(&names), Cost { events: 2000 * 4 + 1, brackets: 0 });
        assert!(BOUNDS.hold(&names));
    }

    #[test]
    fn json_is_as_deep_as_it_is() {
        assert_eq!(depth(r#"{"a": ["]]", "\"[[", {}], "b": [[]]}"#), 3);
        let flat = format!("[{}{{}}]", r#"{"a":"["},"#.repeat(2000));
        assert!(!BOUNDS.hold_json(&flat), "too many values");
        let wide = Bounds { events: 1 << 20, ..BOUNDS };
        assert!(!wide.hold(&flat) && wide.hold_json(&flat));
        assert!(!wide.hold_json(&"[".repeat(1001)));
    }

    #[test]
    fn what_stands_for_something_else_is_found() {
        assert!(may_unfold("a: &a-1 x\nb: [*a-1,*a-1]\n"));
        assert!(!may_unfold("a: &a x\nb: *b\n") && !may_unfold("a: &{} *{}"));
    }
}
