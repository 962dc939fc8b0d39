//! The outbox of a running domain.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};

use surmise_journal::Journal;

use crate::held::Fold;
use crate::history::{History, Hold};
use crate::record::{FORMAT, Record};
use crate::waits::{Told, Waits};
use crate::writer::{Decision, Shared, Tell, Writer};
use crate::{End, HoldId, OutboxError, PIECE_MAX, Sender, Target, path_in};

/// The outbox of a running domain. Clones are handles on the same one.
///
/// One thread writes what is appended; it is started by [`Outbox::open`], which is therefore called
/// in the process that uses the outbox, not before a fork. When the last handle is dropped, the
/// thread writes what is queued and is waited for.
#[derive(Debug, Clone)]
pub struct Outbox {
    handle: Arc<Handle>,
}

#[derive(Debug)]
struct Handle {
    shared: Arc<Shared>,
    writer: Option<JoinHandle<()>>,
    /// For reading pieces back; opened at the first.
    file: OnceLock<File>,
}

/// A hold with something that may be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    /// Its id.
    pub hold: HoldId,
    /// Where its output goes.
    pub target: Target,
    /// Who opened it, where that is known.
    pub sender: Option<Sender>,
    /// Bytes that have left, by an earlier release.
    pub sent: u64,
    /// Bytes that have not.
    pub bytes: u64,
    /// How the program ended it, if it has.
    pub end: Option<End>,
    /// Its place among the pieces of all holds.
    pub(crate) position: u64,
}

/// What one append kept, of which nothing or only the end has still to leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Its hold.
    pub hold: HoldId,
    /// Its first byte's place in all that the hold ever held.
    pub offset: u64,
    /// Its bytes, at most [`PIECE_MAX`]. None for an empty datagram.
    pub length: usize,
    /// Its first byte's place in the file, which orders pieces of all holds.
    pub(crate) position: u64,
}

/// What is to be sent of a hold that was not sent as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resend {
    /// All of it, also what has left before.
    Whole,
    /// What is not known to have left.
    Rest,
}

/// One step of sending some holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Of which hold.
    pub hold: HoldId,
    /// What leaves. A hold of which nothing is to leave has one step without a piece: its opening.
    pub piece: Option<Piece>,
    /// Whether this is all of the hold.
    pub is_last: bool,
}

/// Where the steps of a hold may begin.
#[derive(Debug, Clone, Copy)]
struct Place {
    behind: u64,
    /// Among those that begin at the same place.
    rank: usize,
}

impl Place {
    /// By what the step of a position is ordered. What comes too early for its hold's place goes to that, behind
    /// the hold whose place it is.
    fn of(self, position: u64) -> (u64, usize, u64) {
        match position > self.behind {
            true => (position, 0, position),
            false => (self.behind, self.rank, position),
        }
    }
}

impl Outbox {
    /// Opens the outbox in the state directory `directory`, behind the end of what it holds. The
    /// file `outbox` is made with the first hold.
    ///
    /// Only one process may have it open.
    ///
    /// # Errors
    /// When the file is no outbox of this version or cannot be read, and when there are no
    /// descriptors or threads left.
    pub fn open(directory: &Path) -> Result<Self, OutboxError> {
        Self::open_with(directory, None)
    }

    /// As [`Self::open`], of a domain whose output a person agrees to, time and again: `tell` is told of each hold
    /// that waits for that, also of those that an earlier opening left, and of each that has gone otherwise. It is
    /// told by the writer: [`Self::flush`] returns when all is told.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_told(
        directory: &Path,
        tell: impl Fn(Told) + Send + 'static,
    ) -> Result<Self, OutboxError> {
        Self::open_with(directory, Some(Box::new(tell)))
    }

    fn open_with(directory: &Path, tell: Option<Tell>) -> Result<Self, OutboxError> {
        let path = path_in(directory);
        if surmise_journal::is_cut_short(&path) {
            fs::remove_file(&path)?;
        }
        let (journal, history) = if path.try_exists()? {
            let mut fold = Fold::default();
            let (journal, _) = Journal::open_at(&path, FORMAT, |sequence, payload| {
                fold.take(sequence, payload);
            })?;
            (Some(journal), fold.finish()?)
        } else {
            (None, History::default())
        };
        let (waits, waiting) = Waits::of(&history);
        let shared = Arc::new(Shared::new(directory.to_owned(), history, waits)?);
        let writer = Writer::new(Arc::clone(&shared), journal, tell);
        let writer = thread::Builder::new()
            .name("surmise-outbox".into())
            .spawn(|| writer.run(waiting))?;
        Ok(Self {
            handle: Arc::new(Handle {
                shared,
                writer: Some(writer),
                file: OnceLock::new(),
            }),
        })
    }

    /// A new hold. Never blocks. After a failed write ([`Outbox::failed`]) nothing is held under
    /// the id that this returns.
    pub fn hold(&self, target: Target, sender: Option<Sender>) -> HoldId {
        let shared = &self.handle.shared;
        let mut state = shared.state();
        let hold = state.next;
        state.next = HoldId(hold.0 + 1);
        let opened = Record::Opened {
            hold,
            target,
            sender,
        };
        shared.keep(&mut state, opened);
        hold
    }

    /// Keeps what the program sent. Never blocks; callers bound the memory by stopping to read
    /// while there is no [room](Outbox::has_room).
    ///
    /// For datagrams each call is one datagram, at most [`PIECE_MAX`] bytes; an empty one counts.
    /// Of other targets, more than that is cut into pieces. What comes after the end of a hold, or
    /// after it was dropped, is thrown away.
    ///
    /// After a failed write nothing is kept, and the hold is noted as ended by a reset; the caller
    /// sees that in [`Outbox::failed`] and closes the channel.
    pub fn append(&self, hold: HoldId, bytes: &[u8]) {
        let shared = &self.handle.shared;
        let mut pieces: Vec<_> = bytes.chunks(PIECE_MAX).map(<[u8]>::to_vec).collect();
        if pieces.is_empty() {
            pieces.push(Vec::new());
        }
        let mut state = shared.state();
        for piece in pieces {
            let bytes = Cow::Owned(piece);
            shared.keep(&mut state, Record::Data { hold, bytes });
        }
    }

    /// Whether less than [`QUEUE_MAX`](crate::QUEUE_MAX) bytes wait to be written.
    pub fn has_room(&self) -> bool {
        self.handle.shared.state().has_room()
    }

    /// A descriptor that is readable exactly while there is room. It is only to be polled, never
    /// read.
    pub fn room(&self) -> BorrowedFd<'_> {
        self.handle.shared.room.as_fd()
    }

    /// The program sends no more to this hold. Only the first end counts.
    pub fn finish(&self, hold: HoldId, end: End) {
        let shared = &self.handle.shared;
        shared.keep(&mut shared.state(), Record::Finished { hold, end });
    }

    /// The write that failed, if one has: since then nothing new is kept, and channels must be
    /// closed rather than held. The error may come after the append that it is about, whose hold is
    /// then short of it and noted as ended by a reset.
    pub fn failed(&self) -> Option<io::Error> {
        self.handle.shared.failure()
    }

    /// Waits until everything appended so far is in the file; it then survives the end of this
    /// process, and a power loss after the file was synced.
    ///
    /// # Errors
    /// [`OutboxError::NotKept`] when a write has failed since the outbox was opened.
    pub fn flush(&self) -> Result<(), OutboxError> {
        let shared = &self.handle.shared;
        shared.note(Vec::new(), false)?;
        shared
            .failure()
            .map_or(Ok(()), |error| Err(OutboxError::NotKept(error)))
    }

    /// The holds with something that may be sent, in the order of their opening, with all that was
    /// appended before the call. Waits for the writer.
    ///
    /// Also those that an earlier opening of the domain left, which have no program any more;
    /// [`Delivery::of`](crate::Delivery::of) sends them.
    pub fn pending(&self) -> Vec<Pending> {
        self.settle();
        let state = self.handle.shared.state();
        let pending = state.history.pending().map(|(id, hold)| Pending {
            hold: id,
            target: hold.target.clone(),
            sender: hold.sender.clone(),
            sent: hold.sent,
            bytes: hold.bytes - hold.sent,
            end: hold.end,
            position: hold.position,
        });
        pending.collect()
    }

    /// A person agrees that what these holds hold leaves; what is appended from now on waits again. Those that have
    /// gone since they were said to wait are passed over.
    pub fn agree(&self, holds: &[HoldId]) {
        self.decide(Decision::Agreed, holds);
    }

    /// What was decided about the receivers of these holds lets them go, for which nobody agrees to them any more.
    pub fn allow(&self, holds: &[HoldId]) {
        self.decide(Decision::Allowed, holds);
    }

    /// What was to leave of these holds, and has not, does not leave: what of them is pending waits again. To be
    /// called by a sender that has sent nothing, or less than it was given, after its [`Self::mark_sent`].
    pub fn keep(&self, holds: &[HoldId]) {
        self.decide(Decision::Kept, holds);
    }

    fn decide(&self, decision: Decision, holds: &[HoldId]) {
        self.handle.shared.decide(decision, holds.to_vec());
    }

    /// What of a hold may leave and has not, in order.
    pub fn agreed(&self, hold: HoldId) -> Vec<Piece> {
        let mut pieces = self.pieces();
        let agreed = self.handle.shared.state().waits.agreed(hold);
        pieces.retain(|piece| piece.hold == hold && piece.position < agreed);
        pieces
    }

    /// What has not left of all pending holds, in causal order. Waits for the writer.
    pub fn pieces(&self) -> Vec<Piece> {
        self.settle();
        self.handle.shared.state().history.pieces()
    }

    /// The steps that send these holds: every piece of them that has not left by now, and the opening of those that
    /// have none. In causal order; waits for the writer.
    pub fn steps<'a>(&self, holds: impl Iterator<Item = &'a Pending>) -> Vec<Step> {
        steps(self.pieces(), holds.map(|pending| (pending, 0)))
    }

    /// As [`Self::steps`], but what a hold sends first leaves behind what those before it in `holds` send first. That
    /// is so anyway where the holds come as they were said to wait, unless some wait again that could not be sent.
    pub fn steps_in_order(&self, holds: &[Pending]) -> Vec<Step> {
        let pieces = self.pieces();
        let mut first = BTreeMap::new();
        for piece in &pieces {
            first.entry(piece.hold).or_insert(piece.position);
        }
        let mut behind = 0;
        let holds = holds.iter().map(|pending| {
            let own = first.get(&pending.hold).unwrap_or(&pending.position);
            behind = behind.max(*own);
            (pending, behind)
        });
        steps(pieces, holds)
    }

    /// Reads a piece back into `buffer`, replacing what it holds.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn read(&self, piece: &Piece, buffer: &mut Vec<u8>) -> Result<(), OutboxError> {
        let file = match self.handle.file.get() {
            Some(file) => file,
            None => {
                let file = File::open(path_in(&self.handle.shared.directory))?;
                self.handle.file.get_or_init(|| file)
            }
        };
        buffer.resize(piece.length, 0);
        file.read_exact_at(buffer, piece.position)?;
        Ok(())
    }

    /// Notes durably that bytes of these holds leave from now on. Only afterwards may the first
    /// byte be sent. Waits for the disk, once for all of them.
    ///
    /// Until [`Outbox::mark_sent`] the holds are not pending. Should that never come, because this
    /// process ends before, they are known as possibly sent in part and are not sent again.
    ///
    /// # Errors
    /// [`OutboxError::NotPending`] when a hold has nothing that may be sent; those before it are
    /// marked. Otherwise what the disk says. Nothing may be sent then.
    pub fn mark_sending(&self, holds: &[HoldId]) -> Result<(), OutboxError> {
        let marks = holds.iter().map(|hold| Record::Sending { hold: *hold });
        self.handle.shared.note(marks.collect(), true)
    }

    /// Notes that of a hold that is being sent the bytes before `upto` have left so far, for a reader after
    /// a kill. Never blocks.
    pub fn mark_left(&self, hold: HoldId, upto: u64) {
        self.handle.shared.progress(Record::Left { hold, upto });
    }

    /// Makes pending, durably, what was not sent of all holds whose sending failed or was interrupted: all of
    /// it once more, or what is not known to have left. Only while nothing is being sent; until something is,
    /// the last call counts. Returns how many holds there are.
    ///
    /// # Errors
    /// What the disk says.
    pub fn send_again(&self, what: Resend) -> Result<usize, OutboxError> {
        self.settle();
        let shared = &self.handle.shared;
        let again: Vec<_> = {
            let state = shared.state();
            let unsent = state
                .history
                .holds
                .iter()
                .filter(|(_, hold)| hold.can_begin_again());
            let record = |(id, hold): (&HoldId, &Hold)| Record::Again {
                hold: *id,
                from: match what {
                    Resend::Whole => hold.first_kept(),
                    Resend::Rest => hold.known_to_have_left(),
                },
            };
            unsent.map(record).collect()
        };
        let count = again.len();
        shared.note(again, true)?;
        Ok(count)
    }

    /// Notes that the bytes of `hold` before `upto`, counted from its first byte, have left. What
    /// was appended behind them, or is appended from now on, is pending. A person may have agreed to that already:
    /// then it may leave with the next sending.
    ///
    /// # Errors
    /// [`OutboxError::NotPending`] when the hold was not marked as sending; otherwise what the disk
    /// says: the hold then counts as interrupted.
    pub fn mark_sent(&self, hold: HoldId, upto: u64) -> Result<(), OutboxError> {
        self.sent(hold, upto, 0)
    }

    /// Notes that sending `hold` failed after `upto` bytes. The rest is not sent, nor is what comes
    /// later. A hold that was marked as sent may still fail, when its receiver refuses it late.
    ///
    /// # Errors
    /// As for [`Outbox::mark_sent`].
    pub fn mark_failed(
        &self,
        hold: HoldId,
        upto: u64,
        error: &io::Error,
    ) -> Result<(), OutboxError> {
        self.sent(hold, upto, errno(error))
    }

    /// Throws away what is pending of `hold`, for good, and what is appended later.
    ///
    /// # Errors
    /// [`OutboxError::NotPending`] for a hold that is being sent, has failed or was dropped before;
    /// otherwise what the disk says.
    pub fn drop_hold(&self, hold: HoldId) -> Result<(), OutboxError> {
        let shared = &self.handle.shared;
        shared.note(vec![Record::Dropped { hold }], false)
    }

    /// The holds whose sending was begun and not brought to an end.
    pub(crate) fn interrupted(&self) -> Vec<(HoldId, Target, u64)> {
        self.settle();
        let state = self.handle.shared.state();
        let holds = state.history.holds.iter();
        let sending = holds.filter(|(_, hold)| hold.state() == crate::HeldState::Sending);
        sending
            .map(|(id, hold)| (*id, hold.target.clone(), hold.sent))
            .collect()
    }

    fn sent(&self, hold: HoldId, upto: u64, errno: i32) -> Result<(), OutboxError> {
        let sent = Record::Sent { hold, upto, errno };
        self.handle.shared.note(vec![sent], false)
    }

    /// Waits for the writer. What it could not keep is not pending, which is no error here.
    fn settle(&self) {
        let _ = self.handle.shared.note(Vec::new(), false);
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.close();
        if let Some(writer) = self.writer.take() {
            // A panic of the writer has been told on its thread.
            let _ = writer.join();
        }
    }
}

/// The steps of holds none of which begins before the place that comes with it; `pieces` are all in causal order.
fn steps<'a>(pieces: Vec<Piece>, holds: impl Iterator<Item = (&'a Pending, u64)>) -> Vec<Step> {
    let mut left: BTreeMap<_, _> = holds
        .enumerate()
        .map(|(rank, (pending, behind))| {
            let place = Place { behind, rank };
            (pending.hold, (pending.position, place, 0_usize))
        })
        .collect();
    let mut steps = Vec::new();
    for piece in pieces {
        if let Some((_, place, count)) = left.get_mut(&piece.hold) {
            *count += 1;
            steps.push((place.of(piece.position), piece.hold, Some(piece)));
        }
    }
    let silent = left.iter().filter(|(_, (_, _, count))| *count == 0);
    steps.extend(silent.map(|(hold, (position, place, _))| (place.of(*position), *hold, None)));
    steps.sort_by_key(|(place, _, _)| *place);
    let steps = steps.into_iter().map(|(_, hold, piece)| {
        let (_, _, count) = left.get_mut(&hold).expect("each step is of one of them");
        *count = count.saturating_sub(1);
        Step {
            hold,
            piece,
            is_last: *count == 0,
        }
    });
    steps.collect()
}

/// The error number that stands for `error` in the file.
fn errno(error: &io::Error) -> i32 {
    use rustix::io::Errno;
    let stands_for = match error.kind() {
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => Errno::TIMEDOUT,
        io::ErrorKind::ConnectionReset => Errno::CONNRESET,
        io::ErrorKind::BrokenPipe | io::ErrorKind::WriteZero => Errno::PIPE,
        _ => Errno::IO,
    };
    let known = error.raw_os_error().filter(|number| *number != 0);
    known.unwrap_or(stands_for.raw_os_error())
}
