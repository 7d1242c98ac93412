//! Judges whether and for how long a client certificate can be used, without any request.

use jiff::{SignedDuration, Timestamp};

use crate::snapshot::{Account, Certificate, TalosCredentials};

/// A defect of a client certificate. The worst comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Extended key usage `clientAuth` is missing.
    NotForClients,
    /// The private key does not belong to the certificate.
    OtherKey,
    NotYetValid,
    Expired,
    /// The certificate expires before the deadline of the run.
    EndsWithinTheRun,
    /// The remaining validity is shorter than it should be: by default 30 days, or a tenth of the lifetime.
    EndsSoon,
}

/// Lists the defects of a certificate. `soon` is the validity that should remain.
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

/// Returns the defect that makes every peer reject the certificate now.
pub(super) fn worst(certificate: &Certificate, now: Timestamp) -> Option<Fault> {
    faults(certificate, now, None, SignedDuration::ZERO).into_iter().find(|fault| *fault != Fault::EndsSoon)
}

fn is_unusable(certificate: &Certificate, now: Timestamp) -> bool {
    worst(certificate, now).is_some()
}

/// The clock skew that Omni tolerates between its own clock and the signer's.
const ALLOWED_SKEW: SignedDuration = SignedDuration::from_mins(5);

/// Returns the defect of the key of an Omni service account.
pub(crate) fn fault_of_account(
    account: &Account,
    now: Timestamp,
    deadline: Option<Timestamp>,
    soon: SignedDuration,
) -> Option<Fault> {
    let begin = account.not_before.checked_sub(ALLOWED_SKEW).unwrap_or(Timestamp::MIN);
    fault_of_dates(begin, account.not_after.unwrap_or(Timestamp::MAX), now, deadline, soon)
}

/// Returns true if no peer would accept these credentials.
pub(crate) fn lets_nobody_in(credentials: &TalosCredentials, now: Timestamp) -> bool {
    match &credentials.account {
        Some(account) => fault_of_account(account, now, None, SignedDuration::ZERO).is_some(),
        None => credentials.certificate.as_ref().is_none_or(|certificate| is_unusable(certificate, now)),
    }
}

/// Returns true if the remaining validity is less than `soon`, or less than a tenth of the lifetime if that is shorter.
pub(crate) fn ends_soon(not_before: Timestamp, not_after: Timestamp, now: Timestamp, soon: SignedDuration) -> bool {
    let tenth = not_after.duration_since(not_before) / 10;
    not_after.duration_since(now) < tenth.min(soon)
}
