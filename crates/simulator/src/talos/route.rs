//! apid's routing: the machines that a call is for.

use std::net::IpAddr;

use http::HeaderMap;
use tonic::Status;

use super::dial;
use crate::version::TalosVersion;
use crate::world::{Role, World};

/// The destination of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// The machine that received the call.
    Local,
    /// Another machine, whose answer is forwarded unchanged.
    One(String),
    /// Several machines, whose answers are combined.
    Many(Vec<String>),
}

/// Services that can answer for several machines since 1.13. Earlier versions only exclude COSI.
const AGGREGATED: [&str; 5] = [
    "/machine.MachineService/",
    "/cluster.ClusterService/",
    "/inspect.InspectService/",
    "/storage.StorageService/",
    "/time.TimeService/",
];
const AGGREGATED_SINCE: TalosVersion = TalosVersion::new(13, 0);

pub(super) fn route(world: &World, at: IpAddr, path: &str, headers: &HeaderMap) -> Result<Route, Status> {
    let machine = world.machines.get(&at);
    if headers.contains_key("proxyfrom") || machine.is_some_and(|machine| machine.maintenance) {
        return Ok(Route::Local);
    }
    let values = |name| -> Vec<String> {
        let texts = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
        texts.map(str::to_owned).collect()
    };
    let (mut nodes, mut node) = (values("nodes"), values("node"));
    if node.len() > 1 {
        return Err(Status::invalid_argument("node metadata must be single-valued"));
    }
    // Only control planes have the client certificate that other machines require.
    let forwards = machine.is_some_and(|machine| machine.role == Role::ControlPlane);
    if !forwards {
        let is_local = |target: &String| dial::resolve(world, at, target) == Some(at);
        node.retain(|target| !is_local(target));
        if matches!(&nodes[..], [only] if is_local(only)) {
            nodes.clear();
        }
    }
    if !nodes.is_empty() {
        aggregates(path, world.versions.talos)?;
    }
    let targets = if nodes.is_empty() { &node } else { &nodes };
    if !targets.is_empty() && !forwards {
        return Err(Status::permission_denied("no request forwarding"));
    }
    if let Some(target) = targets.iter().find(|target| target.is_empty() || has_port(target)) {
        return Err(Status::internal(format!("invalid target {target:?}")));
    }
    Ok(match (nodes, node.pop()) {
        (nodes, _) if !nodes.is_empty() => Route::Many(nodes),
        (_, Some(node)) => Route::One(node),
        _ => Route::Local,
    })
}

fn aggregates(path: &str, version: TalosVersion) -> Result<(), Status> {
    let refused = if version < AGGREGATED_SINCE {
        path.starts_with("/cosi.").then(|| "COSI methods".to_owned())
    } else {
        let aggregated = AGGREGATED.iter().any(|service| path.starts_with(service));
        (!aggregated).then(|| format!("method {path}"))
    };
    let text = refused.map(|what| format!("one-2-many proxying is not supported for {what}"));
    text.map_or(Ok(()), |text| Err(Status::invalid_argument(text)))
}

/// `10.0.0.1:50000` and `[::1]:50000`, but not `::1`.
fn has_port(target: &str) -> bool {
    match target.rsplit_once(':') {
        Some((host, _)) => !host.contains(':') || host.ends_with(']'),
        None => false,
    }
}
