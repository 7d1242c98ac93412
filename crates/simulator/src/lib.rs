//! A Talos cluster on loopback that talosctl, kubectl, etcdctl and `cluster-health` cannot distinguish from a real one.
//!
//! A [`World`](world::World) is plain data: machines, their services and resources, etcd, Kubernetes objects. A [`Simulator`] serves it
//! with the real protocols over mutual TLS. Each machine has its own address in 127.0.0.0/8, with apid on port 50000, kube-apiserver on
//! 6443 and etcd on 2379; a balancer is in front of the API servers. Every change of the world is visible in the next answer.
//!
//! ```no_run
//! use simulator::{Network, Simulator};
//! use simulator::world::{Shape, World};
//!
//! let network = Network::claim()?;
//! let world = World::healthy(&network, &Shape { control_planes: 3, workers: 2, ..Shape::default() });
//! let simulator = Simulator::start(network, world)?;
//! simulator.change(|world| world.power_off("worker-2"));
//! # Ok::<(), anyhow::Error>(())
//! ```
//!
//! | module | content |
//! | --- | --- |
//! | `address`, `version`, `cosi` | networks and ports; releases; Talos's resources and their types |
//! | [`pki`], [`openpgp`], `credentials` | the cluster's authorities and what they sign, keys for Omni, and the files that contain them |
//! | [`world`] | the facts about the cluster, a healthy cluster, and its faults |
//! | `state` | the world of a running cluster, the calls that it received, and subscribers to its changes |
//! | `net` | listeners, TLS, transport faults, delay |
//! | `talos`, `kubernetes`, `etcd` | answers to calls, derived from the world alone |
//! | [`timeline`], [`scenario`] | later changes, and files that describe them |
//! | `control` | the same over HTTP, to test other programs |
//!
//! Each module may only use those above it; `tests/floors.rs` checks this.

mod address;
mod control;
mod cosi;
mod credentials;
mod etcd;
mod kubernetes;
mod net;
pub mod openpgp;
pub mod pki;
pub mod scenario;
mod simulator;
mod state;
mod talos;
pub mod timeline;
mod version;
pub mod world;

pub use crate::address::Network;
pub use crate::simulator::{EtcdCredentials, Simulator, service_account};
pub use crate::state::{Calls, Count};
