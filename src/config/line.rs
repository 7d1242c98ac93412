//! Finds the line of a key in a YAML text. Best effort: only block style is supported, and no answer is better than a wrong one.

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Key(String),
    Item(usize),
}

/// Returns the line (from 1) of the key or list item at the end of `steps`.
pub(super) fn of(text: &str, steps: &[Step]) -> Option<usize> {
    // Indentation, content and number of every line that is not blank, a comment or a document marker.
    let lines: Vec<Line<'_>> = text
        .lines()
        .enumerate()
        .map(|(index, line)| {
            let content = line.trim_start_matches(' ');
            Line { indent: line.len() - content.len(), content: content.trim_end(), number: index + 1 }
        })
        .filter(|line| !line.content.is_empty() && !line.content.starts_with('#') && line.content != "---")
        .collect();
    let mut block = lines;
    let mut found = None;
    for step in steps {
        let (line, inner) = match step {
            Step::Key(key) => enter_key(&block, key)?,
            Step::Item(index) => enter_item(&block, *index)?,
        };
        found = Some(line);
        block = inner;
    }
    found
}

#[derive(Clone, Copy)]
struct Line<'a> {
    indent: usize,
    content: &'a str,
    number: usize,
}

fn is_item(line: &Line<'_>) -> bool {
    line.content == "-" || line.content.starts_with("- ")
}

fn enter_key<'a>(block: &[Line<'a>], key: &str) -> Option<(usize, Vec<Line<'a>>)> {
    let indent = block.first()?.indent;
    let at = block.iter().position(|line| line.indent == indent && names(line.content, key))?;
    let inner = block[at + 1..]
        .iter()
        // A list may have the same indentation as its key.
        .take_while(|line| line.indent > indent || line.indent == indent && is_item(line))
        .copied()
        .collect();
    Some((block[at].number, inner))
}

fn enter_item<'a>(block: &[Line<'a>], index: usize) -> Option<(usize, Vec<Line<'a>>)> {
    let indent = block.first().filter(|line| is_item(line))?.indent;
    let starts: Vec<usize> =
        block.iter().enumerate().filter(|(_, line)| line.indent == indent && is_item(line)).map(|(at, _)| at).collect();
    let start = *starts.get(index)?;
    let end = starts.get(index + 1).copied().unwrap_or(block.len());
    let mut inner = block[start..end].to_vec();
    let first = &mut inner[0];
    let content = first.content[1..].trim_start_matches(' ');
    first.indent += first.content.len() - content.len();
    first.content = content;
    if content.is_empty() {
        inner.remove(0);
    }
    Some((block[start].number, inner))
}

fn names(content: &str, key: &str) -> bool {
    let rest = content.strip_prefix(key).or_else(|| {
        ['"', '\''].into_iter().find_map(|quote| content.strip_prefix(quote)?.strip_prefix(key)?.strip_prefix(quote))
    });
    rest.is_some_and(|rest| {
        rest.trim_start_matches(' ').strip_prefix(':').is_some_and(|value| value.is_empty() || value.starts_with(' '))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Step {
        Step::Key(name.to_owned())
    }

    #[test]
    fn finds_the_key_under_the_right_parent() {
        let text = "# talos\ncontext: prod\ncontexts:\n    lab:\n        crt: x\n    \"prod\":\n        endpoints:\n        - 10.0.0.1\n        - 10.0.0.2\n        crt: y\n";
        assert_eq!(of(text, &[key("contexts"), key("prod"), key("crt")]), Some(10));
        assert_eq!(of(text, &[key("contexts"), key("lab"), key("crt")]), Some(5));
        assert_eq!(of(text, &[key("contexts"), key("prod"), key("endpoints"), Step::Item(1)]), Some(9));
        assert_eq!(of(text, &[key("contexts"), key("lab"), key("key")]), None);
        assert_eq!(of("{contexts: {lab: {crt: x}}}", &[key("contexts"), key("lab")]), None);
        assert_eq!(of("", &[key("contexts")]), None);
    }

    #[test]
    fn finds_the_key_in_a_list_of_mappings() {
        let text = "users:\n- name: a\n  user:\n    token: x\n-\n  name: b\n  user:\n    token: y\n";
        let path = |index| [key("users"), Step::Item(index), key("user"), key("token")];
        assert_eq!(of(text, &path(0)), Some(4));
        assert_eq!(of(text, &path(1)), Some(8));
        assert_eq!(of(text, &path(2)), None);
    }
}
