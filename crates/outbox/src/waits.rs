//! Which held output waits for a person's decision. Control asks the person, so the outbox tells control of it.
//!
//! A hold waits from its opening on. Once the person has agreed to the hold's output, the output still has to leave,
//! which may take long. What the program appends meanwhile waits for the next decision. So the holds that wait are
//! not the pending ones.

use std::collections::BTreeMap;

use crate::HoldId;
use crate::history::History;
use crate::record::Record;

/// What is told of a hold. The order in which holds are said to wait is the causal order of what each of them sends
/// first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// It waits, and what it sends first has its place here. That may be told of a hold that waits already: its
    /// opening had a place of its own, which its first bytes replace.
    Waits(HoldId),
    /// It waits no more, although nobody has agreed to that by its number: it was dropped, it cannot be sent, or
    /// what was decided about its receiver lets it go.
    Gone(HoldId),
}

/// The holds that wait, and how much of the others may leave.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    waiting: BTreeMap<HoldId, First>,
    /// Before which place in the file the pieces of a hold may leave.
    agreed: BTreeMap<HoldId, u64>,
}

/// What a hold that waits sends first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum First {
    /// Only its opening so far.
    Opening,
    Bytes,
}

impl Waits {
    /// All that is pending waits when an outbox is opened; in causal order.
    pub(crate) fn of(history: &History) -> (Self, Vec<Told>) {
        let mut waits = Self::default();
        let mut order = Vec::new();
        for (id, hold) in history.pending() {
            let (first, position) = match hold.pieces(id).next() {
                Some(piece) => (First::Bytes, piece.position),
                None => (First::Opening, hold.position),
            };
            waits.waiting.insert(id, first);
            order.push((position, id));
        }
        order.sort_unstable();
        let told = order.into_iter().map(|(_, hold)| Told::Waits(hold));
        (waits, told.collect())
    }

    /// Takes in a record, which `history` has.
    pub(crate) fn take(&mut self, record: &Record<'_>, history: &History) -> Option<Told> {
        let id = record.hold();
        match record {
            Record::Opened { .. } => {
                self.waiting.insert(id, First::Opening);
                Some(Told::Waits(id))
            }
            Record::Data { .. } => {
                let before = self.waiting.insert(id, First::Bytes);
                (before != Some(First::Bytes)).then_some(Told::Waits(id))
            }
            Record::Dropped { .. } => self.end(id),
            Record::Sent { errno, .. } if *errno != 0 => self.end(id),
            Record::Sent { .. } => self.sent(id, history),
            // Sending again is ordered where no domain runs, and nobody is told there.
            Record::Finished { .. }
            | Record::Sending { .. }
            | Record::Left { .. }
            | Record::Again { .. } => None,
        }
    }

    /// A person agrees, by their numbers, to what these holds have sent before `end`, a place in the file. Those that
    /// wait no more have gone meanwhile.
    pub(crate) fn agree(&mut self, holds: &[HoldId], end: u64) {
        for hold in holds {
            self.let_go(*hold, end);
        }
    }

    /// What was decided about their receivers lets these go.
    pub(crate) fn decide(&mut self, holds: &[HoldId], end: u64) -> Vec<Told> {
        let gone = holds.iter().filter(|hold| self.let_go(**hold, end));
        gone.map(|hold| Told::Gone(*hold)).collect()
    }

    /// What a person has agreed to of these, and has not left, does not leave: that waits again.
    pub(crate) fn keep(&mut self, holds: &[HoldId], history: &History) -> Vec<Told> {
        let kept = holds.iter().filter_map(|hold| self.stay(*hold, history));
        kept.collect()
    }

    /// Before which place in the file the pieces of a hold may leave.
    pub(crate) fn agreed(&self, hold: HoldId) -> u64 {
        self.agreed.get(&hold).copied().unwrap_or(0)
    }

    fn let_go(&mut self, hold: HoldId, end: u64) -> bool {
        let did_wait = self.waiting.remove(&hold).is_some();
        if did_wait {
            self.agreed.insert(hold, end);
        }
        did_wait
    }

    fn end(&mut self, hold: HoldId) -> Option<Told> {
        self.agreed.remove(&hold);
        self.waiting.remove(&hold).map(|_| Told::Gone(hold))
    }

    /// Some of a hold has left, perhaps less than may: a person may have agreed to more meanwhile, which the next
    /// sending takes. A sender that sends less than it was given says so by [`Self::keep`].
    fn sent(&mut self, id: HoldId, history: &History) -> Option<Told> {
        let hold = history.holds.get(&id).filter(|hold| hold.is_pending());
        match hold.and_then(|hold| hold.pieces(id).next()) {
            Some(_) => None,
            // An empty datagram that came behind the last byte counts as sent with that.
            None => self.waiting.remove(&id).map(|_| Told::Gone(id)),
        }
    }

    /// What may leave of a hold has not, and waits again.
    fn stay(&mut self, id: HoldId, history: &History) -> Option<Told> {
        let hold = history.holds.get(&id).filter(|hold| hold.is_pending())?;
        self.agreed.remove(&id)?;
        let first = match hold.pieces(id).next() {
            Some(_) => First::Bytes,
            None => First::Opening,
        };
        let before = self.waiting.insert(id, first);
        before.is_none().then_some(Told::Waits(id))
    }
}
