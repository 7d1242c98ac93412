//! Files with credentials in the format of the real tools.

use std::net::{IpAddr, SocketAddr};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::pki::Leaf;

/// Formats a text as a YAML scalar on one line, quoted if necessary.
fn scalar(text: &str) -> String {
    let plain = serde_yaml::to_string(text).is_ok_and(|yaml| yaml.trim_end_matches('\n') == text);
    // JSON strings are valid YAML.
    if plain { text.to_owned() } else { Value::from(text).to_string() }
}

/// A talosconfig in the format of `talosctl`.
pub(crate) fn talosconfig(cluster: &str, ca: &str, leaf: &Leaf, endpoints: &[IpAddr], nodes: &[IpAddr]) -> String {
    let list = |addresses: &[IpAddr]| {
        let items: Vec<_> = addresses.iter().map(|at| format!("            - {at}\n")).collect();
        items.concat()
    };
    let cluster = scalar(cluster);
    // Talos labels keys with their algorithm, although the content is PKCS#8.
    let key = leaf.key.replace("PRIVATE KEY", "ED25519 PRIVATE KEY");
    format!(
        "context: {cluster}\ncontexts:\n    {cluster}:\n        endpoints:\n{}        nodes:\n{}        ca: {}\n        \
         crt: {}\n        key: {}\n",
        list(endpoints),
        list(nodes),
        STANDARD.encode(ca),
        STANDARD.encode(&leaf.certificate),
        STANDARD.encode(key),
    )
}

/// A talosconfig in the format of `omnictl`.
pub(crate) fn omni_talosconfig(cluster: &str, at: SocketAddr) -> String {
    let cluster = scalar(cluster);
    format!(
        "context: {cluster}\ncontexts:\n    {cluster}:\n        endpoints:\n            - https://{at}\n        auth:\n            \
         siderov1:\n                identity: somebody@example.org\n        cluster: {cluster}\n",
    )
}

/// A service account's kubeconfig in the format of `omnictl`: no CA, and a token.
pub(crate) fn omni_kubeconfig(cluster: &str, at: SocketAddr, token: &str) -> String {
    let cluster = scalar(cluster);
    format!(
        "apiVersion: v1\nkind: Config\nclusters:\n- cluster:\n    server: https://{at}\n  name: {cluster}\nusers:\n- name: \
         {cluster}-ci\n  user:\n    token: {token}\ncontexts:\n- context:\n    cluster: {cluster}\n    namespace: default\n    \
         user: {cluster}-ci\n  name: {cluster}\ncurrent-context: {cluster}\n",
    )
}

/// A kubeconfig in the format of Talos.
pub(crate) fn kubeconfig(cluster: &str, user: &str, at: SocketAddr, ca: &str, leaf: &Leaf) -> String {
    let context = scalar(&format!("{user}@{cluster}"));
    let cluster = scalar(cluster);
    format!(
        "apiVersion: v1\nkind: Config\nclusters:\n- cluster:\n    server: https://{at}\n    certificate-authority-data: \
         {}\n  name: {cluster}\nusers:\n- name: {context}\n  user:\n    client-certificate-data: {}\n    \
         client-key-data: {}\ncontexts:\n- context:\n    cluster: {cluster}\n    namespace: default\n    user: \
         {context}\n  name: {context}\ncurrent-context: {context}\n",
        STANDARD.encode(ca),
        STANDARD.encode(&leaf.certificate),
        STANDARD.encode(&leaf.key),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_names() {
        let leaf = Leaf { certificate: "c".to_owned(), key: "k".to_owned() };
        let at = SocketAddr::from(([127, 0, 0, 1], 6443));
        for name in ["simulated", "1.5", "null", "a: b", "a\nusers: []", "a # b", "\"", "{}"] {
            let talos = talosconfig(name, "ca", &leaf, &[at.ip()], &[]);
            let talos: Value = serde_yaml::from_str(&talos).unwrap();
            assert_eq!(talos["context"], name);
            assert_eq!(talos["contexts"][name]["endpoints"][0], "127.0.0.1");
            let kubernetes: Value = serde_yaml::from_str(&kubeconfig(name, name, at, "ca", &leaf)).unwrap();
            let context = format!("{name}@{name}");
            assert_eq!(kubernetes["clusters"][0]["name"], name);
            assert_eq!(kubernetes["users"][0]["name"], context.as_str());
            assert_eq!(kubernetes["contexts"][0]["context"]["user"], context.as_str());
            assert_eq!(kubernetes["current-context"], context.as_str());
        }
        assert!(
            talosconfig("simulated", "ca", &leaf, &[], &[])
                .starts_with("context: simulated\ncontexts:\n    simulated:\n")
        );
    }
}
