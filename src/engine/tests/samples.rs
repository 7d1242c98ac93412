//! Second samples: doubtful problems are observed again.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_second_sample_settles_a_doubt_within_the_round() {
    let outcome = run_with(WAITING, &script(&[Said::Doubtful, Said::Fine])).await;
    assert_eq!((outcome.end, outcome.rounds, outcome.again), (End::Healthy, 1, 1));
    assert_eq!(outcome.took, Duration::from_millis(11_100));
}

#[tokio::test(start_paused = true)]
async fn a_doubt_is_resampled_once_a_round_and_never_past_the_deadline() {
    let outcome = run_with(Setup { wait: Some(11), ..WAITING }, &script(&[Said::Doubtful])).await;
    assert_eq!((outcome.end, outcome.again), (End::Deadline, 0));
    let outcome = run_with(ONE_PASS, &script(&[Said::Doubtful])).await;
    assert_eq!((outcome.end, outcome.rounds, outcome.again), (End::OnePass, 1, 1));
}

/// The second sample comes after the round's second and the 11 s that the judge requests; then as much time as the
/// first one took has to be left.
#[tokio::test(start_paused = true)]
async fn a_second_sample_needs_the_time_of_the_first() {
    for (wait, again) in [(13, 0), (14, 1)] {
        let setup = Setup { wait: Some(wait), round_takes: &[1_000], ..WAITING };
        assert_eq!(run_with(setup, &script(&[Said::Doubtful, Said::Fine])).await.again, again, "{wait}");
    }
}

/// The round would replace a result of two samples with a doubt.
#[tokio::test(start_paused = true)]
async fn a_last_round_without_the_time_for_a_second_sample_does_not_count() {
    let setup = || Setup { wait: Some(16), ..WAITING };
    let outcome = run_with(setup(), &script(&[Said::Doubtful, Said::Bad, Said::Doubtful])).await;
    assert_eq!((outcome.end, outcome.again), (End::Deadline, 1));
    assert_eq!(outcome.events, ["round 1", "waiting", "waiting"], "nothing of it is told");
    // The round counts if it passes, or if the one before was as doubtful.
    let outcome = run_with(setup(), &script(&[Said::Doubtful, Said::Bad, Said::Fine])).await;
    assert_eq!((outcome.end, outcome.rounds), (End::Healthy, 2));
    let outcome = run_with(Setup { wait: Some(11), ..WAITING }, &script(&[Said::Doubtful])).await;
    assert_eq!(outcome.events, ["round 1", "waiting", "round 2", "waiting", "round 3"]);
    let outcome = run_with(setup(), &script(&[Said::Doubtful, Said::Fine])).await;
    assert_eq!((outcome.end, outcome.events), (End::Healthy, vec!["round 1".to_owned()]));
}
