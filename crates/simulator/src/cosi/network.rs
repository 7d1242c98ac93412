//! Types of the network.

use super::Kind::{Bool, Code, Enum, HardwareAddress, Integer, Ip, List, Prefix, Text};
use super::{Form, Type, field};
use crate::cosi::kind;

const LINK_FLAGS: &[(&str, u64)] = &[
    ("UP", 1),
    ("BROADCAST", 1 << 1),
    ("LOOPBACK", 1 << 3),
    ("RUNNING", 1 << 6),
    ("MULTICAST", 1 << 12),
    ("LOWER_UP", 1 << 16),
];

pub(super) const TYPES: &[Type] = &[
    Type {
        name: kind::NODE_ADDRESSES,
        display: "NodeAddress",
        namespace: "network",
        columns: &[("Addresses", "{.addresses}"), ("SortAlgorithm", "{.sortAlgorithm}")],
        owner: "network.NodeAddressController",
        form: Form::Message(&[
            field("addresses", 1, List(&Prefix)),
            field("sortAlgorithm", 2, Enum(&["v1", "v2"])).since(9),
        ]),
        ..Type::COMMON
    },
    Type {
        name: kind::HOSTNAME_STATUSES,
        display: "HostnameStatus",
        namespace: "network",
        aliases: &["hostname"],
        columns: &[("Hostname", "{.hostname}"), ("Domainname", "{.domainname}")],
        owner: "network.HostnameSpecController",
        form: Form::Message(&[field("hostname", 1, Text), field("domainname", 2, Text)]),
        ..Type::COMMON
    },
    Type {
        name: kind::TIME_SERVER_STATUSES,
        display: "TimeServerStatus",
        namespace: "network",
        aliases: &["timeserver", "timeservers"],
        columns: &[("Timeservers", "{.timeServers}")],
        owner: "network.TimeServerSpecController",
        form: Form::Message(&[field("timeServers", 1, List(&Text))]),
        healthy: &[("timeservers", 1, r#"{"timeServers": ["time.example.org"]}"#)],
        ..Type::COMMON
    },
    Type {
        name: kind::KUBE_SPAN_PEER_STATUSES,
        display: "KubeSpanPeerStatus",
        namespace: "kubespan",
        columns: &[("Label", "{.label}"), ("State", "{.state}"), ("Rx", "{.receiveBytes}"), ("Tx", "{.transmitBytes}")],
        owner: "kubespan.ManagerController",
        form: Form::Message(&[
            field("label", 2, Text),
            field("state", 3, Enum(&["unknown", "up", "down"])),
            field("receiveBytes", 4, Integer),
            field("transmitBytes", 5, Integer),
        ]),
        ..Type::COMMON
    },
    Type {
        name: kind::NETWORK_STATUSES,
        display: "NetworkStatus",
        namespace: "network",
        aliases: &["netstatus", "netstatuses"],
        columns: &[
            ("Address", "{.addressReady}"),
            ("Connectivity", "{.connectivityReady}"),
            ("Hostname", "{.hostnameReady}"),
            ("Etc", "{.etcFilesReady}"),
        ],
        owner: "network.StatusController",
        form: Form::Message(&[
            field("addressReady", 1, Bool),
            field("connectivityReady", 2, Bool),
            field("hostnameReady", 3, Bool),
            field("etcFilesReady", 4, Bool),
        ]),
        healthy: &[(
            "status",
            4,
            r#"{"addressReady": true, "connectivityReady": true, "hostnameReady": true, "etcFilesReady": true}"#,
        )],
        ..Type::COMMON
    },
    Type {
        name: kind::ADDRESS_STATUSES,
        display: "AddressStatus",
        namespace: "network",
        aliases: &["address", "addresses"],
        columns: &[("Address", "{.address}"), ("Link", "{.linkName}")],
        owner: "network.AddressStatusController",
        form: Form::Message(&[
            field("address", 1, Prefix),
            field("local", 2, Ip),
            field("broadcast", 3, Ip),
            field("linkIndex", 6, Integer),
            field("linkName", 7, Text),
            field("family", 8, Code(&[("inet4", 2), ("inet6", 10)])),
            field("scope", 9, Code(&[("global", 0), ("link", 253), ("host", 254)])),
            field("flags", 10, Code(&[("permanent", 0x80)])),
            field("priority", 11, Integer).since(11),
        ]),
        ..Type::COMMON
    },
    Type {
        name: kind::LINK_STATUSES,
        display: "LinkStatus",
        namespace: "network",
        aliases: &["link", "links"],
        columns: &[
            ("Alias", "{.alias}"),
            ("Type", "{.type}"),
            ("Kind", "{.kind}"),
            ("Hw Addr", "{.hardwareAddr}"),
            ("Oper State", "{.operationalState}"),
            ("Link State", "{.linkState}"),
        ],
        owner: "network.LinkStatusController",
        form: Form::Message(&[
            field("index", 1, Integer),
            field("type", 2, Code(&[("ether", 1), ("loopback", 772)])),
            field("linkIndex", 3, Integer),
            field("flags", 4, Code(LINK_FLAGS)),
            field("hardwareAddr", 5, HardwareAddress),
            field("permanentAddr", 30, HardwareAddress),
            field("broadcastAddr", 6, HardwareAddress),
            field("mtu", 7, Integer),
            field("queueDisc", 8, Text),
            field(
                "operationalState",
                10,
                Enum(&["unknown", "notPresent", "down", "lowerLayerDown", "testing", "dormant", "up"]),
            ),
            field("kind", 11, Text),
            field("slaveKind", 12, Text),
            field("driver", 15, Text),
            field("linkState", 22, Bool),
            field("speedMbit", 23, Integer),
            field("port", 24, Code(&[("TwistedPair", 0), ("Other", 255)])),
            field("duplex", 25, Code(&[("Half", 0), ("Full", 1), ("Unknown", 255)])),
        ]),
        ..Type::COMMON
    },
];
