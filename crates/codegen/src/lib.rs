//! Keeps committed code in sync with the `.proto` files that it is generated from. Used by the tests of the crates that commit such code.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::BTreeMap;
use std::path::Path;

pub use tonic_prost_build::Builder;

/// Generated code by file name.
type Files = BTreeMap<String, String>;

/// Compares `src/gen` of a crate with the code generated from its `proto` files (paths below `proto/`). If `UPDATE_GEN` is set in the
/// environment, writes the generated code instead.
///
/// # Panics
/// If they differ, or if the `.proto` files contain an error.
pub fn check(root: &str, protos: &[&str], configure: impl FnOnce(Builder) -> Builder) {
    let root = Path::new(root);
    let fresh = generate(&root.join("proto"), protos, configure);
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
    assert_eq!(
        fresh.keys().collect::<Vec<_>>(),
        present.keys().collect::<Vec<_>>(),
        "files in {}",
        committed.display()
    );
    for (name, text) in &fresh {
        assert!(*text == present[name], "{}/{name} differs: make generate", committed.display());
    }
}

fn generate(folder: &Path, protos: &[&str], configure: impl FnOnce(Builder) -> Builder) -> Files {
    let descriptors = protox::compile(protos, [folder]).unwrap();
    let out = tempfile::tempdir().unwrap();
    let builder =
        tonic_prost_build::configure().out_dir(out.path()).build_transport(false).generate_default_stubs(true);
    configure(builder).compile_fds(descriptors).unwrap();
    read(out.path())
}

fn read(folder: &Path) -> Files {
    let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    entries
        .filter(|entry| entry.file_name() != ".gitignore")
        .map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read_to_string(entry.path()).unwrap()))
        .collect()
}
