//! Mounted file systems of a machine, in the form of `Mounts`.

use talos_api::machine::MountStat;

use super::Machine;

/// The device with the file system of `/var`.
const EPHEMERAL: &str = "/dev/sda5";

/// File systems of the kernel, some of which report no size, and of the machine.
pub(super) fn healthy() -> Vec<MountStat> {
    let (size, available) = (18 << 30, 14 << 30);
    let mounts = [
        ("tmpfs", 67_108_864, 67_108_864, "/dev"),
        ("proc", 0, 0, "/proc"),
        ("sysfs", 0, 0, "/sys"),
        ("/dev/loop0", 81_264_640, 0, "/"),
        ("tmpfs", 0, 0, "/etc/resolv.conf"),
        ("/dev/sda4", 92_905_472, 89_923_584, "/system/state"),
        (EPHEMERAL, size, available, "/var"),
        ("overlay", size, available, "/etc/kubernetes"),
    ];
    mounts.map(|(device, size, available, path)| stat(device, size, available, path)).into()
}

fn stat(device: &str, size: u64, available: u64, path: &str) -> MountStat {
    MountStat { filesystem: device.to_owned(), size, available, mounted_on: path.to_owned() }
}

impl Machine {
    /// Sets size and free space of the file system of `/var`, in bytes.
    pub fn set_var(&mut self, size: u64, available: u64) {
        let is_var = |mount: &&mut MountStat| mount.filesystem == EPHEMERAL || mount.filesystem == "overlay";
        for mount in self.mounts.iter_mut().filter(is_var) {
            (mount.size, mount.available) = (size, available);
        }
    }

    /// Mounts a file system of its own, with size and free space in bytes.
    pub fn mount(&mut self, path: &str, size: u64, available: u64) {
        let device = format!("/dev/sdb{}", self.mounts.len());
        self.mounts.push(stat(&device, size, available, path));
    }
}
