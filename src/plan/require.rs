//! The meaning of the entries of `require`, and the entries that the options keep.

use std::collections::BTreeSet;

use jiff::SignedDuration;
use serde_saphyr::Spanned;

use super::policy::duration;
use super::{Usage, selection};
use crate::checks::{self, Check};
use crate::cli::{CheckOptions, VerdictOptions};
use crate::config::policy::{self as config, Demands, Document};
use crate::model::{CheckId, Severity};
use crate::snapshot::{Demand, FieldIs, Objects, Place, Predicate, Require, Requirement};
use crate::text::json_path::JsonPath;
use crate::text::{self, is_label, nearest};

/// Maximum number of entries in a policy: each is a list, and a group to discover.
const MOST: usize = 100;
/// Maximum number of predicates in an entry.
const MOST_DEMANDS: usize = 10;
/// Maximum length of a value, a selector or a name, in characters.
const LONGEST: usize = 256;
/// Maximum age that an entry can require an object to be younger than.
const OLDEST: SignedDuration = SignedDuration::from_hours(10 * 365 * 24);

pub(super) fn entries(document: &Document, given: &[config::Require]) -> Result<Vec<Require>, Usage> {
    if let Some(one) = given.get(MOST) {
        return Err(document.error(&one.id, &format!("a policy has at most {MOST} requirements")).into());
    }
    let mut entries: Vec<Require> = Vec::new();
    for one in given {
        let entry = Reader { document }.entry(one)?;
        if entries.iter().any(|other| other.id == entry.id) {
            return Err(document.error(&one.id, "another requirement has this ID").into());
        }
        entries.push(entry);
    }
    Ok(entries)
}

struct Reader<'a> {
    document: &'a Document,
}

impl Reader<'_> {
    fn error<T>(&self, value: &Spanned<T>, problem: impl AsRef<str>) -> Usage {
        self.document.error(value, problem.as_ref()).into()
    }

    fn entry(&self, given: &config::Require) -> Result<Require, Usage> {
        let or_else = given.or_else.as_ref().map(|it| it.value.0.clone());
        let demands = match &given.demands.value {
            Demands::One(text) => vec![self.demand(&given.demands, text, or_else.as_ref())?],
            Demands::Many(many) => {
                let one = |it: &Spanned<String>| self.demand(it, &it.value, or_else.as_ref());
                many.iter().map(one).collect::<Result<_, _>>()?
            }
        };
        if demands.is_empty() || demands.len() > MOST_DEMANDS {
            return Err(self.error(&given.demands, format!("expected 1 to {MOST_DEMANDS} predicates")));
        }
        if let Some(value) = &given.or_else
            && !demands.iter().any(|it| matches!(it.predicate, Predicate::Equal { .. }))
        {
            return Err(self.error(value, "`orElse` stands for the field of a `jsonpath=…=VALUE`, and there is none"));
        }
        let at_least = given.at_least.as_ref().map(|it| it.value);
        if let Some(zero) = given.at_least.as_ref().filter(|it| it.value == 0) {
            return Err(self.error(zero, "expected 1 or more"));
        }
        let allow_none = given.allow_none.as_ref().is_some_and(|it| it.value);
        if let Some(both) = given.allow_none.as_ref().filter(|_| allow_none && at_least.is_some()) {
            return Err(self.error(both, "`allowNone` and `atLeast` contradict each other"));
        }
        if let Some(one) = given.at_least.as_ref().filter(|_| given.name.is_some()) {
            return Err(self.error(one, "`name` means one object, so there is nothing to count"));
        }
        let severity = match given.severity.as_ref().map(|it| (it.value.as_str(), it)) {
            None | Some(("fail", _)) => Severity::Fail,
            Some(("warn", _)) => Severity::Warn,
            Some((_, other)) => return Err(self.error(other, "expected `fail` or `warn`")),
        };
        let (id, of) = (self.id(&given.id)?, self.objects(given)?);
        Ok(Require { id, of, demands, at_least, allow_none, severity })
    }

    fn id(&self, given: &Spanned<String>) -> Result<String, Usage> {
        let id = &given.value;
        if !Require::is_id(id) {
            return Err(self.error(given, "expected 1 to 40 lowercase letters, digits and `-`"));
        }
        let name = format!("{}{id}", Require::PREFIX);
        if checks::ALL.iter().any(|check| check.id.name() == name) {
            return Err(self.error(given, format!("`{name}` is already the name of a check")));
        }
        Ok(id.clone())
    }

    fn objects(&self, given: &config::Require) -> Result<Objects, Usage> {
        let resource = &given.resource;
        let (plural, group) = resource.value.split_once('.').unwrap_or((&resource.value, ""));
        if resource.value.contains('/') {
            return Err(self.error(resource, "a subresource is never read: name the resource itself"));
        }
        let is_group = !resource.value.contains('.') || is_name(group);
        if !is_label(plural) || !is_group {
            let expected = "expected plural and group, such as `cephclusters.ceph.rook.io` or `pods`";
            return Err(self.error(resource, expected));
        }
        if plural == "secrets" && group.is_empty() {
            return Err(self.error(resource, "secrets are never read"));
        }
        let all = given.all_namespaces.as_ref().filter(|it| it.value);
        let place = match (&given.namespace, all) {
            (Some(_), Some(all)) => {
                return Err(self.error(all, "`namespace` and `allNamespaces` contradict each other"));
            }
            (Some(namespace), None) if !is_label(&namespace.value) => {
                return Err(self.error(namespace, "this is not the name of a namespace"));
            }
            (Some(namespace), None) => Place::Namespace(namespace.value.clone()),
            (None, Some(_)) => Place::AllNamespaces,
            (None, None) => Place::NoNamespace,
        };
        if let Some(name) = &given.name {
            if place == Place::AllNamespaces {
                return Err(self.error(name, "one object is in one `namespace`, or in none"));
            }
            if let Some(selector) = given.selector.as_ref().or(given.field_selector.as_ref()) {
                return Err(self.error(selector, "`name` means one object, so there is nothing to select"));
            }
            let is_fit = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '.' | '_' | ':');
            let is_between = name.value.starts_with('.') || name.value.ends_with('.');
            if !(1..=LONGEST).contains(&name.value.len()) || is_between || !name.value.chars().all(is_fit) {
                return Err(self.error(name, "this is not the name of an object"));
            }
        }
        let selector = given.selector.as_ref().map(|it| self.selector(it)).transpose()?;
        let field_selector = given.field_selector.as_ref().map(|it| self.field_selector(it)).transpose()?;
        let name = given.name.as_ref().map(|it| it.value.clone());
        Ok(Objects { plural: plural.to_owned(), group: group.to_owned(), place, name, selector, field_selector })
    }

    /// Parses a selector in the syntax of `kubectl get -l`, so that the program can decide whether an object was selected.
    fn selector(&self, given: &Spanned<String>) -> Result<(String, Vec<Requirement>), Usage> {
        let text = given.value.trim();
        let problem = "expected labels such as `app=backup,tier in (db, cache),!canary`";
        let parts = outside_parentheses(text).filter(|_| text.len() <= LONGEST && !text.is_empty());
        let requirements = parts.and_then(|parts| parts.into_iter().map(requirement).collect::<Option<Vec<_>>>());
        requirements.map(|it| (text.to_owned(), it)).ok_or_else(|| self.error(given, problem))
    }

    fn field_selector(&self, given: &Spanned<String>) -> Result<(String, Vec<FieldIs>), Usage> {
        let text = given.value.trim();
        let fields = text.split(',').map(field_is).collect::<Option<Vec<_>>>().filter(|_| text.len() <= LONGEST);
        let problem = "expected fields such as `spec.type=LoadBalancer,status.phase!=Failed`";
        fields.map(|it| (text.to_owned(), it)).ok_or_else(|| self.error(given, problem))
    }

    fn demand<T>(&self, place: &Spanned<T>, text: &str, or_else: Option<&String>) -> Result<Demand, Usage> {
        let text = text.trim();
        let error = |problem: &str| self.error(place, problem);
        let path = |rest: &str, name: &str| {
            JsonPath::parse(rest).map(|(path, rest)| (path, rest.to_owned())).map_err(|fault| {
                let at = name.chars().count() + fault.at + 1;
                error(&format!("character {at} of `for`: {}", fault.problem))
            })
        };
        let predicate = if text == "current" {
            Predicate::Current
        } else if let Some(rest) = text.strip_prefix("condition=") {
            let (kind, status) = rest.split_once('=').unwrap_or((rest, "True"));
            let is_word = |it: &str| (1..=LONGEST).contains(&it.len()) && !it.contains(char::is_whitespace);
            if !is_word(kind) || !is_word(status) {
                return Err(error("expected a condition such as `condition=Ready` or `condition=Ready=False`"));
            }
            Predicate::Condition { kind: kind.to_owned(), status: status.to_owned() }
        } else if let Some(rest) = text.strip_prefix("jsonpath=") {
            let (path, rest) = path(rest, "jsonpath=")?;
            match rest.strip_prefix('=') {
                None if rest.is_empty() => Predicate::Present(path),
                None => return Err(error("expected `=` and a value right after the path, or nothing")),
                Some(value) => {
                    let value = unquoted(value);
                    if value.starts_with('=') || !(1..=LONGEST).contains(&value.chars().count()) {
                        return Err(error(&format!("expected `=` and 1 to {LONGEST} characters after the path")));
                    }
                    Predicate::Equal { path, value: value.to_owned(), or_else: or_else.cloned() }
                }
            }
        } else if let Some(rest) = text.strip_prefix("age=") {
            let (path, rest) = path(rest, "age=")?;
            let than = rest.trim_start().strip_prefix('<').and_then(|than| duration(than.trim()));
            let than = than.filter(|than| than.is_positive() && *than <= OLDEST);
            let than = than.ok_or_else(|| error("expected `<` and a duration after the path, such as `<24h`"))?;
            Predicate::Younger { path, than }
        } else {
            return Err(error("expected `condition=…`, `jsonpath=…`, `age=…` or `current`"));
        };
        Ok(Demand { text: text.to_owned(), predicate })
    }
}

/// Removes the quotes of a shell, which are often copied along.
fn unquoted(value: &str) -> &str {
    let inner = |quote: char| value.strip_prefix(quote)?.strip_suffix(quote);
    inner('\'').or_else(|| inner('"')).unwrap_or(value)
}

fn is_name(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_label)
}

/// Splits at commas outside of parentheses. `None`: the parentheses do not match.
fn outside_parentheses(text: &str) -> Option<Vec<&str>> {
    let (mut parts, mut begin, mut is_inside) = (Vec::new(), 0, false);
    for (at, letter) in text.char_indices() {
        match letter {
            '(' if !is_inside => is_inside = true,
            ')' if is_inside => is_inside = false,
            '(' | ')' => return None,
            ',' if !is_inside => {
                parts.push(&text[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[begin..]);
    (!is_inside).then_some(parts)
}

/// Parses one part of a field selector.
fn field_is(part: &str) -> Option<FieldIs> {
    let (path, value) = part.trim().split_once('=')?;
    let (path, is_not) = path.strip_suffix('!').map_or((path, false), |path| (path, true));
    let value = if is_not { value } else { value.strip_prefix('=').unwrap_or(value) };
    let is_path = !path.is_empty() && path.chars().all(|it| it.is_ascii_alphanumeric() || it == '.');
    let is_value = !value.contains(['=', '!', '\\']);
    (is_path && is_value).then(|| FieldIs { path: path.to_owned(), is_not, value: value.to_owned() })
}

/// Parses one part of a selector.
fn requirement(part: &str) -> Option<Requirement> {
    let is_fit = |text: &str| {
        let is_letter = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '_' | '.' | '/');
        text.chars().all(is_letter)
    };
    let part = part.trim();
    let of = |key: &str, operator: &str, values: Vec<String>| {
        let key = key.trim();
        let is_key = !key.is_empty() && is_fit(key) && values.iter().all(|value| is_fit(value));
        is_key.then(|| Requirement { key: key.to_owned(), operator: operator.to_owned(), values })
    };
    let one = |value: &str| vec![value.trim().to_owned()];
    if let Some((key, value)) = part.split_once("!=") {
        return of(key, "NotIn", one(value));
    }
    if let Some((key, value)) = part.split_once('=') {
        return of(key, "In", one(value.strip_prefix('=').unwrap_or(value)));
    }
    if let Some(list) = part.strip_suffix(')') {
        let (head, values) = list.split_once('(')?;
        let values = values.split(',').map(|value| value.trim().to_owned()).collect();
        let (key, operator) = head.trim().split_once(char::is_whitespace)?;
        return match operator.trim() {
            "in" => of(key, "In", values),
            "notin" => of(key, "NotIn", values),
            _ => None,
        };
    }
    match part.strip_prefix('!') {
        Some(key) => of(key, "DoesNotExist", Vec::new()),
        None => of(part, "Exists", Vec::new()),
    }
}

/// The requirements that are named in options which name checks.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Named {
    pub(super) warn_only: BTreeSet<String>,
    pub(super) fail_on: BTreeSet<String>,
}

/// Takes the names of requirements out of the options, and keeps the entries that are to be checked.
pub(super) fn narrow(
    entries: &mut Vec<Require>,
    checks: &mut CheckOptions,
    verdict: &mut VerdictOptions,
) -> Result<Named, Usage> {
    let names: BTreeSet<String> = entries.iter().map(Require::name).collect();
    let chosen = take(&names, "check", &mut checks.check)?;
    let skipped = take(&names, "skip", &mut checks.skip)?;
    let warn_only = take(&names, "warn-only", &mut verdict.warn_only)?;
    let fail_on = take(&names, "fail-on", &mut verdict.fail_on)?;
    if !chosen.all.is_empty() {
        // Several patterns are a union, and a wider one names all entries.
        let is_required = |check: &&&Check| check.id == CheckId::PolicyRequire;
        let all = checks::ALL.iter().find(is_required);
        if !all.is_some_and(|check| checks.check.iter().any(|it| selection::fits(check, it))) {
            entries.retain(|entry| chosen.all.contains(&entry.name()));
        }
        checks.check.push(CheckId::PolicyRequire.name().to_owned());
    }
    entries.retain(|entry| !skipped.all.contains(&entry.name()));
    let is_left = |name: &&String| entries.iter().any(|entry| entry.name() == **name);
    if let Some(name) = chosen.by_name.iter().chain(&fail_on.by_name).find(|name| !is_left(name)) {
        return Err(Usage::new(format!("`{name}` is required by one option and left out by another")));
    }
    Ok(Named { warn_only: warn_only.all, fail_on: fail_on.all })
}

/// The requirements that the patterns of an option match.
struct Meant {
    all: BTreeSet<String>,
    /// Requirements that are named in full. A glob matches only what other options leave of it.
    by_name: BTreeSet<String>,
}

fn take(names: &BTreeSet<String>, option: &str, patterns: &mut Vec<String>) -> Result<Meant, Usage> {
    let fits = |pattern: &str, name: &str| name == pattern || (pattern.contains('*') && text::fits(pattern, name));
    let of = |pattern: &String| names.iter().filter(|name| fits(pattern, name)).cloned().collect::<Vec<_>>();
    let entries = Meant {
        all: patterns.iter().flat_map(of).collect(),
        by_name: patterns.iter().filter(|pattern| names.contains(*pattern)).cloned().collect(),
    };
    // A glob can match checks as well. A pattern that matches some requirements does not match the check that all of
    // them share.
    let is_of_checks = |pattern: &String| {
        let others = checks::ALL.iter().filter(|check| check.id != CheckId::PolicyRequire);
        others.into_iter().any(|check| selection::fits(check, pattern))
    };
    patterns.retain(|pattern| of(pattern).is_empty() || is_of_checks(pattern));
    let is_unknown = |it: &&String| {
        let is_check = checks::ALL.iter().any(|check| check.id.name() == **it);
        it.starts_with(Require::PREFIX) && !it.contains('*') && !is_check
    };
    match patterns.iter().find(is_unknown).filter(|_| !names.is_empty()) {
        None => Ok(entries),
        Some(unknown) => {
            let usage =
                Usage::new(format!("`--{option} {unknown}` is neither a check nor a requirement of the policy"));
            Err(match nearest(unknown, names.iter().map(String::as_str)) {
                Some(near) => usage.hint(format!("the nearest is `{near}`")),
                None => usage,
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(fields: &str) -> String {
        let text = format!("apiVersion: cluster-health/v1\nrequire:\n  - {{{fields}}}\n");
        let document = match Document::of_text(&text) {
            Ok(document) => document,
            Err(error) => return error.message,
        };
        match entries(&document, &document.fields.require) {
            Ok(entries) => format!("accepted: {entries:?}"),
            Err(usage) => usage.message,
        }
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        let with = |more: &str| format!("id: a, resource: pods, {more}");
        for (fields, expected) in [
            ("id: A, resource: pods, for: current".to_owned(), "line 3, column 10: expected 1 to 40 lowercase letters"),
            (
                "id: accept, resource: pods, for: current".to_owned(),
                "line 3, column 10: `policy.accept` is already the name of a check",
            ),
            (
                "id: a, resource: secrets, namespace: x, for: current".to_owned(),
                "line 3, column 23: secrets are never read",
            ),
            ("id: a, resource: pods/log, for: current".to_owned(), "a subresource is never read"),
            ("id: a, resource: Pods, for: current".to_owned(), "expected plural and group"),
            ("id: a, resource: pods., for: current".to_owned(), "expected plural and group"),
            ("id: a, resource: ../secrets, for: current".to_owned(), "a subresource is never read"),
            (with("namespace: ../x, for: current"), "this is not the name of a namespace"),
            (with("namespace: x, allNamespaces: true, for: current"), "contradict each other"),
            (with("allNamespaces: true, name: x, for: current"), "one object is in one `namespace`"),
            (with("name: x, selector: a=b, for: current"), "nothing to select"),
            (with("name: 'x,metadata.namespace=y', for: current"), "this is not the name of an object"),
            (with("selector: 'a=b,(', for: current"), "expected labels such as"),
            (with("selector: 'a in b', for: current"), "expected labels such as"),
            (with("fieldSelector: 'spec.type', for: current"), "expected fields such as"),
            (with("for: ready"), "expected `condition=…`, `jsonpath=…`, `age=…` or `current`"),
            (with("for: []"), "expected 1 to 10 predicates"),
            (with("for: 'condition='"), "expected a condition such as"),
            (with("for: 'jsonpath={.a..b}=1'"), "line 3, column 34: character 15 of `for`: `..` is not supported"),
            (with("for: 'jsonpath={.a}==x'"), "expected `=` and 1 to 256 characters"),
            (with("for: 'jsonpath={.a}='"), "expected `=` and 1 to 256 characters"),
            (with("for: 'jsonpath={.a}x'"), "expected `=` and a value right after the path"),
            (with("for: 'age={.a}<'"), "expected `<` and a duration"),
            (with("for: 'age={.a}<0s'"), "expected `<` and a duration"),
            (with("for: 'age={.a}>1h'"), "expected `<` and a duration"),
            (with("for: current, atLeast: 0"), "expected 1 or more"),
            (with("for: current, atLeast: 2, allowNone: true"), "`allowNone` and `atLeast` contradict"),
            (with("for: current, atLeast: 2, name: x"), "nothing to count"),
            (with("for: current, severity: error"), "expected `fail` or `warn`"),
            (with("for: current, orElse: 0"), "`orElse` stands for the field"),
            (with("for: [current, 'age={.a}<1x']"), "expected `<` and a duration"),
            (with("fro: current"), "there is no field `fro` here"),
        ] {
            assert!(refused(&fields).contains(expected), "{fields}: {}", refused(&fields));
        }
    }

    #[test]
    fn there_are_only_so_many_and_no_two_of_a_name() {
        let of = |ids: &[String]| {
            let entry = |id: &String| format!("  - {{id: {id}, resource: pods, for: current}}");
            let entries = ids.iter().map(entry).collect::<Vec<_>>().join("\n");
            let document = Document::of_text(&format!("apiVersion: cluster-health/v1\nrequire:\n{entries}")).unwrap();
            super::entries(&document, &document.fields.require).map_err(|usage| usage.message)
        };
        assert!(of(&["a".to_owned(), "a".to_owned()]).unwrap_err().contains("another requirement has this ID"));
        let many: Vec<String> = (0..101).map(|it| format!("r-{it}")).collect();
        assert!(of(&many).unwrap_err().contains("at most 100"));
        assert_eq!(of(&many[..100]).unwrap().len(), 100);
    }
}
