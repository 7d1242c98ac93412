//! Keeps the simulator's `src/gen` and `proto` in sync. The test is outside the simulator, which does not compile while
//! they differ. `UPDATE_GEN=1 cargo test -p codegen` rewrites `src/gen`.

#[test]
fn the_committed_code_is_what_the_proto_files_say() {
    let simulator = concat!(env!("CARGO_MANIFEST_DIR"), "/../simulator");
    codegen::check(simulator, &["etcd/rpc.proto"], |builder| builder.build_client(false));
}
