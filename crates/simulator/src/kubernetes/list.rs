//! Lists of objects: sorted, selected, in pages.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hyper::body::Bytes;
use jiff::Timestamp;
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Value, json};

use super::failure::Failure;
use super::kinds::ResourceType;
use super::lease;
use super::query::Query;
use super::selector::Selector;
use crate::world::{World, revision};

/// Number of revisions that etcd keeps, which is five minutes' worth. Previous states of a list are not kept here at
/// all.
const COMPACTION: u64 = 300_000;

/// All objects of a resource at one revision of the world, sorted and encoded.
#[derive(Debug)]
struct Listing {
    /// Revision of the world.
    revision: u64,
    /// etcd's revision since which the objects are known to be unchanged; 0 for the first listing.
    since: u64,
    /// Indices into the world's objects, sorted by key.
    order: Vec<usize>,
    /// JSON of all objects, separated by commas.
    json: Bytes,
    /// Range of each object in the JSON, in the same order.
    ranges: Vec<Range<usize>>,
}

/// Listings for all API servers, kept until the world changes, because a thousand nodes are megabytes.
#[derive(Debug, Default)]
pub(super) struct Listings(Mutex<HashMap<&'static str, Arc<Listing>>>);

impl Listings {
    fn of(&self, world: &World, revision_of_world: u64, kind: &'static ResourceType) -> Arc<Listing> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Leases change all the time.
        let old = kept.get(kind.plural).filter(|_| !lease::is_lease(kind));
        if let Some(listing) = old.filter(|listing| listing.revision == revision_of_world) {
            return Arc::clone(listing);
        }
        let mut listing = Listing::of(world, revision_of_world, kind);
        if let Some(old) = old {
            // The revision has to be later than any that was sent for the old objects.
            listing.since = if old.json == listing.json { old.since } else { old.now() + 1 };
        }
        let listing = Arc::new(listing);
        kept.insert(kind.plural, Arc::clone(&listing));
        listing
    }
}

impl Listing {
    fn of(world: &World, revision: u64, kind: &'static ResourceType) -> Self {
        let objects = objects(world, kind);
        let mut order: Vec<usize> = (0..objects.len()).collect();
        // etcd sorts by key.
        order.sort_by_cached_key(|index| {
            let (namespace, name) = key(&objects[*index]);
            format!("{namespace}/{name}")
        });
        let mut json = Vec::new();
        let mut ranges = Vec::with_capacity(objects.len());
        for index in &order {
            if !json.is_empty() {
                json.push(b',');
            }
            let start = json.len();
            // Writing into memory does not fail.
            let _ = serde_json::to_writer(&mut json, &Item(&lease::present(world, kind, &objects[*index])));
            ranges.push(start..json.len());
        }
        Self { revision, since: 0, order, json: json.into(), ranges }
    }

    /// etcd's current revision.
    fn now(&self) -> u64 {
        revision(Timestamp::now()).max(self.since)
    }
}

/// An object in a list, without its kind, which is that of the list.
pub(super) struct Item<'a>(pub(super) &'a Value);

impl Serialize for Item<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (key, value) in self.0.as_object().into_iter().flatten() {
            if key != "kind" && key != "apiVersion" {
                map.serialize_entry(key, value)?;
            }
        }
        map.end()
    }
}

/// Objects of a resource.
pub(super) fn objects<'a>(world: &'a World, kind: &ResourceType) -> &'a [Value] {
    world.kubernetes.objects.get(&kind.resource()).map_or(&[], Vec::as_slice)
}

/// Namespace and name.
pub(super) fn key(object: &Value) -> (&str, &str) {
    let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default();
    (text("namespace"), text("name"))
}

/// A request for a list.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) kind: &'static ResourceType,
    pub(super) namespace: Option<String>,
    pub(super) selector: Selector,
    limit: Option<usize>,
    resume: Option<Token>,
    version: Version,
}

/// `resourceVersion` of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    /// The newest state according to etcd.
    Newest,
    /// The state in the server's cache.
    Any,
    NotOlder(u64),
}

impl Version {
    pub(super) fn of(query: &Query) -> Result<Self, Failure> {
        match query.get("resourceVersion") {
            None => Ok(Self::Newest),
            Some("0") => Ok(Self::Any),
            Some(text) => text.parse().map(Self::NotOlder).map_err(|_| {
                let parsing = format!("strconv.ParseUint: parsing {text:?}: invalid syntax");
                Failure::bad_request(format!(
                    "invalid resource version: resourceVersion: Invalid value: {text:?}: {parsing}"
                ))
            }),
        }
    }

    /// Rejects revisions in the future.
    pub(super) fn check(self, now: u64) -> Result<(), Failure> {
        match self {
            Self::NotOlder(asked) if asked > now => Err(Failure::too_new(asked, now)),
            _ => Ok(()),
        }
    }
}

/// `continue` token of a list, in the format of API servers.
#[derive(Debug, Deserialize, Serialize)]
struct Token {
    v: String,
    /// Revision of the list; -1 for the current one.
    rv: i64,
    /// Key of the last object that was sent, followed by a NUL.
    start: String,
}

impl Token {
    const VERSION: &str = "meta.k8s.io/v1";

    fn read(text: &str) -> Result<Self, Failure> {
        let invalid =
            |why: String| Failure::bad_request(format!("invalid continue token: continue key is not valid: {why}"));
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|error| invalid(error.to_string()))?;
        let token: Self = serde_json::from_slice(&bytes).map_err(|error| invalid(error.to_string()))?;
        if token.v != Self::VERSION {
            return Err(invalid(format!("server does not recognize this encoded version {:?}", token.v)));
        }
        Ok(token)
    }

    fn write(rv: i64, start: String) -> String {
        let token = Self { v: Self::VERSION.to_owned(), rv, start };
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(&token).unwrap_or_default())
    }
}

impl Request {
    pub(super) fn of(kind: &'static ResourceType, namespace: Option<String>, query: &Query) -> Result<Self, Failure> {
        let text = |key| query.get(key).unwrap_or_default();
        let limit = query.get("limit").map(|text| {
            let syntax = || Failure::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax"));
            text.parse::<usize>().map_err(|_| syntax())
        });
        Ok(Self {
            kind,
            namespace,
            selector: Selector::parse(kind, text("labelSelector"), text("fieldSelector"))
                .map_err(Failure::bad_request)?,
            limit: limit.transpose()?.filter(|limit| *limit > 0),
            resume: query.get("continue").map(Token::read).transpose()?,
            version: Version::of(query)?,
        })
    }

    /// Whether the request needs etcd.
    pub(super) fn is_consistent(&self) -> bool {
        self.version == Version::Newest
    }

    /// Whether the request selects an object.
    pub(super) fn wants(&self, object: &Value) -> bool {
        self.namespace.as_ref().is_none_or(|namespace| object["metadata"]["namespace"] == **namespace)
            && self.selector.fits(object)
    }

    /// The key after an object at which the list continues, relative to the listed path.
    fn start_behind(&self, object: &Value) -> String {
        let (namespace, name) = key(object);
        if self.namespace.is_some() || namespace.is_empty() {
            format!("/{name}\0")
        } else {
            format!("/{namespace}/{name}\0")
        }
    }
}

/// One page of a list.
pub(super) struct Page<'a> {
    /// `resourceVersion`, and if objects are left, `continue` and their number.
    pub(super) metadata: Value,
    listing: Arc<Listing>,
    /// Positions in the listing.
    chosen: Vec<usize>,
    objects: &'a [Value],
}

impl Listings {
    pub(super) fn page<'a>(
        &self,
        world: &'a World,
        revision_of_world: u64,
        request: &Request,
    ) -> Result<Page<'a>, Failure> {
        let listing = self.of(world, revision_of_world, request.kind);
        let now = listing.now();
        request.version.check(now)?;
        let objects = objects(world, request.kind);
        let oldest = listing.since.max(now.saturating_sub(COMPACTION));
        let version = match &request.resume {
            Some(token) if token.rv < 0 => now,
            Some(token) => match u64::try_from(token.rv) {
                Ok(version) if (oldest..=now).contains(&version) => version,
                _ => return Err(Failure::expired(Token::write(-1, token.start.clone()))),
            },
            None => now,
        };
        let behind = |position: usize| {
            let start = request.resume.as_ref().map(|token| token.start.as_str());
            start.is_none_or(|start| *request.start_behind(&objects[listing.order[position]]) > *start)
        };
        let wanted = |position: &usize| request.wants(&objects[listing.order[*position]]) && behind(*position);
        let mut chosen: Vec<usize> = (0..listing.order.len()).filter(wanted).collect();
        // A list from the cache is not limited.
        let limit = request.limit.filter(|_| request.version != Version::Any || request.resume.is_some());
        let limit = limit.unwrap_or(usize::MAX).min(world.kubernetes.page.unwrap_or(usize::MAX));
        let missing = chosen.len().saturating_sub(limit);
        chosen.truncate(limit);
        let mut metadata = json!({"resourceVersion": version.to_string()});
        if let Some(last) = chosen.last().filter(|_| missing > 0) {
            let start = request.start_behind(&objects[listing.order[*last]]);
            metadata["continue"] = Token::write(i64::try_from(version).unwrap_or_default(), start).into();
            if request.selector.is_empty() {
                metadata["remainingItemCount"] = missing.into();
            }
        }
        Ok(Page { metadata, listing, chosen, objects })
    }
}

impl<'a> Page<'a> {
    pub(super) fn objects(&self) -> impl Iterator<Item = &'a Value> {
        self.chosen.iter().map(|position| &self.objects[self.listing.order[*position]])
    }

    /// Encodes the page, for example as a `NodeList`.
    pub(super) fn bytes(&self, kind: &ResourceType) -> Vec<u8> {
        let size: usize = self.chosen.iter().map(|position| self.listing.ranges[*position].len() + 1).sum();
        let mut body = Vec::with_capacity(size + 1024);
        let head = format!(
            r#"{{"kind":"{}List","apiVersion":"{}","metadata":{},"items":["#,
            kind.kind,
            kind.api_version(),
            self.metadata
        );
        body.extend_from_slice(head.as_bytes());
        for (index, position) in self.chosen.iter().enumerate() {
            if index > 0 {
                body.push(b',');
            }
            body.extend_from_slice(&self.listing.json[self.listing.ranges[*position].clone()]);
        }
        body.extend_from_slice(b"]}\n");
        body
    }
}
