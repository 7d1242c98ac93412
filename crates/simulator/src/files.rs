//! The credentials of a simulated cluster as files.

use std::fs::{DirBuilder, OpenOptions, Permissions};
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use simulator::Simulator;
use simulator::pki::Flaw;

/// Files that are removed when this value is dropped, together with their directory if it was created for them.
pub(crate) struct Files {
    written: Vec<PathBuf>,
    directory: PathBuf,
    made: bool,
}

impl Files {
    /// Writes the files, readable only by their owner. Existing files are not replaced.
    pub(crate) fn write(simulator: &Simulator, directory: Option<&Path>) -> anyhow::Result<Self> {
        let (directory, made) = match directory {
            Some(directory) => {
                let made = !directory.exists();
                if made {
                    let made = DirBuilder::new().mode(0o700).create(directory);
                    made.with_context(|| format!("cannot create {}", directory.display()))?;
                }
                (std::path::absolute(directory)?, made)
            }
            None => (private_directory()?, true),
        };
        let mut files = Self { written: Vec::new(), directory, made };
        let etcd = simulator.etcd_credentials(Flaw::None)?;
        if simulator.has_omni() {
            files.file("omni-talosconfig", &simulator.omni_talosconfig())?;
            files.file("omni-kubeconfig", &simulator.omni_kubeconfig()?)?;
            files.file("omni-ca.crt", simulator.pki().public.pem())?;
            files.file("omni-key", &simulator.service_account("ci", Flaw::None)?)?;
        }
        files.file("talosconfig", &simulator.talosconfig("os:reader", Flaw::None)?)?;
        files.file("talosconfig-admin", &simulator.talosconfig("os:admin", Flaw::None)?)?;
        files.file("kubeconfig", &simulator.kubeconfig("reader", Flaw::None)?)?;
        files.file("kubeconfig-admin", &simulator.kubeconfig("admin", Flaw::None)?)?;
        files.file("etcd-ca.crt", &etcd.ca)?;
        files.file("etcd.crt", &etcd.client.certificate)?;
        files.file("etcd.key", &etcd.client.key)?;
        Ok(files)
    }

    fn file(&mut self, name: &str, content: &str) -> anyhow::Result<()> {
        let path = self.directory.join(name);
        let place = || format!("cannot write {}", path.display());
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).with_context(place)?;
        self.written.push(path.clone());
        file.write_all(content.as_bytes()).with_context(place)
    }

    /// Environment variables with which tools find the cluster; the last one contains the address that controls it.
    pub(crate) fn environment(&self, simulator: &Simulator, control: SocketAddr) -> Vec<(&'static str, String)> {
        let path = |name: &str| self.directory.join(name).display().to_string();
        let mut variables = Vec::new();
        let has_omni = simulator.has_omni();
        if has_omni {
            let key = std::fs::read_to_string(path("omni-key")).unwrap_or_default();
            variables.extend([("SSL_CERT_FILE", path("omni-ca.crt")), ("SIDERO_SERVICE_ACCOUNT_KEY", key)]);
        }
        let of = if has_omni { "omni-" } else { "" };
        variables.extend([
            ("TALOSCONFIG", path(&format!("{of}talosconfig"))),
            ("KUBECONFIG", path(&format!("{of}kubeconfig"))),
            ("ETCDCTL_ENDPOINTS", simulator.etcd_endpoints().join(",")),
            ("ETCDCTL_CACERT", path("etcd-ca.crt")),
            ("ETCDCTL_CERT", path("etcd.crt")),
            ("ETCDCTL_KEY", path("etcd.key")),
            ("SIMULATOR_CONTROL", format!("http://{control}")),
        ]);
        variables
    }
}

/// Creates a directory that only its owner can access.
fn private_directory() -> anyhow::Result<PathBuf> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("simulator-").permissions(Permissions::from_mode(0o700));
    Ok(builder.tempdir().context("cannot make a temporary directory")?.keep())
}

impl Drop for Files {
    fn drop(&mut self) {
        for file in &self.written {
            let _ = std::fs::remove_file(file);
        }
        if self.made {
            // This fails if the directory contains other files, which is intended.
            let _ = std::fs::remove_dir(&self.directory);
        }
    }
}
