//! The thread that has the log.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use surmise_journal::OpenError;
use surmise_remote::server::{Event, Record};

use crate::budget::Backlog;
use crate::disk::Order;
use crate::input::Input;
use crate::log::{Begins, Log, LogError};
use crate::notice::notice;
use crate::patience::{Ending, Pauses, awaited, is_full};

/// What goes into the log.
#[derive(Debug)]
pub(crate) enum Entry {
    Record(u64, Record),
    /// Begin a new log with these; all before has been recorded.
    Condensed {
        records: Vec<Record>,
        /// Whether clients may name objects that they knew before.
        has_clients: bool,
    },
}

/// How many bytes one flush makes durable at most.
const BATCH_BYTES_MAX: usize = 16 << 20;

pub(crate) struct Recorder {
    pub(crate) log: Log,
    pub(crate) begins: Begins,
    pub(crate) entries: Receiver<Entry>,
    pub(crate) inputs: Sender<Input>,
    pub(crate) disk: Sender<Order>,
    /// How much has been given to this thread that is not durable.
    pub(crate) backlog: Arc<Backlog>,
    pub(crate) ending: Ending,
}

impl Recorder {
    /// Records what it is told, until nobody is left to tell it.
    pub(crate) fn run(mut self) {
        while let Ok(first) = self.entries.recv() {
            if let Err(error) = self.take(first) {
                let _ = self.inputs.send(Input::LogFailed(error));
                return;
            }
        }
    }

    /// Takes all that has come, and makes it durable with one flush.
    fn take(&mut self, first: Entry) -> Result<(), LogError> {
        let (mut batch, mut last, mut bytes) = (Vec::new(), 0, 0);
        let mut next = Some(first);
        while let Some(entry) = next {
            match entry {
                Entry::Record(number, record) => {
                    if let Err(error) = self.log.append(&record) {
                        // The ones before it need not wait.
                        self.hand_over(std::mem::take(&mut batch), last, bytes)?;
                        bytes = 0;
                        self.append_later(&record, error)?;
                    }
                    bytes += bytes_of(&record);
                    last = number;
                    batch.push(record);
                }
                Entry::Condensed {
                    records,
                    has_clients,
                } => {
                    self.hand_over(std::mem::take(&mut batch), last, bytes)?;
                    return self.begin_anew(&records, has_clients);
                }
            }
            next = match bytes < BATCH_BYTES_MAX {
                true => self.entries.try_recv().ok(),
                false => None,
            };
        }
        self.hand_over(batch, last, bytes)
    }

    /// Appends what could not be appended for lack of space, as long as that takes. Nothing was promised about it.
    fn append_later(&mut self, record: &Record, error: std::io::Error) -> Result<(), LogError> {
        let Some(awaited) = awaited(&error) else {
            return Err(error.into());
        };
        notice(format_args!("the log: {error}; waits {awaited}"));
        let mut pauses = Pauses::new();
        loop {
            std::thread::sleep(pauses.left());
            match self.log.append(record) {
                Err(error) if is_full(&error) && !self.ending.has_begun() => pauses.again(),
                outcome => return Ok(outcome?),
            }
        }
    }

    fn hand_over(&mut self, batch: Vec<Record>, last: u64, bytes: usize) -> Result<(), LogError> {
        if batch.is_empty() {
            return Ok(());
        }
        self.log.flush()?;
        self.backlog.less(bytes);
        // Nobody is told any more when the main thread has ended.
        let _ = self.disk.send(Order::Make(batch, last));
        let _ = self.inputs.send(Input::Event(Event::Durable(last)));
        let _ = self.inputs.send(Input::LogIs(self.log.length()));
        Ok(())
    }

    /// Puts a new log in the place of this one, once all is made that it says.
    fn begin_anew(&mut self, records: &[Record], has_clients: bool) -> Result<(), LogError> {
        let (reply, synced) = channel();
        let _ = self.disk.send(Order::Sync(reply));
        // Without an answer it is stuck, and has said so.
        let Ok(synced) = synced.recv() else {
            return Ok(());
        };
        self.begins.operations = synced.operations;
        // While it goes on, also where no client is known: the next one is told of the objects by the ids that are in memory.
        let pairs = match has_clients || !self.ending.has_begun() {
            true => synced.pairs,
            false => Vec::new(),
        };
        match self.log.replaced(self.begins, &pairs, records) {
            Ok(log) => {
                self.log = log;
                let _ = self.disk.send(Order::LogBegun);
                if !has_clients {
                    let _ = self.disk.send(Order::EmptyNameless);
                }
            }
            Err(LogError::Open(OpenError::Io(error))) if is_full(&error) => {
                notice(format_args!(
                    "the log: {error}; a new one is begun when it is twice as long"
                ));
                self.log.remove_unfinished()?;
            }
            Err(error) => return Err(error),
        }
        let _ = self.inputs.send(Input::LogBegun(self.log.length()));
        Ok(())
    }
}

/// About how many bytes a record takes.
pub(crate) fn bytes_of(record: &Record) -> usize {
    match record {
        Record::Made { operations, .. } => operations.iter().map(|one| one.bytes()).sum(),
        _ => 0,
    }
}
