//! YAML in the format of Go's `yaml` library, which talosctl prints unchanged. The workspace's YAML library indents by two spaces and
//! quotes differently.

use std::fmt::Write as _;

use serde_json::{Number, Value};

/// Formats a document with its final line break.
pub(super) fn document(value: &Value) -> String {
    let mut out = String::new();
    if is_block(value) {
        block(value, 0, &mut out);
    } else {
        scalar(value, 0, &mut out);
    }
    if !out.ends_with('\n') {
        out.push('\n');
    }
    out
}

/// Whether a value is written below its key instead of after it.
fn is_block(value: &Value) -> bool {
    match value {
        Value::Array(items) => !items.is_empty(),
        Value::Object(entries) => !entries.is_empty(),
        _ => false,
    }
}

/// Writes the lines of a value. The caller has already indented the first one.
fn block(value: &Value, indent: usize, out: &mut String) {
    let begin = |out: &mut String, index: usize| {
        if index > 0 {
            break_line(indent, out);
        }
    };
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                begin(out, index);
                out.push_str("- ");
                if is_block(item) {
                    block(item, indent + 2, out);
                } else {
                    scalar(item, deeper(indent), out);
                }
            }
        }
        Value::Object(entries) => {
            for (index, (key, entry)) in entries.iter().enumerate() {
                begin(out, index);
                text(key, None, out);
                out.push(':');
                if is_block(entry) {
                    break_line(deeper(indent), out);
                    block(entry, deeper(indent), out);
                } else {
                    out.push(' ');
                    scalar(entry, deeper(indent), out);
                }
            }
        }
        _ => {}
    }
}

/// The next multiple of four.
fn deeper(indent: usize) -> usize {
    (indent + 4) / 4 * 4
}

fn break_line(indent: usize, out: &mut String) {
    if !out.ends_with('\n') {
        out.push('\n');
    }
    out.extend(std::iter::repeat_n(' ', indent));
}

fn scalar(value: &Value, indent: usize, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(it) => out.push_str(if *it { "true" } else { "false" }),
        Value::Number(it) => number(it, out),
        Value::String(it) => text(it, Some(indent), out),
        Value::Array(_) => out.push_str("[]"),
        Value::Object(_) => out.push_str("{}"),
    }
}

/// Formats a number like Go, which writes large floating-point numbers in their shortest form: `2e+09`.
fn number(number: &Number, out: &mut String) {
    let large = number.as_f64().filter(|it| number.is_f64() && it.fract() == 0.0 && it.abs() >= 1e6);
    let text = match large.map(|it| format!("{it:e}")) {
        Some(short) => short.split_once('e').map(|(digits, exponent)| format!("{digits}e+{exponent:0>2}")),
        None => None,
    };
    out.push_str(&text.unwrap_or_else(|| number.to_string()));
}

/// Formats a text. `indent` is the indentation of a block's lines, or `None` if the text must fit on one line.
fn text(text: &str, indent: Option<usize>, out: &mut String) {
    match indent {
        Some(indent) if text.contains('\n') && is_literal(text) => literal(text, indent.max(4), out),
        _ if text.chars().any(char::is_control) => double_quoted(text, out),
        _ if is_other(text) => double_quoted(text, out),
        _ if is_plain(text) => out.push_str(text),
        _ => {
            out.push('\'');
            out.push_str(&text.replace('\'', "''"));
            out.push('\'');
        }
    }
}

/// Whether the lines can be written unchanged. Texts that would need an indentation indicator are quoted instead.
fn is_literal(text: &str) -> bool {
    let odd = |it: char| it.is_control() && it != '\n';
    !text.contains(odd) && !text.starts_with([' ', '\n']) && !text.contains(" \n") && !text.ends_with([' '])
}

fn literal(text: &str, indent: usize, out: &mut String) {
    out.push('|');
    match text.len() - text.trim_end_matches('\n').len() {
        0 => out.push('-'),
        1 => {}
        _ => out.push('+'),
    }
    for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
        out.push('\n');
        if !line.is_empty() {
            out.extend(std::iter::repeat_n(' ', indent));
            out.push_str(line);
        }
    }
    if text.ends_with('\n') {
        out.push('\n');
    }
}

fn double_quoted(text: &str, out: &mut String) {
    // JSON's escapes are valid in YAML. JSON does not escape these characters.
    for character in Value::from(text).to_string().chars() {
        match character {
            '\u{7f}'..='\u{9f}' => drop(write!(out, "\\x{:02x}", u32::from(character))),
            _ => out.push(character),
        }
    }
}

/// Whether a parser would not read the plain text as a string.
fn is_other(text: &str) -> bool {
    const WORDS: &[&str] =
        &["", "~", "null", "true", "false", "y", "n", "yes", "no", "on", "off", ".nan", ".inf", "-.inf", "+.inf", "<<"];
    WORDS.iter().any(|word| word.eq_ignore_ascii_case(text)) || is_number(text) || is_time(text)
}

fn is_number(text: &str) -> bool {
    if !text.starts_with(|first: char| first.is_ascii_digit() || "+-.".contains(first)) {
        return false;
    }
    let digits = text.replace('_', "");
    let unsigned = digits.trim_start_matches(['+', '-']);
    let in_base =
        |prefix: &str, base| unsigned.strip_prefix(prefix).is_some_and(|it| u64::from_str_radix(it, base).is_ok());
    let decimal = unsigned.contains(|it: char| it.is_ascii_digit())
        && unsigned.chars().all(|it| it.is_ascii_digit() || "+-.eE".contains(it))
        && digits.parse::<f64>().is_ok();
    // YAML 1.1 reads hours, minutes and seconds as a number.
    let sexagesimal =
        unsigned.contains(':') && unsigned.split(':').all(|part| part.len() <= 2 && part.parse::<u8>().is_ok());
    decimal || in_base("0x", 16) || in_base("0o", 8) || in_base("0b", 2) || sexagesimal
}

fn is_time(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_digit())
        && (text.parse::<jiff::Timestamp>().is_ok() || text.parse::<jiff::civil::Date>().is_ok())
}

/// Whether the text needs no quotes.
fn is_plain(text: &str) -> bool {
    let bytes = text.as_bytes();
    let blank_at = |at: usize| bytes.get(at).is_none_or(|byte| *byte == b' ');
    let first = match bytes.first() {
        Some(b'-' | b'?' | b':') => !blank_at(1),
        Some(first) => !b"#,[]{}&*!|>'\"%@`".contains(first),
        None => false,
    };
    let inside = |(at, byte): (usize, &u8)| match byte {
        b':' => blank_at(at + 1),
        b'#' => at > 0 && bytes[at - 1] == b' ',
        _ => false,
    };
    first
        && !text.starts_with("---")
        && !text.starts_with("...")
        && !text.starts_with(' ')
        && !text.ends_with(' ')
        && !bytes.iter().enumerate().any(inside)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn indentation_is_that_of_talos() {
        let pod = json!({
            "spec": {"containers": [{"command": ["/bin/a", "--b"], "env": [{"name": "x", "valueFrom": {"fieldRef": {}}}]}]},
            "list": [[1, 2], []],
        });
        let expected = "spec:\n    containers:\n        - command:\n            - /bin/a\n            - --b\n          env:\n            \
                        - name: x\n              valueFrom:\n                fieldRef: {}\nlist:\n    - - 1\n      - 2\n    - []\n";
        assert_eq!(document(&pod), expected);
    }

    #[test]
    fn text_is_quoted_where_it_would_be_something_else() {
        for (value, yaml) in [
            ("", "\"\""),
            ("cp-1", "cp-1"),
            ("1111", "\"1111\""),
            ("12e5", "\"12e5\""),
            ("0x1f", "\"0x1f\""),
            ("299be9d182e09956", "299be9d182e09956"),
            ("1.35.4", "1.35.4"),
            ("200m", "200m"),
            ("True", "\"True\""),
            ("off", "\"off\""),
            ("10.0.0.2/24", "10.0.0.2/24"),
            ("46:12:33", "\"46:12:33\""),
            ("3e:27:15:31:18:5d", "3e:27:15:31:18:5d"),
            ("2026-11-21T14:03:34Z", "\"2026-11-21T14:03:34Z\""),
            ("--flag=[a]", "--flag=[a]"),
            ("- a", "'- a'"),
            ("{\"VNI\":1}", "'{\"VNI\":1}'"),
            ("a: 'b'", "'a: ''b'''"),
            ("$(POD_IP)", "$(POD_IP)"),
            ("a\tb", "\"a\\tb\""),
            ("a\u{9b}b\u{7f}", "\"a\\x9bb\\x7f\""),
            ("a #b", "'a #b'"),
        ] {
            assert_eq!(document(&json!(value)), format!("{yaml}\n"));
            let read: String = serde_yaml::from_str(&document(&json!(value))).unwrap();
            assert_eq!(read, value);
        }
    }

    #[test]
    fn lines_stay_lines() {
        let lines = json!({"a": "one\n  two\n\nthree\n", "b": ["x\ny"], "c": "end\n\n", "d": " x\n"});
        let expected = "a: |\n    one\n      two\n\n    three\nb:\n    - |-\n        x\n        y\nc: |+\n    end\n\nd: \" x\\n\"\n";
        assert_eq!(document(&lines), expected);
        assert_eq!(serde_yaml::from_str::<Value>(expected).unwrap(), lines);
        assert_eq!(document(&json!("a: 1\nb: 2\n")), "|\n    a: 1\n    b: 2\n");
    }

    #[test]
    fn numbers_are_those_of_go() {
        assert_eq!(
            document(&json!([1, -2, 0.5, 65534.0, 2e9, null, true])),
            "- 1\n- -2\n- 0.5\n- 65534.0\n- 2e+09\n- null\n- true\n"
        );
    }
}
