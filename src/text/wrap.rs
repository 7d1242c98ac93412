//! Line wrapping in terminal columns.

use console::measure_text_width;

/// Wraps `lead` and the words to lines of at most `columns` columns, unless a word is longer. All lines but the first begin with `indent`.
pub(crate) fn wrapped<W: AsRef<str>>(
    lead: &str,
    indent: &str,
    words: impl IntoIterator<Item = W>,
    columns: usize,
) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = lead.to_owned();
    let mut empty = true;
    for word in words {
        let word = word.as_ref();
        if !empty && measure_text_width(&line) + 1 + measure_text_width(word) > columns {
            lines.push(std::mem::replace(&mut line, indent.to_owned()));
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_those_of_the_terminal() {
        assert_eq!(wrapped("", "  ", ["ab", "cd", "ef"], 5), ["ab cd", "  ef"]);
        assert_eq!(wrapped("", "  ", ["日本", "語"], 6), ["日本", "  語"]);
        assert_eq!(wrapped("", "  ", ["\u{1b}[36mab\u{1b}[0m", "cd"], 5), ["\u{1b}[36mab\u{1b}[0m cd"]);
    }
}
