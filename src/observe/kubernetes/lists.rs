//! Lists of objects: typed, paginated, bounded, and always read through a quorum.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;

use http::StatusCode;
use jiff::Timestamp;
use k8s_openapi::{ListableResource, NamespaceResourceScope, Resource};
use kube::api::ListParams;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::client::{Answer, Transport};
use super::gaps;
use super::intake::Keep;
use super::whom::Trusted;
use super::wire::{self, Object};
use crate::snapshot::{Gap, GapKind, Observed};

/// Limit for the objects of one list.
const MOST: usize = 20_000;
/// Objects per page.
const PAGE: u32 = 500;
/// Size limit for one page. A Node with its image list and managed fields has 10 to 25 kB.
const PAGE_BYTES: usize = 16 << 20;
/// Average size of an object, of which a small part is kept.
const OBJECT_BYTES: usize = 26 << 10;
/// Size up to which an answer is parsed on the shared thread; longer ones are parsed on a separate thread.
const AT_ONCE: usize = 128 << 10;

/// A whole list, and the server's clock at the time of the list.
#[derive(Debug)]
pub(super) struct Listed<T> {
    pub(super) date: Option<Timestamp>,
    /// The server's clock at the last page.
    pub(super) last_date: Option<Timestamp>,
    pub(super) items: Vec<Item<T>>,
}

/// The part of an object that is kept. The object is parsed as its whole type, to detect one of another type, and then dropped: a list has
/// thousands.
#[derive(Debug)]
pub(super) struct Item<T> {
    pub(super) name: String,
    pub(super) namespace: Option<String>,
    pub(super) kept: T,
}

/// The part of an object that is kept.
pub(super) trait Kept: Debug + Send + Sized + 'static {
    type Object: Object;

    /// Limit for the objects of one list.
    const MOST: usize = MOST;
    /// Objects per page.
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

/// The objects to list: namespace, labels, fields. Without a namespace, all namespaces are listed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Selection<'a> {
    pub(super) namespace: Option<&'a str>,
    pub(super) labels: Option<&'a str>,
    pub(super) fields: Option<&'a str>,
}

/// The Kubernetes type of the listed objects. kube knows its paths, k8s-openapi its names.
type Kind<T> = <<T as Kept>::Object as Object>::Kind;

/// A list request: its path, its limits, and the type that the answer has to declare.
struct Which {
    path: String,
    /// The kind of the list. A definition may choose its own name for it; then the objects have to declare their kind.
    kind: Cow<'static, str>,
    is_own_choice: bool,
    api_version: String,
    most: usize,
    of_page: u32,
}

impl Which {
    fn of<T: Kept>(namespace: Option<&str>) -> Self {
        Self {
            path: <Kind<T> as kube::Resource>::url_path(&(), namespace),
            kind: Kind::<T>::LIST_KIND.into(),
            is_own_choice: false,
            api_version: <Kind<T> as Resource>::API_VERSION.to_owned(),
            most: T::MOST,
            of_page: T::OF_PAGE,
        }
    }

    fn is_kind(&self, kind: &str) -> bool {
        kind == self.kind || (self.is_own_choice && kind.ends_with("List"))
    }
}

/// Reads a list to its end. If a continuation expires on the way (410), the list is started over once.
pub(super) async fn list<T: Kept>(transport: &Transport, from: &Trusted, select: Selection<'_>) -> Observed<Listed<T>> {
    let which = Arc::new(Which::of::<T>(select.namespace));
    let read = async |answer: Answer| read(answer, Arc::clone(&which), select.namespace, parse::<T>).await;
    // Boxed: a request is a large future, and a round has many.
    Box::pin(whole(transport, from, select, &which, read)).await
}

/// A kind known only from discovery.
pub(super) struct Dynamic<'a> {
    pub(super) group: &'a str,
    pub(super) version: &'a str,
    pub(super) plural: &'a str,
    pub(super) kind: &'a str,
}

impl Dynamic<'_> {
    fn which(&self, namespace: Option<&str>) -> Which {
        let Self { group, version, plural, kind } = self;
        let api_version = if group.is_empty() { (*version).to_owned() } else { format!("{group}/{version}") };
        let root = if group.is_empty() { "/api" } else { "/apis" };
        let namespace = namespace.map(|namespace| format!("namespaces/{namespace}/")).unwrap_or_default();
        let path = format!("{root}/{api_version}/{namespace}{plural}");
        Which {
            path,
            kind: format!("{kind}List").into(),
            // Groups of Kubernetes itself have no definitions.
            is_own_choice: group.contains('.') && !group.ends_with(".k8s.io"),
            api_version,
            most: MOST,
            of_page: PAGE,
        }
    }
}

/// Reads a list of objects of any kind. Each object is dropped once `keep` has extracted the needed part.
pub(super) async fn list_dynamic<K: Debug + Send + 'static>(
    transport: &Transport,
    from: &Trusted,
    of: &Dynamic<'_>,
    select: Selection<'_>,
    keep: impl Fn(&Value) -> Observed<K> + Clone + Send + 'static,
) -> Observed<Listed<K>> {
    let which = Arc::new(of.which(select.namespace));
    let read = async |answer: Answer| {
        let keep = keep.clone();
        let parse = move |answer: &Answer, which: &Which, namespace: Option<&str>| {
            parse_dynamic(answer, which, namespace, &keep)
        };
        read(answer, Arc::clone(&which), select.namespace, parse).await
    };
    // Boxed: a request is a large future, and a round has many.
    Box::pin(whole(transport, from, select, &which, read)).await
}

type PageOf<T> = (Vec<Item<T>>, Option<String>);

async fn whole<T: Debug>(
    transport: &Transport,
    from: &Trusted,
    select: Selection<'_>,
    which: &Which,
    read: impl AsyncFn(Answer) -> Observed<PageOf<T>>,
) -> Observed<Listed<T>> {
    match pages(transport, from, select, which, &read).await? {
        Some(listed) => Ok(listed),
        None => pages(transport, from, select, which, &read)
            .await?
            .ok_or_else(|| Gap::new(GapKind::ServerError, "410: the list expired twice while it was read")),
    }
}

/// Reads all pages. `None` if a continuation has expired.
async fn pages<T: Debug>(
    transport: &Transport,
    from: &Trusted,
    select: Selection<'_>,
    which: &Which,
    read: &impl AsyncFn(Answer) -> Observed<PageOf<T>>,
) -> Observed<Option<Listed<T>>> {
    let mut listed = Listed { date: None, last_date: None, items: Vec::new() };
    let mut names = BTreeSet::new();
    let mut bytes = 0;
    let mut next: Option<String> = None;
    for page in 0..which.most / which.of_page as usize {
        // No `resourceVersion`: a list from the server's cache is answered without a quorum and may be stale.
        let mut parameters = ListParams::default().limit(which.of_page);
        parameters.label_selector = select.labels.map(str::to_owned);
        parameters.field_selector = select.fields.map(str::to_owned);
        parameters.continue_token.clone_from(&next);
        let request = kube::core::Request::new(&which.path)
            .list(&parameters)
            .map_err(|error| Gap::new(GapKind::Malformed, gaps::short(&error.to_string())))?;
        let limit = Keep::All(PAGE_BYTES.min((which.most * OBJECT_BYTES).saturating_sub(bytes)));
        let answer = transport.ask(from, request, limit).await?;
        if answer.status == StatusCode::GONE && next.is_some() {
            return Ok(None);
        }
        bytes += answer.body.len();
        if page == 0 {
            listed.date = answer.date;
        }
        listed.last_date = answer.date;
        let (items, more) = read(answer).await?;
        transport.budget.pay(&items)?;
        for item in &items {
            // A server that repeats a page may be withholding another one.
            if let Some((_, name)) = names.replace((item.namespace.clone(), item.name.clone())) {
                let text = format!("`{}` has `{name}` twice", which.kind);
                return Err(Gap::new(GapKind::Malformed, gaps::short(&text)));
            }
        }
        listed.items.extend(items);
        if more.is_none() {
            return Ok(Some(listed));
        }
        next = more;
    }
    Err(Gap::new(GapKind::TooLarge, format!("the list has more than {} objects", which.most)))
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
    #[serde(default, rename = "remainingItemCount")]
    left: Option<i64>,
}

async fn read<T: Send + 'static>(
    answer: Answer,
    which: Arc<Which>,
    namespace: Option<&str>,
    parse: impl FnOnce(&Answer, &Which, Option<&str>) -> Observed<PageOf<T>> + Send + 'static,
) -> Observed<PageOf<T>> {
    if answer.body.len() < AT_ONCE {
        return parse(&answer, &which, namespace);
    }
    let namespace = namespace.map(str::to_owned);
    let parsed = tokio::task::spawn_blocking(move || parse(&answer, &which, namespace.as_deref())).await;
    parsed.unwrap_or_else(|_| Err(Gap::new(GapKind::Malformed, "the answer cannot be read")))
}

fn parse<T: Kept>(answer: &Answer, which: &Which, namespace: Option<&str>) -> Observed<PageOf<T>> {
    of_which(page::<Item<T>>(answer)?, which, namespace)
}

/// The identifying fields of an object whose kind is known only from discovery.
#[derive(Deserialize)]
struct Named {
    /// Set on objects of a definition, but not on those of a built-in kind.
    kind: Option<String>,
    metadata: NamedMeta,
}

#[derive(Deserialize)]
struct NamedMeta {
    #[serde(default)]
    name: String,
    #[serde(default)]
    namespace: Option<String>,
}

fn parse_dynamic<K>(
    answer: &Answer,
    which: &Which,
    namespace: Option<&str>,
    keep: &impl Fn(&Value) -> Observed<K>,
) -> Observed<PageOf<K>> {
    let Page { kind, api_version, metadata, items } = page::<Box<RawValue>>(answer)?;
    let item = |raw: Box<RawValue>| {
        let read = |error: serde_json::Error| Gap::new(GapKind::Malformed, gaps::short(&error.to_string()));
        let Named { kind, metadata: NamedMeta { name, namespace } } = serde_json::from_str(raw.get()).map_err(read)?;
        if kind.as_ref().is_some_and(|kind| format!("{kind}List") != which.kind) {
            let text = format!("`{}` has an item of kind `{}`", which.kind, kind.unwrap_or_default());
            return Err(Gap::new(GapKind::Malformed, gaps::short(&text)));
        }
        // Parsed one at a time: as values, a page would take a multiple of its length.
        let object: Value = serde_json::from_str(raw.get()).map_err(read)?;
        Ok(Item { name, namespace, kept: keep(&object)? })
    };
    let items = items.into_iter().map(item).collect::<Observed<Vec<_>>>()?;
    of_which(Page { kind, api_version, metadata, items }, which, namespace)
}

fn page<T: DeserializeOwned>(answer: &Answer) -> Observed<Page<T>> {
    wire::page(answer.body_if_ok()?).map_err(|error| match error.to_string() {
        text if text.contains(wire::TOO_MANY) => Gap::new(GapKind::TooLarge, gaps::short(&text)),
        text => Gap::new(GapKind::Malformed, gaps::short(&text)),
    })
}

/// Returns the content of a page, if it belongs to the requested list.
fn of_which<T>(page: Page<Item<T>>, which: &Which, namespace: Option<&str>) -> Observed<PageOf<T>> {
    let malformed = |text: &str| Gap::new(GapKind::Malformed, gaps::short(text));
    let shown = &which.kind;
    if !which.is_kind(&page.kind) || page.api_version != which.api_version {
        let (is, of) = (gaps::short(&page.kind), gaps::short(&page.api_version));
        return Err(malformed(&format!("requested `{shown}`, got `{is}` of `{of}`")));
    }
    let next = page.metadata.next.filter(|next| !next.is_empty());
    if next.is_none() && page.metadata.left.is_some_and(|left| left > 0) {
        return Err(malformed(&format!("`{shown}` is cut: there are more, without a token to continue")));
    }
    for item in &page.items {
        if item.name.is_empty() {
            return Err(malformed(&format!("`{shown}` has an item without a name")));
        }
        if namespace.is_some() && item.namespace.as_deref() != namespace {
            return Err(malformed(&format!("`{shown}` has an item of another namespace")));
        }
    }
    Ok((page.items, next))
}

/// Lists objects in one namespace; the type bound ensures that the kind has namespaces.
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
    use super::super::slices::Slice;
    use super::*;
    use crate::snapshot::{BoundPod, DisruptionBudget, KubeNode, Lease, Pod, PodEvent, SigningRequest};

    fn try_as<T: Kept>(bytes: &[u8]) {
        // The fuzzer finds single objects more easily than whole lists, so it also supplies the items of a valid list.
        let _ = wire::page::<Item<T>>(bytes);
        let kind = format!(
            r#"{{"kind":"{}","apiVersion":"{}","items":["#,
            Kind::<T>::LIST_KIND,
            <Kind<T> as Resource>::API_VERSION
        );
        let body = [kind.as_bytes(), bytes, b"]}"].concat();
        let answer = Answer { status: StatusCode::OK, date: None, certificate: None, body, later: None, leave: None };
        let _ = parse::<T>(&answer, &Which::of::<T>(None), None);
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
