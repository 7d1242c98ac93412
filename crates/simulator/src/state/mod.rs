//! The current state of a cluster, shared by all of its servers: its world, and the calls that it received.

mod calls;

use std::cmp::Reverse;
use std::net::{IpAddr, SocketAddr};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use tokio::sync::watch;

pub use self::calls::{Calls, Count};
use crate::address::API_SERVER;
use crate::credentials::kubeconfig;
use crate::pki::{Flaw, Pki};
use crate::world::{Misbehavior, Server, World};

/// The world, and the calls that it received.
pub(crate) struct ClusterState {
    world: RwLock<World>,
    /// Number of changes of the world; tasks with connections or streams wait for it to change.
    revision: watch::Sender<u64>,
    pub(crate) calls: Calls,
    pub(crate) pki: Pki,
    /// Address of the Kubernetes endpoint.
    balancer: IpAddr,
    on_change: Vec<OnChange>,
    on_call: Vec<OnCall>,
}

type OnChange = Box<dyn Fn(&World) + Send + Sync>;
type OnCall = Box<dyn Fn(&ClusterState, &Server, &str) + Send + Sync>;

impl ClusterState {
    pub(crate) fn new(world: World, pki: Pki, balancer: IpAddr) -> Self {
        let (world, revision) = (RwLock::new(world), watch::Sender::new(0));
        Self { world, revision, calls: Calls::default(), pki, balancer, on_change: Vec::new(), on_call: Vec::new() }
    }

    /// Adds a function that runs after every change, before [`change`](Self::change) returns.
    pub(crate) fn on_change(mut self, follow: impl Fn(&World) + Send + Sync + 'static) -> Self {
        self.on_change.push(Box::new(follow));
        self
    }

    /// Adds a function that runs before a call is answered.
    pub(crate) fn on_call(mut self, act: impl Fn(&Self, &Server, &str) + Send + Sync + 'static) -> Self {
        self.on_call.push(Box::new(act));
        self
    }

    /// Address of the Kubernetes API in kubeconfigs.
    pub(crate) fn endpoint(&self, world: &World) -> SocketAddr {
        match world.kubeconfig_server {
            Some(machine) => SocketAddr::new(machine, world.api_port),
            None => SocketAddr::new(self.balancer, API_SERVER),
        }
    }

    /// Creates a kubeconfig; `admin` is in the group `system:masters`.
    pub(crate) fn kubeconfig(&self, user: &str, flaw: Flaw) -> anyhow::Result<String> {
        let groups: &[&str] = if user == "admin" { &["system:masters"] } else { &[] };
        let leaf = self.pki.kubernetes.client(user, groups, flaw)?;
        let world = self.world();
        Ok(kubeconfig(&world.cluster, user, self.endpoint(&world), self.pki.kubernetes.pem(), &leaf))
    }

    /// Locks the world for reading. The guard must never be held across an await point.
    pub(crate) fn world(&self) -> RwLockReadGuard<'_, World> {
        self.world.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the world. Everything that follows it is up to date when this returns.
    pub(crate) fn change<T>(&self, edit: impl FnOnce(&mut World) -> T) -> T {
        let result = self.change_quietly(|world| {
            let result = edit(world);
            // The world is still locked, so that cached data of a revision always comes from the world of that
            // revision.
            self.revision.send_modify(|revision| *revision += 1);
            result
        });
        let world = self.world();
        self.on_change.iter().for_each(|follow| follow(&world));
        result
    }

    /// Changes the world, or leaves it unchanged if the edit fails or panics.
    ///
    /// # Errors
    /// The error of the edit.
    pub(crate) fn change_wholly<T>(&self, edit: impl FnOnce(&mut World) -> anyhow::Result<T>) -> anyhow::Result<T> {
        self.change(|world| {
            let mut next = world.clone();
            let result = edit(&mut next)?;
            *world = next;
            Ok(result)
        })
    }

    /// Number of changes so far, which is constant while the world is locked for reading.
    pub(crate) fn revision(&self) -> u64 {
        *self.revision.borrow()
    }

    /// Counts a call, and returns the misbehavior of its answer, if any.
    pub(crate) fn called(&self, server: &Server, call: &str) -> Option<Misbehavior> {
        self.calls.count(server, call);
        self.on_call.iter().for_each(|act| act(self, server, call));
        if self.world().call_faults.is_empty() {
            return None;
        }
        let fault = |world: &mut World| {
            // A fault for this call takes precedence over faults for all calls.
            let fitting = world.call_faults.iter_mut().filter(|fault| fault.fits(server, call));
            fitting.min_by_key(|fault| Reverse(fault.call.trim_end_matches('*').len()))?.next()
        };
        self.change_quietly(fault)
    }

    /// Changes the world without notifying anything that follows it.
    fn change_quietly<T>(&self, edit: impl FnOnce(&mut World) -> T) -> T {
        edit(&mut self.world.write().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits until the world has the result.
    pub(crate) async fn when<T>(&self, mut look: impl FnMut(&World) -> Option<T>) -> T {
        let mut changes = self.changes();
        loop {
            if let Some(found) = look(&self.world()) {
                return found;
            }
            // This fails if nothing can change any more.
            if changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Receiver that is notified after every change.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.revision.subscribe()
    }
}
