//! Watches, which send the existing resources and then their changes.

use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream;
use talos_api::cosi::resource::event::Type;
use talos_api::cosi::resource::{Event, Resource, WatchRequest, WatchResponse};
use tokio::sync::watch::Receiver;
use tonic::Status;
use tonic::codegen::BoxStream;

use super::cosi::Source;
use super::query::Query;
use crate::cosi::OfKind;
use crate::state::ClusterState;
use crate::world;

/// Streams events until the caller disconnects. The first answer is empty: all later changes are sent.
pub(super) fn watch(
    state: Arc<ClusterState>,
    source: Source,
    request: WatchRequest,
) -> Result<BoxStream<WatchResponse>, Status> {
    let options = request.options.unwrap_or_default();
    let changes = state.changes();
    let known = source.all(&state.world());
    let mut watch = Watch {
        source,
        id: request.id,
        query: Query::new(options.label_query.clone(), options.id_query.as_ref())?,
        tells_markers: request.api_version >= 1,
        aggregated: options.aggregated,
        known,
    };
    let first = match &watch.id {
        Some(_) if options.bootstrap_contents => {
            return Err(Status::unimplemented("bootstrap contents is not implemented for resource watch"));
        }
        Some(_) if !options.label_query.is_empty() => {
            return Err(Status::unimplemented("label query is not implemented for resource watch"));
        }
        Some(id) => vec![watch.present(id)],
        None if options.bootstrap_contents => watch.contents(),
        None => Vec::new(),
    };
    // A watch of a single resource never gets several events in one answer.
    watch.aggregated &= watch.id.is_none();
    let begin = std::iter::once(WatchResponse::default()).chain(watch.answers(first)).map(Ok);
    Ok(stream::iter(begin.collect::<Vec<_>>()).chain(watch.changes(state, changes)).boxed())
}

struct Watch {
    source: Source,
    /// `None`: all resources of the type.
    id: Option<String>,
    query: Query,
    /// Whether the caller understands events that are not changes.
    tells_markers: bool,
    /// Whether simultaneous events are sent in one answer.
    aggregated: bool,
    /// The resources that were sent last.
    known: OfKind,
}

impl Watch {
    /// The current state of the watched resource.
    fn present(&self, id: &str) -> Event {
        match self.known.get(id) {
            Some(resource) => event(Type::Created, self.source.encode(id, resource)),
            None => event(Type::Destroyed, self.source.tombstone(id)),
        }
    }

    /// Events for all existing resources, followed by an end marker.
    fn contents(&self) -> Vec<Event> {
        let all = self.known.iter().filter(|(id, resource)| self.wants(id, resource));
        let created = all.map(|(id, resource)| event(Type::Created, self.source.encode(id, resource)));
        let end = self.tells_markers.then(|| event(Type::Bootstrapped, self.source.tombstone("")));
        created.chain(end).collect()
    }

    fn wants(&self, id: &str, resource: &world::Resource) -> bool {
        match &self.id {
            Some(watched) => watched == id,
            None => self.query.fits(id, resource),
        }
    }

    /// Events for all changes since the last call. Several changes of one resource are combined.
    fn changed(&mut self, now: OfKind) -> Vec<Event> {
        if Arc::ptr_eq(&self.known, &now) {
            return Vec::new();
        }
        let before = std::mem::replace(&mut self.known, now);
        let mut events = Vec::new();
        for (id, resource) in &*self.known {
            let old = before.get(id).filter(|old| self.wants(id, old));
            let of = |kind| event(kind, self.source.encode(id, resource));
            match old {
                Some(old) if Arc::ptr_eq(old, resource) => {}
                Some(old) if self.wants(id, resource) => {
                    events.push(Event { old: Some(self.source.encode(id, old)), ..of(Type::Updated) });
                }
                // Its labels no longer match.
                Some(_) => events.push(of(Type::Destroyed)),
                None if self.wants(id, resource) => events.push(of(Type::Created)),
                None => {}
            }
        }
        let gone = before.iter().filter(|(id, old)| !self.known.contains_key(*id) && self.wants(id, old));
        events.extend(gone.map(|(id, old)| event(Type::Destroyed, self.source.encode(id, old))));
        events
    }

    fn answers(&self, events: Vec<Event>) -> Vec<WatchResponse> {
        if self.aggregated && !events.is_empty() {
            return vec![WatchResponse { event: events }];
        }
        events.into_iter().map(|event| WatchResponse { event: vec![event] }).collect()
    }

    /// Streams changes until the machine is gone. While the machine is silent, changes accumulate.
    fn changes(self, state: Arc<ClusterState>, changes: Receiver<u64>) -> BoxStream<WatchResponse> {
        let answers = stream::unfold(Some((self, state, changes)), |going_on| async {
            let (mut watch, state, mut changes) = going_on?;
            changes.changed().await.ok()?;
            let now = {
                let world = state.world();
                watch.source.answers(&world).map(|answers| answers.then(|| watch.source.all(&world)))
            };
            let events = match now {
                Ok(now) => now.map(|now| watch.changed(now)).unwrap_or_default(),
                Err(gone) => return Some((vec![Err(gone)], None)),
            };
            let answers = watch.answers(events).into_iter().map(Ok).collect();
            Some((answers, Some((watch, state, changes))))
        });
        answers.map(stream::iter::<Vec<_>>).flatten().boxed()
    }
}

fn event(kind: Type, resource: Resource) -> Event {
    Event { resource: Some(resource), event_type: kind.into(), old: None, error: None }
}
