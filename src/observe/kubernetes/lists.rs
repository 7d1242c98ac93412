//! Lists of objects: typed, paginated, bounded, and always read through a quorum.

use std::collections::BTreeSet;

use http::StatusCode;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::{ListableResource, Metadata, NamespaceResourceScope, Resource};
use kube::Client;
use kube::api::ListParams;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};

use super::client::{Answer, Transport};
use super::gaps;
use crate::snapshot::{Gap, GapKind, Observed};

/// Objects of one page.
const PAGE: u32 = 500;
/// Pages of one list: 20,000 objects.
const PAGES: usize = 40;
/// Bytes of one page. A Node with its image list and managed fields has 10 to 25 kB.
const PAGE_BYTES: usize = 32 << 20;
/// Bytes of one list.
const LIST_BYTES: usize = 64 << 20;

/// A whole list, and the clock of the server when it was taken.
#[derive(Debug)]
pub(super) struct Listed<K> {
    pub(super) date: Option<Timestamp>,
    pub(super) items: Vec<K>,
}

/// Where a list is: kind, namespace, labels.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Selection {
    pub(super) namespace: Option<&'static str>,
    pub(super) labels: Option<&'static str>,
}

/// Kinds that we list. kube knows their paths, k8s-openapi their names.
pub(super) trait Kind:
    kube::Resource<DynamicType = ()> + ListableResource + Metadata<Ty = ObjectMeta> + DeserializeOwned
{
}

impl<K> Kind for K where
    K: kube::Resource<DynamicType = ()> + ListableResource + Metadata<Ty = ObjectMeta> + DeserializeOwned
{
}

/// Reads a list to its end. A continuation that has expired on the way (410) is begun anew, once.
pub(super) async fn list<K: Kind>(transport: &Transport, client: &Client, select: Selection) -> Observed<Listed<K>> {
    // Boxed: a request is a large future, and a round has many.
    match Box::pin(pages(transport, client, select)).await? {
        Some(listed) => Ok(listed),
        None => Box::pin(pages(transport, client, select))
            .await?
            .ok_or_else(|| Gap::new(GapKind::ServerError, "410: the list expired twice while it was read")),
    }
}

/// `None`: a continuation has expired.
async fn pages<K: Kind>(transport: &Transport, client: &Client, select: Selection) -> Observed<Option<Listed<K>>> {
    let mut listed = Listed { date: None, items: Vec::new() };
    let mut names = BTreeSet::new();
    let mut bytes = 0;
    let mut next: Option<String> = None;
    for page in 0..PAGES {
        // No `resourceVersion`: a list from the server's cache answers without quorum, and lies.
        let mut parameters = ListParams::default().limit(PAGE);
        parameters.label_selector = select.labels.map(str::to_owned);
        parameters.continue_token.clone_from(&next);
        let request = kube::core::Request::new(K::url_path(&(), select.namespace))
            .list(&parameters)
            .map_err(|error| Gap::new(GapKind::Malformed, gaps::short(&error.to_string())))?;
        let answer = transport.ask(client, request, PAGE_BYTES.min(LIST_BYTES - bytes)).await?;
        if answer.status == StatusCode::GONE && next.is_some() {
            return Ok(None);
        }
        bytes += answer.body.len();
        if page == 0 {
            listed.date = answer.date;
        }
        let (items, more) = parse::<K>(&answer, select.namespace)?;
        for item in &items {
            let name = Metadata::metadata(item).name.clone().unwrap_or_default();
            // Whoever repeats a page keeps another one back.
            if let Some(name) = names.replace(name) {
                let text = format!("`{}` has `{name}` twice", K::LIST_KIND);
                return Err(Gap::new(GapKind::Malformed, gaps::short(&text)));
            }
        }
        listed.items.extend(items);
        if more.is_none() {
            return Ok(Some(listed));
        }
        next = more;
    }
    Err(Gap::new(GapKind::TooLarge, format!("the list has more than {PAGES} pages of {PAGE}")))
}

#[derive(Deserialize)]
struct Page<K> {
    kind: String,
    #[serde(rename = "apiVersion")]
    api_version: String,
    #[serde(default)]
    metadata: PageMeta,
    /// Has to be there, and may be `null`, which is Go's empty list.
    #[serde(bound(deserialize = "K: DeserializeOwned"), deserialize_with = "nullable")]
    items: Vec<K>,
}

#[derive(Default, Deserialize)]
struct PageMeta {
    #[serde(default, rename = "continue")]
    next: Option<String>,
}

fn nullable<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

fn parse<K: Kind>(answer: &Answer, namespace: Option<&str>) -> Observed<(Vec<K>, Option<String>)> {
    if answer.status != StatusCode::OK {
        return Err(gaps::from_status(answer.status, &answer.body));
    }
    let malformed = |text: &str| Gap::new(GapKind::Malformed, gaps::short(text));
    let page: Page<K> = serde_json::from_slice(&answer.body).map_err(|error| malformed(&error.to_string()))?;
    if (page.kind.as_str(), page.api_version.as_str()) != (K::LIST_KIND, <K as Resource>::API_VERSION) {
        return Err(malformed(&format!(
            "asked for `{}`, answered `{}` of `{}`",
            K::LIST_KIND,
            gaps::short(&page.kind),
            gaps::short(&page.api_version)
        )));
    }
    for item in &page.items {
        let metadata = Metadata::metadata(item);
        if metadata.name.as_deref().unwrap_or_default().is_empty() {
            return Err(malformed(&format!("`{}` has an item without a name", K::LIST_KIND)));
        }
        if namespace.is_some() && metadata.namespace.as_deref() != namespace {
            return Err(malformed(&format!("`{}` has an item of another namespace", K::LIST_KIND)));
        }
    }
    Ok((page.items, page.metadata.next.filter(|next| !next.is_empty())))
}

/// Keeps the selections honest: kinds with a namespace are listed in one.
pub(super) async fn list_in<K: Kind + Resource<Scope = NamespaceResourceScope>>(
    transport: &Transport,
    client: &Client,
    namespace: &'static str,
    labels: Option<&'static str>,
) -> Observed<Listed<K>> {
    list(transport, client, Selection { namespace: Some(namespace), labels }).await
}
