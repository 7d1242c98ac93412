//! Certificate signing requests: the user of each certificate, and the state of the request.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::pem::parse_x509_pem;
use x509_parser::prelude::FromDer as _;

use super::lists::Kept;
use super::objects::name;
use super::wire::certificates;
use crate::snapshot::{RequestState, SigningRequest};

/// The prefix of a Node's name in a certificate.
const OF_NODE: &str = "system:node:";

impl Kept for SigningRequest {
    type Object = certificates::CertificateSigningRequest;

    fn of(request: certificates::CertificateSigningRequest) -> Self {
        let status = request.status.unwrap_or_default();
        let conditions = status.conditions.unwrap_or_default();
        let is = |type_: &str| conditions.iter().any(|it| it.type_ == type_);
        let is_issued = status.certificate.is_some_and(|certificate| !certificate.is_empty());
        let state = match (is("Denied"), is("Approved")) {
            (false, false) => RequestState::Pending,
            (false, true) if !is_issued => RequestState::Unissued,
            (false, true) => RequestState::Settled,
            (true, _) => RequestState::Denied,
        };
        let from = request.spec.username.unwrap_or_default();
        // Machines that have not joined yet share a user, and name the Node that they want to become in the request.
        let asks_for = || common_name(&request.spec.request?).filter(|name| name.starts_with(OF_NODE));
        let user = if from.starts_with(OF_NODE) { from } else { asks_for().unwrap_or(from) };
        Self { name: name(&request.metadata), signer: request.spec.signer_name, user, state }
    }
}

/// Returns the subject's common name in a request, which the API encodes as base64 of PEM; `None` if it is not a
/// request.
fn common_name(request: &str) -> Option<String> {
    let pem = STANDARD.decode(request).ok()?;
    let (_, pem) = parse_x509_pem(&pem).ok()?;
    let (_, request) = X509CertificationRequest::from_der(&pem.contents).ok()?;
    let name = request.certification_request_info.subject.iter_common_name().next()?.as_str().ok()?;
    Some(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::kubernetes::objects::tests::read;
    use rcgen::{CertificateParams, DnType, KeyPair};
    use serde_json::{Value, json};

    fn of_node(user: &str, request: &str) -> SigningRequest {
        SigningRequest::of(read(json!({
            "metadata": {"name": "csr-1"},
            "spec": {"request": request, "signerName": "kubernetes.io/kube-apiserver-client-kubelet", "username": user},
        })))
    }

    /// Returns a request as a kubelet creates it.
    fn asks_for(name: &str) -> String {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::OrganizationName, "system:nodes");
        params.distinguished_name.push(DnType::CommonName, name);
        STANDARD.encode(params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap())
    }

    #[test]
    fn a_request_has_come_as_far_as_its_conditions_and_its_certificate_say() {
        use RequestState::{Denied, Pending, Settled, Unissued};
        let is = |type_: &str| json!({"type": type_, "status": "True"});
        for (conditions, certificate, state) in [
            (Value::Null, Value::Null, Pending),
            (json!([]), Value::Null, Pending),
            (json!([is("Failed")]), Value::Null, Pending),
            (json!([is("Approved")]), json!("LS0t"), Settled),
            (json!([is("Approved")]), Value::Null, Unissued),
            (json!([is("Approved")]), json!(""), Unissued),
            (json!([is("Approved"), is("Failed")]), Value::Null, Unissued),
            (json!([is("Denied")]), Value::Null, Denied),
        ] {
            let request = SigningRequest::of(read(json!({
                "metadata": {"name": "csr-1"},
                "spec": {"request": "", "signerName": "kubernetes.io/kubelet-serving", "username": "system:node:w-1"},
                "status": {"conditions": conditions, "certificate": certificate},
            })));
            assert_eq!(request.state, state, "{conditions}");
            assert_eq!((request.signer.as_str(), &*request.user), ("kubernetes.io/kubelet-serving", "system:node:w-1"));
        }
    }

    #[test]
    fn a_machine_that_joins_says_in_the_request_who_it_is() {
        let bootstrap = "system:bootstrap:q9pyzr";
        assert_eq!(of_node(bootstrap, &asks_for("system:node:w-1")).user, "system:node:w-1");
        // A name that is not a Node's is ignored, and a Node's proven name takes precedence.
        assert_eq!(of_node(bootstrap, &asks_for("admin")).user, bootstrap);
        assert_eq!(of_node("system:node:w-2", &asks_for("system:node:w-1")).user, "system:node:w-2");
        let cut = &asks_for("system:node:w-1")[..200];
        let other = STANDARD.encode("-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n");
        for broken in ["", "LS0tLS1CRUdJTi4uLg==", "*", cut, &other] {
            assert_eq!(of_node(bootstrap, broken).user, bootstrap, "{broken}");
        }
    }
}
