//! Compares both encodings with handwritten messages and with the answers of real machines.

use std::collections::BTreeMap;

use prost::Message;
use serde_json::{Value, json};

use super::*;
use crate::Network;
use crate::cosi::kind;
use crate::world::{Shape, World};

const V1_13: TalosVersion = TalosVersion::new(13, 0);

fn decoded<M: Message + Default>(name: &str, spec: &Value) -> M {
    M::decode(encode(name, spec, V1_13).proto_spec.as_slice()).unwrap()
}

#[derive(Clone, PartialEq, Message)]
struct NetIp {
    #[prost(bytes = "vec", tag = "1")]
    ip: Vec<u8>,
}

#[test]
fn what_healthy_machines_have_alike_is_json() {
    for of in types(V1_13) {
        for (id, _, spec) in of.healthy {
            assert!(serde_json::from_str::<Value>(spec).is_ok(), "{} {id}", of.name);
        }
    }
}

#[test]
fn members_are_encoded_as_talos_reads_them() {
    #[derive(Clone, PartialEq, Message)]
    struct Member {
        #[prost(string, tag = "1")]
        node_id: String,
        #[prost(message, repeated, tag = "2")]
        addresses: Vec<NetIp>,
        #[prost(string, tag = "3")]
        hostname: String,
        #[prost(int32, tag = "4")]
        machine_type: i32,
        #[prost(string, tag = "5")]
        operating_system: String,
        #[prost(message, optional, tag = "6")]
        control_plane: Option<ControlPlane>,
    }
    #[derive(Clone, PartialEq, Message)]
    struct ControlPlane {
        #[prost(int64, tag = "1")]
        port: i64,
    }
    let spec = json!({
        "nodeId": "Dvz3", "addresses": ["10.55.0.2", "fd00::2"], "hostname": "cp1", "machineType": "controlplane",
        "operatingSystem": "Talos (v1.13.0)", "controlPlane": {"port": 6443},
    });
    let mut six = vec![0; 16];
    (six[0], six[15]) = (0xfd, 2);
    let expected = Member {
        node_id: "Dvz3".to_owned(),
        addresses: vec![NetIp { ip: vec![10, 55, 0, 2] }, NetIp { ip: six }],
        hostname: "cp1".to_owned(),
        machine_type: 2,
        operating_system: "Talos (v1.13.0)".to_owned(),
        control_plane: Some(ControlPlane { port: 6443 }),
    };
    assert_eq!(decoded::<Member>(kind::MEMBERS, &spec), expected);
}

#[test]
fn node_statuses_are_encoded_as_talos_reads_them() {
    #[derive(Clone, PartialEq, Message)]
    struct NodeStatus {
        #[prost(string, tag = "1")]
        nodename: String,
        #[prost(bool, tag = "2")]
        ready: bool,
        #[prost(bool, tag = "3")]
        unschedulable: bool,
        #[prost(btree_map = "string, string", tag = "4")]
        labels: BTreeMap<String, String>,
        #[prost(message, repeated, tag = "6")]
        pods: Vec<Prefix>,
    }
    #[derive(Clone, PartialEq, Message)]
    struct Prefix {
        #[prost(bytes = "vec", tag = "1")]
        ip: Vec<u8>,
        #[prost(int32, tag = "2")]
        length: i32,
    }
    let spec = json!({
        "nodename": "w1", "nodeReady": true, "unschedulable": false, "labels": {"a": "b", "c": ""},
        "podCIDRs": ["10.244.1.0/24"],
    });
    let labels = [("a", "b"), ("c", "")].map(|(key, value)| (key.to_owned(), value.to_owned()));
    let expected = NodeStatus {
        nodename: "w1".to_owned(),
        ready: true,
        unschedulable: false,
        labels: labels.into(),
        pods: vec![Prefix { ip: vec![10, 244, 1, 0], length: 24 }],
    };
    assert_eq!(decoded::<NodeStatus>(kind::NODE_STATUSES, &spec), expected);
    let old = encode(kind::NODE_STATUSES, &spec, TalosVersion::new(11, 0));
    assert!(NodeStatus::decode(old.proto_spec.as_slice()).unwrap().pods.is_empty());
    assert!(!old.yaml_spec.contains("podCIDRs"));
}

#[test]
fn documents_are_structs() {
    #[derive(Clone, PartialEq, Message)]
    struct Spec {
        #[prost(message, optional, tag = "1")]
        document: Option<Struct>,
    }
    #[derive(Clone, PartialEq, Message)]
    struct Struct {
        #[prost(btree_map = "string, message", tag = "1")]
        fields: BTreeMap<String, Any>,
    }
    #[derive(Clone, PartialEq, Message)]
    struct List {
        #[prost(message, repeated, tag = "1")]
        values: Vec<Any>,
    }
    #[derive(Clone, PartialEq, Message)]
    struct Any {
        #[prost(oneof = "Kind", tags = "1, 2, 3, 4, 5, 6")]
        kind: Option<Kind>,
    }
    #[derive(Clone, PartialEq, prost::Oneof)]
    enum Kind {
        #[prost(int32, tag = "1")]
        Null(i32),
        #[prost(double, tag = "2")]
        Number(f64),
        #[prost(string, tag = "3")]
        Text(String),
        #[prost(bool, tag = "4")]
        Bool(bool),
        #[prost(message, tag = "5")]
        Struct(Struct),
        #[prost(message, tag = "6")]
        List(List),
    }
    fn any(value: &Value) -> Any {
        let kind = match value {
            Value::Null => Kind::Null(0),
            Value::Bool(it) => Kind::Bool(*it),
            Value::Number(it) => Kind::Number(it.as_f64().unwrap()),
            Value::String(it) => Kind::Text(it.clone()),
            Value::Array(items) => Kind::List(List { values: items.iter().map(any).collect() }),
            Value::Object(_) => Kind::Struct(document(value)),
        };
        Any { kind: Some(kind) }
    }
    fn document(value: &Value) -> Struct {
        Struct { fields: value.as_object().unwrap().iter().map(|(key, it)| (key.clone(), any(it))).collect() }
    }
    let status = json!({
        "phase": "Running", "conditions": [{"lastProbeTime": null, "status": "True"}], "restarts": 3, "ready": false,
        "lastState": {},
    });
    let read: Spec = decoded(kind::STATIC_POD_STATUSES, &status);
    assert_eq!(read.document.unwrap(), document(&status));
}

#[test]
fn words_and_texts_are_bare() {
    #[derive(Clone, PartialEq, Message)]
    struct Word {
        #[prost(int32, tag = "1")]
        word: i32,
    }
    #[derive(Clone, PartialEq, Message)]
    struct Text {
        #[prost(string, tag = "1")]
        text: String,
    }
    let worker = encode(kind::MACHINE_TYPES, &json!("worker"), V1_13);
    assert_eq!(worker.yaml_spec, "worker\n");
    assert_eq!(Word::decode(worker.proto_spec.as_slice()).unwrap().word, 3);
    let text = "version: v1alpha1\nmachine:\n    type: worker\n";
    let config = |version| encode(kind::MACHINE_CONFIGS, &json!(text), version);
    assert_eq!(config(TalosVersion::new(11, 9)).yaml_spec, text);
    assert_eq!(config(V1_13).yaml_spec, "|\n    version: v1alpha1\n    machine:\n        type: worker\n");
    assert_eq!(Text::decode(config(V1_13).proto_spec.as_slice()).unwrap().text, text);
}

#[test]
fn broken_specifications_are_told_as_they_are() {
    let spec = encode(kind::MACHINE_STATUSES, &json!("what?"), V1_13);
    assert_eq!((spec.proto_spec.len(), spec.yaml_spec.as_str()), (0, "what?\n"));
    let spec = encode(kind::NODENAMES, &json!({"foreign": 1, "nodename": ["a"]}), V1_13);
    assert_eq!((spec.proto_spec.len(), spec.yaml_spec.as_str()), (0, "nodename:\n    - a\nforeign: 1\n"));
}

#[test]
fn sensitive_types_are_those_of_their_release() {
    let sensitive = |name: &str, version: &str| {
        let version = version.parse().unwrap();
        find(name, version).unwrap().sensitive(version)
    };
    for (version, hardened) in
        [("1.5.0", false), ("1.12.8", false), ("1.12.9", true), ("1.13.3", false), ("1.13.4", true), ("1.14.0", true)]
    {
        assert_eq!(sensitive(kind::KUBELET_CONFIGS, version), hardened, "{version}");
        assert_eq!(sensitive(kind::API_SERVER_CONFIGS, version), hardened, "{version}");
        assert!(sensitive(kind::MACHINE_CONFIGS, version) && !sensitive(kind::MEMBERS, version));
    }
    let version = |text: &str| text.parse().unwrap();
    assert!(find(kind::KUBELET_STATUSES, version("1.13.9")).is_none());
    assert!(find(kind::KUBELET_STATUSES, version("1.14.0")).is_some());
    assert!(find("members.CLUSTER.talos.dev", version("1.5.0")).is_some());
}

/// Encodes every type of every release with the resources of healthy machines.
#[test]
fn all_that_a_healthy_machine_has_is_encoded() {
    let network = Network::claim().unwrap();
    for minor in 5..=14 {
        let mut shape = Shape::default();
        shape.versions.talos = TalosVersion::new(minor, 0);
        let world = World::healthy(&network, &shape);
        // Healthy machines have no resources of these types.
        let absent = [
            kind::DIAGNOSTICS,
            kind::EXTENSION_STATUSES,
            kind::KUBE_SPAN_PEER_STATUSES,
            kind::SWAP_STATUSES,
            kind::ZSWAP_STATUSES,
        ];
        let machine = &world.machines[&network.machine(0)];
        for of in types(shape.versions.talos) {
            let all: Vec<_> = machine.resources.list(of.name).collect();
            assert_eq!(all.is_empty(), absent.contains(&of.name), "{} in 1.{minor}", of.name);
            for (id, resource) in all {
                let spec = resource.encoded(of.name, shape.versions.talos);
                // A message of one empty list has no bytes.
                let nothing = of.name == kind::EXTRA_MANIFESTS_CONFIGS;
                assert_eq!(spec.proto_spec.is_empty(), nothing, "{}/{id}", of.name);
                let read: Value = serde_yaml::from_str(&spec.yaml_spec).unwrap();
                let text = read.as_str().is_none_or(|text| resource.spec() == text);
                assert!(!read.is_null() && text, "{}/{id}: {}", of.name, spec.yaml_spec);
            }
        }
    }
}

#[test]
fn durations_are_text_in_yaml_and_messages_in_protobuf() {
    let encoded = |offset: &str| {
        let spec = json!({"offset": offset, "frequencyAdjustmentRatio": 1.5});
        encode(kind::ADJTIME_STATUSES, &spec, TalosVersion::new(13, 0))
    };
    let ratio = [&[0x11][..], &1.5_f64.to_le_bytes()].concat();
    let spec = encoded("1m0.000000005s");
    assert_eq!(spec.yaml_spec, "offset: 1m0.000000005s\nfrequencyAdjustmentRatio: 1.5\n");
    assert_eq!(spec.proto_spec, [&[0x0a, 4, 0x08, 60, 0x10, 5][..], &ratio].concat());
    // Negative varints are ten bytes long.
    assert_eq!(encoded("-44.014µs").proto_spec.len(), 2 + 11 + ratio.len());
}
