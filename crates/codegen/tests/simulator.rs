//! Holds the simulator's `src/gen` and `proto` together, from outside of it: it does not compile while they are apart.
//! `UPDATE_GEN=1 cargo test -p codegen` writes `src/gen` anew.

#[test]
fn the_committed_code_is_what_the_proto_files_say() {
    let simulator = concat!(env!("CARGO_MANIFEST_DIR"), "/../simulator");
    codegen::check(simulator, &["etcd/rpc.proto"], |builder| builder.build_client(false));
}
