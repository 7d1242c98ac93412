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
//! | [`world`] | what is true of the cluster, how a healthy one looks, and how it breaks |
//! | `net` | listeners, TLS, transport faults, delay |
//! | `talos`, `kubernetes`, `etcd` | answers to questions, each made from the world alone |
//! | [`timeline`], [`scenario`] | changes that come later, and files that tell of them |
//! | `control` | the same over HTTP, for whoever tests another program |
//! | [`pki`] | the authorities of the cluster and the credentials that they sign |

mod calls;
mod control;
mod credentials;
mod etcd;
mod kubernetes;
mod net;
pub mod pki;
pub mod scenario;
mod shared;
mod simulator;
mod talos;
pub mod timeline;
pub mod world;

pub use crate::calls::{Calls, Count};
pub use crate::net::network::Network;
pub use crate::simulator::{EtcdCredentials, Simulator};
