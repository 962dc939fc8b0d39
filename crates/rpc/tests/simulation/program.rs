//! Random programs that make calls: dependent ones, calls side by side, effects, errors.

use std::rc::Rc;

use fastrand::Rng;
use surmise_rpc::{Peer, Safety};

/// What a program does in one scope, and what it comes to.
#[derive(Debug)]
pub struct Body {
    pub steps: Vec<Step>,
}

#[derive(Debug)]
pub enum Step {
    /// Calls side by side; the body goes on when all of them have come to something.
    Calls(Vec<Rc<Call>>),
    /// An effect of the program's own, with a rollback.
    Local(u64),
    /// Waits at a barrier, and has an effect that nothing takes back.
    Output(u64),
}

#[derive(Debug)]
pub struct Call {
    pub method: u64,
    pub safety: Safety,
    pub peer: Peer,
    /// What follows, with the value that the call is answered with.
    pub then: Rc<Body>,
    /// Whether the body goes on when the call comes to an error.
    pub catches: bool,
    /// Whether what it comes to is what its body comes to.
    pub is_tail: bool,
}

/// What calls and bodies come to.
pub type Outcome = Result<u64, u64>;

/// An effect that stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stays {
    Called(u64, u64),
    Local(u64, u64),
    Output(u64, u64),
}

/// How programs are drawn.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Whether calls are made side by side.
    pub has_siblings: bool,
    /// How deep calls follow calls.
    pub depth: u32,
}

pub fn body(rng: &mut Rng, shape: Shape) -> Body {
    let length = rng.usize(1..=3);
    let mut steps: Vec<_> = (0..length).map(|_| step(rng, shape)).collect();
    if let Some(Step::Calls(calls)) = steps.last_mut()
        && let [only] = &mut calls[..]
        && let Some(only) = Rc::get_mut(only)
    {
        only.is_tail = !only.catches;
    }
    Body { steps }
}

fn step(rng: &mut Rng, shape: Shape) -> Step {
    match rng.u32(..10) {
        0 => Step::Local(rng.u64(..100)),
        1 => Step::Output(rng.u64(..100)),
        _ if shape.depth == 0 => Step::Local(rng.u64(..100)),
        2..4 if shape.has_siblings => {
            let calls = (0..rng.usize(2..=3)).map(|_| call(rng, shape));
            Step::Calls(calls.collect())
        }
        _ => Step::Calls(vec![call(rng, shape)]),
    }
}

fn call(rng: &mut Rng, shape: Shape) -> Rc<Call> {
    let safety = match rng.u32(..4) {
        0 => Safety::Unsafe,
        1 => Safety::Aware,
        _ => Safety::Safe,
    };
    let inner = Shape {
        depth: shape.depth - 1,
        ..shape
    };
    Rc::new(Call {
        method: rng.u64(..1000),
        safety,
        peer: if rng.u32(..4) == 0 {
            Peer::Plain
        } else {
            Peer::Aware
        },
        then: Rc::new(body(rng, inner)),
        catches: rng.bool(),
        is_tail: false,
    })
}

/// What a method answers. Few values, so that predictions come true.
pub fn answer(method: u64, argument: u64) -> Outcome {
    let hash = mix(method, argument);
    if hash.is_multiple_of(8) {
        Err(hash)
    } else {
        Ok(hash / 8 % 3)
    }
}

/// What a body knows after it has come to know something more.
pub fn mix(known: u64, new: u64) -> u64 {
    let mixed = (known.rotate_left(23) ^ new).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ (mixed >> 29)
}

/// What a body knows after its calls came to something, or the error it comes to itself.
pub fn join(known: u64, calls: &[Rc<Call>], outcomes: &[Outcome]) -> Outcome {
    let mut known = known;
    for (call, outcome) in calls.iter().zip(outcomes) {
        known = match outcome {
            Ok(value) if call.is_tail => *value,
            Ok(value) => mix(known, *value),
            Err(error) if call.catches => mix(known, *error),
            Err(error) => return Err(*error),
        };
    }
    Ok(known)
}
