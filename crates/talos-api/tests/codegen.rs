//! Keeps `src/gen` and `proto` in sync. `UPDATE_GEN=1 cargo test -p talos-api` rewrites `src/gen`.

#[test]
fn the_committed_code_is_what_the_proto_files_say() {
    let protos = ["machine/machine.proto", "cluster/cluster.proto", "cosi/resource.proto", "block/volumes.proto"];
    codegen::check(env!("CARGO_MANIFEST_DIR"), &protos, |builder| {
        builder
            .codec_path("crate::codec::Bounded")
            .compile_well_known_types(true)
            .server_mod_attribute(".", "#[cfg(feature = \"server\")]")
            .type_attribute(".", "#[cfg_attr(feature = \"serde\", derive(serde::Serialize))]")
            .field_attribute("Spec.proto_spec", "#[cfg_attr(feature = \"serde\", serde(with = \"crate::base64\"))]")
            // Sorted maps make the JSON of equal messages equal.
            .btree_map(".")
    });
}
