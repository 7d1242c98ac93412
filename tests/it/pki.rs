//! Configuration files for endpoints without a cluster behind them. Every test creates its own.

use std::net::SocketAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use simulator::pki::{Authority, Flaw, Leaf, Pki};

/// A CA of Talos's kind that is not used anywhere else.
pub(crate) fn authority() -> Authority {
    Pki::new().unwrap().talos
}

/// A client certificate with the role `os:reader`.
pub(crate) fn client(authority: &Authority, flaw: Flaw) -> Leaf {
    authority.client("reader", &["os:reader"], flaw).unwrap()
}

/// A talosconfig with one context, `prod`.
pub(crate) fn talosconfig(ca: &str, client: &Leaf, endpoints: &[String]) -> String {
    // Talos labels its keys by algorithm; the content is still PKCS#8.
    let key = client.key.replace("PRIVATE KEY", "ED25519 PRIVATE KEY");
    let endpoints: Vec<String> = endpoints.iter().map(|endpoint| format!("            - {endpoint}\n")).collect();
    format!(
        "context: prod\ncontexts:\n    prod:\n        endpoints:\n{}        ca: {}\n        crt: {}\n        key: {}\n",
        endpoints.concat(),
        STANDARD.encode(ca),
        STANDARD.encode(&client.certificate),
        STANDARD.encode(key),
    )
}

/// A valid talosconfig for servers at these addresses.
pub(crate) fn reader(authority: &Authority, endpoints: &[SocketAddr]) -> String {
    let endpoints: Vec<String> = endpoints.iter().map(ToString::to_string).collect();
    talosconfig(authority.pem(), &client(authority, Flaw::None), &endpoints)
}
