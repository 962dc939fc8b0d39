//! Whether there is anything to run ahead with: time of the workers, and what may be wasted.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use surmise_rpc::{Budget, Limits, Waste};
use tokio::runtime::Handle;

use crate::scope::Scope;
use crate::scope::allowance::Allowance;

/// How long a look at the workers is good for. It takes some of them to tell busy from idle.
const LOOK: Duration = Duration::from_millis(5);

/// Of their time, in percent. Above, what is run ahead takes the place of what somebody waits for.
const BUSY_MAX: u32 = 90;

/// Below, there is room again. Some looks at workers that are busy all the time find less than the limit above, and with
/// one for both, some of their calls were run ahead.
const IDLE_MAX: u32 = 70;

/// Makes scopes that run ahead only while the workers of a tokio runtime have time to spare.
///
/// Where they have none, a call takes as long as the calls before it in the queue, and to run ahead is
/// to queue for nothing: what is wrong is done for nobody, and what is right is done no sooner. Such a
/// scope runs its calls one after the other. For what shares a runtime, there is one gate.
pub struct Gate {
    runtime: Handle,
    limits: Limits,
    allowance: Allowance,
    last: Mutex<Look>,
}

/// What the workers were seen to do.
#[derive(Clone, Copy)]
struct Look {
    at: Instant,
    /// For how long all of them have been busy by then, since they were started.
    busy: Duration,
    has_room: bool,
}

impl Gate {
    /// Of the runtime that the caller runs in, for scopes of these limits.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn new(limits: Limits) -> Self {
        let runtime = Handle::current();
        let last = Mutex::new(Look {
            at: Instant::now(),
            busy: busy(&runtime),
            has_room: true,
        });
        Self {
            runtime,
            limits,
            allowance: Allowance::default(),
            last,
        }
    }

    /// Bounds what all its scopes together throw away: calls that were sent ahead, and that a denied prediction
    /// ends, or an abandoned call. While there have been as many as this allows, calls run one after the other,
    /// which earns them the next.
    ///
    /// A call that is sent again, for the sake of order, counts once. What the servers of these calls throw away
    /// is bounded there, by [`Granted::waste`](crate::Granted::waste).
    pub fn wasting_at_most(self, waste: Waste) -> Self {
        Self {
            allowance: Allowance::of(Some(waste)),
            ..self
        }
    }

    /// A scope that rests on nothing, as [`Scope::root`]; while the workers are busy, or too much was wasted, one
    /// whose calls run one after the other.
    pub fn root(&self) -> Scope {
        let budget = match self.has_room() && self.allowance.has_left() {
            true => self.limits.budget,
            false => Budget::NONE,
        };
        let limits = Limits {
            budget,
            ..self.limits
        };
        Scope::root_within(limits, self.allowance.clone())
    }

    /// Whether the workers had time to spare when they were last looked at.
    pub fn has_room(&self) -> bool {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let passed = now.saturating_duration_since(last.at);
        if passed >= LOOK {
            let busy = busy(&self.runtime);
            let spent = busy.saturating_sub(last.busy);
            let limit = match last.has_room {
                true => BUSY_MAX,
                false => IDLE_MAX,
            };
            *last = Look {
                at: now,
                busy,
                has_room: is_below(limit, spent, passed, self.runtime.metrics().num_workers()),
            };
        }
        last.has_room
    }
}

fn busy(runtime: &Handle) -> Duration {
    let metrics = runtime.metrics();
    let workers = 0..metrics.num_workers();
    workers
        .map(|worker| metrics.worker_total_busy_duration(worker))
        .sum()
}

/// Whether so many workers that were busy for so long in all were so for less of their time, in percent.
fn is_below(limit: u32, busy: Duration, passed: Duration, workers: usize) -> bool {
    let workers = u32::try_from(workers).unwrap_or(u32::MAX);
    busy * 100 < passed.saturating_mul(workers).saturating_mul(limit)
}

impl fmt::Debug for Gate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Gate");
        shown.field("limits", &self.limits);
        shown.field("has_room", &self.has_room());
        shown.finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::SeqCst;

    use tonic::Status;

    use super::*;

    #[test]
    fn workers_have_room_until_nearly_all_their_time_is_spent() {
        let of = |busy_ms, workers| {
            let busy = Duration::from_millis(busy_ms);
            is_below(BUSY_MAX, busy, Duration::from_millis(10), workers)
        };
        assert!(of(0, 2) && of(17, 2) && of(35, 4));
        assert!(!of(18, 2) && !of(20, 2) && !of(36, 4));
        assert!(!of(9, 1));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn scopes_of_busy_workers_run_nothing_ahead_until_they_have_room_again() {
        let gate = Gate::new(Limits::default());
        let until = async |has_room: bool| {
            let begun = Instant::now();
            while gate.has_room() != has_room {
                tokio::time::sleep(LOOK).await;
                assert!(begun.elapsed() < Duration::from_secs(60), "{gate:?}");
            }
        };
        let spin = || {
            tokio::spawn(async {
                loop {
                    tokio::task::yield_now().await
                }
            })
        };
        let spinning = [spin(), spin(), spin(), spin()];
        until(false).await;
        assert!(!runs_ahead(&gate.root()).await);
        spinning.iter().for_each(tokio::task::JoinHandle::abort);
        until(true).await;
        assert!(runs_ahead(&gate.root()).await);
    }

    /// Whether what follows a call runs with a predicted reply, besides the actual one.
    async fn runs_ahead(scope: &Scope) -> bool {
        let begun = AtomicUsize::new(0);
        let call = scope.call(|| async {
            tokio::task::yield_now().await;
            Ok::<_, Status>(2)
        });
        let reply = call.predict(1).then(async |_: Scope, value: u64| {
            begun.fetch_add(1, SeqCst);
            Ok::<_, Status>(value)
        });
        assert_eq!(reply.await.unwrap(), 2);
        begun.load(SeqCst) == 2
    }
}
