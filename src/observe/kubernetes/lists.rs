//! Lists of objects: typed, paginated, bounded, and always read through a quorum.

use std::collections::BTreeSet;
use std::fmt::Debug;

use http::StatusCode;
use jiff::Timestamp;
use k8s_openapi::{ListableResource, NamespaceResourceScope, Resource};
use kube::api::ListParams;
use serde::{Deserialize, Deserializer};

use super::client::{Answer, Transport};
use super::gaps;
use super::intake::Keep;
use super::whom::Trusted;
use super::wire::{self, Object};
use crate::snapshot::{Gap, GapKind, Observed};

/// Objects of one page.
const PAGE: u32 = 500;
/// Bytes of one page. A Node with its image list and managed fields has 10 to 25 kB.
const PAGE_BYTES: usize = 16 << 20;
/// Bytes of one object on the average, of which a small part is kept.
const OBJECT_BYTES: usize = 26 << 10;
/// Bytes that are read where everybody waits; more are read on a thread of their own.
const AT_ONCE: usize = 128 << 10;

/// A whole list, and the clock of the server when it was taken.
#[derive(Debug)]
pub(super) struct Listed<T> {
    pub(super) date: Option<Timestamp>,
    /// Of the last page.
    pub(super) last_date: Option<Timestamp>,
    pub(super) items: Vec<Item<T>>,
}

/// An object as it is kept: read as one of its kind, so that one that is not is found out, and then let go. A list has thousands.
#[derive(Debug)]
pub(super) struct Item<T> {
    pub(super) name: String,
    pub(super) namespace: Option<String>,
    pub(super) kept: T,
}

/// What is kept of an object.
pub(super) trait Kept: Debug + Send + Sized + 'static {
    type Object: Object;

    /// Objects of one list.
    const MOST: usize = 20_000;
    /// Objects of one page.
    const OF_PAGE: u32 = PAGE;

    fn of(object: Self::Object) -> Self;
}

impl<'de, T: Kept> Deserialize<'de> for Item<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let object = T::Object::deserialize(deserializer)?;
        let metadata = object.metadata();
        let (name, namespace) = (metadata.name.clone().unwrap_or_default(), metadata.namespace.clone());
        Ok(Self { name, namespace, kept: T::of(object) })
    }
}

/// Where a list is: namespace, labels, fields. Without a namespace, it is of all.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Selection<'a> {
    pub(super) namespace: Option<&'a str>,
    pub(super) labels: Option<&'a str>,
    pub(super) fields: Option<&'a str>,
}

/// The kind of what is listed. kube knows its paths, k8s-openapi its names.
type Kind<T> = <<T as Kept>::Object as Object>::Kind;

/// Reads a list to its end. A continuation that has expired on the way (410) is begun anew, once.
pub(super) async fn list<T: Kept>(transport: &Transport, from: &Trusted, select: Selection<'_>) -> Observed<Listed<T>> {
    // Boxed: a request is a large future, and a round has many.
    match Box::pin(pages(transport, from, select)).await? {
        Some(listed) => Ok(listed),
        None => Box::pin(pages(transport, from, select))
            .await?
            .ok_or_else(|| Gap::new(GapKind::ServerError, "410: the list expired twice while it was read")),
    }
}

/// `None`: a continuation has expired.
async fn pages<T: Kept>(transport: &Transport, from: &Trusted, select: Selection<'_>) -> Observed<Option<Listed<T>>> {
    let mut listed = Listed { date: None, last_date: None, items: Vec::new() };
    let mut names = BTreeSet::new();
    let mut bytes = 0;
    let mut next: Option<String> = None;
    for page in 0..T::MOST / T::OF_PAGE as usize {
        // No `resourceVersion`: a list from the server's cache answers without quorum, and lies.
        let mut parameters = ListParams::default().limit(T::OF_PAGE);
        parameters.label_selector = select.labels.map(str::to_owned);
        parameters.field_selector = select.fields.map(str::to_owned);
        parameters.continue_token.clone_from(&next);
        let request = kube::core::Request::new(<Kind<T> as kube::Resource>::url_path(&(), select.namespace))
            .list(&parameters)
            .map_err(|error| Gap::new(GapKind::Malformed, gaps::short(&error.to_string())))?;
        let limit = Keep::All(PAGE_BYTES.min((T::MOST * OBJECT_BYTES).saturating_sub(bytes)));
        let answer = transport.ask(from, request, limit).await?;
        if answer.status == StatusCode::GONE && next.is_some() {
            return Ok(None);
        }
        bytes += answer.body.len();
        if page == 0 {
            listed.date = answer.date;
        }
        listed.last_date = answer.date;
        let (items, more) = read::<T>(answer, select.namespace).await?;
        transport.budget.pay(&items)?;
        for item in &items {
            // Whoever repeats a page keeps another one back.
            if let Some((_, name)) = names.replace((item.namespace.clone(), item.name.clone())) {
                let text = format!("`{}` has `{name}` twice", Kind::<T>::LIST_KIND);
                return Err(Gap::new(GapKind::Malformed, gaps::short(&text)));
            }
        }
        listed.items.extend(items);
        if more.is_none() {
            return Ok(Some(listed));
        }
        next = more;
    }
    Err(Gap::new(GapKind::TooLarge, format!("the list has more than {} objects", T::MOST)))
}

#[derive(Deserialize)]
struct Page<T> {
    kind: String,
    #[serde(rename = "apiVersion")]
    api_version: String,
    #[serde(default)]
    metadata: PageMeta,
    #[serde(bound(deserialize = "T: Deserialize<'de>"), deserialize_with = "wire::objects")]
    items: Vec<T>,
}

#[derive(Default, Deserialize)]
struct PageMeta {
    #[serde(default, rename = "continue")]
    next: Option<String>,
}

async fn read<T: Kept>(answer: Answer, namespace: Option<&str>) -> Observed<(Vec<Item<T>>, Option<String>)> {
    if answer.body.len() < AT_ONCE {
        return parse(&answer, namespace);
    }
    let namespace = namespace.map(str::to_owned);
    let parsed = tokio::task::spawn_blocking(move || parse(&answer, namespace.as_deref())).await;
    parsed.unwrap_or_else(|_| Err(Gap::new(GapKind::Malformed, "the answer cannot be read")))
}

fn parse<T: Kept>(answer: &Answer, namespace: Option<&str>) -> Observed<(Vec<Item<T>>, Option<String>)> {
    if answer.status != StatusCode::OK {
        return Err(gaps::from_status(answer.status, &answer.body));
    }
    let malformed = |text: &str| Gap::new(GapKind::Malformed, gaps::short(text));
    let page: Page<Item<T>> = wire::page(&answer.body).map_err(|error| match error.to_string() {
        text if text.contains(wire::TOO_MANY) => Gap::new(GapKind::TooLarge, gaps::short(&text)),
        text => malformed(&text),
    })?;
    let kind = Kind::<T>::LIST_KIND;
    if (page.kind.as_str(), page.api_version.as_str()) != (kind, <Kind<T> as Resource>::API_VERSION) {
        let (is, of) = (gaps::short(&page.kind), gaps::short(&page.api_version));
        return Err(malformed(&format!("requested `{kind}`, got `{is}` of `{of}`")));
    }
    for item in &page.items {
        if item.name.is_empty() {
            return Err(malformed(&format!("`{kind}` has an item without a name")));
        }
        if namespace.is_some() && item.namespace.as_deref() != namespace {
            return Err(malformed(&format!("`{kind}` has an item of another namespace")));
        }
    }
    Ok((page.items, page.metadata.next.filter(|next| !next.is_empty())))
}

/// Keeps the selections honest: kinds with a namespace are listed in one.
pub(super) async fn list_in<T>(
    transport: &Transport,
    from: &Trusted,
    namespace: &str,
    labels: Option<&str>,
) -> Observed<Listed<T>>
where
    T: Kept<Object: Object<Kind: Resource<Scope = NamespaceResourceScope>>>,
{
    list(transport, from, Selection { namespace: Some(namespace), labels, fields: None }).await
}

#[cfg(test)]
mod tests {
    use super::super::objects::Slice;
    use super::*;
    use crate::snapshot::{BoundPod, DisruptionBudget, KubeNode, Lease, Pod, PodEvent, SigningRequest};

    fn try_as<T: Kept>(bytes: &[u8]) {
        // Objects that are no list's are the more likely find.
        let _ = wire::page::<Item<T>>(bytes);
        let kind = format!(
            r#"{{"kind":"{}","apiVersion":"{}","items":["#,
            Kind::<T>::LIST_KIND,
            <Kind<T> as Resource>::API_VERSION
        );
        let body = [kind.as_bytes(), bytes, b"]}"].concat();
        let _ = parse::<T>(
            &Answer { status: StatusCode::OK, date: None, certificate: None, body, later: None, leave: None },
            None,
        );
    }

    #[test]
    fn fuzz_lists() {
        bolero::check!().for_each(|bytes: &[u8]| {
            try_as::<KubeNode>(bytes);
            try_as::<Pod>(bytes);
            try_as::<BoundPod>(bytes);
            try_as::<DisruptionBudget>(bytes);
            try_as::<Lease>(bytes);
            try_as::<Option<PodEvent>>(bytes);
            try_as::<SigningRequest>(bytes);
            try_as::<Slice>(bytes);
        });
    }
}
