//! The core on a fake machine: random schedules, each from a seed that replays it.

mod fake;
mod orders;
mod plain;

use std::collections::BTreeMap;
use std::panic;
use std::time::{Duration, Instant};

use fastrand::Rng;
use rustix::process::Pid;
use surmise_engine::{Decision, Id};

use super::Core;
use crate::call::Call;
use crate::durability::Durable;
use crate::source::{Guess, Source};
use fake::{Disk, Fake, Happened, Log, Shared, State, pass};
use plain::is_plain;

/// How many schedules are tried, unless `SURMISE_SEEDS` says it.
const SEEDS: u64 = 1000;
/// How many events one has before it is driven to its end, and how many until that has to be there.
const EVENTS: usize = 400;
const ENDING_MAX: usize = 20_000;
/// How long it may take until a prediction is decided that nobody can hurry.
const DECIDED_AFTER_MAX: Duration = Duration::from_millis(30);
/// How long a thread may wait for what is undecided. While it waits nothing is guessed that would prolong the wait. But
/// who asks for both pipes waits for one after the other.
const WAIT_MAX: Duration = Duration::from_millis(90);

/// A source that guesses rightly and wrongly, decides when it likes, and is hurried or is not.
#[derive(Debug)]
struct Whim {
    rng: Rng,
    undecided: BTreeMap<Id, Undecided>,
}

#[derive(Debug)]
struct Undecided {
    decision: Decision,
    due: Instant,
    is_stubborn: bool,
}

impl Source for Whim {
    fn offer(&mut self, _: &Call) -> Option<Guess> {
        match self.rng.u8(..6) {
            0 => Some(Guess::Truth),
            1 => Some(Guess::Result(-self.rng.i64(1..100))),
            _ => None,
        }
    }

    fn may_share(&mut self, _: Duration) -> bool {
        self.rng.bool()
    }

    fn given(&mut self, id: Id, guess: &Guess, now: Instant) {
        // To deny what is right is always safe.
        let holds = *guess == Guess::Truth && self.rng.u8(..4) != 0;
        let undecided = Undecided {
            decision: if holds {
                Decision::Affirm
            } else {
                Decision::Deny
            },
            due: now + DECIDED_AFTER_MAX.mul_f64(self.rng.f64()),
            is_stubborn: self.rng.bool(),
        };
        self.undecided.insert(id, undecided);
    }

    fn due(&mut self, now: Instant) -> Option<(Id, Decision)> {
        let mut undecided = self.undecided.iter();
        let (&id, _) = undecided.find(|(_, one)| one.due <= now)?;
        let decision = self.undecided.remove(&id)?.decision;
        Some((id, decision))
    }

    fn next_due(&self) -> Option<Instant> {
        self.undecided.values().map(|one| one.due).min()
    }

    fn force(&mut self, id: Id) -> Option<Decision> {
        if self.undecided.get(&id)?.is_stubborn {
            return None;
        }
        self.undecided.remove(&id).map(|one| one.decision)
    }

    fn withdrawn(&mut self, id: Id) {
        self.undecided.remove(&id);
    }
}

/// One schedule.
struct Run {
    state: Shared,
    core: Core<Fake>,
    rng: Rng,
    /// Whether calls that were let go take long.
    is_slow: bool,
    /// Whether many signals are sent.
    is_restless: bool,
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let state = State::new(rng.u64(..), rng.usize(1..6));
        let source = Whim {
            rng: Rng::with_seed(rng.u64(..)),
            undecided: BTreeMap::new(),
        };
        let log = Box::new(Log::new(&state));
        let disk = Durable::new(Box::new(Disk::new(&state)));
        let world = Fake(Shared::clone(&state));
        let core = Core::new(world, Some(log), vec![Box::new(source)], Some(disk));
        let is_slow = rng.bool();
        let is_restless = rng.u8(..4) == 0;
        Self {
            state,
            core,
            rng,
            is_slow,
            is_restless,
        }
    }

    /// Any task that could makes its next call. False if there is none.
    fn call(&mut self) -> bool {
        let runnable = self.state.borrow().runnable();
        let Some(&pid) = self.rng.choice(&runnable) else {
            return false;
        };
        if self.state.borrow_mut().close(pid) {
            return true;
        }
        let received = self.state.borrow_mut().receive(pid);
        match received {
            Some(true) => {
                self.core.signalled(pid, pid).expect("a signal");
                return true;
            }
            Some(false) => return true,
            None => {}
        }
        let call = self.state.borrow_mut().call(pid);
        self.core.called(call).expect("attended to");
        true
    }

    fn any_task(&mut self) -> Option<Pid> {
        let state = self.state.borrow();
        let alive = state.tasks.iter().filter(|(_, task)| task.is_alive);
        let alive: Vec<_> = alive.map(|(pid, _)| pid).collect();
        self.rng.choice(alive)
    }

    fn something_happens(&mut self) {
        match self.rng.u8(..24) {
            0 | 1 => self.state.borrow_mut().push(),
            2 | 3 => self.time_passes(),
            4 => self.reader_reads(),
            5 => self.disk_commits(),
            6 => self.core.asked().expect("asked"),
            // Afterwards nothing is guessed for seconds.
            7 if self.rng.u8(..12) == 0 => self.core.settle().expect("settled"),
            8 if self.rng.bool() => self.somebody_sends(),
            12..=14 if self.is_restless => self.somebody_sends(),
            8 => {
                if let Some(pid) = self.any_task()
                    && self.state.borrow_mut().signal(pid)
                {
                    self.core.signalled(pid, pid).expect("a signal");
                }
            }
            9 if self.rng.u8(..6) == 0 => {
                if let Some(pid) = self.any_task() {
                    let process = self.state.borrow().tasks[pid].process;
                    self.state.borrow_mut().kill(process);
                    match self.rng.bool() {
                        true => self.core.ended(process).expect("an end"),
                        // It is heard of when something else has been done.
                        false => self.state.borrow_mut().heard_ends.push(process),
                    }
                }
            }
            9 if self.rng.u8(..4) == 0 => {
                let lost = self.state.borrow_mut().lose_image();
                if let Some(vessel) = lost {
                    self.core.ended(vessel).expect("an end");
                }
            }
            10 | 11 if !self.is_slow || self.rng.u8(..8) == 0 => self.something_lands(),
            _ => drop(self.call()),
        }
    }

    fn somebody_sends(&mut self) {
        if let Some(pid) = self.any_task() {
            self.state.borrow_mut().send(pid);
        }
    }

    /// A call that was let go happens.
    fn something_lands(&mut self) {
        let flying = self.state.borrow().flying();
        if let Some(&pid) = self.rng.choice(&flying) {
            self.state.borrow_mut().land(pid);
        }
    }

    fn time_passes(&mut self) {
        pass(&self.state, Duration::from_millis(self.rng.u64(1..10)));
        self.core.woken().expect("time");
        let waited = self.state.borrow().longest_wait();
        assert!(waited < WAIT_MAX, "{waited:?}: {:?}", self.state.borrow());
    }

    fn reader_reads(&mut self) {
        self.state.borrow_mut().room += self.rng.usize(1..4);
        self.core.woken().expect("room");
    }

    fn disk_commits(&mut self) {
        {
            let state = &mut *self.state.borrow_mut();
            state.kept = self.rng.u64(state.kept..=state.promised);
        }
        self.core.committed().expect("a commit");
    }

    fn is_over(&self) -> bool {
        let state = self.state.borrow();
        state.tasks.iter().all(|(_, task)| !task.is_alive)
    }

    /// All tasks come to their ends: nothing waits for ever.
    fn end(&mut self) {
        for _ in 0..ENDING_MAX {
            if self.is_over() {
                break;
            }
            self.state.borrow_mut().push();
            self.something_lands();
            // Who waits for a child makes the call again and again.
            if !self.call() || self.rng.u8(..8) == 0 {
                self.time_passes();
                self.reader_reads();
                self.disk_commits();
            }
        }
        assert!(
            self.is_over(),
            "it waits for ever: {:?}",
            self.state.borrow()
        );
        while self.core.leaving().is_some() {
            self.reader_reads();
        }
        // Killed last, somebody may have left something to be decided.
        for _ in 0..20 {
            self.time_passes();
        }
        assert!(self.core.is_settled());
        let state = self.state.borrow();
        assert!(state.is_at_rest(), "{state:?}");
        assert!(state.beliefs.held.is_empty(), "{state:?}");
    }
}

#[test]
fn whatever_is_guessed_and_whenever_it_is_decided_the_end_is_a_plain_one() {
    let number = |name| {
        std::env::var(name)
            .ok()
            .map(|text| text.parse().expect("a number"))
    };
    let seeds = match number("SURMISE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("SURMISE_SEEDS").unwrap_or(SEEDS),
    };
    let mut done = Done::default();
    for seed in seeds {
        match panic::catch_unwind(|| play(seed)) {
            Ok((core, happened)) => {
                done.add(core);
                done.undone_connection += happened.moves_back;
                done.interruptions += happened.interruptions;
                done.ends_by_signals += happened.ends;
            }
            Err(_) => panic!("replay it with SURMISE_SEED={seed}"),
        }
    }
    assert!(done.is_of_everything(), "{done:?}");
}

/// One schedule, to its end.
fn play(seed: u64) -> (Core<Fake>, Happened) {
    let mut run = Run::new(seed);
    for _ in 0..EVENTS {
        run.something_happens();
    }
    run.end();
    is_plain(&run.state.borrow());
    let happened = run.state.borrow().happened;
    (run.core, happened)
}

/// What the schedules came to, so that none of it is shown by chance never to happen.
#[derive(Debug, Default)]
struct Done {
    predictions: u64,
    checkpoints: u64,
    rollbacks: u64,
    cascades: u64,
    undone_files: u64,
    undone_input: u64,
    undone_pipe: u64,
    undone_connection: u64,
    interruptions: u64,
    ends_by_signals: u64,
    moved: u64,
    undone_moves: u64,
    asked: u64,
    shut_pipes: u64,
    undone_shut_pipes: u64,
    exits: u64,
    children: u64,
    zombies: u64,
    undone_zombies: u64,
    announced: u64,
    taken_signals: u64,
    undone_signals: u64,
    sent_signals: u64,
    undone_sent_signals: u64,
    timers: u64,
    undone_timers: u64,
    undone_exits: u64,
    born: u64,
    unborn: u64,
    programs: u64,
    undone_programs: u64,
    loans: u64,
    outputs: u64,
    waits: BTreeMap<String, u64>,
}

impl Done {
    fn add(&mut self, core: Core<Fake>) {
        let stats = core.into_stats();
        self.predictions += stats.predictions;
        self.checkpoints += stats.checkpoints.count;
        self.rollbacks += stats.rollbacks.count;
        self.cascades += stats.cascades;
        let of = |kinds: &BTreeMap<String, u64>, kind| kinds.get(kind).copied().unwrap_or(0);
        self.undone_files += of(&stats.undone, "changed file");
        self.undone_input += of(&stats.undone, "input");
        self.undone_pipe += of(&stats.undone, "pipe");
        self.moved += of(&stats.objects, "position");
        self.undone_moves += of(&stats.undone, "position");
        self.asked += of(&stats.objects, "events");
        self.shut_pipes += of(&stats.objects, "shut pipe");
        self.undone_shut_pipes += of(&stats.undone, "shut pipe");
        self.exits += of(&stats.objects, "exit");
        self.children += of(&stats.objects, "child");
        self.zombies += of(&stats.objects, "zombie");
        self.undone_zombies += of(&stats.undone, "zombie");
        self.announced += of(&stats.objects, "signal");
        self.taken_signals += of(&stats.objects, "taken signal");
        self.undone_signals += of(&stats.undone, "taken signal");
        self.sent_signals += of(&stats.objects, "sent signal");
        self.undone_sent_signals += of(&stats.undone, "sent signal");
        self.timers += of(&stats.objects, "timer");
        self.undone_timers += of(&stats.undone, "timer");
        self.undone_exits += of(&stats.undone, "exit");
        self.born += of(&stats.objects, "birth");
        self.unborn += of(&stats.undone, "birth");
        self.programs += of(&stats.objects, "program");
        self.undone_programs += of(&stats.undone, "program");
        self.loans += of(&stats.objects, "loan");
        self.outputs += of(&stats.objects, "stream");
        for (kind, waits) in stats.waits {
            *self.waits.entry(kind).or_default() += waits.count;
        }
    }

    fn is_of_everything(&self) -> bool {
        let kinds = [
            "changed file",
            "input",
            "stream",
            "process",
            "signal",
            "epoch",
            "shut pipe",
        ];
        let waited = kinds.iter().all(|kind| self.waits.contains_key(*kind));
        let counts = [
            self.predictions,
            self.checkpoints,
            self.rollbacks,
            self.cascades,
            self.undone_files,
            self.undone_input,
            self.undone_pipe,
            self.undone_connection,
            self.interruptions,
            self.ends_by_signals,
            self.moved,
            self.undone_moves,
            self.asked,
            self.shut_pipes,
            self.undone_shut_pipes,
            self.exits,
            self.children,
            self.zombies,
            self.undone_zombies,
            self.announced,
            self.taken_signals,
            self.undone_signals,
            self.sent_signals,
            self.undone_sent_signals,
            self.timers,
            self.undone_timers,
            self.undone_exits,
            self.born,
            self.unborn,
            self.programs,
            self.undone_programs,
            self.loans,
            self.outputs,
        ];
        waited && counts.iter().all(|count| *count > 0)
    }
}
