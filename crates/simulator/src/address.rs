//! Addresses and ports of a cluster, its machines and their servers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener};
use std::sync::atomic::{AtomicU8, Ordering};

use anyhow::{Context as _, bail};

/// Ports of a machine's servers, as in a real cluster.
pub(crate) const APID: u16 = 50_000;
pub(crate) const API_SERVER: u16 = 6443;
pub(crate) const ETCD: u16 = 2379;
pub(crate) const KUBELET: u16 = 10_250;

/// Port of Omni. The real one is privileged.
pub(crate) const OMNI: u16 = 8443;

/// Port of the control server, which no other server of a cluster uses.
const CONTROL: u16 = 50_001;

/// A network of the form 127.N.0.0/16 that is reserved for one cluster as long as this value exists. Clusters on the same computer do not
/// interfere with each other, although they all use the same ports. In a network namespace that has the addresses, the network can be IPv6
/// instead.
#[derive(Debug)]
pub struct Network {
    part: Part,
    /// Reserves the network, and listens for connections that control the running cluster.
    claim: TcpListener,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// 127.N.0.0/16.
    Loopback(u8),
    /// `fd00::/64`.
    Ipv6,
}

/// Lowest usable network: people and resolvers run things on 127.0.x.x and the next ones.
const LOWEST: u8 = 16;
const HIGHEST: u8 = 254;

impl Network {
    /// Reserves a free network.
    ///
    /// # Errors
    /// If none is free.
    pub fn claim() -> anyhow::Result<Self> {
        // Tests of one process start with adjacent networks, and each process starts at a different one.
        static NEXT: AtomicU8 = AtomicU8::new(0);
        let parts = u32::from(HIGHEST - LOWEST) + 1;
        let first = std::process::id().wrapping_mul(7).wrapping_add(u32::from(NEXT.fetch_add(1, Ordering::Relaxed)));
        for offset in 0..parts {
            let part = u8::try_from(first.wrapping_add(offset) % parts).unwrap_or_default() + LOWEST;
            if let Ok(claim) = TcpListener::bind((Ipv4Addr::new(127, part, 255, 254), CONTROL)) {
                return Ok(Self { part: Part::Loopback(part), claim });
            }
        }
        bail!("all of 127.{LOWEST}.0.0/16 to 127.{HIGHEST}.0.0/16 are taken");
    }

    /// Reserves the only IPv6 network. This computer needs all of its addresses. Loopback has only one address, so this requires a network
    /// namespace to which they were added.
    ///
    /// # Errors
    /// If there already is such a cluster.
    pub fn ipv6() -> anyhow::Result<Self> {
        let claim = TcpListener::bind((Ipv6Addr::LOCALHOST, CONTROL)).context("one cluster has all of IPv6")?;
        Ok(Self { part: Part::Ipv6, claim })
    }

    /// Address of a machine, counted from 0.
    ///
    /// # Panics
    /// Beyond 60,000 machines; a scenario has fewer.
    #[must_use]
    pub fn machine(&self, index: usize) -> IpAddr {
        let number = u16::try_from(index + 2).expect("at most 60,000 machines");
        let [high, low] = number.to_be_bytes();
        match self.part {
            Part::Loopback(part) => Ipv4Addr::new(127, part, high, low).into(),
            Part::Ipv6 => Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, number).into(),
        }
    }

    /// Address of the Kubernetes endpoint.
    #[must_use]
    pub fn balancer(&self) -> IpAddr {
        match self.part {
            Part::Loopback(part) => Ipv4Addr::new(127, part, 255, 1).into(),
            Part::Ipv6 => Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0xff01).into(),
        }
    }

    /// Address of Omni, if the cluster has one.
    #[must_use]
    pub fn omni(&self) -> IpAddr {
        match self.part {
            Part::Loopback(part) => Ipv4Addr::new(127, part, 255, 2).into(),
            Part::Ipv6 => Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0xff02).into(),
        }
    }

    /// The listener for connections that control the running cluster.
    pub(crate) fn control(&self) -> &TcpListener {
        &self.claim
    }
}

/// The loopback address of the same family.
pub(crate) fn localhost(like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    }
}

/// Formats an address for URLs and other texts in which a port follows: IPv6 addresses are in brackets.
pub(crate) fn host(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_gets_a_network_twice() {
        let networks: Vec<_> = (0..20).map(|_| Network::claim().unwrap()).collect();
        let mut addresses: Vec<_> = networks.iter().map(|network| network.machine(300)).collect();
        addresses.sort_unstable();
        addresses.dedup();
        assert_eq!(addresses.len(), 20);
        assert!(addresses[0].to_string().ends_with(".1.46"));
    }
}
