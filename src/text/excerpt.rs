//! Quotes from messages whose full text is available elsewhere.

/// Maximum number of characters quoted from one message.
pub(crate) const MOST: usize = 160;

/// Returns the message in one line, truncated if it is too long.
pub(crate) fn of(message: &str) -> String {
    let words: Vec<&str> = message.split_whitespace().collect();
    let line = words.join(" ");
    match line.char_indices().nth(MOST) {
        Some(_) => line.chars().take(MOST - 1).chain(['…']).collect(),
        None => line,
    }
}

/// Returns true if the message can be quoted unchanged.
pub(crate) fn is_short(message: &str) -> bool {
    !message.contains('\n') && message.chars().count() <= MOST
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_line_and_no_longer_than_it_may_be() {
        assert_eq!(of("one\n  and\ttwo "), "one and two");
        assert_eq!(of(&"é".repeat(MOST)), "é".repeat(MOST));
        assert_eq!(of(&"é".repeat(MOST + 1)), format!("{}…", "é".repeat(MOST - 1)));
    }
}
