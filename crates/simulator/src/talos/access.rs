//! Methods, and the roles that are allowed to call them.

use tonic::Status;

use crate::version::TalosVersion;

/// Roles of a caller. None includes another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Roles {
    pub(super) admin: bool,
    pub(super) operator: bool,
    pub(super) reader: bool,
    pub(super) etcd_backup: bool,
}

impl Roles {
    /// The role of every caller in maintenance mode.
    pub(super) const READER: Self = Self { admin: false, operator: false, reader: true, etcd_backup: false };

    /// Reads the roles from the organizations of a client certificate.
    pub(super) fn named(organizations: &[String]) -> Self {
        let has = |role: &str| organizations.iter().any(|name| name == role);
        Self {
            admin: has("os:admin"),
            operator: has("os:operator"),
            reader: has("os:reader"),
            etcd_backup: has("os:etcd:backup"),
        }
    }
}

/// Access to a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    Admin,
    Reader,
    /// `EtcdMemberList`
    EtcdMembers,
    /// `EtcdStatus` and `EtcdAlarmList`
    EtcdState,
    /// No role can write resources, and only os:admin gets this as the reason.
    Nobody,
}

impl Access {
    fn admits(self, roles: Roles, version: TalosVersion) -> bool {
        let Roles { admin, operator, reader, etcd_backup } = roles;
        // Two releases were extended simultaneously with more roles that can read etcd's state.
        let extended = match version.minor {
            9 => version.patch >= 6,
            10 => version.patch >= 1,
            minor => minor > 10,
        };
        match self {
            Self::Admin | Self::Nobody => admin,
            Self::Reader => admin || operator || reader,
            Self::EtcdMembers => admin || operator || reader || (extended && etcd_backup),
            Self::EtcdState => admin || operator || (extended && (reader || etcd_backup)),
        }
    }
}

/// All methods that are served: service, method, access, and whether the answer is a stream.
const METHODS: [(&str, &str, Access, bool); 19] = [
    ("machine.MachineService", "Version", Access::Reader, false),
    ("machine.MachineService", "Hostname", Access::Reader, false),
    ("machine.MachineService", "ServiceList", Access::Reader, false),
    ("machine.MachineService", "Memory", Access::Reader, false),
    ("machine.MachineService", "Mounts", Access::Reader, false),
    ("machine.MachineService", "EtcdMemberList", Access::EtcdMembers, false),
    ("machine.MachineService", "EtcdStatus", Access::EtcdState, false),
    ("machine.MachineService", "EtcdAlarmList", Access::EtcdState, false),
    ("machine.MachineService", "Kubeconfig", Access::Admin, true),
    ("machine.MachineService", "List", Access::Reader, true),
    ("machine.MachineService", "Logs", Access::Reader, true),
    ("machine.MachineService", "Containers", Access::Reader, false),
    ("cluster.ClusterService", "HealthCheck", Access::Reader, true),
    ("cosi.resource.State", "Get", Access::Reader, false),
    ("cosi.resource.State", "List", Access::Reader, true),
    ("cosi.resource.State", "Watch", Access::Reader, true),
    ("cosi.resource.State", "Create", Access::Nobody, false),
    ("cosi.resource.State", "Update", Access::Nobody, false),
    ("cosi.resource.State", "Destroy", Access::Nobody, false),
];

/// Other methods that apid considers to be streams when it combines answers.
const STREAMS: [&str; 8] =
    ["Copy", "DiskUsage", "Dmesg", "EtcdSnapshot", "Events", "ImageList", "PacketCapture", "Read"];

/// Whether a method answers with a stream, even if it is not served.
pub(super) fn streams(service: &str, method: &str) -> bool {
    match Method::find(service, method) {
        Ok(method) => method.streams,
        Err(_) => STREAMS.contains(&method) || method.ends_with("Stream"),
    }
}

/// A method that is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Method {
    access: Access,
    /// Whether the answer is a stream.
    pub(super) streams: bool,
}

impl Method {
    /// Finds a method. As in gRPC, this precedes the check of the roles, so every caller learns that a method does not
    /// exist.
    pub(super) fn find(service: &str, method: &str) -> Result<Self, Status> {
        let mut of_service = METHODS.iter().filter(|(of, ..)| *of == service).peekable();
        if of_service.peek().is_none() {
            return Err(Status::unimplemented(format!("unknown service {service}")));
        }
        let found = of_service.find(|(_, name, ..)| *name == method);
        let missing = || Status::unimplemented(format!("unknown method {method} for service {service}"));
        found.map(|&(_, _, access, streams)| Self { access, streams }).ok_or_else(missing)
    }

    pub(super) fn check(self, roles: Roles, version: TalosVersion) -> Result<(), Status> {
        if !self.access.admits(roles, version) {
            return Err(Status::permission_denied("not authorized"));
        }
        match self.access {
            Access::Nobody => Err(Status::permission_denied("write access is not allowed")),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admitted(method: &str, roles: &[&str], version: &str) -> bool {
        let roles: Vec<_> = roles.iter().map(|&role| role.to_owned()).collect();
        let method = Method::find("machine.MachineService", method).unwrap();
        method.check(Roles::named(&roles), version.parse().unwrap()).is_ok()
    }

    #[test]
    fn each_role_may_do_what_its_version_lets_it() {
        assert!(admitted("Version", &["os:reader"], "1.13.0"));
        assert!(admitted("Version", &["os:operator"], "1.5.0"));
        assert!(!admitted("Version", &["os:etcd:backup"], "1.13.0"));
        assert!(!admitted("Version", &[], "1.13.0"));
        assert!(!admitted("Kubeconfig", &["os:operator", "os:reader"], "1.13.0"));
        assert!(admitted("Kubeconfig", &["os:reader", "os:admin"], "1.13.0"));
        for (version, extended) in [
            ("1.8.4", false),
            ("1.9.5", false),
            ("1.9.6", true),
            ("1.10.0", false),
            ("1.10.1", true),
            ("1.11.0", true),
            ("1.14.0", true),
        ] {
            assert_eq!(admitted("EtcdStatus", &["os:reader"], version), extended, "{version}");
            assert_eq!(admitted("EtcdAlarmList", &["os:etcd:backup"], version), extended, "{version}");
            assert_eq!(admitted("EtcdMemberList", &["os:etcd:backup"], version), extended, "{version}");
            assert!(admitted("EtcdMemberList", &["os:reader"], version), "{version}");
            assert!(admitted("EtcdStatus", &["os:operator"], version), "{version}");
        }
    }

    #[test]
    fn what_is_not_there_is_told_as_grpc_tells_it() {
        let text = |service, method| Method::find(service, method).unwrap_err().message().to_owned();
        assert_eq!(text("time.TimeService", "Time"), "unknown service time.TimeService");
        assert_eq!(text("machine.MachineService", "Dmesg"), "unknown method Dmesg for service machine.MachineService");
    }
}
