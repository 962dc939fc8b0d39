//! Advisory locks of programs: fcntl(2) and flock(2), on one object. The same table at both ends.
//!
//! # Who decides
//!
//! A lock is granted where all locks on its object are known. As long as the programs of one client alone have or want locks
//! on an object, that client is the **master** of the object's locks: it grants them without a message. When another
//! client asks, the server recalls the mastery, and gets all locks that the master's programs hold; from then on the server grants
//! them, until one client alone is left that has or wants any. Each client keeps what its own programs hold, whichever side grants
//! it. A client that comes again over a new connection begins with these locks, and is master of none.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// How many locks a client's programs may hold. One that is split counts as two.
pub const LOCKS_MAX: usize = 1 << 14;

/// How many of a client's calls for locks may wait for the server.
pub const WAITS_MAX: usize = 1 << 10;

/// By which call. Locks of the one do not stand in the way of those of the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Api {
    /// fcntl(2): record locks of a process, and those of an open file description.
    Fcntl,
    /// flock(2): whole files.
    Flock,
}

/// Who else may hold a lock on the same bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Hold {
    /// Others that share, too (`F_RDLCK`, `LOCK_SH`).
    Shared,
    /// Nobody (`F_WRLCK`, `LOCK_EX`).
    Exclusive,
}

/// How long a call waits for its lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum How {
    /// Not at all (`F_SETLK`, `LOCK_NB`).
    Try,
    /// As long as it takes (`F_SETLKW`).
    Wait,
    /// It sets none, and is told of one that stands in the way (`F_GETLK`).
    Test,
}

/// What a call wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Attempt {
    /// By which call.
    pub api: Api,
    /// The process or the open file, by the kernel's number. Locks of one owner replace each other.
    pub owner: u64,
    /// The first byte.
    pub first: u64,
    /// The last byte.
    pub last: u64,
    /// The lock; `None` lifts all locks of the owner there.
    pub hold: Option<Hold>,
    /// How long it waits.
    pub how: How,
    /// The process that calls, on its own machine.
    pub process: u32,
}

impl Attempt {
    /// Whether it only lifts locks.
    pub fn lifts(&self) -> bool {
        self.hold.is_none() && self.how != How::Test
    }
}

/// A lock that is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Lock {
    /// As of [`Attempt`].
    pub api: Api,
    /// As of [`Attempt`].
    pub owner: u64,
    /// The first byte.
    pub first: u64,
    /// The last byte.
    pub last: u64,
    /// Who else may hold one.
    pub hold: Hold,
    /// As of [`Attempt`]; 0 of another machine.
    pub process: u32,
}

/// What the server says to an [`Attempt`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Verdict {
    /// It is done; nothing stands in the way of a test.
    Done,
    /// This lock is in the way.
    Blocked(Lock),
    /// No other client has or wants a lock on the object: this client is the master of the object's locks, and decides itself.
    Yours,
}

/// All locks on one object. The keeper of the table numbers the owners.
#[derive(Debug, Clone)]
pub struct Table<O> {
    /// By owner, in the order of their bytes. None touches another that is alike.
    held: BTreeMap<(Api, O), Vec<Piece>>,
    /// How many locks these are.
    count: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Piece {
    first: u64,
    last: u64,
    hold: Hold,
    process: u32,
}

impl<O> Default for Table<O> {
    fn default() -> Self {
        Self {
            held: BTreeMap::new(),
            count: 0,
        }
    }
}

impl<O: Copy + Ord> Table<O> {
    /// Whether there is no lock.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// How many locks there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// All owners.
    pub fn owners(&self) -> impl Iterator<Item = O> + '_ {
        self.held.keys().map(|(_, owner)| *owner)
    }

    /// All locks, numbered by `number`.
    pub fn all(&self, number: impl Fn(O) -> u64) -> Vec<Lock> {
        let held = self.held.iter().flat_map(|((api, owner), pieces)| {
            let owner = number(*owner);
            pieces.iter().map(move |piece| piece.lock(*api, owner))
        });
        held.collect()
    }

    /// The locks of others that stand in the way, each with its owner.
    pub fn obstacles<'t>(
        &'t self,
        owner: O,
        attempt: &'t Attempt,
    ) -> impl Iterator<Item = (O, Lock)> + 't {
        let others = self.held.iter().filter(move |((api, other), _)| {
            attempt.hold.is_some() && *api == attempt.api && *other != owner
        });
        others.flat_map(move |((api, other), pieces)| {
            let pieces = within(pieces, attempt.first, attempt.last);
            let stands = pieces.iter().filter(|piece| {
                attempt.hold == Some(Hold::Exclusive) || piece.hold == Hold::Exclusive
            });
            stands.map(move |piece| (*other, piece.lock(*api, attempt.owner)))
        })
    }

    /// Whether an owner holds any lock among these bytes.
    pub fn holds_any(&self, owner: O, attempt: &Attempt) -> bool {
        let held = self.held.get(&(attempt.api, owner));
        held.is_some_and(|pieces| !within(pieces, attempt.first, attempt.last).is_empty())
    }

    /// Whether an owner holds locks on all these bytes, each at least as strong as `hold`.
    pub fn holds_all(&self, owner: O, attempt: &Attempt, hold: Hold) -> bool {
        let Some(pieces) = self.held.get(&(attempt.api, owner)) else {
            return false;
        };
        let mut next = Some(attempt.first);
        for piece in within(pieces, attempt.first, attempt.last) {
            if next.is_none_or(|next| piece.first > next) || piece.hold < hold {
                return false;
            }
            next = piece.last.checked_add(1);
        }
        next.is_none_or(|next| next > attempt.last)
    }

    /// Sets or lifts what is attempted, whatever stands in the way. An owner's earlier locks give way to it, and are split where
    /// they reach further.
    pub fn set(&mut self, owner: O, attempt: &Attempt) {
        let Attempt {
            api,
            first,
            last,
            hold,
            process,
            ..
        } = *attempt;
        let pieces = self.held.entry((api, owner)).or_default();
        // Those that touch it, too, since they may be alike.
        let start = pieces.partition_point(|piece| piece.last < first.saturating_sub(1));
        let end = pieces.partition_point(|piece| piece.first <= last.saturating_add(1));
        let mut left = Vec::new();
        let new = hold.map(|hold| Piece {
            first,
            last,
            hold,
            process,
        });
        let mut new = new.into_iter();
        for piece in &pieces[start..end] {
            if piece.first < first {
                let last = piece.last.min(first - 1);
                push(&mut left, Piece { last, ..*piece });
            }
            if piece.last >= first {
                new.by_ref().for_each(|new| push(&mut left, new));
            }
            if piece.last > last {
                let first = piece.first.max(last + 1);
                push(&mut left, Piece { first, ..*piece });
            }
        }
        new.for_each(|new| push(&mut left, new));
        self.count = self.count + left.len() - (end - start);
        pieces.splice(start..end, left);
        if pieces.is_empty() {
            self.held.remove(&(api, owner));
        }
    }

    /// Leaves an owner nothing among these bytes that is stronger than what is attempted.
    pub fn loosen(&mut self, owner: O, attempt: &Attempt) {
        let Some(pieces) = self.held.get(&(attempt.api, owner)) else {
            return;
        };
        let mut stronger = within(pieces, attempt.first, attempt.last).to_vec();
        stronger.retain(|piece| Some(piece.hold) > attempt.hold);
        for piece in stronger {
            let first = piece.first.max(attempt.first);
            let last = piece.last.min(attempt.last);
            self.set(
                owner,
                &Attempt {
                    first,
                    last,
                    ..*attempt
                },
            );
        }
    }

    /// Lifts all locks of owners that `goes` is true of, and returns how many these were.
    pub fn lift_all(&mut self, goes: impl Fn(O) -> bool) -> usize {
        let before = self.count;
        self.held.retain(|(_, owner), _| !goes(*owner));
        self.count = self.held.values().map(Vec::len).sum();
        before - self.count
    }
}

impl Lock {
    /// What would set it.
    pub fn attempt(&self) -> Attempt {
        Attempt {
            api: self.api,
            owner: self.owner,
            first: self.first,
            last: self.last,
            hold: Some(self.hold),
            how: How::Try,
            process: self.process,
        }
    }
}

impl Piece {
    fn lock(&self, api: Api, owner: u64) -> Lock {
        Lock {
            api,
            owner,
            first: self.first,
            last: self.last,
            hold: self.hold,
            process: self.process,
        }
    }
}

/// Those that have any of these bytes.
fn within(pieces: &[Piece], first: u64, last: u64) -> &[Piece] {
    let start = pieces.partition_point(|piece| piece.last < first);
    let end = pieces.partition_point(|piece| piece.first <= last);
    pieces.get(start..end).unwrap_or_default()
}

/// Adds a piece behind all others; one with the last of them, if they touch and are alike.
fn push(pieces: &mut Vec<Piece>, new: Piece) {
    match pieces.last_mut() {
        Some(before)
            if before.hold == new.hold && before.last.checked_add(1) == Some(new.first) =>
        {
            before.last = new.last;
        }
        _ => pieces.push(new),
    }
}
