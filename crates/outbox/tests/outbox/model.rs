//! A model of the outbox that keeps plain lists.

use std::io;
use std::path::Path;

use proptest::prelude::*;
use surmise_outbox::{End, HeldState, HoldId, Outbox, Resend, Target, load};

use crate::{curl, tcp, udp};

/// The error number of every failure here: ECONNRESET.
const ERRNO: i32 = 104;

#[derive(Clone, Debug)]
pub enum Act {
    Hold(u8),
    Append(usize, Vec<u8>),
    Finish(usize, End),
    Drop(usize),
    Sending(usize),
    Sent(usize, u8),
    Failed(usize, u8),
    Left(usize, u8),
    Again(Resend),
    Reopen,
}

pub fn act() -> impl Strategy<Value = Act> {
    let hold = 0..12usize;
    let bytes = prop_oneof![
        8 => proptest::collection::vec(any::<u8>(), 0..40),
        2 => Just(Vec::new()),
        1 => (65_000..200_000usize).prop_map(|length| vec![b'l'; length]),
    ];
    prop_oneof![
        4 => (0..5u8).prop_map(Act::Hold),
        12 => (hold.clone(), bytes).prop_map(|(hold, bytes)| Act::Append(hold, bytes)),
        2 => (hold.clone(), any::<bool>()).prop_map(|(hold, is_closed)| {
            Act::Finish(hold, if is_closed { End::Closed } else { End::Reset })
        }),
        1 => hold.clone().prop_map(Act::Drop),
        3 => hold.clone().prop_map(Act::Sending),
        3 => (hold.clone(), any::<u8>()).prop_map(|(hold, part)| Act::Sent(hold, part)),
        2 => (hold.clone(), any::<u8>()).prop_map(|(hold, part)| Act::Failed(hold, part)),
        2 => (hold, any::<u8>()).prop_map(|(hold, part)| Act::Left(hold, part)),
        1 => prop_oneof![Just(Resend::Whole), Just(Resend::Rest)].prop_map(Act::Again),
        1 => Just(Act::Reopen),
    ]
}

/// An outbox and what it must hold.
pub struct Both<'a> {
    outbox: Outbox,
    directory: &'a Path,
    holds: Vec<Model>,
    acts: usize,
}

/// A hold as the model has it.
#[derive(Clone, Debug)]
struct Model {
    target: Target,
    /// All appended, each with its place in the order of all acts.
    appended: Vec<(usize, Vec<u8>)>,
    /// How many of them have left as a whole.
    left: usize,
    /// How many bytes have left.
    sent: u64,
    /// How many had left at the last time when all that had left was known, and of how many appended.
    released: (u64, usize),
    /// While it waits to be sent again: how many were known to have left before.
    left_before: Option<u64>,
    end: Option<End>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Held,
    Sending,
    Released,
    Failed,
    Dropped,
}

impl<'a> Both<'a> {
    pub fn new(directory: &'a Path) -> Self {
        Self {
            outbox: Outbox::open(directory).expect("open"),
            directory,
            holds: Vec::new(),
            acts: 0,
        }
    }

    /// Does `act` in both; whether the outbox must refuse it is the model's to say.
    pub fn act(&mut self, act: Act) {
        self.acts += 1;
        match act {
            Act::Hold(kind) => self.hold(kind),
            Act::Append(index, bytes) => self.append(index, bytes),
            Act::Finish(index, end) => {
                self.outbox.finish(id(index), end);
                if let Some(hold) = self.holds.get_mut(index) {
                    hold.end.get_or_insert(end);
                }
            }
            Act::Drop(index) => {
                let is_done = self.outbox.drop_hold(id(index)).is_ok();
                self.turn(index, is_done, State::Dropped, |hold| {
                    matches!(hold.state, State::Held | State::Released)
                });
            }
            Act::Sending(index) => {
                let is_done = self.outbox.mark_sending(&[id(index)]).is_ok();
                self.turn(index, is_done, State::Sending, Model::is_pending);
            }
            Act::Sent(index, part) => self.leave(index, part, false),
            Act::Failed(index, part) => self.leave(index, part, true),
            Act::Left(index, part) => {
                if let Some(hold) = self.holds.get_mut(index) {
                    let upto = hold.part(part);
                    self.outbox.mark_left(id(index), upto);
                    if hold.state == State::Sending {
                        hold.sent = upto;
                    }
                }
            }
            Act::Again(what) => {
                let unsent = self.holds.iter_mut();
                let unsent = unsent
                    .filter(|hold| hold.can_begin_again())
                    .map(|hold| hold.begin_again(what))
                    .count();
                assert_eq!(self.outbox.send_again(what).expect("noted"), unsent);
            }
            Act::Reopen => self.reopen(),
        }
    }

    fn hold(&mut self, kind: u8) {
        let target = match kind {
            0 => tcp(80),
            1 => udp(53),
            2 => Target::Output,
            3 => Target::Error,
            _ => Target::Terminal,
        };
        let sender = curl().filter(|_| kind < 2);
        let hold = self.outbox.hold(target.clone(), sender);
        assert_eq!(hold, id(self.holds.len()));
        self.holds.push(Model {
            target,
            appended: Vec::new(),
            left: 0,
            sent: 0,
            released: (0, 0),
            left_before: None,
            end: None,
            state: State::Held,
        });
    }

    fn append(&mut self, index: usize, mut bytes: Vec<u8>) {
        let Some(hold) = self.holds.get_mut(index) else {
            return;
        };
        if hold.target.is_datagrams() {
            bytes.truncate(65_507);
        }
        self.outbox.append(id(index), &bytes);
        let goes_on = !matches!(hold.state, State::Failed | State::Dropped);
        let counts = !bytes.is_empty() || hold.target.is_datagrams();
        if goes_on && counts && hold.end.is_none() {
            hold.appended.push((self.acts, bytes));
        }
    }

    fn turn(&mut self, index: usize, is_done: bool, state: State, may: impl Fn(&Model) -> bool) {
        let hold = self.holds.get_mut(index).filter(|hold| may(hold));
        assert_eq!(is_done, hold.is_some());
        if let Some(hold) = hold {
            hold.state = state;
            hold.left_before = None;
        }
    }

    /// Some of what has not left leaves: `part` of 255, of datagrams all or nothing.
    fn leave(&mut self, index: usize, part: u8, is_failure: bool) {
        let Some(hold) = self.holds.get_mut(index) else {
            return;
        };
        let upto = hold.part(part);
        let error = io::Error::from_raw_os_error(ERRNO);
        let (done, state) = match is_failure {
            true => (
                self.outbox.mark_failed(id(index), upto, &error),
                State::Failed,
            ),
            false => (self.outbox.mark_sent(id(index), upto), State::Released),
        };
        let overturns = is_failure && hold.state == State::Released;
        assert_eq!(done.is_ok(), hold.state == State::Sending || overturns);
        if done.is_ok() {
            hold.leave(upto, state);
        }
    }

    /// The new outbox must find what the old one was still to write.
    fn reopen(&mut self) {
        // One elsewhere stands in, so that the last handle is gone before the file is opened.
        let stand_in = Outbox::open(&self.directory.join("elsewhere")).expect("open");
        drop(std::mem::replace(&mut self.outbox, stand_in));
        self.outbox = Outbox::open(self.directory).expect("open again");
    }

    /// Asserts that both say the same.
    pub fn check(&self) {
        self.outbox.flush().expect("flush");
        let held = load(self.directory).expect("load");
        assert_eq!(held.channels.len(), self.holds.len());
        for (channel, hold) in held.channels.iter().zip(&self.holds) {
            assert_eq!(channel.target, hold.target);
            assert_eq!(channel.state, hold.told(), "{channel:?}");
            let bytes = (hold.sent, hold.total() - hold.sent);
            assert_eq!((channel.sent, channel.bytes), bytes, "{channel:?}");
        }
        let mut pieces = Vec::new();
        let mut buffer = Vec::new();
        for piece in self.outbox.pieces() {
            self.outbox.read(&piece, &mut buffer).expect("read");
            pieces.push((piece.hold, buffer.clone()));
        }
        assert!(self.joined(pieces) == self.joined(self.pending()));
    }

    /// All that is pending, in causal order.
    fn pending(&self) -> Vec<(HoldId, Vec<u8>)> {
        let mut pending = Vec::new();
        for (index, hold) in self.holds.iter().enumerate() {
            if hold.is_pending() {
                let rest = hold.rest().into_iter();
                pending.extend(rest.map(|(place, bytes)| (place, id(index), bytes)));
            }
        }
        pending.sort();
        let pending = pending.into_iter();
        pending.map(|(_, hold, bytes)| (hold, bytes)).collect()
    }

    /// How a stream is cut does not matter, so neighbours of one hold are joined; datagrams are not.
    fn joined(&self, pieces: Vec<(HoldId, Vec<u8>)>) -> Vec<(HoldId, Vec<u8>)> {
        let mut joined: Vec<(HoldId, Vec<u8>)> = Vec::new();
        for (hold, bytes) in pieces {
            let is_stream = !self.holds[hold.0 as usize - 1].target.is_datagrams();
            match joined.last_mut() {
                Some((last, all)) if *last == hold && is_stream => all.extend(bytes),
                _ => joined.push((hold, bytes)),
            }
        }
        joined
    }
}

impl Model {
    fn total(&self) -> u64 {
        let lengths = self.appended.iter().map(|(_, bytes)| bytes.len() as u64);
        lengths.sum()
    }

    /// So many of 255 parts of what has not left, of datagrams all or nothing; counted from the first byte.
    fn part(&self, part: u8) -> u64 {
        let part = match self.target.is_datagrams() {
            true => part / 128 * 255,
            false => part,
        };
        self.sent + (self.total() - self.sent) * u64::from(part) / 255
    }

    fn can_begin_again(&self) -> bool {
        match self.state {
            State::Sending | State::Failed => true,
            _ => self.left_before.is_some() && self.is_pending(),
        }
    }

    fn begin_again(&mut self, what: Resend) {
        let left_before = self.left_before.unwrap_or(self.sent);
        self.left_before = Some(left_before);
        self.sent = match what {
            Resend::Whole => self.released.0,
            Resend::Rest => left_before,
        };
        self.state = match self.sent {
            0 => State::Held,
            _ => State::Released,
        };
        let mut end = 0;
        let whole = self.appended.iter().take_while(|(_, bytes)| {
            end += bytes.len() as u64;
            end < self.sent || end == self.sent && !bytes.is_empty()
        });
        self.left = whole.count().max(self.released.1);
    }

    fn is_pending(&self) -> bool {
        let has_rest = self.left < self.appended.len();
        self.state == State::Held || self.state == State::Released && has_rest
    }

    fn rest(&self) -> Vec<(usize, Vec<u8>)> {
        let whole = self.appended[..self.left].iter();
        let gone: usize = whole.map(|(_, bytes)| bytes.len()).sum();
        let mut rest = self.appended[self.left..].to_vec();
        if let Some((_, first)) = rest.first_mut() {
            first.drain(..self.sent as usize - gone);
        }
        rest
    }

    fn leave(&mut self, upto: u64, state: State) {
        self.state = state;
        self.sent = upto;
        self.left_before = None;
        if state == State::Failed {
            return;
        }
        let mut end = 0;
        let whole = self.appended.iter().take_while(|(_, bytes)| {
            end += bytes.len() as u64;
            end <= upto
        });
        self.left = whole.count();
        self.released = (upto, self.left);
    }

    fn told(&self) -> HeldState {
        match (self.state, self.end) {
            (State::Sending, _) => HeldState::Sending,
            (State::Failed, _) => HeldState::Failed { errno: ERRNO },
            (State::Dropped, _) => HeldState::Dropped,
            (State::Released, _) if !self.is_pending() => HeldState::Sent,
            (_, None) => HeldState::Open,
            (_, Some(end)) => HeldState::Finished(end),
        }
    }
}

fn id(index: usize) -> HoldId {
    HoldId(index as u64 + 1)
}
