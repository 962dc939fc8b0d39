//! What calls are made, and how they are predicted.

use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use surmise_grpc::{Scope, Status};
use tokio::task::JoinSet;

use super::service::{Client, Step};

/// Chains of a trial, one after the other: as many as an average takes.
const CHAINS: u32 = 40;

/// Calls of which the time of one is taken.
const NULL_CALLS: u32 = 4000;

/// Chains that run at once, and how many each of them does.
const CLIENTS: u64 = 64;
const CHAINS_EACH: u64 = 100;

/// What is tried.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Trial {
    /// Chains of so many calls of 10 ms, of whose replies so many in a hundred are predicted right: ms a
    /// chain.
    Chain { calls: u32, right: u32 },
    /// Calls of handlers that do nothing, none of them predicted: us a call.
    Null,
    /// Chains of four such calls, so many at once that the processors are busy: chains a second.
    Saturated { right: u32 },
}

/// What came of it.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Found {
    /// In the trial's unit.
    pub value: f64,
    /// For how long handlers ran, in ms a chain or call.
    pub work: f64,
}

/// From what was written on a command line.
pub fn parse(text: &str) -> Result<Trial, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

impl Trial {
    pub fn unit(self) -> &'static str {
        match self {
            Self::Chain { .. } => "ms",
            Self::Null => "us",
            Self::Saturated { .. } => "/s",
        }
    }

    /// Tries it, running ahead or not.
    pub fn perform(self, is_ahead: bool) -> Result<Found, String> {
        let runtime = tokio::runtime::Runtime::new().map_err(|error| error.to_string())?;
        let tried = runtime.block_on(async {
            let takes = match self {
                Self::Chain { .. } => Duration::from_millis(10),
                Self::Null | Self::Saturated { .. } => Duration::ZERO,
            };
            let step = Step::new(takes);
            let client = step.serve().await?;
            // The connection is warm.
            client.next(0).await.map_err(|status| status.to_string())?;
            let before = step.worked_ms();
            let tried = self.try_with(&client, is_ahead).await;
            let (value, times) = tried.map_err(|status| status.to_string())?;
            Ok(Found {
                value,
                work: (step.worked_ms() - before) / times,
            })
        });
        // Handlers of calls that were dropped may be asleep still.
        runtime.shutdown_background();
        tried
    }

    /// The value, and how many chains or calls there were.
    async fn try_with(self, client: &Client, is_ahead: bool) -> Result<(f64, f64), Status> {
        let begun = Instant::now();
        match self {
            Self::Chain { calls, right } => {
                for number in 0..CHAINS {
                    chain(client, is_ahead, calls, Odds::new(right, number.into())).await?;
                }
                let chains = f64::from(CHAINS);
                Ok((begun.elapsed().as_secs_f64() * 1e3 / chains, chains))
            }
            Self::Null => {
                for number in 0..NULL_CALLS {
                    null(client, is_ahead, number.into()).await?;
                }
                let calls = f64::from(NULL_CALLS);
                Ok((begun.elapsed().as_secs_f64() * 1e6 / calls, calls))
            }
            Self::Saturated { right } => {
                let mut clients = JoinSet::new();
                for number in 0..CLIENTS {
                    let client = client.clone();
                    clients.spawn(async move {
                        for of in 0..CHAINS_EACH {
                            let odds = Odds::new(right, number * CHAINS_EACH + of);
                            chain(&client, is_ahead, 4, odds).await?;
                        }
                        Ok::<_, Status>(())
                    });
                }
                while let Some(ended) = clients.join_next().await {
                    ended.map_err(|error| Status::internal(error.to_string()))??;
                }
                #[expect(clippy::cast_precision_loss, reason = "some thousands")]
                let chains = (CLIENTS * CHAINS_EACH) as f64;
                Ok((chains / begun.elapsed().as_secs_f64(), chains))
            }
        }
    }
}

async fn null(client: &Client, is_ahead: bool, number: u64) -> Result<u64, Status> {
    match is_ahead {
        true => Scope::root().call(|| client.next(number)).value().await,
        false => client.next(number).await,
    }
}

/// Counts by calls.
async fn chain(client: &Client, is_ahead: bool, calls: u32, odds: Odds) -> Result<(), Status> {
    let end = if is_ahead {
        ahead(client, Scope::root(), 0, calls, odds).await?
    } else {
        let mut number = 0;
        for _ in 0..calls {
            number = client.next(number).await?;
        }
        number
    };
    match end == u64::from(calls) {
        true => Ok(()),
        false => Err(Status::internal(format!("{end} after {calls} calls"))),
    }
}

type Following<'a> = Pin<Box<dyn Future<Output = Result<u64, Status>> + Send + 'a>>;

fn ahead(client: &Client, scope: Scope, number: u64, calls: u32, odds: Odds) -> Following<'_> {
    Box::pin(async move {
        if calls == 0 {
            return Ok(number);
        }
        let guess = match odds.is_right(calls) {
            true => number + 1,
            false => number + 1_000_000,
        };
        scope
            .call(|| client.next(number))
            .safe()
            .predict(guess)
            .then(async |scope: Scope, next: u64| ahead(client, scope, next, calls - 1, odds).await)
            .await
    })
}

/// Which predictions of a chain are right, the same in every run.
#[derive(Clone, Copy)]
struct Odds {
    right: u32,
    chain: u64,
}

impl Odds {
    fn new(right: u32, chain: u64) -> Self {
        Self { right, chain }
    }

    fn is_right(self, call: u32) -> bool {
        // SplitMix64.
        let mut word = (self.chain << 8 | u64::from(call)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (word ^ (word >> 31)) % 100 < u64::from(self.right)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_predictions_are_right_as_are_asked_for() {
        for right in [0, 50, 90, 100] {
            let odds = (0..1000).map(|chain| Odds::new(right, chain));
            let of_chain = |odds: Odds| (1..=4).filter(move |call| odds.is_right(*call)).count();
            let count = odds.map(of_chain).sum::<usize>();
            assert!(count.abs_diff(right as usize * 40) < 100, "{count} of 4000");
        }
    }

    #[test]
    fn a_chain_ends_at_the_same_number_both_ways_and_wrong_predictions_cost_work() {
        let trial = Trial::Chain { calls: 2, right: 0 };
        let (plain, ahead) = (trial.perform(false).unwrap(), trial.perform(true).unwrap());
        assert!(plain.value > 0.0 && ahead.value > 0.0);
        assert!(ahead.work > plain.work, "{ahead:?} {plain:?}");
    }
}
