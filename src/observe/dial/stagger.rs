//! Several ways to get the same answer, tried with a delay between them.

use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;

use crate::snapshot::Gap;

/// Tries one way after the other. The next one is started when one has failed, or when none has answered for `patience`; slow ones continue
/// in parallel. Returns the first success, or else all causes in the order of the ways.
pub(in crate::observe) async fn staggered<T, F>(
    ways: impl IntoIterator<Item = F>,
    patience: Duration,
) -> Result<T, Vec<Gap>>
where
    F: Future<Output = Result<T, Gap>>,
{
    let mut ways = ways.into_iter().enumerate().fuse().map(|(place, way)| async move { (place, way.await) });
    let mut running = FuturesUnordered::new();
    let mut gaps = Vec::new();
    let mut more = true;
    loop {
        match ways.next() {
            Some(way) => running.push(way),
            None => more = false,
        }
        let ended =
            if more { tokio::time::timeout(patience, running.next()).await.ok() } else { Some(running.next().await) };
        match ended {
            // No way has answered in time, so the next one is started.
            None => {}
            Some(Some((_, Ok(value)))) => return Ok(value),
            Some(Some((place, Err(gap)))) => gaps.push((place, gap)),
            Some(None) => {
                gaps.sort_by_key(|(place, _)| *place);
                return Err(gaps.into_iter().map(|(_, gap)| gap).collect());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::GapKind;

    const PATIENCE: Duration = Duration::from_secs(1);

    async fn way(seconds: u64, result: Result<u8, &'static str>) -> Result<u8, Gap> {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        result.map_err(|text| Gap::new(GapKind::Broken, text))
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_success_wins() {
        let start = tokio::time::Instant::now();
        assert_eq!(staggered([way(60, Ok(1)), way(0, Err("no")), way(0, Ok(3))], PATIENCE).await, Ok(3));
        assert_eq!(start.elapsed(), PATIENCE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_first_way_still_counts() {
        assert_eq!(staggered([way(2, Ok(1)), way(60, Ok(2))], PATIENCE).await, Ok(1));
    }

    #[tokio::test(start_paused = true)]
    async fn all_causes_come_back_in_order() {
        let gaps = staggered([way(5, Err("first")), way(0, Err("second"))], PATIENCE).await.unwrap_err();
        assert_eq!(gaps.iter().map(|gap| &*gap.text).collect::<Vec<_>>(), ["first", "second"]);
        let none: [std::future::Ready<Result<u8, Gap>>; 0] = [];
        assert_eq!(staggered(none, PATIENCE).await, Err(Vec::new()));
    }
}
