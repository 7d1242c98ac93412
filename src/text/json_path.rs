//! A single path in kubectl's notation. Its cost is bounded, because a policy, which may be untrusted, determines how much work a run does.
//!
//! The path is translated to RFC 9535, which is newer than kubectl's notation: braces are removed, and a name with `\.` becomes a name in
//! brackets.

use jsonpath_rust::parser::model::JpQuery;
use jsonpath_rust::parser::parse_json_path;
use jsonpath_rust::query::js_path_process;
use serde_json::Value;

/// Maximum length of a path, in characters.
const LONGEST: usize = 512;
/// Maximum nesting of parentheses in a filter, because the parser is recursive.
const DEEPEST: usize = 8;

/// A path to one field, or to the same field of each element of one list.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct JsonPath {
    /// The path as written: `{.status.phase}`.
    shown: String,
    /// Whether the path begins with `status`, which the object's controller writes.
    is_of_status: bool,
    query: JpQuery,
}

/// The reason why a text is not a valid path, and the index of the character, from 0.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) at: usize,
    pub(crate) problem: &'static str,
}

impl JsonPath {
    /// Parses a path in braces from the beginning of a text. Returns the path and the remaining text.
    pub(crate) fn parse(text: &str) -> Result<(Self, &str), Fault> {
        let mut read = Reader { text, at: 0, many: 0, is_of_status: None };
        // Paths quoted for a shell are often copied with their quotes.
        let quote = read.next_if(|it| matches!(it, '\'' | '"'));
        if read.next_if(|it| it == '{').is_none() {
            return Err(read.fault("expected a path in braces: `{.status.phase}`"));
        }
        let rfc = read.segments()?;
        if read.at > LONGEST {
            return Err(Fault { at: LONGEST, problem: "the path has more than 512 characters" });
        }
        let query = parse_json_path(&rfc);
        let query = query.map_err(|_| Fault { at: 0, problem: "the path cannot be read: compare its filter" })?;
        let shown = text[quote.map_or(0, char::len_utf8)..read.at].to_owned();
        if let Some(quote) = quote
            && read.next_if(|it| it == quote).is_none()
        {
            return Err(read.fault("the quote is not closed"));
        }
        Ok((Self { shown, is_of_status: read.is_of_status.unwrap_or(true), query }, &text[read.at..]))
    }

    pub(crate) fn shown(&self) -> &str {
        &self.shown
    }

    pub(crate) fn is_of_status(&self) -> bool {
        self.is_of_status
    }

    /// Returns the values that the path leads to. `null` counts as missing, because Go omits fields in that way.
    pub(crate) fn find<'a>(&self, object: &'a Value) -> Vec<&'a Value> {
        let found = js_path_process(&self.query, object).unwrap_or_default();
        found.into_iter().map(|it| it.val).filter(|value| !value.is_null()).collect()
    }
}

struct Reader<'a> {
    text: &'a str,
    /// The position in bytes.
    at: usize,
    /// The number of wildcards and filters, each of which multiplies the matches.
    many: usize,
    /// Set once the first part was read. A wildcard may lead to any field.
    is_of_status: Option<bool>,
}

impl Reader<'_> {
    fn fault(&self, problem: &'static str) -> Fault {
        Fault { at: self.text[..self.at].chars().count(), problem }
    }

    fn next(&mut self) -> Option<char> {
        let next = self.text[self.at..].chars().next()?;
        self.at += next.len_utf8();
        Some(next)
    }

    fn next_if(&mut self, is_it: impl Fn(char) -> bool) -> Option<char> {
        let next = self.text[self.at..].chars().next().filter(|next| is_it(*next))?;
        self.at += next.len_utf8();
        Some(next)
    }

    fn one_of_many(&mut self) -> Result<(), Fault> {
        self.is_of_status.get_or_insert(true);
        self.many += 1;
        if self.many > 1 { Err(self.fault("a path may have one wildcard or filter")) } else { Ok(()) }
    }

    /// Translates the text up to the closing brace to RFC 9535.
    fn segments(&mut self) -> Result<String, Fault> {
        let mut rfc = "$".to_owned();
        self.next_if(|it| it == '$');
        loop {
            match self.next() {
                Some('}') if rfc.len() > 1 => return Ok(rfc),
                Some('}') => return Err(self.fault("the path names no field")),
                Some('.') if self.next_if(|it| it == '.').is_some() => {
                    return Err(self.fault("`..` is not supported: name the fields on the way"));
                }
                Some('.') if self.next_if(|it| it == '*').is_some() => {
                    self.one_of_many()?;
                    rfc.push_str("[*]");
                }
                Some('.') => {
                    let name = self.name()?;
                    self.push_name(&mut rfc, &name);
                }
                Some('[') => self.brackets(&mut rfc)?,
                Some(_) => return Err(self.fault("expected `.`, `[` or `}` here")),
                None => return Err(self.fault("the brace is not closed")),
            }
        }
    }

    /// Reads a field name such as `metadata` or `cert-manager\.io/issuer`.
    fn name(&mut self) -> Result<String, Fault> {
        let mut name = String::new();
        loop {
            if self.next_if(|it| it == '\\').is_some() {
                let escaped = self.next().ok_or_else(|| self.fault("nothing follows the backslash"))?;
                name.push(escaped);
            } else if let Some(next) =
                self.next_if(|it| it.is_alphanumeric() || matches!(it, '_' | '-' | '/' | ':' | '$'))
            {
                name.push(next);
            } else if name.is_empty() {
                return Err(self.fault("expected the name of a field here"));
            } else {
                return Ok(name);
            }
        }
    }

    fn brackets(&mut self, rfc: &mut String) -> Result<(), Fault> {
        if let Some(quote) = self.next_if(|it| matches!(it, '\'' | '"')) {
            let mut name = String::new();
            while let Some(next) = self.next_if(|it| it != quote && it != '\\') {
                name.push(next);
            }
            if self.next_if(|it| it == quote).is_none() || name.is_empty() {
                return Err(self.fault("expected a name in quotes here"));
            }
            self.push_name(rfc, &name);
        } else if self.next_if(|it| it == '*').is_some() {
            self.one_of_many()?;
            rfc.push_str("[*]");
        } else if self.next_if(|it| it == '?').is_some() {
            self.one_of_many()?;
            let filter = self.filter()?;
            rfc.push_str("[?");
            rfc.push_str(filter);
            rfc.push(']');
        } else {
            let begins = self.at;
            self.next_if(|it| it == '-');
            while self.next_if(|it| it.is_ascii_digit()).is_some() {}
            if self.text[begins..self.at].parse::<i32>().is_err() {
                return Err(self.fault("expected an index, a name in quotes, `*` or a filter here"));
            }
            rfc.push('[');
            rfc.push_str(&self.text[begins..self.at]);
            rfc.push(']');
        }
        match self.next_if(|it| it == ']') {
            Some(_) => Ok(()),
            None => Err(self.fault("expected `]` here")),
        }
    }

    fn push_name(&mut self, rfc: &mut String, name: &str) {
        rfc.push_str("['");
        for letter in name.chars() {
            if matches!(letter, '\'' | '\\') {
                rfc.push('\\');
            }
            rfc.push(letter);
        }
        rfc.push_str("']");
        self.is_of_status.get_or_insert(name == "status");
    }

    /// Reads a filter up to the closing bracket: comparisons of fields with values, `&&`, `||`, `!` and parentheses. Nothing in it may
    /// refer to more than one element.
    fn filter(&mut self) -> Result<&str, Fault> {
        let begins = self.at;
        let (mut brackets, mut parentheses) = (0, 0);
        let mut before = ' ';
        loop {
            if self.text[self.at..].starts_with(']') && brackets == 0 {
                return Ok(&self.text[begins..self.at]);
            }
            let Some(next) = self.next() else { return Err(self.fault("the filter is not closed")) };
            match next {
                '\'' | '"' => {
                    while self.next_if(|it| it != next && it != '\\').is_some() {}
                    if self.next_if(|it| it == next).is_none() {
                        return Err(self.fault("the quote is not closed, or a backslash is in it"));
                    }
                }
                '[' => brackets += 1,
                ']' => brackets -= 1,
                '(' if before.is_alphanumeric() || before == '_' => {
                    return Err(self.fault("functions are not supported"));
                }
                '(' => parentheses += 1,
                ')' => parentheses -= 1,
                '.' if before == '.' => {
                    return Err(self.fault("`..` is not supported: name the fields on the way"));
                }
                '.' | '_' | '@' | '=' | '!' | '<' | '>' | '&' | '|' | '-' | ' ' => {}
                it if it.is_alphanumeric() => {}
                _ => return Err(self.fault("this character is not supported in a filter")),
            }
            if !(0..=1).contains(&brackets) || !(0..=DEEPEST).contains(&usize::try_from(parentheses).unwrap_or(9)) {
                return Err(self.fault("too many brackets here"));
            }
            if next != ' ' {
                before = next;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object() -> Value {
        json!({
            "metadata": {"annotations": {"storageclass.kubernetes.io/is-default-class": "true", "it's": "odd"}},
            "status": {
                "phase": "Running", "replicas": 3, "none": null, "empty": [],
                "conditions": [{"type": "Ready", "status": "True"}, {"type": "Synced", "status": "False"}],
                "nested": [{"name": "a", "of": {"x": 1}}, {"name": "b", "of": {"x": 2}}],
            },
        })
    }

    fn found(path: &str) -> Value {
        let (path, rest) = JsonPath::parse(path).unwrap_or_else(|fault| panic!("{path}: {fault:?}"));
        assert_eq!(rest, "");
        path.find(&object()).into_iter().cloned().collect()
    }

    #[test]
    fn paths_of_kubectl_lead_where_kubectl_leads() {
        for (path, expected) in [
            ("{.status.phase}", json!(["Running"])),
            ("{$.status.phase}", json!(["Running"])),
            ("'{.status.phase}'", json!(["Running"])),
            ("{.status.replicas}", json!([3])),
            (r"{.metadata.annotations.storageclass\.kubernetes\.io/is-default-class}", json!(["true"])),
            ("{.metadata.annotations['storageclass.kubernetes.io/is-default-class']}", json!(["true"])),
            (r#"{.metadata.annotations["it's"]}"#, json!(["odd"])),
            (r#"{.status.conditions[?(@.type=="Ready")].status}"#, json!(["True"])),
            ("{.status.conditions[?(@.type=='Ready' && @.status!='True')].status}", json!([])),
            ("{.status.nested[?(@.of.x > 1)].name}", json!(["b"])),
            ("{.status.nested[?@['name'] == 'a'].of.x}", json!([1])),
            ("{.status.conditions[*].type}", json!(["Ready", "Synced"])),
            ("{.status.conditions[0].type}", json!(["Ready"])),
            ("{.status.conditions[-1].type}", json!(["Synced"])),
            ("{.status.conditions[7].type}", json!([])),
            ("{.status.none}", json!([])),
            ("{.status.nothing.here}", json!([])),
            ("{.status.phase.deeper}", json!([])),
            ("{.status.empty}", json!([[]])),
            ("{.status.empty[*]}", json!([])),
        ] {
            assert_eq!(found(path), expected, "{path}");
        }
    }

    #[test]
    fn what_could_take_long_is_refused_with_its_place() {
        for (path, at, problem) in [
            ("{..a}", 3, "`..` is not supported"),
            ("{.a..b}", 5, "`..` is not supported"),
            ("{.a[*].b[*]}", 10, "a path may have one wildcard or filter"),
            ("{.a.*.*}", 7, "a path may have one wildcard or filter"),
            ("{.a[?(@.b==1)].c[?(@.d==2)]}", 18, "a path may have one wildcard or filter"),
            ("{.a[?(length(@.b)>1)]}", 13, "functions are not supported"),
            ("{.a[?(match (@.b, 'x'))]}", 13, "functions are not supported"),
            ("{.a[?(@.b[*])]}", 11, "this character is not supported"),
            ("{.a[?(@..b)]}", 9, "`..` is not supported"),
            // A path from the root would cost as much as the whole object for each element.
            ("{.a[?(@.b==$.c)]}", 12, "this character is not supported"),
            ("{.a[?(((((((((1)))))))))]}", 14, "too many brackets"),
            ("{.a[1:2]}", 5, "expected `]` here"),
            ("{.a[1,2]}", 5, "expected `]` here"),
            ("{.a['x','y']}", 7, "expected `]` here"),
            ("{}", 2, "the path names no field"),
            ("{.}", 2, "expected the name of a field here"),
            ("{.a", 3, "the brace is not closed"),
            (".a", 0, "expected a path in braces"),
            ("{.a b}", 4, "expected `.`, `[` or `}` here"),
            ("{.a[?(@.b==)]}", 0, "the path cannot be read"),
        ] {
            let fault = JsonPath::parse(path).unwrap_err();
            assert!(fault.at == at && fault.problem.starts_with(problem), "{path}: {fault:?}");
        }
        let long = format!("{{.{}}}", "a".repeat(600));
        assert_eq!(JsonPath::parse(&long).unwrap_err().at, 512);
    }

    #[test]
    fn what_follows_is_left() {
        let (path, rest) = JsonPath::parse("{.a['x}y']}=b}c").unwrap();
        assert_eq!((path.shown(), rest), ("{.a['x}y']}", "=b}c"));
        let (path, rest) = JsonPath::parse("\"{.a}\"=1").unwrap();
        assert_eq!((path.shown(), rest), ("{.a}", "=1"));
        assert!(JsonPath::parse("'{.a}=1").is_err());
        let is_of_status = |text: &str| JsonPath::parse(text).unwrap().0.is_of_status();
        assert!(is_of_status("{.status.a}") && is_of_status("{$['status'].a}") && !is_of_status("{.spec.status}"));
        assert!(is_of_status("{.*.a}") && is_of_status("{[?(@.a==1)].status}") && !is_of_status("{.spec.*}"));
    }

    /// Every accepted path can be parsed and evaluated safely.
    #[test]
    fn fuzz_json_path() {
        bolero::check!().for_each(|bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes);
            for text in [text.to_string(), format!("{{.{text}}}"), format!("{{.status.conditions[?({text})]}}")] {
                if let Ok((path, _)) = JsonPath::parse(&text) {
                    path.find(&object());
                }
            }
        });
    }
}
