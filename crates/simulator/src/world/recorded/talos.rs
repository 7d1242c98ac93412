//! Recorded answers of the machines.

use serde_json::{Value, json};
use talos_api::machine::{FileInfo, MountStat, ServiceEvent, ServiceEvents, ServiceHealth, ServiceInfo};

use super::recording::{Recording, TalosCall};
use super::translate::Translation;
use crate::cosi::{Resource, kind, timestamp};
use crate::world::{Machine, World};

pub(super) fn tell(world: &mut World, recording: &Recording, translation: &Translation) {
    for call in recording.talos() {
        let machine = call.target().and_then(|target| world.machines.get_mut(&target));
        let Some(machine) = machine else { continue };
        match (call.kind(), call.short_method()) {
            (Some(kind), method) => resources(machine, call, kind, method, translation),
            (None, "ServiceList") if call.is_ok() => {
                let services = items(&call.part()["services"]);
                machine.services = services.map(|service| of_service(service, translation)).collect();
                machine.tell_services();
            }
            (None, "Version") if call.is_ok() => {
                let platform = &call.part()["platform"]["name"];
                machine.resources.edit(kind::PLATFORM_METADATAS, "platformmetadata", |spec| {
                    spec["platform"] = platform.clone();
                });
            }
            (None, "Memory") if call.is_ok() => {
                let amount = |key: &str| call.part()["meminfo"][key].as_u64().unwrap_or_default();
                machine.memory = (amount("memtotal"), amount("memavailable"));
            }
            (None, "Mounts") if call.is_ok() => {
                machine.mounts = items(&call.part()["stats"]).map(of_mount).collect();
            }
            (None, "List") if call.is_ok() => {
                let root = text(&call.request["root"]);
                // The first entry is the directory itself.
                machine.files.insert(root, call.messages.iter().skip(1).map(of_file).collect());
            }
            _ => {}
        }
    }
    identities(world, recording, translation);
}

/// Gives each machine the node id that discovery lists for it.
fn identities(world: &mut World, recording: &Recording, translation: &Translation) {
    let lists = recording.talos().filter(|call| call.is_ok() && call.kind() == Some(kind::MEMBERS));
    for resource in lists.flat_map(|call| &call.messages).map(|message| &message["resource"]) {
        let name = text(&resource["metadata"]["id"]);
        let machine = world.machines.values_mut().find(|machine| machine.name == name);
        if let (Some(machine), Some(member)) = (machine, of_resource(resource, translation)) {
            let id = member.spec()["nodeId"].clone();
            machine.resources.edit(kind::IDENTITIES, "local", |spec| spec["nodeId"] = id);
        }
    }
}

fn resources(machine: &mut Machine, call: &TalosCall, kind: &str, method: &str, translation: &Translation) {
    let absent = call.status.as_ref().is_some_and(|status| status.code == "NotFound");
    match method {
        "Get" if absent => machine.resources.remove(kind, &text(&call.request["id"])),
        "List" if call.is_ok() => machine.resources.clear(kind),
        _ => {}
    }
    for resource in call.messages.iter().map(|message| &message["resource"]) {
        if let Some(read) = of_resource(resource, translation) {
            machine.resources.insert(kind, &text(&resource["metadata"]["id"]), read);
        }
    }
}

/// Reads a resource from its YAML, which has the translated addresses; the protobuf encoding is generated from it
/// later.
fn of_resource(resource: &Value, translation: &Translation) -> Option<Resource> {
    let metadata = &resource["metadata"];
    let spec = serde_yaml::from_str(resource["spec"]["yaml_spec"].as_str()?).ok()?;
    let mut read = Resource::new(spec, translation.timestamp(&metadata["created"])?);
    read.updated = translation.timestamp(&metadata["updated"])?;
    read.version = metadata["version"].as_str()?.parse().ok()?;
    read.owner = text(&metadata["owner"]);
    read.phase = text(&metadata["phase"]);
    read.finalizers = items(&metadata["finalizers"]).map(text).collect();
    let map = |value: &Value| {
        value.as_object().into_iter().flatten().map(|(key, value)| (key.clone(), text(value))).collect()
    };
    read.labels = map(&metadata["labels"]);
    read.annotations = map(&metadata["annotations"]);
    Some(read)
}

fn of_service(service: &Value, translation: &Translation) -> ServiceInfo {
    let time = |value: &Value| translation.timestamp(value).map(timestamp);
    let event =
        |event: &Value| ServiceEvent { msg: text(&event["msg"]), state: text(&event["state"]), ts: time(&event["ts"]) };
    let health = &service["health"];
    ServiceInfo {
        id: text(&service["id"]),
        state: text(&service["state"]),
        events: Some(ServiceEvents { events: items(&service["events"]["events"]).map(event).collect() }),
        health: Some(ServiceHealth {
            unknown: health["unknown"] == json!(true),
            healthy: health["healthy"] == json!(true),
            last_message: text(&health["last_message"]),
            last_change: time(&health["last_change"]),
        }),
    }
}

fn of_file(file: &Value) -> FileInfo {
    FileInfo {
        name: text(&file["name"]),
        size: file["size"].as_i64().unwrap_or_default(),
        mode: file["mode"].as_u64().and_then(|mode| u32::try_from(mode).ok()).unwrap_or_default(),
        modified: file["modified"].as_i64().unwrap_or_default(),
        is_dir: file["is_dir"] == json!(true),
        relative_name: text(&file["relative_name"]),
        link: text(&file["link"]),
        ..FileInfo::default()
    }
}

fn of_mount(mount: &Value) -> MountStat {
    let bytes = |key: &str| mount[key].as_u64().unwrap_or_default();
    MountStat {
        filesystem: text(&mount["filesystem"]),
        size: bytes("size"),
        available: bytes("available"),
        mounted_on: text(&mount["mounted_on"]),
    }
}

pub(super) fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

pub(super) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
