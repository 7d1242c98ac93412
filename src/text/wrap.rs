//! Lines that are not too long.

/// `lead` and the words, on lines of at most `columns` characters unless a word is longer. All but the first begin with `indent`.
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
        if !empty && line.chars().count() + 1 + word.chars().count() > columns {
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
