//! A process, its child and its grandchild, each of which is given one guess, that is decided at every moment, in every order.
//!
//! All guesses are wrong; with `SURMISE_SEEDS` every choice of them is.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{self, AssertUnwindSafe};
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::process::Pid;
use surmise_engine::{Decision, Id};

use super::fake::{Fake, GENERATIONS, Log, Plan, Shared, State, generation};
use super::plain::is_plain;
use crate::call::Call;
use crate::core::Core;
use crate::source::{Guess, Source};

/// How many steps a schedule has at most. One has some twenty.
const STEPS_MAX: usize = 200;
/// What a look gives that is wrong.
const WRONG: i64 = -7;

/// Choices, each of which is made in every way, one schedule after the other.
#[derive(Debug, Default)]
struct Choices {
    /// What was chosen each time, of how many.
    made: Vec<(usize, usize)>,
    at: usize,
}

impl Choices {
    fn choose(&mut self, of: usize) -> usize {
        if self.at == self.made.len() {
            self.made.push((0, of));
        }
        let (chosen, as_before) = self.made[self.at];
        assert_eq!(as_before, of, "the schedule is another one");
        self.at += 1;
        chosen
    }

    /// Goes on to the next schedule. False if there is none.
    fn advance(&mut self) -> bool {
        assert_eq!(self.at, self.made.len(), "the schedule is another one");
        self.at = 0;
        while let Some((chosen, of)) = self.made.pop() {
            if chosen + 1 < of {
                self.made.push((chosen + 1, of));
                return true;
            }
        }
        false
    }
}

/// A guess that was decided: of which generation, and whether it was denied.
type Decided = (usize, bool);

fn may_be_right() -> bool {
    std::env::var_os("SURMISE_SEEDS").is_some()
}

/// What a schedule and its source share.
#[derive(Debug)]
struct Script {
    state: Shared,
    choices: Rc<RefCell<Choices>>,
    /// Whether some guesses may be right.
    may_be_right: bool,
    /// Of each generation, whether its guess is wrong, once it was offered one.
    is_wrong: [Option<bool>; GENERATIONS],
    offered: Option<usize>,
    given: [bool; GENERATIONS],
    undecided: BTreeMap<Id, usize>,
    /// Is decided next.
    due: Option<Id>,
    decided: Vec<Decided>,
}

/// Gives each generation one guess, at its look. Only the schedule decides.
#[derive(Debug)]
struct Scripted(Rc<RefCell<Script>>);

impl Source for Scripted {
    fn offer(&mut self, call: &Call) -> Option<Guess> {
        let script = &mut *self.0.borrow_mut();
        let of = {
            let state = script.state.borrow();
            let is_look = state.looks(call.thread());
            is_look.then(|| generation(&state, call.thread()))?
        };
        script.offered = Some(of);
        if script.given[of] {
            return None;
        }
        let (choices, may_be_right) = (&script.choices, script.may_be_right);
        let choose = || !may_be_right || choices.borrow_mut().choose(2) == 1;
        Some(match *script.is_wrong[of].get_or_insert_with(choose) {
            true => Guess::Result(WRONG),
            false => Guess::Truth,
        })
    }

    fn may_share(&mut self, _: Duration) -> bool {
        true
    }

    fn given(&mut self, id: Id, _: &Guess, _: Instant) {
        let script = &mut *self.0.borrow_mut();
        let of = script.offered.expect("it was offered");
        script.given[of] = true;
        script.undecided.insert(id, of);
    }

    fn due(&mut self, _: Instant) -> Option<(Id, Decision)> {
        let script = &mut *self.0.borrow_mut();
        let id = script.due.take()?;
        let of = script.undecided.remove(&id).expect("it is undecided");
        let is_denied = script.is_wrong[of].expect("it was offered");
        script.decided.push((of, is_denied));
        Some(match is_denied {
            true => (id, Decision::Deny),
            false => (id, Decision::Affirm),
        })
    }

    fn next_due(&self) -> Option<Instant> {
        None
    }

    fn force(&mut self, _: Id) -> Option<Decision> {
        None
    }

    fn withdrawn(&mut self, id: Id) {
        self.0.borrow_mut().undecided.remove(&id);
    }
}

/// What can happen next.
#[derive(Clone, Copy)]
enum Event {
    Calls(Pid),
    Decides(Id),
}

/// How many processes have exited, how many images there have been, and how many decisions.
type News = (usize, u64, usize);

/// One schedule.
struct Schedule {
    script: Rc<RefCell<Script>>,
    state: Shared,
    core: Core<Fake>,
    /// Tasks that have made a call in vain, as a parent does that waits for a child, and what had happened until then.
    in_vain: BTreeMap<i32, News>,
    /// Which of those that could makes its next call.
    eldest_first: bool,
    /// Whether another call is made before anything is decided, if one can be: the last one was in vain, or hardly matters.
    goes_on: bool,
}

impl Schedule {
    fn new(plan: Plan, choices: &Rc<RefCell<Choices>>) -> Self {
        let state = State::steady(plan);
        let script = Script {
            state: Rc::clone(&state),
            choices: Rc::clone(choices),
            may_be_right: may_be_right(),
            is_wrong: [None; GENERATIONS],
            offered: None,
            given: [false; GENERATIONS],
            undecided: BTreeMap::new(),
            due: None,
            decided: Vec::new(),
        };
        let script = Rc::new(RefCell::new(script));
        let source = Box::new(Scripted(Rc::clone(&script)));
        let log = Box::new(Log::new(&state));

        let core = Core::new(Fake(Rc::clone(&state)), Some(log), vec![source], None);
        Self {
            script,
            state,
            core,
            in_vain: BTreeMap::new(),
            eldest_first: choices.borrow_mut().choose(2) == 0,
            goes_on: true,
        }
    }

    /// A call that was made in vain would be again unless this has changed.
    fn news(&self) -> News {
        let (exits, images) = self.state.borrow().progress();
        (exits, images, self.script.borrow().decided.len())
    }

    fn events(&self) -> Vec<Event> {
        let news = self.news();
        let mut runnable = self.state.borrow().runnable();
        runnable.retain(|task| self.in_vain.get(&number(*task)) != Some(&news));
        let next = match self.eldest_first {
            true => runnable.first(),
            false => runnable.last(),
        };
        let calls = next.copied().map(Event::Calls).into_iter();
        let script = self.script.borrow();
        let decisions = script.undecided.keys().map(|&id| Event::Decides(id));
        let decisions = decisions.filter(|_| !self.goes_on || next.is_none());
        calls.chain(decisions).collect()
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Calls(task) => {
                let news = self.news();
                let before = self.state.borrow().told(task);
                let call = self.state.borrow_mut().call(task);
                self.core.called(call).expect("attended to");
                let state = self.state.borrow();
                let is_in_vain = state.told(task) == before;
                if is_in_vain {
                    self.in_vain.insert(number(task), news);
                }
                self.goes_on = is_in_vain || state.matters_little(task, before);
            }
            Event::Decides(id) => {
                self.script.borrow_mut().due = Some(id);
                self.core.woken().expect("time");
            }
        }
    }

    /// All that can happen has, and it was what a plain machine would have done.
    fn check(&self, plan: Plan) {
        let state = self.state.borrow();
        let are_over = state.tasks.iter().all(|(_, task)| !task.is_alive);
        assert!(are_over, "it waits for ever: {state:?}");
        assert!(self.core.is_settled() && state.is_at_rest(), "{state:?}");
        is_plain(&state);
        let put: Vec<_> = state.stream.iter().map(|written| written.byte).collect();
        let wanted: &[usize] = if plan.leaves_child { &[1] } else { &[2, 1] };
        let wanted: Vec<_> = wanted.iter().map(|one| Plan::status(*one)).collect();
        assert_eq!(put, wanted, "{:?}", state.steps);
    }
}

/// Plays a schedule to its end. Returns what was decided, in that order, and which guesses were wrong.
fn play(plan: Plan, choices: &Rc<RefCell<Choices>>) -> Vec<Decided> {
    let mut schedule = Schedule::new(plan, choices);
    for _ in 0..STEPS_MAX {
        let events = schedule.events();
        let event = match events[..] {
            [] => break,
            [only] => only,
            _ => events[choices.borrow_mut().choose(events.len())],
        };
        schedule.happens(event);
    }
    schedule.check(plan);
    let script = schedule.script.borrow();
    script.decided.clone()
}

/// The orders in which decisions can be made when all guesses are given before: those of processes that would not have been
/// born are withdrawn.
fn foreseen(plan: Plan) -> BTreeSet<Vec<Decided>> {
    const ORDERS: [[usize; GENERATIONS]; 6] = [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ];
    let mut all = BTreeSet::new();
    let all_wrong = (1 << GENERATIONS) - 1;
    let first = if may_be_right() { 0 } else { all_wrong };
    for wrong in first..=all_wrong {
        for order in ORDERS {
            let mut decided: Vec<Decided> = Vec::new();
            for of in order {
                let would_be_unborn = decided.iter().any(|&(before, is_denied)| {
                    let looked_before = plan.bears_first.get(before) == Some(&false);
                    is_denied && before < of && looked_before
                });
                if !would_be_unborn {
                    decided.push((of, wrong >> of & 1 == 1));
                }
            }
            all.insert(decided);
        }
    }
    all
}

#[test]
fn in_whatever_order_three_generations_are_denied_the_end_is_a_plain_one() {
    for plan in 0..8 {
        let plan = Plan {
            bears_first: [plan & 1 != 0, plan & 2 != 0],
            leaves_child: plan & 4 != 0,
        };
        let choices = Rc::new(RefCell::new(Choices::default()));
        let mut seen = BTreeSet::new();
        loop {
            let played = panic::catch_unwind(AssertUnwindSafe(|| play(plan, &choices)));
            let Ok(decided) = played else {
                panic!("{plan:?}, by {:?}", choices.borrow().made);
            };
            seen.insert(decided);
            if !choices.borrow_mut().advance() {
                break;
            }
        }
        let missing: Vec<_> = foreseen(plan).difference(&seen).cloned().collect();
        assert!(missing.is_empty(), "{plan:?} never had {missing:?}");
    }
}

fn number(task: Pid) -> i32 {
    task.as_raw_nonzero().get()
}
