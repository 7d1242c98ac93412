//! Types of the cluster, configuration and etcd.

use super::Kind::{Enum, Integer, Ip, List, Map, Message, Text};
use super::{Field, Form, Secrecy, Type, field};
use crate::cosi::kind;

const MACHINE_TYPES: &[&str] = &["unknown", "init", "controlplane", "worker"];

const CONTROL_PLANE: &[Field] = &[field("port", 1, Integer)];

/// Values of one command-line argument.
pub(super) const ARGUMENTS: &[Field] = &[field("values", 1, List(&Text))];

pub(super) const TYPES: &[Type] = &[
    Type {
        name: kind::MEMBERS,
        display: "Member",
        namespace: "cluster",
        columns: &[
            ("Hostname", "{.hostname}"),
            ("Machine Type", "{.machineType}"),
            ("OS", "{.operatingSystem}"),
            ("Addresses", "{.addresses}"),
        ],
        owner: "cluster.MemberController",
        form: Form::Message(&[
            field("nodeId", 1, Text),
            field("addresses", 2, List(&Ip)),
            field("hostname", 3, Text),
            field("machineType", 4, Enum(MACHINE_TYPES)),
            field("operatingSystem", 5, Text),
            field("controlPlane", 6, Message(CONTROL_PLANE)),
        ]),
        ..Type::COMMON
    },
    Type {
        name: kind::AFFILIATES,
        display: "Affiliate",
        namespace: "cluster",
        columns: &[("Hostname", "{.hostname}"), ("Machine Type", "{.machineType}"), ("Addresses", "{.addresses}")],
        owner: "cluster.AffiliateMergeController",
        form: Form::Message(&[
            field("nodeId", 1, Text),
            field("addresses", 2, List(&Ip)),
            field("hostname", 3, Text),
            field("nodename", 4, Text),
            field("operatingSystem", 5, Text),
            field("machineType", 6, Enum(MACHINE_TYPES)),
            field("controlPlane", 8, Message(CONTROL_PLANE)),
        ]),
        ..Type::COMMON
    },
    Type {
        name: kind::IDENTITIES,
        display: "Identity",
        namespace: "cluster",
        columns: &[("ID", "{.nodeId}")],
        owner: "cluster.NodeIdentityController",
        form: Form::Message(&[field("nodeId", 1, Text)]),
        ..Type::COMMON
    },
    Type {
        name: kind::INFOS,
        display: "Info",
        namespace: "cluster",
        columns: &[("Cluster ID", "{.clusterId}"), ("Cluster Name", "{.clusterName}")],
        owner: "cluster.InfoController",
        form: Form::Message(&[field("clusterId", 1, Text), field("clusterName", 2, Text)]),
        ..Type::COMMON
    },
    Type {
        name: kind::MACHINE_CONFIGS,
        display: "MachineConfig",
        namespace: "config",
        owner: "config.AcquireController",
        secrecy: Secrecy::Sensitive,
        form: Form::Text,
        ..Type::COMMON
    },
    Type {
        name: kind::MACHINE_TYPES,
        display: "MachineType",
        namespace: "config",
        columns: &[("Type", "{@}")],
        owner: "config.MachineTypeController",
        form: Form::Word(MACHINE_TYPES),
        ..Type::COMMON
    },
    Type {
        name: kind::ETCD_SPECS,
        display: "EtcdSpec",
        namespace: "etcd",
        columns: &[
            ("Name", "{.name}"),
            ("AdvertisedAddresses", "{.advertisedAddresses}"),
            ("ListenPeerAddresses", "{.listenPeerAddresses}"),
            ("ListenClientAddresses", "{.listenClientAddresses}"),
        ],
        owner: "etcd.SpecController",
        form: Form::Message(&[
            field("name", 1, Text),
            field("advertisedAddresses", 2, List(&Ip)),
            field("listenPeerAddresses", 5, List(&Ip)),
            field("listenClientAddresses", 6, List(&Ip)),
            field("image", 3, Text),
            field("extraArgs", 7, Map(&Message(ARGUMENTS))),
        ]),
        ..Type::COMMON
    },
    Type {
        name: kind::ETCD_MEMBERS,
        display: "EtcdMember",
        namespace: "etcd",
        columns: &[("Member ID", "{.memberID}")],
        owner: "etcd.MemberController",
        form: Form::Message(&[field("memberID", 1, Text)]),
        ..Type::COMMON
    },
];
