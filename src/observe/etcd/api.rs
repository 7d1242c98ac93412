//! The calls to one member.

use std::error::Error as _;
use std::time::Duration;

use etcd_client::{AlarmAction, AlarmType, Channel, Client, Error, GetOptions, ResponseHeader};
use http::HeaderValue;
use http::header::HeaderName;
use http_body_util::{LengthLimitError, Limited};
use tonic::body::Body;
use tonic::{Code, Status};
use tower::util::BoxCloneSyncService;
use tower::{BoxError, ServiceExt as _};

use crate::config::etcd::EtcdUser;
use crate::observe::dial::cause;
use crate::observe::dial::http2::Http2;
use crate::observe::kubernetes::short;
use crate::snapshot::{AlarmKind, EtcdAlarm, EtcdMember, EtcdStatus, Gap, GapKind, Observed};

/// Size limit for an answer, in bytes. With eleven members, an answer has two thousand.
const LARGEST: usize = 64 << 10;

/// The header in which etcd expects the token.
const TOKEN: HeaderName = HeaderName::from_static("token");

/// The token that identifies us to a member; `None` if no token is needed.
pub(super) type Pass = Option<HeaderValue>;

/// The API of the member at the other end of a connection.
pub(super) struct Api {
    client: Client,
    connection: Http2,
}

impl Api {
    /// Wraps our own connection. The library's connection would reduce every cause to one text, and would try to log in even when that is
    /// impossible.
    pub(super) async fn new(connection: &Http2, pass: &Pass) -> Observed<Self> {
        let (origin, pass) = (connection.origin(), pass.clone());
        let channel = connection
            .clone()
            .map_request(move |mut request: http::Request<Body>| {
                let mut to = origin.clone().into_parts();
                to.path_and_query = request.uri().path_and_query().cloned();
                // Scheme, authority and path are all set, so this cannot fail.
                *request.uri_mut() = http::Uri::from_parts(to).unwrap_or_default();
                if let Some(token) = &pass {
                    request.headers_mut().insert(TOKEN, token.clone());
                }
                request
            })
            // The only size limit: the library's own applies to reads alone.
            .map_response(|answer| answer.map(|body| Body::new(Limited::new(body, LARGEST))))
            .map_err(BoxError::from);
        let channel = Channel::Custom(BoxCloneSyncService::new(channel));
        let client = Client::from_channel(channel, None).await;
        let client = client.map_err(|error| Gap::new(GapKind::Broken, short(&error.to_string())))?;
        Ok(Self { client, connection: connection.clone() })
    }

    /// Requests a token for a user. Members prove a quorum before they check the password.
    pub(super) async fn authenticate(self, user: &EtcdUser) -> Observed<Pass> {
        let mut client = self.client.auth_client();
        let answer = match client.authenticate(user.name.clone(), user.password.to_string()).await {
            Err(Error::GRpcStatus(status)) if status.message() == "etcdserver: authentication is not enabled" => {
                return Ok(None);
            }
            answer => answer.map_err(|error| self.gap(error))?,
        };
        answered_by(answer.header())?;
        let token = HeaderValue::from_str(answer.token()).ok().filter(|token| !token.is_empty());
        let mut token = token.ok_or_else(|| Gap::new(GapKind::Malformed, "an invalid token"))?;
        token.set_sensitive(true);
        Ok(Some(token))
    }

    pub(super) async fn status(mut self) -> Observed<EtcdStatus> {
        let status = self.client.status().await.map_err(|error| self.gap(error))?;
        let size = |bytes: i64| u64::try_from(bytes).unwrap_or_default();
        Ok(EtcdStatus {
            member_id: answered_by(status.header())?,
            leader: status.leader(),
            raft_term: status.raft_term(),
            raft_index: status.raft_index(),
            raft_applied_index: status.raft_applied_index(),
            is_learner: status.is_learner(),
            errors: status.errors().to_vec(),
            db_size: size(status.db_size()),
            db_size_in_use: size(status.raft_used_db_size()),
            // Older versions of etcd omit the field, which reads as 0.
            quota: u64::try_from(status.db_size_quota()).ok().filter(|&quota| quota > 0),
            version: status.version().to_owned(),
            storage_version: status.storage_version().to_owned(),
            earlier: None,
            slower: Duration::ZERO,
        })
    }

    /// Lists the members after proving a quorum.
    ///
    /// etcd before 3.5 supports only a serializable list, which a member without quorum answers from memory. A linearizable read through
    /// the same member first makes the list equivalent to a linearizable one: etcd implements that in these same two steps.
    pub(super) async fn members(mut self) -> Observed<Vec<EtcdMember>> {
        match self.client.get("cluster-health", Some(GetOptions::new().with_count_only())).await {
            Ok(read) => drop(answered_by(read.header())?),
            // The member has done the linearizable read before it checks users and permissions.
            Err(Error::GRpcStatus(status)) if is_refused_after_reading(&status) => {}
            Err(error) => return Err(self.gap(error)),
        }
        let answer = self.client.member_list().await.map_err(|error| self.gap(error))?;
        let member = |member: &etcd_client::Member| EtcdMember {
            id: member.id(),
            name: member.name().to_owned(),
            peer_urls: member.peer_urls().to_vec(),
            client_urls: member.client_urls().to_vec(),
            is_learner: member.is_learner(),
        };
        Ok(answer.members().iter().map(member).collect())
    }

    pub(super) async fn alarms(mut self) -> Observed<Vec<EtcdAlarm>> {
        let answer = self.client.alarm(AlarmAction::Get, AlarmType::None, None).await;
        let answer = answer.map_err(|error| self.gap(error))?;
        answered_by(answer.header())?;
        // Read from the message itself: the library's view of an alarm cannot represent a kind that it does not know.
        let alarms = answer.0.alarms.iter().map(|alarm| EtcdAlarm {
            member_id: alarm.member_id,
            kind: match AlarmType::try_from(alarm.alarm) {
                Ok(AlarmType::Nospace) => AlarmKind::NoSpace,
                Ok(AlarmType::Corrupt) => AlarmKind::Corrupt,
                Ok(AlarmType::None) | Err(_) => AlarmKind::Other(alarm.alarm),
            },
        });
        Ok(alarms.collect())
    }

    fn gap(&self, error: Error) -> Gap {
        let status = match error {
            Error::GRpcStatus(status) => status,
            other => return Gap::new(GapKind::Broken, short(&other.to_string())),
        };
        // This status was created on our side of the connection.
        if let Some(source) = status.source() {
            return match cause::find::<LengthLimitError>(source) {
                Some(_) => too_large(),
                None => cause::of_loss(source, self.connection.fault()),
            };
        }
        let kind = match status.code() {
            Code::Unauthenticated => GapKind::Unauthenticated,
            Code::PermissionDenied => GapKind::Forbidden,
            _ if is_of_users(status.message()) => GapKind::Unauthenticated,
            Code::DeadlineExceeded | Code::Cancelled => GapKind::TimedOut,
            Code::OutOfRange => return too_large(),
            _ => GapKind::ServerError,
        };
        Gap::new(kind, short(status.message()))
    }
}

fn too_large() -> Gap {
    Gap::new(GapKind::TooLarge, "an answer of more than 64 KiB")
}

/// Returns whether etcd itself refused the user after the read: authentication is on, and we have no user or one without permission. The
/// refusal of a gateway in front of etcd has other words.
fn is_refused_after_reading(status: &Status) -> bool {
    match status.code() {
        Code::PermissionDenied => status.message() == "etcdserver: permission denied",
        Code::InvalidArgument => status.message() == NOBODY,
        _ => false,
    }
}

const NOBODY: &str = "etcdserver: user name is empty";

/// Returns whether the text is one of etcd's authentication errors, whose codes have other meanings elsewhere.
fn is_of_users(message: &str) -> bool {
    [
        NOBODY,
        "etcdserver: user name not found",
        "etcdserver: authentication failed, invalid user ID or password",
        "etcdserver: authentication failed, password was given for no password user",
        "etcdserver: revision of auth store is old",
    ]
    .contains(&message)
}

/// Returns the member that gave an answer. An answer without one is an empty message, which would otherwise read as no leader, no alarm, or
/// a quorum.
fn answered_by(header: Option<&ResponseHeader>) -> Observed<u64> {
    let member = header.map(ResponseHeader::member_id).filter(|&id| id != 0);
    member.ok_or_else(|| Gap::new(GapKind::Malformed, "an answer that names no member"))
}
