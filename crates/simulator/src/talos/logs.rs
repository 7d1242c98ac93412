//! Logs of services and containers.

use std::net::IpAddr;
use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream;
use talos_api::common::{ContainerDriver, Data};
use talos_api::machine::LogsRequest;
use tonic::Status;
use tonic::codegen::BoxStream;

use super::containers;
use super::machine::gone;
use crate::state::ClusterState;
use crate::world::World;

/// Streams the existing lines, and in follow mode all new lines.
pub(super) fn stream(
    state: &Arc<ClusterState>,
    target: IpAddr,
    request: LogsRequest,
) -> Result<BoxStream<Data>, Status> {
    let (shown, seen) = {
        let world = state.world();
        let machine = world.machines.get(&target).ok_or_else(gone)?;
        let lines = match request.driver() {
            ContainerDriver::Containerd => machine.logs.get(&request.id).cloned(),
            ContainerDriver::Cri => containers::log(machine, &request.id),
        };
        let lines = lines.ok_or_else(|| unknown(&request))?;
        let first = usize::try_from(request.tail_lines).map_or(0, |tail| lines.len().saturating_sub(tail));
        (lines[first..].iter().map(|line| chunk(line)).collect::<Vec<_>>(), lines.len())
    };
    let shown = stream::iter(shown.into_iter().map(Ok));
    if !request.follow {
        return Ok(shown.boxed());
    }
    let state = Arc::clone(state);
    let followed = stream::unfold(seen, move |seen| {
        let (state, id) = (Arc::clone(&state), request.id.clone());
        async move {
            let new = state.when(|world| after(world, target, &id, seen)).await;
            let seen = seen + new.len();
            Some((stream::iter(new.into_iter().map(Ok)), seen))
        }
    });
    Ok(shown.chain(followed.flatten()).boxed())
}

/// The lines after the first `seen` ones.
fn after(world: &World, target: IpAddr, id: &str, seen: usize) -> Option<Vec<Data>> {
    let lines = world.machines.get(&target)?.logs.get(id)?;
    let new = lines.get(seen..).filter(|new| !new.is_empty())?;
    Some(new.iter().map(|line| chunk(line)).collect())
}

fn chunk(line: &str) -> Data {
    Data { metadata: None, bytes: format!("{line}\n").into_bytes() }
}

fn unknown(request: &LogsRequest) -> Status {
    let id = &request.id;
    match request.driver() {
        ContainerDriver::Containerd => Status::unknown(format!("log {id:?} was not registered")),
        ContainerDriver::Cri => Status::unknown(format!("container {id:?} not found")),
    }
}
