//! Types of the running machine.

use super::Kind::{Bool, Duration, Enum, Integer, List, Map, Message, Real, Text};
use super::{Field, Form, Type, field};
use crate::cosi::kind;
use crate::version::TalosVersion;

const STAGES: &[&str] = &[
    "unknown",
    "booting",
    "installing",
    "maintenance",
    "running",
    "rebooting",
    "shutting down",
    "resetting",
    "upgrading",
];

const EXTENSION: &[Field] = &[
    field("name", 1, Text),
    field("version", 2, Text),
    field("author", 3, Text),
    field("description", 4, Text),
    field("compatibility", 5, Message(&[field("talos", 1, Message(&[field("version", 1, Text)]))])),
    field("extraInfo", 6, Text),
];

pub(super) const TYPES: &[Type] = &[
    Type {
        name: kind::MACHINE_STATUSES,
        display: "MachineStatus",
        columns: &[("Stage", "{.stage}"), ("Ready", "{.status.ready}")],
        owner: "runtime.MachineStatusController",
        form: Form::Message(&[
            field("stage", 1, Enum(STAGES)),
            field(
                "status",
                2,
                Message(&[
                    field("ready", 1, Bool),
                    field("unmetConditions", 2, List(&Message(&[field("name", 1, Text), field("reason", 2, Text)]))),
                ]),
            ),
        ]),
        healthy: &[("machine", 12, r#"{"stage": "running", "status": {"ready": true, "unmetConditions": []}}"#)],
        ..Type::COMMON
    },
    Type {
        name: kind::SERVICES,
        display: "Service",
        aliases: &["svc"],
        columns: &[("Running", "{.running}"), ("Healthy", "{.healthy}"), ("Health Unknown", "{.unknown}")],
        owner: "v1alpha1.ServiceController",
        form: Form::Message(&[field("running", 1, Bool), field("healthy", 2, Bool), field("unknown", 3, Bool)]),
        ..Type::COMMON
    },
    Type {
        name: kind::TIME_STATUSES,
        display: "TimeStatus",
        columns: &[("Synced", "{.synced}")],
        owner: "time.SyncController",
        form: Form::Message(&[field("synced", 1, Bool), field("epoch", 2, Integer), field("syncDisabled", 3, Bool)]),
        healthy: &[("node", 2, r#"{"synced": true, "epoch": 1, "syncDisabled": false}"#)],
        ..Type::COMMON
    },
    Type {
        name: kind::ADJTIME_STATUSES,
        display: "AdjtimeStatus",
        columns: &[
            ("Offset", "{.offset}"),
            ("EstError", "{.estError}"),
            ("MaxError", "{.maxError}"),
            ("Status", "{.status}"),
            ("Sync", "{.syncStatus}"),
        ],
        owner: "time.AdjtimeStatusController",
        form: Form::Message(&[
            field("offset", 1, Duration),
            field("frequencyAdjustmentRatio", 2, Real),
            field("maxError", 3, Duration),
            field("estError", 4, Duration),
            field("status", 5, Text),
            field("constant", 6, Integer),
            field("syncStatus", 7, Bool),
            field("state", 8, Text),
        ]),
        healthy: &[(
            "node",
            120,
            r#"{
                "offset": "-44.014µs", "frequencyAdjustmentRatio": 1.000014703, "maxError": "191.5ms", "estError": "0s",
                "status": "STA_PLL | STA_NANO", "constant": 7, "syncStatus": true, "state": "TIME_OK"
            }"#,
        )],
        ..Type::COMMON
    },
    Type {
        name: kind::DIAGNOSTICS,
        display: "Diagnostic",
        columns: &[("Message", "{.message}")],
        owner: "runtime.DiagnosticsController",
        since: TalosVersion::new(8, 0),
        form: Form::Message(&[field("message", 1, Text), field("details", 2, List(&Text))]),
        ..Type::COMMON
    },
    Type {
        name: kind::EXTENSION_STATUSES,
        display: "ExtensionStatus",
        aliases: &["extensions"],
        columns: &[("Name", "{.metadata.name}"), ("Version", "{.metadata.version}")],
        owner: "runtime.ExtensionStatusController",
        form: Form::Message(&[field("image", 1, Text), field("metadata", 2, Message(EXTENSION))]),
        ..Type::COMMON
    },
    Type {
        name: kind::MOUNT_STATUSES,
        display: "MountStatus",
        aliases: &["mounts"],
        named_aliases: false,
        columns: &[("Source", "{.source}"), ("Target", "{.target}"), ("Filesystem Type", "{.filesystemType}")],
        owner: "runtime.MountStatusController",
        form: Form::Message(&[
            field("source", 1, Text),
            field("target", 2, Text),
            field("filesystemType", 3, Text),
            field("options", 4, List(&Text)),
            field("encrypted", 5, Bool),
            field("encryptionProviders", 6, List(&Text)),
        ]),
        ..Type::COMMON
    },
    Type {
        name: kind::PLATFORM_METADATAS,
        display: "PlatformMetadata",
        columns: &[
            ("Platform", "{.platform}"),
            ("Type", "{.instanceType}"),
            ("Region", "{.region}"),
            ("Zone", "{.zone}"),
        ],
        owner: "network.PlatformConfigApplyController",
        form: Form::Message(&[
            field("platform", 1, Text),
            field("hostname", 2, Text),
            field("region", 3, Text),
            field("zone", 4, Text),
            field("instanceType", 5, Text),
            field("instanceId", 6, Text),
            field("providerId", 7, Text),
            field("spot", 8, Bool),
            field("internalDNS", 9, Text),
            field("externalDNS", 10, Text),
            field("tags", 11, Map(&Text)).since(11),
        ]),
        ..Type::COMMON
    },
    Type {
        name: kind::VERSIONS,
        display: "Version",
        columns: &[("Name", "{.name}"), ("Version", "{.version}")],
        owner: "runtime.VersionController",
        since: TalosVersion::new(10, 0),
        form: Form::Message(&[field("name", 2, Text), field("version", 1, Text)]),
        ..Type::COMMON
    },
];
