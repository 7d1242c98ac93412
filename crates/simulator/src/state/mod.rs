//! How a cluster is now: its world, and what has been asked of it. All of its servers share it.

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

/// The world, and what has been asked of it.
pub(crate) struct ClusterState {
    world: RwLock<World>,
    /// Counts changes of the world; whoever holds connections or streams waits for it.
    revision: watch::Sender<u64>,
    pub(crate) calls: Calls,
    pub(crate) pki: Pki,
    /// The Kubernetes endpoint.
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

    /// Has every change followed before [`change`](Self::change) returns.
    pub(crate) fn on_change(mut self, follow: impl Fn(&World) + Send + Sync + 'static) -> Self {
        self.on_change.push(Box::new(follow));
        self
    }

    /// Has something done before a call is answered.
    pub(crate) fn on_call(mut self, act: impl Fn(&Self, &Server, &str) + Send + Sync + 'static) -> Self {
        self.on_call.push(Box::new(act));
        self
    }

    /// Where a kubeconfig says that Kubernetes is asked.
    pub(crate) fn endpoint(&self, world: &World) -> SocketAddr {
        match world.kubeconfig_server {
            Some(machine) => SocketAddr::new(machine, world.api_port),
            None => SocketAddr::new(self.balancer, API_SERVER),
        }
    }

    /// A kubeconfig: `admin` is in the group `system:masters`.
    pub(crate) fn kubeconfig(&self, user: &str, flaw: Flaw) -> anyhow::Result<String> {
        let groups: &[&str] = if user == "admin" { &["system:masters"] } else { &[] };
        let leaf = self.pki.kubernetes.client(user, groups, flaw)?;
        let world = self.world();
        Ok(kubeconfig(&world.cluster, user, self.endpoint(&world), self.pki.kubernetes.pem(), &leaf))
    }

    /// Never held across an await point.
    pub(crate) fn world(&self) -> RwLockReadGuard<'_, World> {
        self.world.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// When this returns, whatever follows the world is as the new one says.
    pub(crate) fn change<T>(&self, edit: impl FnOnce(&mut World) -> T) -> T {
        let result = self.change_quietly(|world| {
            let result = edit(world);
            // While nobody reads: what is kept for a revision is made from the world of that revision.
            self.revision.send_modify(|revision| *revision += 1);
            result
        });
        let world = self.world();
        self.on_change.iter().for_each(|follow| follow(&world));
        result
    }

    /// Changes the world, or leaves it as it is if the edit fails, or panics.
    ///
    /// # Errors
    /// That of the edit.
    pub(crate) fn change_wholly<T>(&self, edit: impl FnOnce(&mut World) -> anyhow::Result<T>) -> anyhow::Result<T> {
        self.change(|world| {
            let mut next = world.clone();
            let result = edit(&mut next)?;
            *world = next;
            Ok(result)
        })
    }

    /// Number of changes so far. While somebody reads the world, it stays.
    pub(crate) fn revision(&self) -> u64 {
        *self.revision.borrow()
    }

    /// Counts a call, and says how it is answered wrongly, if it is.
    pub(crate) fn called(&self, server: &Server, call: &str) -> Option<Misbehavior> {
        self.calls.count(server, call);
        self.on_call.iter().for_each(|act| act(self, server, call));
        if self.world().call_faults.is_empty() {
            return None;
        }
        let fault = |world: &mut World| {
            // What is meant for this call alone is not hidden by what is meant for all.
            let fitting = world.call_faults.iter_mut().filter(|fault| fault.fits(server, call));
            fitting.min_by_key(|fault| Reverse(fault.call.trim_end_matches('*').len()))?.next()
        };
        self.change_quietly(fault)
    }

    /// For what nobody has to be told of.
    fn change_quietly<T>(&self, edit: impl FnOnce(&mut World) -> T) -> T {
        edit(&mut self.world.write().unwrap_or_else(PoisonError::into_inner))
    }

    /// What is looked for, as soon as the world has it.
    pub(crate) async fn when<T>(&self, mut look: impl FnMut(&World) -> Option<T>) -> T {
        let mut changes = self.changes();
        loop {
            if let Some(found) = look(&self.world()) {
                return found;
            }
            // It fails if nothing can change any more.
            if changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Told after every change.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.revision.subscribe()
    }
}
