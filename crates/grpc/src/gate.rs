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
struct Look {
    at: Instant,
    workers: Vec<Worker>,
    has_room: bool,
}

/// What a worker has told by then, which it does when it parks, when it goes on, and now and then between.
#[derive(Clone, Copy, Debug)]
struct Worker {
    /// For how long it has been busy since it was started.
    busy: Duration,
    /// How often it has parked and gone on: odd, while it is parked.
    turns: u64,
}

impl Worker {
    /// For how long it was busy of what has passed since. One that has not parked was so all the time, whatever it
    /// has told: it may be long in one task.
    fn spent(self, since: Self, passed: Duration) -> Duration {
        let is_parked = !self.turns.is_multiple_of(2);
        match self.turns == since.turns {
            true if is_parked => Duration::ZERO,
            true => passed,
            false => self.busy.saturating_sub(since.busy).min(passed),
        }
    }
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
            workers: workers(&runtime),
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
            let workers = workers(&self.runtime);
            let since = workers.iter().zip(&last.workers);
            let spent = since.map(|(now, then)| now.spent(*then, passed)).sum();
            let limit = match last.has_room {
                true => BUSY_MAX,
                false => IDLE_MAX,
            };
            *last = Look {
                at: now,
                has_room: is_below(limit, spent, passed, workers.len()),
                workers,
            };
        }
        last.has_room
    }
}

fn workers(runtime: &Handle) -> Vec<Worker> {
    let metrics = runtime.metrics();
    let workers = 0..metrics.num_workers();
    let told = workers.map(|worker| Worker {
        busy: metrics.worker_total_busy_duration(worker),
        turns: metrics.worker_park_unpark_count(worker),
    });
    told.collect()
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

    #[test]
    fn a_worker_that_does_not_park_is_busy_whatever_it_tells() {
        let passed = Duration::from_millis(5);
        let of = |told_ms: [u64; 2], turns: [u64; 2]| {
            let [then, now] = [0, 1].map(|at| Worker {
                busy: Duration::from_millis(told_ms[at]),
                turns: turns[at],
            });
            now.spent(then, passed)
        };
        assert_eq!(of([7, 7], [2, 2]), passed);
        assert_eq!(of([7, 7], [3, 3]), Duration::ZERO);
        assert_eq!(of([7, 9], [2, 4]), Duration::from_millis(2));
        // It tells of what was counted before.
        assert_eq!(of([7, 99], [2, 3]), passed);
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
