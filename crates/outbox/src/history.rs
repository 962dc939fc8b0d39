//! What has become of every hold: the fold of the outbox's frames.

use std::collections::{BTreeMap, VecDeque};

use surmise_journal::{FRAME_HEADER_LENGTH, HEADER_LENGTH};

use crate::record::{DATA_OFFSET, Malformed, Record};
use crate::{End, HeldState, HoldId, Piece, Sender, Target};

/// The state of all holds after some frames.
#[derive(Debug)]
pub(crate) struct History {
    pub(crate) holds: BTreeMap<HoldId, Hold>,
    /// Where the next frame begins in the file, in bytes.
    pub(crate) end: u64,
}

/// One hold.
#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) target: Target,
    pub(crate) sender: Option<Sender>,
    /// Where the hold was opened: a place in the order of all pieces.
    pub(crate) position: u64,
    /// All bytes ever held.
    pub(crate) bytes: u64,
    /// Those of them that have left.
    pub(crate) sent: u64,
    pub(crate) end: Option<End>,
    stage: Stage,
    /// While it waits to be sent again: how many bytes were known to have left before.
    left_before: Option<u64>,
    /// All that the present or next sending may begin with, in order.
    pieces: VecDeque<Stored>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nothing has left.
    Held,
    Sending,
    /// All that was held at some time has left; more may have come since.
    Released,
    Failed(i32),
    Dropped,
}

#[derive(Debug, Clone, Copy)]
struct Stored {
    position: u64,
    offset: u64,
    length: u32,
}

impl Stored {
    fn end(&self) -> u64 {
        self.offset + u64::from(self.length)
    }

    /// What of it is not before byte `upto` of its hold.
    fn behind(self, upto: u64) -> Self {
        let gone = upto.saturating_sub(self.offset);
        Self {
            position: self.position + gone,
            offset: self.offset + gone,
            length: self.length - u32::try_from(gone).expect("a part of a piece is short"),
        }
    }

    /// Whether it is before byte `upto` of its hold. An empty datagram there may have left or not.
    fn is_before(&self, upto: u64) -> bool {
        self.offset < upto && self.end() <= upto
    }
}

impl Default for History {
    fn default() -> Self {
        Self {
            holds: BTreeMap::new(),
            end: HEADER_LENGTH,
        }
    }
}

impl History {
    /// The id of the next hold.
    pub(crate) fn next(&self) -> HoldId {
        let last = self.holds.last_key_value().map_or(0, |(hold, _)| hold.0);
        HoldId(last + 1)
    }

    /// Whether `record` may follow.
    pub(crate) fn accepts(&self, record: &Record<'_>) -> bool {
        let id = record.hold();
        if matches!(record, Record::Opened { .. }) {
            // Of the last number there is none that could follow.
            return id >= self.next() && id.0 < u64::MAX;
        }
        let Some(hold) = self.holds.get(&id) else {
            return false;
        };
        match record {
            Record::Opened { .. } => unreachable!("answered above"),
            Record::Data { bytes, .. } => {
                let says_something = !bytes.is_empty() || hold.target.is_datagrams();
                let goes_on = !matches!(hold.stage, Stage::Failed(_) | Stage::Dropped);
                says_something && goes_on && hold.end.is_none()
            }
            Record::Finished { .. } => hold.end.is_none(),
            Record::Dropped { .. } => matches!(hold.stage, Stage::Held | Stage::Released),
            Record::Sending { .. } => hold.is_pending(),
            Record::Sent { upto, errno, .. } => {
                // A receiver may refuse what was sent after the last byte has left.
                let overturns = hold.stage == Stage::Released && *errno != 0;
                let follows = hold.stage == Stage::Sending || overturns;
                follows && (hold.sent..=hold.bytes).contains(upto)
            }
            Record::Left { upto, .. } => {
                hold.stage == Stage::Sending && (hold.sent..=hold.bytes).contains(upto)
            }
            Record::Again { from, .. } => {
                hold.can_begin_again() && (hold.first_kept()..=hold.bytes).contains(from)
            }
        }
    }

    /// Takes in the record of the next frame, whose payload has `length` bytes.
    pub(crate) fn apply(&mut self, record: &Record<'_>, length: usize) -> Result<(), Malformed> {
        if !self.accepts(record) {
            return Err(Malformed);
        }
        let payload = self.end + FRAME_HEADER_LENGTH;
        let position = self.end;
        self.end = payload + length as u64;
        if let Record::Opened {
            hold,
            target,
            sender,
        } = record
        {
            let opened = Hold::new(target.clone(), sender.clone(), position);
            self.holds.insert(*hold, opened);
            return Ok(());
        }
        let hold = self.holds.get_mut(&record.hold()).ok_or(Malformed)?;
        match record {
            Record::Data { bytes, .. } => hold.append(payload + DATA_OFFSET, bytes.len()),
            Record::Finished { end, .. } => hold.end = Some(*end),
            Record::Sending { .. } => {
                hold.stage = Stage::Sending;
                hold.left_before = None;
            }
            Record::Sent { upto, errno, .. } => hold.settle(*upto, *errno),
            Record::Left { upto, .. } => hold.sent = *upto,
            Record::Again { from, .. } => hold.begin_again(*from),
            Record::Dropped { .. } => {
                hold.stage = Stage::Dropped;
                hold.left_before = None;
                hold.pieces.clear();
            }
            Record::Opened { .. } => unreachable!("taken in above"),
        }
        Ok(())
    }

    /// The pending holds, in the order of their opening.
    pub(crate) fn pending(&self) -> impl Iterator<Item = (HoldId, &Hold)> {
        let holds = self.holds.iter().map(|(id, hold)| (*id, hold));
        holds.filter(|(_, hold)| hold.is_pending())
    }

    /// The pieces of all pending holds, in causal order.
    pub(crate) fn pieces(&self) -> Vec<Piece> {
        let mut pieces: Vec<_> = self
            .pending()
            .flat_map(|(id, hold)| hold.pieces(id))
            .collect();
        pieces.sort_unstable_by_key(|piece| piece.position);
        pieces
    }
}

impl Hold {
    fn new(target: Target, sender: Option<Sender>, position: u64) -> Self {
        Self {
            target,
            sender,
            position,
            bytes: 0,
            sent: 0,
            end: None,
            stage: Stage::Held,
            left_before: None,
            pieces: VecDeque::new(),
        }
    }

    fn append(&mut self, position: u64, length: usize) {
        self.pieces.push_back(Stored {
            position,
            offset: self.bytes,
            length: u32::try_from(length).expect("a piece is short"),
        });
        self.bytes += length as u64;
    }

    fn settle(&mut self, upto: u64, errno: i32) {
        self.sent = upto;
        self.left_before = None;
        if errno != 0 {
            // Its pieces stay: somebody may want them to be sent again.
            self.stage = Stage::Failed(errno);
            return;
        }
        self.stage = Stage::Released;
        while self.pieces.front().is_some_and(|first| first.end() <= upto) {
            self.pieces.pop_front();
        }
        if let Some(first) = self.pieces.front_mut() {
            *first = first.behind(upto);
        }
    }

    /// What begins at `from` is to be sent. What is before that stays: as long as nothing is being sent, somebody
    /// may want that, too.
    fn begin_again(&mut self, from: u64) {
        self.left_before = Some(self.known_to_have_left());
        self.sent = from;
        // Also a connection without a byte is to be made once more.
        self.stage = match from {
            0 => Stage::Held,
            _ => Stage::Released,
        };
    }

    /// How many of its bytes are known to have left in the last sending.
    pub(crate) fn known_to_have_left(&self) -> u64 {
        self.left_before.unwrap_or(self.sent)
    }

    /// Whether something of it may be sent: a connection without a byte, too.
    pub(crate) fn is_pending(&self) -> bool {
        match self.stage {
            Stage::Held => true,
            Stage::Released => self.waiting().len() > 0,
            Stage::Sending | Stage::Failed(_) | Stage::Dropped => false,
        }
    }

    /// Whether its sending failed, or was interrupted. Also if it is to be sent again already, and that has not
    /// begun.
    pub(crate) fn can_begin_again(&self) -> bool {
        match self.stage {
            Stage::Sending | Stage::Failed(_) => true,
            _ => self.left_before.is_some() && self.is_pending(),
        }
    }

    /// The first byte that could be sent again.
    pub(crate) fn first_kept(&self) -> u64 {
        self.pieces.front().map_or(self.bytes, |first| first.offset)
    }

    /// What is not known to have left, in order.
    pub(crate) fn pieces(&self, id: HoldId) -> impl Iterator<Item = Piece> {
        self.waiting().map(move |stored| {
            let rest = stored.behind(self.sent);
            Piece {
                hold: id,
                offset: rest.offset,
                length: rest.length as usize,
                position: rest.position,
            }
        })
    }

    fn waiting(&self) -> impl ExactSizeIterator<Item = &Stored> {
        let first = self
            .pieces
            .partition_point(|piece| piece.is_before(self.sent));
        self.pieces.range(first..)
    }

    pub(crate) fn state(&self) -> HeldState {
        match self.stage {
            Stage::Sending => HeldState::Sending,
            Stage::Failed(errno) => HeldState::Failed { errno },
            Stage::Dropped => HeldState::Dropped,
            Stage::Released if !self.is_pending() => HeldState::Sent,
            Stage::Held | Stage::Released => match self.end {
                None => HeldState::Open,
                Some(end) => HeldState::Finished(end),
            },
        }
    }
}
