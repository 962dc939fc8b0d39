//! What calls are made, and how they are predicted.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use surmise_grpc::{Gate, Limits, Scope, Server, Status, Waste};
use tokio::task::JoinSet;

use super::hops::{self, Hop};
use super::service::{self, Client, Step};
use crate::measure::middle;

/// Chains of a trial, one after the other: as many as an average takes.
const CHAINS: u32 = 40;

/// Calls of which the time of one is taken.
const NULL_CALLS: u32 = 4000;

/// Chains that run at once, and how many each of them does.
const CLIENTS: u64 = 64;
const CHAINS_EACH: u64 = 100;

/// Calls that are given up.
const ABORTS: u32 = 20;

/// After which a server is taken never to know.
const KNOWN_MAX: Duration = Duration::from_secs(5);

/// What is tried.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Trial {
    /// Chains of so many calls of 10 ms, of whose replies so many in a hundred are predicted right: ms a
    /// chain. So many for a hundred of use may be wasted, if that is bounded.
    Chain {
        calls: u32,
        right: u32,
        wasted: Option<u32>,
    },
    /// A call of the first of so many servers, each of which asks the next one before it works for 10 ms; they
    /// predict their replies rightly: ms a call.
    Hops { servers: u32 },
    /// How long it takes until the last of so many servers knows that the call was given up: ms.
    Abort { servers: u32 },
    /// Calls of handlers that do nothing, none of them predicted, of a server that knows of speculation, or
    /// not: us a call.
    Null { aware: bool },
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
            Self::Chain { .. } | Self::Hops { .. } | Self::Abort { .. } => "ms",
            Self::Null { .. } => "us",
            Self::Saturated { .. } => "/s",
        }
    }

    /// How long a handler works.
    fn takes(self) -> Duration {
        match self {
            Self::Chain { .. } | Self::Hops { .. } => Duration::from_millis(10),
            // Until it is ended.
            Self::Abort { .. } => Duration::from_secs(60),
            Self::Null { .. } | Self::Saturated { .. } => Duration::ZERO,
        }
    }

    /// Tries it, running ahead or not.
    pub fn perform(self, is_ahead: bool) -> Result<Found, String> {
        let runtime = tokio::runtime::Runtime::new().map_err(|error| error.to_string())?;
        let tried = runtime.block_on(self.try_it(is_ahead));
        // Handlers of calls that were dropped may be asleep still.
        runtime.shutdown_background();
        tried
    }

    fn gate(self) -> Gate {
        let gate = Gate::new(Limits::default());
        match self {
            Self::Chain {
                wasted: Some(percent),
                ..
            } => gate.wasting_at_most(Waste { percent, burst: 4 }),
            _ => gate,
        }
    }

    async fn try_it(self, is_ahead: bool) -> Result<Found, String> {
        let servers = match self {
            Self::Hops { servers } | Self::Abort { servers } => servers,
            _ => 1,
        };
        let is_aware = !matches!(
            self,
            Self::Chain { .. } | Self::Saturated { .. } | Self::Null { aware: false }
        );
        let (callee, worked) = if is_aware && is_ahead {
            let (server, worked) = Hop::row(servers, self.takes()).await?;
            (Callee::Aware(server), worked)
        } else {
            let (client, worked) = Step::row(servers, self.takes()).await?;
            (Callee::Plain(client), worked)
        };
        let gate = is_ahead.then(|| Arc::new(self.gate()));
        let tried = match self {
            Self::Chain { calls, right, .. } => callee.chains(gate, calls, right).await,
            Self::Hops { servers } => callee.hops(servers).await,
            Self::Abort { .. } => callee.abort(&worked[0]).await,
            Self::Null { .. } => callee.null(is_ahead).await,
            Self::Saturated { right } => callee.saturated(gate, right).await,
        };
        let (value, times) = tried.map_err(|status| status.to_string())?;
        let work: f64 = worked.iter().map(|worked| service::ms(worked)).sum();
        Ok(Found {
            value,
            work: work / times,
        })
    }
}

/// Who is called.
enum Callee {
    Plain(Client),
    Aware(Server),
}

/// What was measured, and how many chains or calls there were.
type Measured = Result<(f64, f64), Status>;

impl Callee {
    async fn call(&self, number: u64) -> Result<u64, Status> {
        match self {
            Self::Plain(client) => client.next(number).await,
            Self::Aware(server) => {
                let reply = hops::call(&Scope::root(), server, number).value().await;
                Ok(reply?.number)
            }
        }
    }

    fn client(&self) -> Result<&Client, Status> {
        match self {
            Self::Plain(client) => Ok(client),
            Self::Aware(_) => Err(Status::internal("chains are of plain servers")),
        }
    }

    async fn chains(&self, gate: Option<Arc<Gate>>, calls: u32, right: u32) -> Measured {
        let client = self.client()?;
        let begun = Instant::now();
        for number in 0..CHAINS {
            chain(
                client,
                gate.as_deref(),
                calls,
                Odds::new(right, number.into()),
            )
            .await?;
        }
        let chains = f64::from(CHAINS);
        Ok((begun.elapsed().as_secs_f64() * 1e3 / chains, chains))
    }

    async fn hops(&self, servers: u32) -> Measured {
        // From their answers it is known who is aware.
        self.call(0).await?;
        let begun = Instant::now();
        for _ in 0..CHAINS {
            let found = self.call(0).await?;
            if found != u64::from(servers) {
                return Err(Status::internal(format!("{found} after {servers} servers")));
            }
        }
        let calls = f64::from(CHAINS);
        Ok((begun.elapsed().as_secs_f64() * 1e3 / calls, calls + 1.0))
    }

    async fn null(&self, is_ahead: bool) -> Measured {
        self.call(0).await?;
        let begun = Instant::now();
        for number in 0..NULL_CALLS {
            match (self, is_ahead) {
                (Self::Plain(client), true) => {
                    let call = Scope::root().call(|| client.next(number.into()));
                    call.value().await?
                }
                _ => self.call(number.into()).await?,
            };
        }
        let calls = f64::from(NULL_CALLS);
        Ok((begun.elapsed().as_secs_f64() * 1e6 / calls, calls))
    }

    async fn saturated(&self, gate: Option<Arc<Gate>>, right: u32) -> Measured {
        let begun = Instant::now();
        let mut clients = JoinSet::new();
        for number in 0..CLIENTS {
            let (client, gate) = (self.client()?.clone(), gate.clone());
            clients.spawn(async move {
                for of in 0..CHAINS_EACH {
                    let odds = Odds::new(right, number * CHAINS_EACH + of);
                    chain(&client, gate.as_deref(), 4, odds).await?;
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

    /// `last`: how long handlers of the last server have run, once they have ended.
    async fn abort(&self, last: &AtomicU64) -> Measured {
        let mut ms = Vec::new();
        for _ in 0..ABORTS {
            last.store(0, Ordering::Relaxed);
            // By then all of them run.
            let limit = Duration::from_millis(30);
            if tokio::time::timeout(limit, self.call(0)).await.is_ok() {
                return Err(Status::internal("it was answered too soon"));
            }
            let given_up = Instant::now();
            while last.load(Ordering::Relaxed) == 0 {
                tokio::task::yield_now().await;
                if given_up.elapsed() > KNOWN_MAX {
                    return Err(Status::internal("the last server never knew"));
                }
            }
            ms.push(given_up.elapsed().as_secs_f64() * 1e3);
        }
        Ok((middle(ms), f64::from(ABORTS)))
    }
}

/// Counts by calls, running ahead where there is a gate.
async fn chain(client: &Client, gate: Option<&Gate>, calls: u32, odds: Odds) -> Result<(), Status> {
    let end = if let Some(gate) = gate {
        ahead(client, gate.root(), 0, calls, odds).await?
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

    /// Fractional parts of multiples of the golden section, shifted for each call: they are spread evenly, so
    /// that also among some tens of chains as many predictions of each call are right as are asked for.
    fn is_right(self, call: u32) -> bool {
        let shift = u64::from(call).wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
        let word = self.chain.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((word.wrapping_add(shift) >> 32) * 100) >> 32 < u64::from(self.right)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_predictions_are_right_as_are_asked_for() {
        for (right, call) in [0, 50, 90, 100]
            .into_iter()
            .flat_map(|right| (1..=8).map(move |call| (right, call)))
        {
            let chains = (0..CHAINS).map(|chain| Odds::new(right, chain.into()));
            let count = chains.filter(|odds| odds.is_right(call)).count();
            let wanted = (right * CHAINS / 100) as usize;
            assert!(
                count.abs_diff(wanted) <= 1,
                "{count} of call {call}, not {wanted}"
            );
        }
    }

    #[test]
    fn servers_that_predict_work_at_once_and_know_when_they_are_given_up() {
        let found = Trial::Hops { servers: 3 }.perform(true).unwrap();
        assert!(found.work > 3.0 * 9.0, "{found:?}");
        for is_ahead in [false, true] {
            let found = Trial::Abort { servers: 3 }.perform(is_ahead).unwrap();
            assert!(found.value < 5000.0, "{found:?}");
        }
    }

    #[test]
    fn a_chain_ends_at_the_same_number_both_ways_and_wrong_predictions_cost_work() {
        let trial = Trial::Chain {
            calls: 2,
            right: 0,
            wasted: None,
        };
        let (plain, ahead) = (trial.perform(false).unwrap(), trial.perform(true).unwrap());
        assert!(plain.value > 0.0 && ahead.value > 0.0);
        assert!(ahead.work > plain.work, "{ahead:?} {plain:?}");
    }
}
