//! Types of disks and volumes.

use super::Kind::{Bool, Enum, Integer, List, Message, Text};
use super::{Field, Form, Type, field};
use crate::cosi::kind;
use crate::version::TalosVersion;

const PHASES: &[&str] = &["waiting", "failed", "missing", "located", "provisioned", "prepared", "ready", "closed"];

const MOUNT: &[Field] = &[
    field("targetPath", 1, Text),
    field("selinuxLabel", 2, Text),
    field("projectQuotaSupport", 3, Bool),
    field("parentId", 4, Text),
    field("fileMode", 5, Integer),
    field("uid", 6, Integer),
    field("gid", 7, Integer),
    field("recursiveRelabel", 8, Bool),
    field("secure", 11, Bool).since(14),
    field("noExec", 12, Bool).since(14),
];

const SYMLINK: &[Field] = &[field("symlinkTargetPath", 1, Text), field("force", 2, Bool)];

pub(super) const TYPES: &[Type] = &[
    Type {
        name: kind::VOLUME_STATUSES,
        display: "VolumeStatus",
        columns: &[("Type", "{.type}"), ("Phase", "{.phase}"), ("Location", "{.location}"), ("Size", "{.prettySize}")],
        owner: "block.VolumeManagerController",
        since: TalosVersion::new(8, 0),
        form: Form::Message(&[
            field("phase", 1, Enum(PHASES)),
            field("preFailPhase", 6, Enum(PHASES)),
            field("type", 16, Enum(&["partition", "disk", "tmpfs", "directory", "symlink", "overlay", "external"]))
                .since(10),
            field("parentID", 19, Text).since(10),
            field("location", 2, Text),
            field("mountLocation", 11, Text),
            field("partitionIndex", 8, Integer),
            field("parentLocation", 7, Text),
            field("uuid", 4, Text),
            field("partitionUUID", 5, Text),
            field("size", 9, Integer),
            field("prettySize", 13, Text),
            field("filesystem", 10, Enum(&["none", "xfs", "vfat", "ext4", "iso9660", "swapi", "virtiofs"])),
            field("encryptionProvider", 12, Enum(&["none", "luks2"])),
            field("encryptionFailedSyncs", 14, List(&Text)).since(9),
            field("mountSpec", 15, Message(MOUNT)).since(10),
            field("symlink", 18, Message(SYMLINK)).since(10),
            field("errorMessage", 3, Text),
        ]),
        ..Type::COMMON
    },
    Type {
        name: kind::DISKS,
        display: "Disk",
        columns: &[
            ("Size", "{.pretty_size}"),
            ("Read Only", "{.readonly}"),
            ("Transport", "{.transport}"),
            ("Rotational", "{.rotational}"),
            ("WWID", "{.wwid}"),
            ("Model", "{.model}"),
            ("Serial", "{.serial}"),
        ],
        owner: "block.DisksController",
        since: TalosVersion::new(8, 0),
        form: Form::Message(&[
            field("dev_path", 14, Text).since(9),
            field("size", 1, Integer),
            field("pretty_size", 15, Text).since(9),
            field("io_size", 2, Integer),
            field("sector_size", 3, Integer),
            field("readonly", 4, Bool),
            field("cdrom", 13, Bool).since(9),
            field("model", 5, Text),
            field("serial", 6, Text),
            field("transport", 11, Text),
            field("rotational", 12, Bool),
        ]),
        ..Type::COMMON
    },
    Type {
        name: kind::SYSTEM_DISKS,
        display: "SystemDisk",
        columns: &[("Disk", "{.diskID}")],
        owner: "block.SystemDiskController",
        since: TalosVersion::new(8, 0),
        form: Form::Message(&[field("diskID", 1, Text), field("devPath", 2, Text).since(9)]),
        ..Type::COMMON
    },
    Type {
        name: kind::DISCOVERED_VOLUMES,
        display: "DiscoveredVolume",
        columns: &[
            ("Type", "{.type}"),
            ("Size", "{.pretty_size}"),
            ("Discovered", "{.name}"),
            ("Label", "{.label}"),
            ("PartitionLabel", "{.partition_label}"),
        ],
        owner: "block.DiscoveryController",
        since: TalosVersion::new(8, 0),
        form: Form::Message(&[
            field("dev_path", 17, Text).since(9),
            field("type", 14, Text),
            field("device_path", 15, Text),
            field("parent", 16, Text),
            field("offset", 20, Integer).since(12),
            field("size", 1, Integer),
            field("pretty_size", 19, Text).since(9),
            field("name", 4, Text),
            field("label", 6, Text),
            field("partition_label", 12, Text),
        ]),
        ..Type::COMMON
    },
    Type {
        name: kind::SWAP_STATUSES,
        display: "SwapStatus",
        aliases: &["swap", "swaps"],
        columns: &[
            ("Device", "{.device}"),
            ("Size", "{.sizeHuman}"),
            ("Used", "{.usedHuman}"),
            ("Priority", "{.priority}"),
        ],
        owner: "block.SwapStatusController",
        since: TalosVersion::new(11, 0),
        form: Form::Message(&[
            field("device", 1, Text),
            field("type", 7, Text),
            field("size", 2, Integer),
            field("sizeHuman", 3, Text),
            field("used", 4, Integer),
            field("usedHuman", 5, Text),
            field("priority", 6, Integer),
        ]),
        ..Type::COMMON
    },
    Type {
        name: kind::ZSWAP_STATUSES,
        display: "ZswapStatus",
        columns: &[
            ("Total Size", "{.totalSizeHuman}"),
            ("Stored Pages", "{.storedPages}"),
            ("Written Back", "{.writtenBackPages}"),
            ("Pool Limit Hit", "{.poolLimitHit}"),
        ],
        owner: "block.ZswapStatusController",
        since: TalosVersion::new(11, 0),
        form: Form::Message(&[
            field("totalSize", 1, Integer),
            field("totalSizeHuman", 2, Text),
            field("storedPages", 3, Integer),
            field("poolLimitHit", 4, Integer),
            field("writtenBackPages", 10, Integer),
        ]),
        ..Type::COMMON
    },
];
