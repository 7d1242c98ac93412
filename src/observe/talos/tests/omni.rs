//! Signed calls go only to Omni, and Omni does not count as a machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::fake::{answering, tls};
use super::*;
use crate::config::Environment;
use crate::config::omni::ServiceAccount;
use crate::config::roots::Roots;

fn account() -> Arc<ServiceAccount> {
    let key = simulator::openpgp::PrivateKey::new("ci", 1_800_000_000, None).unwrap();
    let key = simulator::service_account("ci", &key);
    let found = ServiceAccount::of(&Environment::new([("SIDERO_SERVICE_ACCOUNT_KEY", key)]));
    Arc::new(found.unwrap().unwrap())
}

fn through_omni(authority: &Authority, at: EndpointAddress) -> TalosClient {
    let cluster = Some("prod".to_owned());
    let (roots, account) = (Roots::OfSystem(vec![authority.certificate()]), Some(account()));
    TalosClient::new(Config { endpoints: vec![at], roots, client: None, account, cluster, timeout: LONG }).unwrap()
}

async fn front(authority: &Authority, fake: &Fake) -> EndpointAddress {
    fake.clone().serve(tls(&authority.server("127.0.0.1", |_| {}), None, true)).await
}

#[tokio::test]
async fn every_call_to_omni_is_signed_and_none_says_who_has_answered() {
    let authority = Authority::new();
    let fake = Fake::new(&[("", Machine::Named("cp-1")), ("10.0.0.2", Machine::Named("cp-2"))]);
    let client = through_omni(&authority, front(&authority, &fake).await);
    let answer = client.endpoint(0, Instant::now() + LONG).await;
    assert_eq!(answer.endpoint.version.unwrap().tag, "v1.13.0");
    assert_eq!((answer.endpoint.nodename, answer.endpoint.role), (Ok(None), Ok(None)));
    assert_eq!((answer.addresses, answer.machine_id), (Ok(vec![]), Ok(None)));
    assert_eq!(answer.members.unwrap()[0].name, "cp-1");
    assert!(ask(&client, &["10.0.0.2"], &["cp-2"], &ALL, &[0]).await.contact.is_ok());
    let signed = fake.signed.lock().unwrap();
    assert!(signed.len() > 5 && signed.iter().all(|signed| *signed), "{signed:?}");
}

#[tokio::test]
async fn who_has_not_proved_to_be_omni_is_sent_no_signature() {
    let (authority, other) = (Authority::new(), Authority::new());
    let fake = Fake::new(&[("", Machine::Maintenance)]);
    // A certificate from another authority, and one for another name.
    for leaf in [other.server("127.0.0.1", |_| {}), authority.server("omni.example", |_| {})] {
        let at = fake.clone().serve(tls(&leaf, None, true)).await;
        let gap = version_gap(&through_omni(&authority, at)).await;
        assert!(matches!(gap.kind, GapKind::UnknownCa | GapKind::NameNotInCertificate), "{gap:?}");
    }
    assert_eq!(*fake.seen.lock().unwrap(), [""; 0], "nothing was asked");
    // The unverified probe queries a machine and signs nothing.
    let at = front(&other, &fake).await;
    let unknown = Gap::new(GapKind::UnknownCa, "unknown");
    let unverified = crate::observe::dial::tls::accepting_any().unwrap();
    let refined = super::super::maintenance::refine(unknown, &at, &unverified, Instant::now() + LONG).await;
    assert_eq!(refined.kind, GapKind::Maintenance);
    assert_eq!(*fake.signed.lock().unwrap(), [false]);
}

#[tokio::test]
async fn a_refused_signature_is_told_from_a_refused_role() {
    let authority = Authority::new();
    for (code, text, kind) in [
        (Code::Unauthenticated, "invalid signature", GapKind::SignatureRefused),
        (Code::PermissionDenied, "not authorized", GapKind::Forbidden),
    ] {
        let fake = Fake::new(&[("", Machine::Refuses(code, text))]);
        let gap = version_gap(&through_omni(&authority, front(&authority, &fake).await)).await;
        assert_eq!(gap, Gap::new(kind, text));
    }
}

#[tokio::test]
async fn redirects_are_not_followed_and_the_date_of_an_answer_tells_a_clock() {
    let authority = Authority::new();
    let leaf = || tls(&authority.server("127.0.0.1", |_| {}), None, true);
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let elsewhere = answering(leaf(), move || {
        count.fetch_add(1, Ordering::Relaxed);
        http::Response::builder()
    })
    .await;
    let location = format!("https://{}/", elsewhere.shown);
    let at = answering(leaf(), move || http::Response::builder().status(307).header("location", &location)).await;
    let gap = version_gap(&through_omni(&authority, at)).await;
    assert!(matches!(gap.kind, GapKind::Malformed | GapKind::ServerError), "{gap:?}");
    assert_eq!(asked.load(Ordering::Relaxed), 0);

    let late = || {
        http::Response::builder()
            .header("content-type", "application/grpc")
            .header("grpc-status", "16")
            .header("grpc-message", "invalid signature")
            .header("date", "Sat, 21 Nov 2020 13:52:13 GMT")
    };
    let gap = version_gap(&through_omni(&authority, answering(leaf(), late).await)).await;
    assert_eq!(gap.kind, GapKind::SignatureRefused);
    assert!(gap.text.contains("ahead of that of Omni"), "{gap:?}");
}
