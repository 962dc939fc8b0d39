//! A worker beside its caller: while requests come in quick succession, one thread serves them all on the processor of
//! the caller.
//!
//! A request puts its caller to sleep and wakes a worker; a reply does the reverse. The scheduler puts a thread that it
//! wakes on an idle processor where there is one. On a virtual machine an idle processor takes longer to wake than the
//! request takes to serve, and a serial command gains nothing from a second processor. So the *companion* is bound to the
//! processor on which the caller runs; that is where a request wakes it. It is of the policy `SCHED_IDLE` (sched(7)): the
//! scheduler counts a processor on which nothing else runs as an idle one, so the companion's reply wakes the caller at the
//! same place, and the caller goes on at once.
//!
//! A thread of that policy gets hardly any time where another wants its processor, and one thread serves no two callers at
//! once. So a worker becomes the *guard*. It looks every few milliseconds how the companion gets on, and has all workers
//! serve as usual where that is quicker ([`pace`]). Requests wait meanwhile. Without a guard the companion takes no request, but
//! for one that it was about to take; that one, and the one in hand, it finishes on whatever processor has room.

mod companion;
mod pace;
mod processors;

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::thread::Pid;
use rustix::time::Timespec;

use pace::{BURST_REQUESTS, Look, Pace, Verdict};
use processors::Allowed;

pub(crate) use companion::Companion;

/// Between two looks of the guard.
const LOOKS_EVERY: Duration = Duration::from_millis(4);

/// The companion is made after so many requests at the earliest: commands with fewer would wait longer for its making than
/// they gain.
const COMPANION_AFTER: u64 = 8 * BURST_REQUESTS;

/// While the guard looks, it runs, and so may a caller and the companion that the caller has interrupted: one more than a
/// machine of two processors has room for, and not yet a reason to stop.
const OWN_RUNNABLE: u32 = 1;

/// Where the callers' processes are found: a descriptor of a mount of procfs in their namespace, once there is one.
pub type CallersProcesses<'a> = dyn Fn() -> Option<OwnedFd> + Sync + 'a;

/// Who serves, and how that goes.
#[derive(Debug)]
pub(crate) struct Together {
    state: Mutex<State>,
    /// Tells of every change of the state.
    changed: Condvar,
    begun: Instant,
    /// Whether the companion serves alone.
    is_alone: AtomicBool,
    /// Whether the guard has moved the companion to another processor than the caller's.
    is_moved: AtomicBool,
    /// Requests that workers took.
    by_workers: AtomicU64,
    /// Whose the last of them was, and how many of those since the last look were another caller's than the one before.
    last_caller: AtomicU32,
    of_other_callers: AtomicU64,
    /// Requests that the companion took.
    by_companion: AtomicU64,
    /// How many of them were another caller's than the one before.
    of_others: AtomicU64,
    /// Those that it is done with.
    done: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    pace: Pace,
    companion: Presence,
    /// Whether the session ends, or a worker has failed: then no thread serves alone any more.
    is_over: bool,
}

/// Whether there is a companion.
#[derive(Debug, Default)]
enum Presence {
    #[default]
    None,
    /// It is being made.
    Due,
    /// It is this thread.
    Is(Pid),
    /// It cannot be had here.
    Impossible,
}

impl State {
    fn may_serve_alone(&self) -> bool {
        !self.is_over && !matches!(self.companion, Presence::Impossible)
    }
}

impl Default for Together {
    fn default() -> Self {
        Self {
            state: Mutex::default(),
            changed: Condvar::new(),
            begun: Instant::now(),
            is_alone: AtomicBool::new(false),
            is_moved: AtomicBool::new(false),
            by_workers: AtomicU64::new(0),
            last_caller: AtomicU32::new(0),
            of_other_callers: AtomicU64::new(0),
            by_companion: AtomicU64::new(0),
            of_others: AtomicU64::new(0),
            done: AtomicU64::new(0),
        }
    }
}

/// What a worker is to do that has served a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Serve,
    /// Requests come in quick succession: it becomes the guard ([`Together::guard`]).
    Guard,
    /// So it does, after it has made the companion; or it says that there can be none yet.
    MakeCompanion,
}

impl Together {
    /// How many requests the companion took.
    pub(crate) fn served_beside(&self) -> u64 {
        self.by_companion.load(Ordering::Relaxed)
    }

    /// A worker has served a request of this thread, or of none (0).
    pub(crate) fn after_request(&self, caller: u32) -> Next {
        // What the kernel asks by itself is nobody's.
        if caller != 0 && self.last_caller.swap(caller, Ordering::Relaxed) != caller {
            self.of_other_callers.fetch_add(1, Ordering::Relaxed);
        }
        let count = self.by_workers.fetch_add(1, Ordering::Relaxed) + 1;
        if !count.is_multiple_of(BURST_REQUESTS) {
            return Next::Serve;
        }
        let of_others = self.of_other_callers.swap(0, Ordering::Relaxed);
        let mut state = self.state();
        let is_alone = self.is_alone.load(Ordering::Relaxed);
        let is_quick = state.pace.is_quick(self.begun.elapsed(), of_others);
        let is_early = matches!(state.companion, Presence::None) && count < COMPANION_AFTER;
        if is_alone || !state.may_serve_alone() || !is_quick || is_early {
            return Next::Serve;
        }
        state.pace.began();
        self.is_alone.store(true, Ordering::SeqCst);
        match state.companion {
            Presence::None => {
                state.companion = Presence::Due;
                Next::MakeCompanion
            }
            _ => Next::Guard,
        }
    }

    /// Returns when it is the calling worker's turn to serve.
    pub(crate) fn await_turn(&self) {
        if !self.is_alone.load(Ordering::SeqCst) {
            return;
        }
        let mut state = self.state();
        while self.is_alone.load(Ordering::SeqCst) {
            state = self.wait(state);
        }
    }

    /// Workers serve from now on: there is nothing to serve any more, or one of them has failed.
    pub(crate) fn end(&self) {
        self.stop_with(|state| state.is_over = true);
    }

    /// There can be no companion yet.
    pub(crate) fn not_yet(&self) {
        self.stop_with(|state| state.companion = Presence::None);
    }

    /// There can be no companion.
    pub(crate) fn never(&self) {
        self.stop_with(|state| state.companion = Presence::Impossible);
    }

    fn stop_with(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state();
        change(&mut state);
        self.stop(state);
    }

    /// The guard's work: returns when the workers are to serve again.
    pub(crate) fn guard(&self, device: &OwnedFd) {
        let Ok(allowed) = Allowed::here() else {
            return self.stop(self.state());
        };
        self.changed.notify_all();
        let mut before = self.counts();
        loop {
            drop(
                self.changed
                    .wait_timeout_while(self.state(), LOOKS_EVERY, |state| state.may_serve_alone()),
            );
            // Before the lock: it may take long where /proc is not the kernel's.
            let runnable = processors::runnable();
            let now = self.counts();
            let look = Look {
                taken: now.taken - before.taken,
                of_others: now.of_others - before.of_others,
                is_waiting: now.taken != now.done || is_request_waiting(device),
                is_busy: runnable.is_some_and(|count| count > allowed.count() + OWN_RUNNABLE),
            };
            before = now;
            let mut state = self.state();
            let verdict = match state.may_serve_alone() {
                true => state.pace.judge(self.begun.elapsed(), look),
                false => Verdict::Quiet,
            };
            match verdict {
                Verdict::GoesOn => {}
                Verdict::Stuck => {
                    if let Presence::Is(thread) = state.companion {
                        // This processor is idle in a moment. Where that fails, the next look tells what comes of it.
                        let _ = processors::bind(Some(thread), rustix::thread::sched_getcpu());
                        self.is_moved.store(true, Ordering::SeqCst);
                    }
                }
                Verdict::Quiet | Verdict::Loses => {
                    // Before: the companion looks for that after it has bound itself.
                    self.is_alone.store(false, Ordering::SeqCst);
                    if let Presence::Is(thread) = state.companion {
                        allowed.give_to(thread);
                        // Most ordinary users may not.
                        let _ = surmise_sys::scheduling::run_as_usual(thread);
                    }
                    return self.stop(state);
                }
            }
        }
    }

    /// Has the companion finish what it has in hand, and workers serve. It takes the lock's guard so that no thread finds the
    /// companion alone before this and begins to wait after it.
    fn stop(&self, state: MutexGuard<'_, State>) {
        self.is_alone.store(false, Ordering::SeqCst);
        drop(state);
        self.changed.notify_all();
    }

    fn counts(&self) -> Counts {
        let done = self.done.load(Ordering::SeqCst);
        Counts {
            taken: self.by_companion.load(Ordering::SeqCst),
            of_others: self.of_others.load(Ordering::Relaxed),
            done,
        }
    }

    fn wait<'s>(&self, state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
        self.changed
            .wait(state)
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the companion has done so far.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    taken: u64,
    of_others: u64,
    done: u64,
}

fn is_request_waiting(device: &OwnedFd) -> bool {
    let mut events = [PollFd::new(device, PollFlags::IN)];
    rustix::event::poll(&mut events, Some(&Timespec::default())).is_ok_and(|count| count > 0)
}
