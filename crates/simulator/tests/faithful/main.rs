//! Compares the simulator with the real cluster: the simulator receives the calls in `e2e/recordings` that the real
//! cluster answered.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod ask;
#[path = "../common/connection.rs"]
mod connection;
mod differences;
mod exactly;
mod facts;
mod recording;
mod states;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use futures::StreamExt as _;

use self::differences::Differences;
use self::facts::Difference;
use self::recording::Recording;

/// Number of clusters at a time: a test mostly waits for answers that never come, and otherwise generates keys and
/// certificates.
const AT_ONCE: usize = 10;

/// Simulates every recorded state, and sends the recorded calls.
#[tokio::test(flavor = "multi_thread")]
async fn a_simulated_cluster_answers_as_the_real_one_did() {
    let compared = Recording::all().into_iter().map(|recording| tokio::spawn(compare(recording)));
    let compared: Vec<_> = futures::stream::iter(compared).buffered(AT_ONCE).collect().await;
    let mut differences = Differences::read();
    let mut unlisted = BTreeSet::new();
    for (state, call, difference) in compared.into_iter().flat_map(Result::unwrap) {
        if !differences.explain(&state, &call, &difference) {
            unlisted.insert(format!("{state}: {call}: {difference}"));
        }
    }
    let mut report = String::new();
    for line in &unlisted {
        writeln!(report, "not listed: {line}").unwrap();
    }
    for entry in differences.unused() {
        writeln!(report, "listed, and there is none: {entry}").unwrap();
    }
    assert!(report.is_empty(), "{} differences\n{report}", unlisted.len());
}

/// Builds the world of each recording, and sends the calls of that recording.
#[tokio::test(flavor = "multi_thread")]
async fn a_recorded_world_answers_what_was_recorded() {
    let asked = Recording::all().into_iter().map(|recording| {
        tokio::spawn(async move {
            let answers = states::recorded(&recording).ask_all(&recording.calls).await;
            let both = recording.calls.iter().zip(answers);
            both.filter_map(|(call, answer)| exactly::difference(call, &answer))
                .map(|difference| format!("{}: {difference}", recording.state.name))
                .collect::<Vec<_>>()
        })
    });
    let found: Vec<_> = futures::stream::iter(asked).buffered(AT_ONCE).collect().await;
    let found: Vec<_> = found.into_iter().flat_map(Result::unwrap).collect();
    assert!(found.is_empty(), "{} differences\n{}", found.len(), found.join("\n"));
}

/// Returns state, call and difference.
async fn compare(recording: Recording) -> Vec<(String, String, Difference)> {
    let answers = states::simulated(&recording).ask_all(&recording.calls).await;
    let both = recording.calls.iter().zip(answers);
    both.flat_map(|(call, simulated)| {
        let differences = facts::differences(&call.answer(), &simulated);
        differences.into_iter().map(|it| (recording.state.name.clone(), call.name(), it))
    })
    .collect()
}
