//! TLS of the servers, and the identity of the peer.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use jiff::{SignedDuration, Timestamp};
use rustls::pki_types::{CertificateDer, UnixTime, pem::PemObject as _};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoClientAuth, NoServerSessionStorage, WebPkiClientVerifier};
use rustls::time_provider::TimeProvider;
use rustls::{RootCertStore, ServerConfig, ServerConnection};

use super::anybody::Anybody;
use super::conduct::{Certificate, Tls};
use super::{Peer, Service};
use crate::pki::{Authority, Pki, provider};
use crate::world::Server;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const HALF_AN_HOUR: Duration = Duration::from_secs(30 * 60);
const HOUR: Duration = Duration::from_secs(60 * 60);
const YEAR: Duration = Duration::from_secs(365 * DAY.as_secs());
/// An address that no server has.
const ELSEWHERE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

/// The TLS configuration of one server, created on demand.
#[derive(Default)]
pub(super) struct Configs(Mutex<Option<Made>>);

struct Made {
    tls: Tls,
    renew: Timestamp,
    config: Arc<ServerConfig>,
}

impl Configs {
    pub(super) fn get(&self, pki: &Pki, service: &Service, tls: &Tls) -> anyhow::Result<Arc<ServerConfig>> {
        let now = Timestamp::now();
        let mut made = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(made) = made.as_ref().filter(|made| made.tls == *tls && now < made.renew) {
            return Ok(Arc::clone(&made.config));
        }
        let config = Arc::new(config(pki, service, tls, now)?);
        // Talos renews its certificates after half of their lifetime.
        *made = Some(Made { tls: tls.clone(), renew: now + DAY / 2, config: Arc::clone(&config) });
        Ok(config)
    }
}

fn config(pki: &Pki, service: &Service, tls: &Tls, now: Timestamp) -> anyhow::Result<ServerConfig> {
    // Authorities and lifetimes are those of Talos.
    let (authority, lifetime) = match service.server {
        Server::Apid(_) => (&pki.talos, DAY),
        Server::Etcd(_) => (&pki.etcd, YEAR),
        Server::ApiServer(_) | Server::Kubelet(_) | Server::Balancer => (&pki.kubernetes, YEAR),
        Server::Omni => (&pki.public, YEAR),
    };
    let signer = match tls.certificate {
        Certificate::Foreign => &pki.foreign,
        Certificate::Maintenance => &pki.maintenance,
        Certificate::Right
        | Certificate::Expired
        | Certificate::ExpiresSoon
        | Certificate::NotYetValid
        | Certificate::Misnamed => authority,
    };
    let clock = Clock { ahead: SignedDuration::from_secs(tls.clock_ahead) };
    let issued = match service.server {
        // The certificate is issued again whenever the clock changes. It is backdated, because a clock that is slightly
        // ahead goes unnoticed.
        Server::Apid(_) => now + clock.ahead - HALF_AN_HOUR,
        // These certificates date from the creation of the cluster.
        Server::Etcd(_) | Server::ApiServer(_) | Server::Kubelet(_) | Server::Balancer | Server::Omni => now - DAY,
    };
    let from = match tls.certificate {
        Certificate::Expired => issued - 2 * lifetime,
        Certificate::ExpiresSoon => now - lifetime + HOUR,
        Certificate::NotYetValid => issued + lifetime,
        _ => issued,
    };
    let (names, addresses) = match tls.certificate {
        Certificate::Misnamed => (Vec::new(), vec![ELSEWHERE]),
        _ => (service.names.clone(), service.addresses.clone()),
    };
    let leaf = signer.server(names, &addresses, from, lifetime)?;

    let mut config = ServerConfig::builder_with_details(provider(), Arc::new(clock))
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(verifier(service, tls, authority)?)
        .with_single_cert(leaf.chain()?, leaf.private_key()?)?;
    // Sessions are never resumed, so that every connection shows the current certificate.
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.alpn_protocols = match service.server {
        _ if tls.without_alpn => Vec::new(),
        Server::Apid(_) | Server::Etcd(_) => vec![b"h2".to_vec()],
        Server::ApiServer(_) | Server::Kubelet(_) | Server::Balancer | Server::Omni => {
            vec![b"h2".to_vec(), b"http/1.1".to_vec()]
        }
    };
    Ok(config)
}

/// apid and etcd require a valid client certificate; an API server accepts any or none, and decides later.
fn verifier(service: &Service, tls: &Tls, authority: &Authority) -> anyhow::Result<Arc<dyn ClientCertVerifier>> {
    if tls.certificate == Certificate::Maintenance || service.server == Server::Omni {
        return Ok(Arc::new(NoClientAuth));
    }
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.pem().as_bytes()).context("cannot read a certificate")?)?;
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider()).build()?;
    Ok(match service.server {
        Server::Apid(_) | Server::Etcd(_) => verifier,
        Server::ApiServer(_) | Server::Kubelet(_) | Server::Balancer | Server::Omni => Arc::new(Anybody(verifier)),
    })
}

/// The cluster's clock.
#[derive(Debug)]
struct Clock {
    ahead: SignedDuration,
}

impl TimeProvider for Clock {
    fn current_time(&self) -> Option<UnixTime> {
        let now = Timestamp::now() + self.ahead;
        Some(UnixTime::since_unix_epoch(now.duration_since(Timestamp::UNIX_EPOCH).try_into().ok()?))
    }
}

pub(super) fn peer(connection: &ServerConnection) -> Peer {
    let chain: Vec<_> =
        connection.peer_certificates().into_iter().flatten().cloned().map(CertificateDer::into_owned).collect();
    let Some(leaf) = chain.first() else { return Peer::default() };
    let Ok((_, certificate)) = x509_parser::parse_x509_certificate(leaf) else { return Peer::default() };
    let subject = certificate.subject();
    let text = |value: &x509_parser::x509::AttributeTypeAndValue<'_>| value.as_str().unwrap_or_default().to_owned();
    Peer {
        common_name: subject.iter_common_name().next().map(text).unwrap_or_default(),
        organizations: subject.iter_organization().map(text).collect(),
        chain: chain.clone(),
    }
}
