//! Decides which servers receive the credentials of a kubeconfig.
//!
//! An address carries its source in its type. Only a [`Trusted`] one is sent a token or a password, and these are all ways to make one:
//!
//! | source of the address | who can forge it | what is sent there |
//! | --- | --- | --- |
//! | the kubeconfig's server, `--k8s-endpoint` | the user | everything: [`Trusted::named`] |
//! | default/kubernetes, as that server lists it: address and port | API servers, cluster admins, users who may write EndpointSlices there | everything: [`Vouchers`] |
//! | an etcd member list of a machine that the user named | that machine | everything: [`Vouchers`] |
//! | default/kubernetes, an address that the certificate lacks | API servers, cluster admins | requests without a token or password, with the client certificate: [`Claimed::by_name`] |
//! | discovery, machine types, Node objects, labels, mirror pods, member lists of other machines | any compromised worker | a TLS handshake, with the client certificate: [`Claimed`] |
//!
//! In addition, the certificate has to pass: see [`peer`](super::peer).

use std::collections::BTreeSet;
use std::net::IpAddr;

use http::Uri;

use super::dial;
use super::peer::Peer;
use crate::config::endpoint::{self, Endpoint};
use crate::observe::API_PORT;
use crate::observe::dial::cause;
use crate::snapshot::Observed;

/// A server, and the requirements for its certificate. One connection serves all requests to it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub(super) server: Uri,
    pub(super) peer: Peer,
    /// The name to verify instead of the dialed host.
    pub(super) name: Option<String>,
}

/// A server that credentials are sent to.
#[derive(Clone, Debug)]
pub(super) struct Trusted(Place);

/// An address at which an unproven source reports an API server.
#[derive(Clone, Debug)]
pub(super) struct Claimed {
    place: Place,
    /// `None` for a name, which a DNS server can redirect.
    address: Option<IpAddr>,
}

/// A server to query, with credentials or without.
#[derive(Clone, Debug)]
pub(super) enum Target {
    Trusted(Trusted),
    Claimed(Claimed),
}

/// Addresses of API servers from sources that cannot forge them. A worker can claim any port of a control plane, and have a pod listen
/// there.
#[derive(Clone, Debug, Default)]
pub(super) struct Vouchers {
    /// The endpoints of default/kubernetes, and the server that the user named.
    servers: BTreeSet<(IpAddr, u16)>,
    /// The addresses of etcd members. etcd does not know the ports of API servers.
    members: BTreeSet<IpAddr>,
}

impl Trusted {
    /// Trusts the server that the user named.
    pub(super) fn named(server: Uri) -> Self {
        Self(Place { server, peer: Peer::Endpoint, name: None })
    }

    pub(super) fn place(&self) -> &Place {
        &self.0
    }
}

impl Claimed {
    pub(super) fn new(host: &str, port: u16) -> Observed<Self> {
        let url = format!("https://{}/", endpoint::with_port(host, port));
        let server = url.parse().map_err(|_| cause::no_name(host))?;
        Ok(Self { place: Place { server, peer: Peer::Machine, name: None }, address: host.parse().ok() })
    }

    /// Requires the server to prove that it is the API server of the machine with this name, at any address.
    pub(super) fn by_name(self, name: &str) -> Self {
        Self { place: Place { name: Some(name.to_owned()), ..self.place }, ..self }
    }

    pub(super) fn place(&self) -> &Place {
        &self.place
    }
}

impl Vouchers {
    pub(super) fn add_members<'a>(&mut self, addresses: impl IntoIterator<Item = &'a String>) {
        self.members.extend(addresses.into_iter().filter_map(|address| address.parse::<IpAddr>().ok()));
    }

    pub(super) fn add_servers(&mut self, addresses: &[String], port: u16) {
        self.servers.extend(addresses.iter().filter_map(|address| Some((address.parse().ok()?, port))));
    }

    /// Adds the address and port of the server that the user named. A server with a hostname adds nothing.
    pub(super) fn add_named(&mut self, server: &Trusted) {
        let Endpoint { host, port, .. } = dial::endpoint(&server.0.server);
        self.add_servers(&[host], port);
    }

    /// Returns whether an address is known, on any port. Used for the order in which addresses are tried.
    pub(super) fn know(&self, address: &str) -> bool {
        address.parse().is_ok_and(|address| {
            self.members.contains(&address) || self.servers.iter().any(|(known, _)| *known == address)
        })
    }

    pub(super) fn judge(&self, claimed: Claimed) -> Target {
        let port = dial::endpoint(&claimed.place.server).port;
        let is_usual = || port == API_PORT || self.servers.iter().any(|(_, known)| *known == port);
        match claimed.address {
            Some(address)
                if self.servers.contains(&(address, port)) || (self.members.contains(&address) && is_usual()) =>
            {
                Target::Trusted(Trusted(claimed.place))
            }
            _ => Target::Claimed(claimed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pod on a control plane may listen on any other port.
    #[test]
    fn the_port_of_an_api_server_counts() {
        let is_trusted = |vouchers: &Vouchers, host: &str, port: u16| {
            matches!(vouchers.judge(Claimed::new(host, port).unwrap()), Target::Trusted(_))
        };
        let mut vouchers = Vouchers::default();
        let server = "10.0.0.1".to_owned();
        vouchers.add_servers(&[server], 7443);
        let seen = [7443, 6443, 30443].map(|port| is_trusted(&vouchers, "10.0.0.1", port));
        assert_eq!(seen, [true, false, false]);
        vouchers.add_members(&["10.0.0.2".to_owned()]);
        let seen = [7443, 6443, 30443].map(|port| is_trusted(&vouchers, "10.0.0.2", port));
        assert_eq!(seen, [true, true, false]);
    }

    #[test]
    fn an_address_is_trusted_however_it_is_written_and_a_name_never() {
        let mut vouchers = Vouchers::default();
        vouchers.add_members(&["10.0.0.1".to_owned(), "2001:db8:0::1".to_owned(), "cp-1".to_owned()]);
        for (host, is_trusted) in [
            ("10.0.0.1", true),
            ("2001:db8::1", true),
            ("10.0.0.10", false),
            ("cp-1", false),
            ("::ffff:10.0.0.1", false),
        ] {
            let target = vouchers.judge(Claimed::new(host, 6443).unwrap());
            assert_eq!(matches!(target, Target::Trusted(_)), is_trusted, "{host}");
            assert_eq!(vouchers.know(host), is_trusted, "{host}");
            let (Target::Trusted(Trusted(place)) | Target::Claimed(Claimed { place, .. })) = target;
            assert_eq!(place.peer, Peer::Machine, "the certificate counts all the same");
        }
    }
}
