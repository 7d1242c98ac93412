//! Directories of a machine.

use talos_api::machine::{FileInfo, ListRequest};
use tonic::Status;

use crate::cosi::kind;
use crate::world::Machine;

/// Mode of a directory in the format of Go's `fs.FileMode`.
const DIRECTORY: u32 = 1 << 31 | 0o700;
/// Size of a directory in bytes.
const BLOCK: i64 = 4096;

/// Lists a directory and its contents.
pub(super) fn list(machine: &Machine, request: &ListRequest) -> Result<Vec<FileInfo>, Status> {
    let root = format!("/{}", request.root.trim_matches('/'));
    let exists = machine.files.contains_key(&root);
    if !exists {
        return Err(Status::unknown(format!("lstat {root}: no such file or directory")));
    }
    let levels = match (request.recurse, request.recursion_depth) {
        (false, _) => 1,
        (true, 0) => usize::MAX,
        (true, depth) => usize::try_from(depth).unwrap_or(1),
    };
    let status = machine.resources.get(kind::MACHINE_STATUSES, "machine");
    let modified = status.map_or(0, |status| status.created.as_second());
    let this = FileInfo { mode: DIRECTORY, is_dir: true, size: BLOCK, modified, ..FileInfo::default() };
    let mut entries = vec![FileInfo { name: root.clone(), relative_name: ".".to_owned(), ..this }];
    below(machine, &root, &root, levels, &mut entries);
    Ok(entries)
}

fn below(machine: &Machine, root: &str, directory: &str, levels: usize, entries: &mut Vec<FileInfo>) {
    for entry in machine.files.get(directory).into_iter().flatten() {
        let name = format!("{}/{}", directory.trim_end_matches('/'), base_name(&entry.name));
        let relative_name = name[root.len()..].trim_start_matches('/').to_owned();
        entries.push(FileInfo { name: name.clone(), relative_name, ..entry.clone() });
        if entry.is_dir && levels > 1 {
            below(machine, root, &name, levels - 1, entries);
        }
    }
}

/// Strips the directory, which worlds may include in the names of entries.
fn base_name(name: &str) -> &str {
    name.rsplit_once('/').map_or(name, |(_, base)| base)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Network;
    use crate::world::{Shape, World};

    fn names(root: &str, recurse: bool, recursion_depth: i32) -> Vec<String> {
        let mut world = World::healthy(&Network::claim().unwrap(), &Shape::default());
        let machine = world.machine_mut("cp-1");
        let entry = |name: &str, is_dir| FileInfo { name: name.to_owned(), is_dir, ..FileInfo::default() };
        machine.files.clear();
        machine.files.insert("/var".to_owned(), vec![entry("lib", true), entry("log", false)]);
        machine.files.insert("/var/lib".to_owned(), vec![entry("/var/lib/etcd", true)]);
        machine.files.insert("/var/lib/etcd".to_owned(), vec![entry("member", true)]);
        let request = ListRequest { root: root.to_owned(), recurse, recursion_depth };
        match list(machine, &request) {
            Ok(entries) => entries.into_iter().map(|entry| format!("{} {}", entry.name, entry.relative_name)).collect(),
            Err(status) => vec![status.message().to_owned()],
        }
    }

    #[test]
    fn directories_are_told_with_themselves_and_as_deep_as_asked() {
        assert_eq!(names("/var", false, 0), ["/var .", "/var/lib lib", "/var/log log"]);
        assert_eq!(
            names("var/lib/", true, 0),
            ["/var/lib .", "/var/lib/etcd etcd", "/var/lib/etcd/member etcd/member"]
        );
        assert_eq!(names("/var", true, 2), ["/var .", "/var/lib lib", "/var/lib/etcd lib/etcd", "/var/log log"]);
        assert_eq!(names("/nowhere", false, 1), ["lstat /nowhere: no such file or directory"]);
    }
}
