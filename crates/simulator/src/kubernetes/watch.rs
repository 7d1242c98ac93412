//! Watches, which send events whenever the world changes.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures::stream;
use http_body_util::StreamBody;
use hyper::body::{Bytes, Frame};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::watch::Receiver;
use tokio::time::{Instant, timeout_at};
use tonic::body::Body;

use super::list::{self, Request};
use super::query::Query;
use super::reply::{Form, line};
use super::{api, table};
use crate::state::ClusterState;
use crate::world::{World, revision};

/// Default and maximum duration of a watch.
const LASTS: Duration = Duration::from_secs(3600);

/// A requested watch.
pub(super) struct Watch {
    request: Request,
    form: Form,
    /// Whether existing objects are sent as added.
    tells_all: bool,
    /// Whether an event marks the end of the existing objects.
    ends_all: bool,
    lasts: Duration,
}

impl Watch {
    pub(super) fn new(request: Request, form: Form, query: &Query) -> Self {
        let ends_all = query.is("sendInitialEvents");
        let seconds = query.get("timeoutSeconds").and_then(|seconds| seconds.parse().ok());
        Self {
            request,
            form,
            tells_all: ends_all || matches!(query.get("resourceVersion"), None | Some("0")),
            ends_all,
            lasts: seconds.map_or(LASTS, |seconds| Duration::from_secs(seconds).min(LASTS)),
        }
    }

    pub(super) fn body(self, state: &Arc<ClusterState>) -> Body {
        let until = Instant::now() + self.lasts;
        let changes = state.changes();
        let mut watching = Watching { watch: self, known: BTreeMap::new(), events: VecDeque::new() };
        watching.begin(&state.world());
        let state = Arc::clone(state);
        let begin = (watching, state, changes, until);
        Body::new(StreamBody::new(stream::unfold(begin, async |(mut watching, state, mut changes, until)| {
            let event = watching.next(&state, &mut changes, until).await?;
            Some((Ok::<_, Infallible>(Frame::data(event)), (watching, state, changes, until)))
        })))
    }
}

struct Watching {
    watch: Watch,
    /// Objects that the client knows. Renewals of leases are not sent.
    known: BTreeMap<(String, String), Value>,
    events: VecDeque<Bytes>,
}

impl Watching {
    fn begin(&mut self, world: &World) {
        self.look(world);
        if !self.watch.tells_all {
            self.events.clear();
        }
        if self.watch.ends_all {
            let version = revision(Timestamp::now()).to_string();
            let annotations = json!({"k8s.io/initial-events-end": "true"});
            let end = json!({"metadata": {"resourceVersion": version, "annotations": annotations}});
            let object = api::whole(self.watch.request.kind, &end);
            self.events.push_back(line(&json!({"type": "BOOKMARK", "object": object})).into());
        }
    }

    /// Returns the next event, or `None` when the time of the watch is over.
    async fn next(&mut self, state: &ClusterState, changes: &mut Receiver<u64>, until: Instant) -> Option<Bytes> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
            timeout_at(until, changes.changed()).await.ok()?.ok()?;
            self.look(&state.world());
        }
    }

    /// Queues events for all differences between the known objects and the world.
    fn look(&mut self, world: &World) {
        let request = &self.watch.request;
        let mut gone = std::mem::take(&mut self.known);
        for object in list::objects(world, request.kind).iter().filter(|object| request.wants(object)) {
            let (namespace, name) = list::key(object);
            let key = (namespace.to_owned(), name.to_owned());
            match gone.remove(&key) {
                Some(known) if known == *object => {}
                Some(_) => self.events.push_back(self.watch.event("MODIFIED", object, world)),
                None => self.events.push_back(self.watch.event("ADDED", object, world)),
            }
            self.known.insert(key, object.clone());
        }
        for object in gone.values() {
            self.events.push_back(self.watch.event("DELETED", object, world));
        }
    }
}

impl Watch {
    fn event(&self, kind: &str, object: &Value, world: &World) -> Bytes {
        let resource = self.request.kind;
        let object = super::lease::present(world, resource, object);
        let object = match self.form {
            Form::Table => {
                let metadata = json!({"resourceVersion": object["metadata"]["resourceVersion"]});
                table::table(resource, &metadata, std::iter::once(object), world.now())
            }
            Form::Partial => table::partial(&object),
            Form::Plain | Form::Discovery { .. } => api::whole(resource, &object),
        };
        line(&json!({"type": kind, "object": object})).into()
    }
}
