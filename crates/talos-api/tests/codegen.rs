//! Holds `src/gen` and `proto` together. `UPDATE_GEN=1 cargo test -p talos-api` writes `src/gen` anew.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::BTreeMap;
use std::path::Path;

/// Where the generated code must live, by the name of its file.
type Files = BTreeMap<String, String>;

#[test]
fn the_committed_code_is_what_the_proto_files_say() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let fresh = generate(&root.join("proto"));
    let committed = root.join("src/gen");

    if std::env::var_os("UPDATE_GEN").is_some() {
        for name in read(&committed).keys() {
            std::fs::remove_file(committed.join(name)).unwrap();
        }
        for (name, text) in &fresh {
            std::fs::write(committed.join(name), text).unwrap();
        }
        return;
    }

    let present = read(&committed);
    assert_eq!(fresh.keys().collect::<Vec<_>>(), present.keys().collect::<Vec<_>>(), "files in src/gen");
    for (name, text) in &fresh {
        assert!(*text == present[name], "src/gen/{name} differs: UPDATE_GEN=1 cargo test -p talos-api");
    }
}

fn generate(proto: &Path) -> Files {
    let files = ["machine/machine.proto", "cluster/cluster.proto", "cosi/resource.proto"];
    let descriptors = protox::compile(files, [proto]).unwrap();
    let out = tempfile::tempdir().unwrap();
    tonic_prost_build::configure()
        .out_dir(out.path())
        .compile_well_known_types(true)
        .build_transport(false)
        .generate_default_stubs(true)
        .server_mod_attribute(".", "#[cfg(feature = \"server\")]")
        .type_attribute(".", "#[cfg_attr(feature = \"serde\", derive(serde::Serialize))]")
        .compile_fds(descriptors)
        .unwrap();
    read(out.path())
}

fn read(folder: &Path) -> Files {
    let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    entries
        .filter(|entry| entry.file_name() != ".gitignore")
        .map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read_to_string(entry.path()).unwrap()))
        .collect()
}
