//! Holds `src/gen` and `proto` together. `UPDATE_GEN=1 cargo test -p etcd-api` writes `src/gen` anew.

#[test]
fn the_committed_code_is_what_the_proto_files_say() {
    codegen::check(env!("CARGO_MANIFEST_DIR"), &["etcd/rpc.proto"], |builder| {
        builder.server_mod_attribute(".", "#[cfg(feature = \"server\")]")
    });
}
