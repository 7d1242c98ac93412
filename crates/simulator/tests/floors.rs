//! Allowed dependencies between top-level modules: they are layered, so that no two modules depend on each other.

use std::path::Path;

const ROOMS: &[(&str, &[&str])] = &[
    ("address", &[]),
    ("gen", &[]),
    ("openpgp", &[]),
    ("pki", &[]),
    ("version", &[]),
    ("cosi", &["version"]),
    ("credentials", &["pki"]),
    ("world", &["address", "cosi", "openpgp", "version"]),
    ("state", &["address", "credentials", "pki", "world"]),
    ("net", &["address", "pki", "state", "world"]),
    ("etcd", &["net", "state", "world"]),
    ("kubernetes", &["address", "net", "pki", "state", "world"]),
    ("talos", &["address", "cosi", "net", "pki", "state", "version", "world"]),
    ("timeline", &["cosi", "kubernetes", "state", "version", "world"]),
    ("scenario", &["address", "timeline", "version", "world"]),
    ("control", &["timeline"]),
    (
        "simulator",
        &[
            "address",
            "control",
            "credentials",
            "etcd",
            "kubernetes",
            "net",
            "openpgp",
            "pki",
            "state",
            "talos",
            "timeline",
            "world",
        ],
    ),
    ("lib", &["address", "simulator", "state"]),
    ("files", &[]),
    ("run", &[]),
    ("main", &["files", "run"]),
];

#[test]
fn nobody_uses_what_is_above() {
    for (at, (room, uses)) in ROOMS.iter().enumerate() {
        let is_below = |used: &&str| ROOMS[..at].iter().any(|(lower, _)| lower == used);
        assert!(uses.iter().all(is_below), "the table lets {room} use what is not below it");
    }
    let found = floors::violations(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), ROOMS);
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}
