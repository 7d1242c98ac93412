//! Which servers receive the credentials of a kubeconfig.
//!
//! An address carries its source in its type. Only a [`Trusted`] one is sent a token or a password, and these are all ways to make one:
//!
//! | source of the address | who can forge it | what is sent there |
//! | --- | --- | --- |
//! | the kubeconfig's server, `--k8s-endpoint` | the user | everything: [`Trusted::named`] |
//! | default/kubernetes, as that server lists it | API servers and cluster admins | everything: [`Vouchers`] |
//! | an etcd member list of a machine that the user named | that machine | everything: [`Vouchers`] |
//! | discovery, machine types, Node objects, labels, mirror pods, member lists of other machines | any compromised worker | a TLS handshake, with the client certificate: [`Claimed`] |
//!
//! On top of that, the certificate decides: see [`peer`](super::peer).

use std::collections::BTreeSet;
use std::net::IpAddr;

use http::Uri;

use super::peer::Peer;
use crate::config::endpoint;
use crate::observe::dial::cause;
use crate::snapshot::Observed;

/// A server, and what its certificate has to prove. One connection serves everything that is asked of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub(super) server: Uri,
    pub(super) peer: Peer,
}

/// A server that credentials are sent to.
#[derive(Clone, Debug)]
pub(super) struct Trusted(Place);

/// An address at which an unproven source reports an API server.
#[derive(Clone, Debug)]
pub(super) struct Claimed {
    place: Place,
    /// `None`: a name, which whoever answers for the DNS can move.
    address: Option<IpAddr>,
}

/// A server to ask, with credentials or without.
#[derive(Clone, Debug)]
pub(super) enum Target {
    Trusted(Trusted),
    Claimed(Claimed),
}

/// Addresses of API servers by the word of those who cannot lie about them.
#[derive(Clone, Debug, Default)]
pub(super) struct Vouchers(BTreeSet<IpAddr>);

impl Trusted {
    /// The server that the user named.
    pub(super) fn named(server: Uri) -> Self {
        Self(Place { server, peer: Peer::Endpoint })
    }

    pub(super) fn place(&self) -> &Place {
        &self.0
    }
}

impl Claimed {
    pub(super) fn new(host: &str, port: u16) -> Observed<Self> {
        let url = format!("https://{}/", endpoint::with_port(host, port));
        let server = url.parse().map_err(|_| cause::no_name(host))?;
        Ok(Self { place: Place { server, peer: Peer::Machine }, address: host.parse().ok() })
    }

    pub(super) fn place(&self) -> &Place {
        &self.place
    }
}

impl Vouchers {
    pub(super) fn add<'a>(&mut self, addresses: impl IntoIterator<Item = &'a String>) {
        self.0.extend(addresses.into_iter().filter_map(|address| address.parse::<IpAddr>().ok()));
    }

    pub(super) fn know(&self, address: &str) -> bool {
        address.parse().is_ok_and(|address: IpAddr| self.0.contains(&address))
    }

    pub(super) fn judge(&self, claimed: Claimed) -> Target {
        match claimed.address {
            Some(address) if self.0.contains(&address) => Target::Trusted(Trusted(claimed.place)),
            _ => Target::Claimed(claimed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_trusted_however_it_is_written_and_a_name_never() {
        let mut vouchers = Vouchers::default();
        vouchers.add(&["10.0.0.1".to_owned(), "2001:db8:0::1".to_owned(), "cp-1".to_owned()]);
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
