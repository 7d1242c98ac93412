//! A Talos cluster on loopback that talosctl, kubectl, etcdctl and `cluster-health` take for a real one.
//!
//! A [`World`](world::World) is plain data: machines, their services and resources, etcd, Kubernetes objects. A [`Simulator`]
//! serves it with the real protocols behind mutual TLS, each machine at an address of its own inside 127.0.0.0/8: apid on port
//! 50000, kube-apiserver on 6443, etcd on 2379, and a balancer before the API servers. Whatever is changed in the world is what
//! the next answer says.
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
//! | module | what |
//! | --- | --- |
//! | `address`, `version`, `cosi` | networks and ports; releases; Talos's resources and their types |
//! | [`pki`], [`openpgp`], `credentials` | the authorities of the cluster, what they sign, keys for Omni, and the files that carry it |
//! | [`world`] | what is true of the cluster, how a healthy one looks, and how it breaks |
//! | `state` | the world of a running cluster, what it was asked, and who follows its changes |
//! | `net` | listeners, TLS, transport faults, delay |
//! | `talos`, `kubernetes`, `etcd` | answers to questions, each made from the world alone |
//! | [`timeline`], [`scenario`] | changes that come later, and files that tell of them |
//! | `control` | the same over HTTP, for whoever tests another program |
//!
//! They are in the order in which they may use each other, the lower ones first; `tests/floors.rs` holds them to it.

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
