//! Whether a client certificate can be used, and for how long, told without asking anybody.

use jiff::{SignedDuration, Timestamp};

use crate::snapshot::{Account, Certificate, TalosCredentials};

/// What is wrong with a client certificate, worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Extended key usage `clientAuth` is missing.
    NotForClients,
    /// The private key belongs to another one.
    OtherKey,
    NotYetValid,
    Expired,
    /// Before the run may end.
    EndsWithinTheRun,
    /// Less is left than there should be: by default 30 days, or a tenth of its lifetime.
    EndsSoon,
}

/// `soon`: how much should be left.
pub(crate) fn faults(
    certificate: &Certificate,
    now: Timestamp,
    deadline: Option<Timestamp>,
    soon: SignedDuration,
) -> Vec<Fault> {
    let mut faults = Vec::new();
    faults.extend((!certificate.client_auth).then_some(Fault::NotForClients));
    faults.extend((!certificate.matches_key).then_some(Fault::OtherKey));
    faults.extend(fault_of_dates(certificate.not_before, certificate.not_after, now, deadline, soon));
    faults
}

pub(crate) fn fault_of_dates(
    begin: Timestamp,
    end: Timestamp,
    now: Timestamp,
    deadline: Option<Timestamp>,
    soon: SignedDuration,
) -> Option<Fault> {
    if begin > now {
        Some(Fault::NotYetValid)
    } else if end <= now {
        Some(Fault::Expired)
    } else if deadline.is_some_and(|deadline| end < deadline) {
        Some(Fault::EndsWithinTheRun)
    } else {
        ends_soon(begin, end, now, soon).then_some(Fault::EndsSoon)
    }
}

/// Why no peer would accept it now, whatever else is right.
pub(super) fn worst(certificate: &Certificate, now: Timestamp) -> Option<Fault> {
    faults(certificate, now, None, SignedDuration::ZERO).into_iter().find(|fault| *fault != Fault::EndsSoon)
}

fn is_unusable(certificate: &Certificate, now: Timestamp) -> bool {
    worst(certificate, now).is_some()
}

/// What Omni allows between its clock and that of who signs.
const ALLOWED_SKEW: SignedDuration = SignedDuration::from_mins(5);

/// The same of the key of a service account of Omni.
pub(crate) fn fault_of_account(
    account: &Account,
    now: Timestamp,
    deadline: Option<Timestamp>,
    soon: SignedDuration,
) -> Option<Fault> {
    let begin = account.not_before.checked_sub(ALLOWED_SKEW).unwrap_or(Timestamp::MIN);
    fault_of_dates(begin, account.not_after.unwrap_or(Timestamp::MAX), now, deadline, soon)
}

/// Whether nobody would let in who comes with these.
pub(crate) fn lets_nobody_in(credentials: &TalosCredentials, now: Timestamp) -> bool {
    match &credentials.account {
        Some(account) => fault_of_account(account, now, None, SignedDuration::ZERO).is_some(),
        None => credentials.certificate.as_ref().is_none_or(|certificate| is_unusable(certificate, now)),
    }
}

/// Less than `soon`, or than a tenth of its lifetime if that is shorter, is left.
pub(crate) fn ends_soon(not_before: Timestamp, not_after: Timestamp, now: Timestamp, soon: SignedDuration) -> bool {
    let tenth = not_after.duration_since(not_before) / 10;
    not_after.duration_since(now) < tenth.min(soon)
}
