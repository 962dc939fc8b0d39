//! The thread that writes the outbox, and the queue before it.
//!
//! Appends wait in memory for the writer, so that the appending thread never waits for a disk. Frames are
//! written one by one in the order of the queue, which is the causal order.
//!
//! A write that fails is final: no later bytes are kept, because they may depend on the lost ones.
//! A hold that lost bytes in this way is ended by a reset, if the disk lets that be noted. So no
//! receiver takes the hold's beginning for the whole. Notes on the fate of holds are still written.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::mpsc;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rustix::event::{EventfdFlags, eventfd};
use surmise_journal::Journal;

use crate::history::History;
use crate::record::{FORMAT, Record};
use crate::waits::{Told, Waits};
use crate::{End, HoldId, OutboxError, QUEUE_MAX, path_in};

/// Who is told what waits for a person. The writer calls it, and keeps nothing meanwhile.
pub(crate) type Tell = Box<dyn Fn(Told) + Send>;

/// What every entry of the queue counts for, in bytes, beside its data.
const ENTRY_WEIGHT: usize = 64;

/// What the writer and the handles share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) directory: PathBuf,
    state: Mutex<State>,
    /// Told when there is something to do for the writer.
    work: Condvar,
    /// Readable exactly while the queue has room.
    pub(crate) room: OwnedFd,
}

/// What the lock guards.
#[derive(Debug)]
pub(crate) struct State {
    queue: Vec<Request>,
    /// Bytes of the queue, and of what the writer has taken from it and not written yet.
    queued: usize,
    pub(crate) next: HoldId,
    pub(crate) history: History,
    pub(crate) waits: Waits,
    failure: Option<Failure>,
    closing: bool,
}

/// A failed write, as far as it can be told again and again.
#[derive(Debug, Clone, Copy)]
struct Failure {
    errno: Option<i32>,
    kind: io::ErrorKind,
}

#[derive(Debug)]
enum Request {
    /// To be kept; of no use to anyone once something was not.
    Keep(Record<'static>),
    /// The program sent something to a hold after a failed write.
    Lost(HoldId),
    /// How far a sending has come. Of use if the sender is killed; should it not be written, less is known
    /// then.
    Progress(Record<'static>),
    /// To be written whatever happened before, with an answer.
    Note {
        records: Vec<Record<'static>>,
        durable: bool,
        answer: mpsc::Sender<Result<(), OutboxError>>,
    },
    /// What waits is decided, behind what came before; with an answer.
    Decide {
        decision: Decision,
        holds: Vec<HoldId>,
        answer: mpsc::Sender<()>,
    },
}

/// What becomes of holds that wait, or waited, for a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// The person agrees to them.
    Agreed,
    /// What was decided about their receivers lets them go.
    Allowed,
    /// What has not left of them does not leave.
    Kept,
}

impl Shared {
    /// What is to be told of the holds of `history` is told by the writer.
    pub(crate) fn new(directory: PathBuf, history: History, waits: Waits) -> io::Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Self {
            directory,
            state: Mutex::new(State {
                queue: Vec::new(),
                queued: 0,
                next: history.next(),
                history,
                waits,
                failure: None,
                closing: false,
            }),
            work: Condvar::new(),
            room: eventfd(1, flags)?,
        })
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics between two changes that belong together.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues what the program did. After a failed write it is lost instead.
    pub(crate) fn keep(&self, state: &mut State, record: Record<'static>) {
        let request = match &record {
            Record::Opened { .. } if state.failure.is_some() => return,
            Record::Data { hold, .. } if state.failure.is_some() => Request::Lost(*hold),
            _ => Request::Keep(record),
        };
        self.push(state, request);
    }

    /// Queues notes and waits until they are written; `durable` against a power loss, too.
    pub(crate) fn note(
        &self,
        records: Vec<Record<'static>>,
        durable: bool,
    ) -> Result<(), OutboxError> {
        let (answer, answered) = mpsc::channel();
        let request = Request::Note {
            records,
            durable,
            answer,
        };
        self.push(&mut self.state(), request);
        let gone = || io::Error::other("the writer of the outbox has ended");
        answered.recv().unwrap_or_else(|_| Err(gone().into()))
    }

    /// Queues a decision and waits until it is told.
    pub(crate) fn decide(&self, decision: Decision, holds: Vec<HoldId>) {
        let (answer, answered) = mpsc::channel();
        let request = Request::Decide {
            decision,
            holds,
            answer,
        };
        self.push(&mut self.state(), request);
        // A writer that has ended tells nothing, and sends nothing either.
        let _ = answered.recv();
    }

    /// Queues how far a sending has come.
    pub(crate) fn progress(&self, record: Record<'static>) {
        self.push(&mut self.state(), Request::Progress(record));
    }

    pub(crate) fn failure(&self) -> Option<io::Error> {
        self.state().failure.map(Failure::error)
    }

    /// Lets the writer end when it has written everything.
    pub(crate) fn close(&self) {
        self.state().closing = true;
        self.work.notify_one();
    }

    fn push(&self, state: &mut State, request: Request) {
        let had_room = state.has_room();
        state.queued += request.weight();
        state.queue.push(request);
        if had_room && !state.has_room() {
            // Takes the mark of room back; under the lock, so that it always tells the truth.
            let _ = rustix::io::read(&self.room, &mut [0; 8]);
        }
        self.work.notify_one();
    }

    /// The next requests; empty when the last handle is gone and everything is done.
    fn take(&self) -> Vec<Request> {
        let mut state = self.state();
        while state.queue.is_empty() && !state.closing {
            state = self
                .work
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        std::mem::take(&mut state.queue)
    }

    fn release(&self, weight: usize) {
        let mut state = self.state();
        let had_room = state.has_room();
        state.queued -= weight;
        if !had_room && state.has_room() {
            let _ = rustix::io::write(&self.room, &1u64.to_ne_bytes());
        }
    }
}

impl State {
    pub(crate) fn has_room(&self) -> bool {
        self.queued < QUEUE_MAX
    }
}

impl Failure {
    fn of(error: &io::Error) -> Self {
        Self {
            errno: error.raw_os_error(),
            kind: error.kind(),
        }
    }

    fn error(self) -> io::Error {
        self.errno
            .map_or_else(|| self.kind.into(), io::Error::from_raw_os_error)
    }
}

impl Request {
    fn weight(&self) -> usize {
        match self {
            Self::Keep(Record::Data { bytes, .. }) => ENTRY_WEIGHT + bytes.len(),
            _ => ENTRY_WEIGHT,
        }
    }
}

/// What the thread has to itself.
pub(crate) struct Writer {
    shared: Arc<Shared>,
    /// `None` until there is something to hold.
    journal: Option<Journal>,
    /// Whether the file's name was made durable by this writer.
    is_named: bool,
    /// Holds that lost bytes and whose end by a reset is still to be noted.
    lost: BTreeSet<HoldId>,
    payload: Vec<u8>,
    tell: Option<Tell>,
}

impl Writer {
    pub(crate) fn new(shared: Arc<Shared>, journal: Option<Journal>, tell: Option<Tell>) -> Self {
        Self {
            shared,
            journal,
            is_named: false,
            lost: BTreeSet::new(),
            payload: Vec::new(),
            tell,
        }
    }

    /// `waiting`: what is to be told first.
    pub(crate) fn run(mut self, waiting: Vec<Told>) {
        self.tell(waiting);
        loop {
            let requests = self.shared.take();
            if requests.is_empty() {
                break;
            }
            for request in requests {
                let weight = request.weight();
                match request {
                    Request::Keep(record) => self.keep(record),
                    Request::Lost(hold) => self.lose(hold),
                    Request::Progress(record) => drop(self.write(&record)),
                    Request::Note {
                        records,
                        durable,
                        answer,
                    } => {
                        // Nobody listens any more when the caller's thread was ended.
                        let _ = answer.send(self.note(&records, durable));
                    }
                    Request::Decide {
                        decision,
                        holds,
                        answer,
                    } => {
                        self.decide(decision, &holds);
                        let _ = answer.send(());
                    }
                }
                self.shared.release(weight);
            }
        }
        // Perhaps there is space by now.
        for hold in std::mem::take(&mut self.lost) {
            self.lose(hold);
        }
    }

    fn keep(&mut self, record: Record<'static>) {
        let hold = record.hold();
        let has_failed = self.shared.state().failure.is_some();
        match &record {
            Record::Opened { .. } if has_failed => return,
            Record::Data { .. } if has_failed => return self.lose(hold),
            Record::Finished { .. } if self.lost.contains(&hold) => return self.lose(hold),
            _ => {}
        }
        // What the history does not accept comes late: the hold was dropped, failed or ended.
        if let Err(error) = self.write(&record) {
            let failure = Failure::of(&error);
            self.shared.state().failure.get_or_insert(failure);
            self.lose(hold);
        }
    }

    fn lose(&mut self, hold: HoldId) {
        let reset = Record::Finished {
            hold,
            end: End::Reset,
        };
        match self.write(&reset) {
            Ok(_) => self.lost.remove(&hold),
            Err(_) => self.lost.insert(hold),
        };
    }

    fn note(&mut self, records: &[Record<'static>], durable: bool) -> Result<(), OutboxError> {
        for record in records {
            if !self.write(record)? {
                return Err(OutboxError::NotPending(record.hold()));
            }
        }
        if durable {
            self.sync()?;
        }
        Ok(())
    }

    fn decide(&self, decision: Decision, holds: &[HoldId]) {
        let mut state = self.shared.state();
        let State { history, waits, .. } = &mut *state;
        let told = match decision {
            Decision::Agreed => {
                waits.agree(holds, history.end);
                Vec::new()
            }
            Decision::Allowed => waits.decide(holds, history.end),
            Decision::Kept => waits.keep(holds, history),
        };
        drop(state);
        self.tell(told);
    }

    /// Never under the lock: the listener may take time.
    fn tell(&self, told: impl IntoIterator<Item = Told>) {
        if let Some(tell) = &self.tell {
            told.into_iter().for_each(tell);
        }
    }

    /// Writes one frame; whether the history accepts it.
    fn write(&mut self, record: &Record<'static>) -> io::Result<bool> {
        if !self.shared.state().history.accepts(record) {
            return Ok(false);
        }
        record.encode(&mut self.payload);
        let journal = match &mut self.journal {
            Some(journal) => journal,
            none => none.insert(create(&self.shared)?),
        };
        journal.append(&self.payload)?;
        // Nobody else changes the history, so what it accepted above it still accepts.
        let mut state = self.shared.state();
        let State { history, waits, .. } = &mut *state;
        let applied = history.apply(record, self.payload.len());
        assert!(applied.is_ok(), "an accepted record is applied");
        let told = waits.take(record, history);
        drop(state);
        self.tell(told);
        Ok(true)
    }

    fn sync(&mut self) -> io::Result<()> {
        if let Some(journal) = &mut self.journal {
            journal.sync()?;
        }
        if !self.is_named {
            File::open(&self.shared.directory)?.sync_all()?;
            self.is_named = true;
        }
        Ok(())
    }
}

fn create(shared: &Shared) -> io::Result<Journal> {
    let path = path_in(&shared.directory);
    Journal::create_at(&path, FORMAT).map_err(|error| match error {
        surmise_journal::OpenError::Io(error) => error,
        other => io::Error::other(other),
    })
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use surmise_testkit::Scratch;

    use super::*;
    use crate::Target;

    fn is_ready(shared: &Shared) -> bool {
        let at_once = Timespec::default();
        let mut polled = [PollFd::new(&shared.room, PollFlags::IN)];
        poll(&mut polled, Some(&at_once)).expect("poll") == 1
    }

    #[test]
    fn room_is_readable_exactly_while_there_is_room() {
        let scratch = Scratch::new();
        let shared = Shared::new(
            scratch.root().to_owned(),
            History::default(),
            Waits::default(),
        );
        let shared = Arc::new(shared.expect("an eventfd"));
        let hold = HoldId(1);
        let opened = Record::Opened {
            hold,
            target: Target::Output,
            sender: None,
        };
        let mut writer = Writer::new(Arc::clone(&shared), None, None);
        for _ in 0..3 {
            shared.keep(&mut shared.state(), opened.clone());
            // No writer runs yet, so nobody but us can fill or empty the queue.
            while shared.state().has_room() {
                assert!(is_ready(&shared));
                let bytes = Cow::Owned(vec![0; 60_000]);
                shared.keep(&mut shared.state(), Record::Data { hold, bytes });
            }
            assert!(!is_ready(&shared));
            for request in shared.take() {
                let weight = request.weight();
                if let Request::Keep(record) = request {
                    writer.keep(record);
                }
                shared.release(weight);
                assert_eq!(is_ready(&shared), shared.state().has_room());
            }
            assert_eq!(shared.state().queued, 0);
        }
    }
}
