//! Queries that select resources of a type.

use regex::Regex;
use talos_api::cosi::resource::label_term::Operation;
use talos_api::cosi::resource::{IdQuery, LabelQuery, LabelTerm};
use tonic::Status;

use crate::cosi::Resource;

/// A query by labels and id. Without either, it selects all resources.
#[derive(Debug, Default)]
pub(super) struct Query {
    /// At least one of these queries has to match.
    labels: Vec<LabelQuery>,
    id: Option<Regex>,
}

impl Query {
    pub(super) fn new(labels: Vec<LabelQuery>, id: Option<&IdQuery>) -> Result<Self, Status> {
        if let Some(unknown) =
            labels.iter().flat_map(|query| &query.terms).find(|term| Operation::try_from(term.op).is_err())
        {
            return Err(Status::unimplemented(format!("unsupported label query operator: {}", unknown.op)));
        }
        let compile = |query: &IdQuery| {
            Regex::new(&query.regexp)
                .map_err(|error| Status::invalid_argument(format!("failed to compile regexp: {error}")))
        };
        let id = id.filter(|query| !query.regexp.is_empty()).map(compile).transpose()?;
        Ok(Self { labels, id })
    }

    pub(super) fn fits(&self, id: &str, resource: &Resource) -> bool {
        let labels = self.labels.is_empty()
            || self.labels.iter().any(|query| query.terms.iter().all(|term| holds(term, resource)));
        labels && self.id.as_ref().is_none_or(|expression| expression.is_match(id))
    }
}

fn holds(term: &LabelTerm, resource: &Resource) -> bool {
    let label = resource.labels.get(&term.key);
    let operand = term.value.first();
    let both = || label.zip(operand);
    let numbers = || both().and_then(|(label, operand)| label.parse::<i64>().ok().zip(operand.parse::<i64>().ok()));
    let found = match term.op() {
        Operation::Exists => Some(label.is_some()),
        Operation::NotExists => return label.is_none(),
        Operation::Equal => Some(both().is_some_and(|(label, operand)| label == operand)),
        Operation::In => Some(label.is_some_and(|label| term.value.contains(label))),
        // Values that cannot be compared match neither a comparison nor its inversion.
        Operation::Lt => both().map(|(label, operand)| label < operand),
        Operation::Lte => both().map(|(label, operand)| label <= operand),
        Operation::LtNumeric => numbers().map(|(label, operand)| label < operand),
        Operation::LteNumeric => numbers().map(|(label, operand)| label <= operand),
    };
    found.is_some_and(|found| found != term.invert)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;

    fn resource() -> Resource {
        let mut resource = Resource::new(json!({}), Timestamp::UNIX_EPOCH);
        resource.labels.insert("size".to_owned(), "10".to_owned());
        resource
    }

    fn term(key: &str, op: Operation, value: &[&str], invert: bool) -> LabelTerm {
        let value = value.iter().map(|&it| it.to_owned()).collect();
        LabelTerm { key: key.to_owned(), op: op.into(), value, invert }
    }

    #[test]
    fn labels_are_compared_as_cosi_does() {
        use Operation::{Equal, Exists, In, Lt, LtNumeric, Lte, LteNumeric, NotExists};
        for (key, op, value, plain, inverted) in [
            ("size", Exists, &[][..], true, false),
            ("other", Exists, &[], false, true),
            ("other", NotExists, &[], true, true),
            ("size", Equal, &["10"], true, false),
            ("size", Equal, &["9"], false, true),
            ("other", Equal, &["9"], false, true),
            ("size", In, &["9", "10"], true, false),
            ("size", Lt, &["9"], true, false),
            ("size", Lte, &["10"], true, false),
            ("size", LtNumeric, &["9"], false, true),
            ("size", LteNumeric, &["10"], true, false),
            ("size", LtNumeric, &["x"], false, false),
            ("other", Lt, &["9"], false, false),
        ] {
            assert_eq!(holds(&term(key, op, value, false), &resource()), plain, "{key} {op:?} {value:?}");
            assert_eq!(holds(&term(key, op, value, true), &resource()), inverted, "not {key} {op:?} {value:?}");
        }
    }

    #[test]
    fn one_query_of_labels_has_to_fit_and_the_id_too() {
        let query = |keys: &[&str]| LabelQuery {
            terms: keys.iter().map(|key| term(key, Operation::Exists, &[], false)).collect(),
        };
        let fits = |labels, regexp: &str| {
            Query::new(labels, Some(&IdQuery { regexp: regexp.to_owned() })).unwrap().fits("cp-1", &resource())
        };
        assert!(fits(vec![], ""));
        assert!(fits(vec![query(&["other"]), query(&["size"])], "^cp"));
        assert!(!fits(vec![query(&["other", "size"])], "^cp"));
        assert!(!fits(vec![query(&["size"])], "^worker"));
        let refused = Query::new(vec![], Some(&IdQuery { regexp: "(".to_owned() })).unwrap_err();
        assert_eq!(refused.code(), tonic::Code::InvalidArgument);
        assert!(refused.message().starts_with("failed to compile regexp: "));
    }
}
