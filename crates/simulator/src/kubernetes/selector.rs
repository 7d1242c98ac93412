//! Label and field selectors.

use serde_json::Value;

use super::kinds::ResourceType;

/// Conditions that select objects.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Selector {
    labels: Vec<Requirement>,
    /// Paths into the object, their expected values, and whether the comparison is negated.
    fields: Vec<(String, String, bool)>,
}

#[derive(Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Debug, PartialEq, Eq)]
enum Test {
    Exists,
    Missing,
    In(Vec<String>),
    /// Objects without the label pass, too.
    NotIn(Vec<String>),
}

impl Selector {
    /// Parses selectors; the error is the message of an API server.
    pub(super) fn parse(kind: &ResourceType, labels: &str, fields: &str) -> Result<Self, String> {
        let labels = requirements(labels).iter().map(|part| requirement(part)).collect::<Result<_, _>>()?;
        let fields = fields.split(',').filter(|part| !part.is_empty()).map(|part| field(kind, part));
        Ok(Self { labels, fields: fields.collect::<Result<_, _>>()? })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    pub(super) fn fits(&self, object: &Value) -> bool {
        let labels = &object["metadata"]["labels"];
        self.labels.iter().all(|requirement| requirement.fits(labels[&requirement.key].as_str()))
            && self.fields.iter().all(|(path, value, unlike)| (text_at(object, path) == *value) != *unlike)
    }
}

impl Requirement {
    fn fits(&self, label: Option<&str>) -> bool {
        let among = |values: &[String]| label.is_some_and(|label| values.iter().any(|value| value == label));
        match &self.test {
            Test::Exists => label.is_some(),
            Test::Missing => label.is_none(),
            Test::In(values) => among(values),
            Test::NotIn(values) => !among(values),
        }
    }
}

/// Splits at commas outside of parentheses.
fn requirements(text: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    let parts = text.split(move |character| {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        character == ',' && depth == 0
    });
    parts.map(str::trim).filter(|part| !part.is_empty()).collect()
}

fn requirement(text: &str) -> Result<Requirement, String> {
    let (key, condition) = if let Some((left, set)) = text.split_once('(') {
        let set = set.strip_suffix(')').ok_or("unable to parse requirement: found '', expected: ',' or ')'")?;
        let values = set.split(',').map(|value| value.trim().to_owned()).collect();
        match left.trim().rsplit_once(char::is_whitespace) {
            Some((key, "in")) => (key, Test::In(values)),
            Some((key, "notin")) => (key, Test::NotIn(values)),
            _ => {
                return Err("unable to parse requirement: found '(', expected: in, notin, =, ==, !=, gt, lt".to_owned());
            }
        }
    } else if let Some((key, value)) = text.split_once("!=") {
        (key, Test::NotIn(vec![value.trim().to_owned()]))
    } else if let Some((key, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
        (key, Test::In(vec![value.trim().to_owned()]))
    } else if let Some(key) = text.strip_prefix('!') {
        (key, Test::Missing)
    } else {
        (text, Test::Exists)
    };
    let key = key.trim();
    let is_key = |character: char| character.is_ascii_alphanumeric() || "-_./".contains(character);
    if key.is_empty() || !key.chars().all(is_key) {
        return Err(format!("unable to parse requirement: <nil>: Invalid value: \"{key}\""));
    }
    Ok(Requirement { key: key.to_owned(), test: condition })
}

fn field(kind: &ResourceType, text: &str) -> Result<(String, String, bool), String> {
    let parts = text.split_once("!=").map(|(path, value)| (path, value, true));
    let equal = || text.split_once("==").or_else(|| text.split_once('=')).map(|(path, value)| (path, value, false));
    let (path, value, unlike) =
        parts.or_else(equal).ok_or_else(|| format!("invalid selector: '{text}'; can't understand '{text}'"))?;
    let known = path == "metadata.name" || (path == "metadata.namespace" && kind.namespaced);
    if known || kind.fields.contains(&path) {
        Ok((path.to_owned(), value.to_owned(), unlike))
    } else {
        Err(format!("field label not supported: {path}"))
    }
}

/// The value at a path as text; a missing value is empty, or false.
fn text_at(object: &Value, path: &str) -> String {
    let value = path.split('.').fold(object, |value, key| &value[key]);
    match value {
        Value::String(text) => text.clone(),
        Value::Null if matches!(path, "spec.unschedulable" | "spec.hostNetwork") => "false".to_owned(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fits(labels: &str, fields: &str, object: &Value) -> bool {
        let pods = ResourceType::find("", "v1", "pods").unwrap();
        Selector::parse(pods, labels, fields).unwrap().fits(object)
    }

    #[test]
    fn labels_are_selected_in_all_ways() {
        let pod = json!({"metadata": {"labels": {"k8s-app": "kube-proxy", "tier": "node"}}});
        for labels in [
            "",
            "k8s-app=kube-proxy",
            "k8s-app == kube-proxy,tier=node",
            "k8s-app!=coredns",
            "role!=x",
            "k8s-app in (kube-proxy, coredns),tier",
            "tier notin (control-plane),!role",
            "k8s-app",
        ] {
            assert!(fits(labels, "", &pod), "{labels}");
        }
        for labels in ["k8s-app=coredns", "role", "!tier", "k8s-app notin (kube-proxy)", "role in (a,b)", "tier!=node"]
        {
            assert!(!fits(labels, "", &pod), "{labels}");
        }
    }

    #[test]
    fn fields_are_those_that_the_resource_has() {
        let pod = json!({
            "metadata": {"name": "a", "namespace": "b"}, "spec": {"nodeName": "cp-1"}, "status": {"phase": "Running"},
        });
        assert!(fits("", "spec.nodeName=cp-1,status.phase!=Failed,status.phase!=Succeeded", &pod));
        assert!(fits("", "metadata.name=a,metadata.namespace==b,spec.hostNetwork=false", &pod));
        assert!(!fits("", "status.phase!=Running", &pod));
        let nodes = ResourceType::find("", "v1", "nodes").unwrap();
        let refused = |labels, fields| Selector::parse(nodes, labels, fields).unwrap_err();
        assert_eq!(refused("", "status.foo=1"), "field label not supported: status.foo");
        assert_eq!(refused("", "metadata.namespace=a"), "field label not supported: metadata.namespace");
        assert!(refused("a(b", "").starts_with("unable to parse requirement"));
        assert!(refused("a b=c", "").starts_with("unable to parse requirement"));
    }
}
