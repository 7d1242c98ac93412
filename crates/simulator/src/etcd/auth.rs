//! etcd's own users.

use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status};

use super::member::{Members, header};
use super::proto::auth_server::Auth;
use super::proto::{AuthenticateRequest, AuthenticateResponse};
use crate::world::{Confides, EtcdCluster, Member};

/// Rights of a client.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Rights {
    /// Authentication is disabled.
    Open,
    Nobody,
    User,
    Root,
}

/// The rights that belong to the token of a call.
pub(super) fn rights(cluster: &EtcdCluster, metadata: &MetadataMap) -> Result<Rights, Status> {
    let Some(auth) = &cluster.auth else { return Ok(Rights::Open) };
    let Some(token) = metadata.get("token") else { return Ok(Rights::Nobody) };
    let user = token.to_str().ok().and_then(|token| auth.users.get(auth.tokens.get(token)?));
    let user = user.ok_or_else(|| Status::unauthenticated("etcdserver: invalid auth token"))?;
    Ok(if user.root { Rights::Root } else { Rights::User })
}

impl Rights {
    pub(super) fn of_anybody(self) -> Result<(), Status> {
        if self == Self::Nobody { Err(Status::invalid_argument("etcdserver: user name is empty")) } else { Ok(()) }
    }

    pub(super) fn of_root(self) -> Result<(), Status> {
        self.of_anybody()?;
        if self == Self::User { Err(Status::permission_denied("etcdserver: permission denied")) } else { Ok(()) }
    }
}

/// Checks that a call may read a member's status.
pub(super) fn of_status(cluster: &EtcdCluster, member: &Member, metadata: &MetadataMap) -> Result<(), Status> {
    match member.confides() {
        Confides::InAll => Ok(()),
        Confides::StatusInRoot => rights(cluster, metadata)?.of_root(),
        Confides::InUsers => rights(cluster, metadata)?.of_anybody(),
    }
}

/// Checks that a call may read a member's lists of members and alarms.
pub(super) fn of_lists(cluster: &EtcdCluster, member: &Member, metadata: &MetadataMap) -> Result<(), Status> {
    match member.confides() {
        Confides::InAll | Confides::StatusInRoot => Ok(()),
        Confides::InUsers => rights(cluster, metadata)?.of_anybody(),
    }
}

#[tonic::async_trait]
impl Auth for Members {
    async fn authenticate(
        &self,
        request: Request<AuthenticateRequest>,
    ) -> Result<Response<AuthenticateResponse>, Status> {
        let asked = self.admit(&request, false)?;
        self.agree(asked).await?;
        let given = request.into_inner();
        let (id, header) = self.look(asked, |cluster, member| (cluster.id, header(cluster, member)))?;
        self.state.change(|world| {
            let auth = world.etcd.iter_mut().find(|cluster| cluster.id == id).and_then(|cluster| cluster.auth.as_mut());
            let auth = auth.ok_or_else(|| Status::failed_precondition("etcdserver: authentication is not enabled"))?;
            if auth.users.get(&given.name).is_none_or(|user| user.password != given.password) {
                let text = "etcdserver: authentication failed, invalid user ID or password";
                return Err(Status::invalid_argument(text));
            }
            auth.made += 1;
            let token = format!("simulated.{}", auth.made);
            auth.tokens.insert(token.clone(), given.name);
            Ok(Response::new(AuthenticateResponse { header: Some(header), token }))
        })
    }
}
