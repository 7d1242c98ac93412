//! JSON formatted for comparing two recordings with `diff`: short values share one line.

use serde_json::Value;

/// Length limit for an object or list on one line, in bytes. A single text may be longer.
const WIDTH: usize = 160;

pub(super) fn text(document: &Value) -> String {
    let mut out = String::new();
    lay_out(document, 0, 0, &mut out);
    out.push('\n');
    out
}

/// Writes a value after `before` bytes of the current line.
fn lay_out(value: &Value, depth: usize, before: usize, out: &mut String) {
    let line = value.to_string();
    if before + line.len() <= WIDTH {
        out.push_str(&line);
        return;
    }
    let mut list = |begin: char, items: Vec<(Option<&String>, &Value)>, end: char| {
        out.push(begin);
        for (at, (name, item)) in items.into_iter().enumerate() {
            out.push_str(if at == 0 { "\n" } else { ",\n" });
            let name = name.map_or_else(String::new, |name| format!("{}: ", Value::from(name.as_str())));
            let indent = depth + 1;
            out.push_str(&" ".repeat(indent));
            out.push_str(&name);
            lay_out(item, indent, indent + name.len(), out);
        }
        out.push('\n');
        out.push_str(&" ".repeat(depth));
        out.push(end);
    };
    match value {
        Value::Object(object) => list('{', object.iter().map(|(name, item)| (Some(name), item)).collect(), '}'),
        Value::Array(items) => list('[', items.iter().map(|item| (None, item)).collect(), ']'),
        _ => out.push_str(&line),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_short_is_a_line() {
        let long = "x".repeat(WIDTH);
        let document = json!({
            "a\"": null,
            "body": { "items": [{ "metadata": { "name": "x" } }, { "n": u64::MAX }, { "text": long, "empty": {} }] },
        });
        let text = text(&document);
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), document);
        let long = format!(r#""text": "{long}","#);
        let expected = [
            "{",
            r#" "a\"": null,"#,
            r#" "body": {"#,
            r#"  "items": ["#,
            r#"   {"metadata":{"name":"x"}},"#,
            r#"   {"n":18446744073709551615},"#,
            "   {",
            &format!("    {long}"),
            r#"    "empty": {}"#,
            "   }",
            "  ]",
            " }",
            "}",
        ];
        assert_eq!(text.lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn no_line_is_longer_than_it_has_to_be() {
        let document: Value = (0..WIDTH - 20).map(|n| json!({ "name": "x".repeat(n), "n": [n] })).collect();
        assert!(text(&document).lines().all(|line| line.len() <= WIDTH + 1), "and a comma");
    }
}
