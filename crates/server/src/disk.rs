//! The thread that has the directory.
//!
//! It makes records in the order of the log. Questions are answered between two records: what a question is about, no
//! record that waits has to do with. An object that was not loaded was changed by no group, and bytes are read when all
//! is made that the reader may have seen.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::time::Duration;

use surmise_remote::errno::Errno;
use surmise_remote::frame::{ClientKey, Urgency};
use surmise_remote::lease::ClientId;
use surmise_remote::object::ObjectId;
use surmise_remote::piece::{Digest, Found};
use surmise_remote::server::{Event, Record};

use crate::directory::{Batch, Changes, Directory, Stuck};
use crate::input::Input;
use crate::notice::notice;
use crate::patience::{Ending, Pauses};

/// How many questions are answered between two records, and up to how many bytes read.
const ANSWERS_MAX: usize = 64;
const ANSWERS_BYTES_MAX: usize = 1 << 20;

/// Of how many answers at least one is such that no program waits for: one may wait for it by now.
const AHEAD_EVERY: usize = 16;

/// How many bytes of the file system are left to its other users, and of a small one which part.
const RESERVE: u64 = 64 << 20;
const RESERVE_PART: u64 = 16;

/// With fewer bytes it is looked often whether there are more again.
const SCARCE: u64 = 1 << 30;
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What is to be done.
#[derive(Debug)]
pub(crate) enum Order {
    /// Look what others have changed, and say so when that is done.
    Look(Sender<()>),
    /// Make records; the last one has this number.
    Make(Vec<Record>, u64),
    /// Make all that was made durable, and say so.
    Sync(Sender<Synced>),
    /// A new log has begun.
    LogBegun,
    /// Remove all that has no name.
    EmptyNameless,
    Drop(ObjectId),
    Load(ObjectId, Urgency),
    /// What was to be loaded ahead is awaited by now.
    Hurry(ObjectId),
    Read {
        client: ClientId,
        request: u64,
        object: ObjectId,
        offset: u64,
        length: u32,
        urgency: Urgency,
        kept: Option<Digest>,
    },
    Space {
        client: ClientId,
        request: u64,
    },
}

impl Order {
    fn is_question(&self) -> bool {
        matches!(
            self,
            Self::Load(..) | Self::Hurry(_) | Self::Read { .. } | Self::Space { .. }
        )
    }

    /// Whether a program waits for the answer.
    fn is_awaited(&self) -> bool {
        match self {
            Self::Load(_, urgency) | Self::Read { urgency, .. } => *urgency == Urgency::Awaited,
            _ => true,
        }
    }
}

/// What a new log begins with.
#[derive(Debug)]
pub(crate) struct Synced {
    pub(crate) pairs: Vec<(ObjectId, u64)>,
    pub(crate) operations: u64,
}

/// Work in its order.
enum Work {
    Make(ClientKey, Batch),
    /// All records up to this number are made.
    Made(u64),
    Sync(Sender<Synced>),
    LogBegun,
    EmptyNameless,
    Drop(ObjectId),
}

pub(crate) struct Disk {
    directory: Directory,
    orders: Receiver<Order>,
    inputs: Sender<Input>,
    /// Came while questions were answered, and is none.
    interruption: Option<Order>,
    work: VecDeque<Work>,
    questions: VecDeque<Order>,
    /// Questions whose answers no program waits for.
    ahead: VecDeque<Order>,
    /// The next work has failed in a way that passes.
    waits: Option<Pauses>,
    ending: Ending,
    /// There is so little space that it is looked at all the time.
    is_scarce: bool,
}

impl Disk {
    pub(crate) fn new(
        directory: Directory,
        orders: Receiver<Order>,
        inputs: Sender<Input>,
        ending: Ending,
    ) -> Self {
        Self {
            directory,
            orders,
            inputs,
            interruption: None,
            work: VecDeque::new(),
            questions: VecDeque::new(),
            ahead: VecDeque::new(),
            waits: None,
            ending,
            is_scarce: false,
        }
    }

    /// Does what it is told, until nobody is left to tell it.
    pub(crate) fn run(mut self) {
        self.tell_room();
        while self.take_orders() {
            // Before anything is made or looked at that others have changed.
            self.tell_changes();
            let answers = self.answer_some();
            if !answers.is_empty() && self.inputs.send(Input::Answers(answers)).is_err() {
                return;
            }
            if self.is_paused() {
                continue;
            }
            let Some(mut work) = self.work.pop_front() else {
                continue;
            };
            match self.perform(&mut work) {
                Ok(()) => self.waits = None,
                Err(stuck) => {
                    if let Some(awaited) = stuck.awaited()
                        && !self.ending.has_begun()
                    {
                        self.pause(&work, &stuck, awaited);
                        self.work.push_front(work);
                        continue;
                    }
                    // What comes behind it was promised as well, and cannot be made without it.
                    let _ = self.inputs.send(Input::Stuck(stuck));
                    return;
                }
            }
        }
    }

    fn is_paused(&self) -> bool {
        let is_left = |pauses: &Pauses| !pauses.left().is_zero();
        self.waits.as_ref().is_some_and(is_left) && !self.ending.has_begun()
    }

    fn pause(&mut self, work: &Work, stuck: &Stuck, awaited: &str) {
        // Too many files may be open.
        self.directory.close_all();
        if let Some(pauses) = &mut self.waits {
            return pauses.again();
        }
        let what = match work {
            Work::Make(_, batch) => self.directory.shown(batch.next()),
            _ => "the directory".into(),
        };
        let why = match stuck {
            Stuck::Operation { source, .. } => source.to_string(),
            other => other.to_string(),
        };
        notice(format_args!("{what}: {why}; waits {awaited}"));
        self.waits = Some(Pauses::new());
    }

    /// Takes all orders that have come, and waits for one if there is nothing to do; whether to go on.
    fn take_orders(&mut self) -> bool {
        if let Some(order) = self.interruption.take() {
            self.sort(order);
        }
        if self.work.is_empty() && !self.has_questions() {
            match self.next_order() {
                Some(order) => self.sort(order),
                None => return false,
            }
        } else if let Some(pauses) = self.waits.as_ref().filter(|_| !self.has_questions()) {
            match self.orders.recv_timeout(pauses.left()) {
                Ok(order) => self.sort(order),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => std::thread::sleep(pauses.left()),
            }
        }
        loop {
            match self.orders.try_recv() {
                Ok(order) => self.sort(order),
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => {
                    return !self.work.is_empty() || self.has_questions();
                }
            }
        }
    }

    /// `None` if nobody is left to tell it anything.
    fn next_order(&mut self) -> Option<Order> {
        match self.orders.try_recv() {
            Ok(order) => Some(order),
            Err(TryRecvError::Disconnected) => None,
            Err(TryRecvError::Empty) => {
                self.directory.close_files();
                // What the server itself has done need wake nobody.
                self.tell_changes();
                self.wait_for_order()
            }
        }
    }

    fn wait_for_order(&mut self) -> Option<Order> {
        // Others may make room at any time.
        while self.is_scarce {
            match self.orders.recv_timeout(LOOK_EVERY) {
                Ok(order) => return Some(order),
                Err(RecvTimeoutError::Timeout) => self.tell_room(),
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
        self.orders.recv().ok()
    }

    fn tell_changes(&mut self) {
        let events = events_of(self.directory.take_changes());
        if !events.is_empty() {
            let _ = self.inputs.send(Input::Answers(events));
        }
    }

    fn tell_room(&mut self) {
        if let Some(event) = self.room() {
            let _ = self.inputs.send(Input::Event(event));
        }
    }

    /// How much may be promised.
    fn room(&mut self) -> Option<Event> {
        let space = self.directory.space().ok()?;
        let bytes = |blocks: u64| blocks.saturating_mul(space.block_bytes.into());
        let (all, left) = (bytes(space.blocks), bytes(space.blocks_available));
        // One that does not tell how large it is.
        if all == 0 {
            return None;
        }
        self.is_scarce = left < SCARCE;
        let reserve = RESERVE.min(all / RESERVE_PART);
        Some(Event::Room(left.saturating_sub(reserve)))
    }

    fn sort(&mut self, order: Order) {
        match order {
            Order::Make(records, upto) => {
                let batches = records.into_iter().filter_map(|record| match record {
                    Record::Made {
                        client, operations, ..
                    } => Some(Work::Make(client, Batch::new(operations))),
                    _ => None,
                });
                self.work.extend(batches);
                self.work.push_back(Work::Made(upto));
            }
            Order::Sync(reply) => self.work.push_back(Work::Sync(reply)),
            Order::LogBegun => self.work.push_back(Work::LogBegun),
            Order::EmptyNameless => self.work.push_back(Work::EmptyNameless),
            Order::Drop(object) => self.work.push_back(Work::Drop(object)),
            Order::Load(_, urgency) | Order::Read { urgency, .. } => match urgency {
                Urgency::Awaited => self.questions.push_back(order),
                Urgency::Ahead => self.ahead.push_back(order),
            },
            Order::Space { .. } => self.questions.push_back(order),
            Order::Hurry(object) => self.hurry(object),
            Order::Look(done) => {
                self.tell_changes();
                let _ = done.send(());
            }
        }
    }

    fn perform(&mut self, work: &mut Work) -> Result<(), Stuck> {
        match work {
            Work::Make(client, batch) => {
                let outcome = self.directory.make_all(batch);
                if self.directory.take_unmade() {
                    // The state machine is to know of the changes before the client gives its leases back.
                    self.tell_changes();
                    let _ = self.inputs.send(Input::Event(Event::Unmade(*client)));
                }
                outcome
            }
            Work::Made(upto) => {
                self.directory.settle()?;
                // Also where two have become one.
                self.tell_changes();
                let events = self.room().into_iter().chain([Event::Applied(*upto)]);
                let _ = self.inputs.send(Input::Answers(events.collect()));
                Ok(())
            }
            Work::Sync(reply) => {
                self.directory.settle()?;
                // What it could not flush, a second flush does not tell of.
                let flushed = self.directory.flush();
                flushed.map_err(|errno| Stuck::Io(std::io::Error::other(errno.to_string())))?;
                let _ = reply.send(Synced {
                    pairs: self.directory.pairs(),
                    operations: self.directory.made(),
                });
                Ok(())
            }
            Work::LogBegun => Ok(self.directory.log_begins()?),
            Work::EmptyNameless => Ok(self.directory.empty_nameless()?),
            Work::Drop(object) => Ok(self.directory.drop_object(*object)?),
        }
    }

    /// Answers the next questions, several at once: to wake the other thread for each takes longer than to answer it. None
    /// is kept while a record is made.
    fn answer_some(&mut self) -> Vec<Event> {
        let mut answers = Vec::new();
        let mut bytes = 0;
        let mut is_awaited = false;
        let mut answered = 0;
        self.directory.begin_looks();
        while answered < ANSWERS_MAX
            && bytes < ANSWERS_BYTES_MAX
            && let Some(question) = self.next_question(answered)
        {
            answered += 1;
            // Before the question is looked at: what changes afterwards is told behind its answer.
            answers.extend(events_of(self.directory.take_changes()));
            is_awaited |= question.is_awaited();
            let mut answer = self.answer(&question);
            if lacks_files(&answer) {
                self.directory.close_all();
                answer = self.answer(&question);
            }
            if let Event::Read {
                data: Ok(_),
                length,
                ..
            } = &answer
            {
                bytes += *length as usize;
            }
            // To look may show that something else is not what it was.
            answers.extend(events_of(self.directory.take_noted()));
            answers.push(answer);
            if self.is_interrupted() || (is_awaited && self.questions.is_empty()) {
                break;
            }
        }
        self.directory.end_looks();
        answers
    }

    /// Takes questions that have come. Whether something else has: the answers so far are to be sent before that is done.
    fn is_interrupted(&mut self) -> bool {
        while let Ok(order) = self.orders.try_recv() {
            if !order.is_question() {
                self.interruption = Some(order);
                return true;
            }
            self.sort(order);
        }
        false
    }

    fn has_questions(&self) -> bool {
        !(self.questions.is_empty() && self.ahead.is_empty())
    }

    fn hurry(&mut self, object: ObjectId) {
        let is_it = |order: &Order| matches!(order, Order::Load(one, _) if *one == object);
        // It may have been answered.
        let at = self.ahead.iter().position(is_it);
        let order = at.and_then(|at| self.ahead.remove(at));
        self.questions.extend(order);
    }

    /// What is awaited comes first.
    fn next_question(&mut self, answered: usize) -> Option<Order> {
        let is_turn = answered % AHEAD_EVERY == AHEAD_EVERY - 1;
        let (first, second) = match is_turn {
            true => (&mut self.ahead, &mut self.questions),
            false => (&mut self.questions, &mut self.ahead),
        };
        first.pop_front().or_else(|| second.pop_front())
    }

    fn answer(&mut self, question: &Order) -> Event {
        let errno = |errno: rustix::io::Errno| Errno(errno.raw_os_error());
        match *question {
            Order::Read {
                client,
                request,
                object,
                offset,
                length,
                kept,
                ..
            } => {
                let data = self.directory.read(object, offset, length);
                let found = data.map(|data| Found::compared(data, length, kept));
                Event::Read {
                    client,
                    request,
                    object,
                    offset,
                    length,
                    data: found.map_err(errno),
                }
            }
            Order::Space { client, request } => Event::Space {
                client,
                request,
                space: self.directory.space().map_err(errno),
            },
            Order::Load(object, _) => {
                Event::Loaded(object, self.directory.load(object).map_err(errno))
            }
            Order::Look(_)
            | Order::Make(..)
            | Order::Sync(_)
            | Order::LogBegun
            | Order::EmptyNameless
            | Order::Drop(_)
            | Order::Hurry(_) => Event::Tick,
        }
    }
}

fn events_of(changes: Option<Changes>) -> Vec<Event> {
    match changes {
        None => Vec::new(),
        Some(Changes::Any) => vec![Event::AnyChanged],
        Some(Changes::Of(objects)) => objects.into_iter().map(Event::Changed).collect(),
    }
}

/// Whether a question failed because too many files are open.
fn lacks_files(answer: &Event) -> bool {
    let errno = match answer {
        Event::Read { data, .. } => data.as_ref().err(),
        Event::Loaded(_, outcome) => outcome.as_ref().err(),
        _ => None,
    };
    let few = [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE];
    errno.is_some_and(|errno| few.iter().any(|few| few.raw_os_error() == errno.0))
}
