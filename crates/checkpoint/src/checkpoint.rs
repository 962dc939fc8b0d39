//! A restorable image of one process.

use std::io;
use std::os::fd::RawFd;

use rustix::process::{Pid, Signal};
use surmise_sys::memory;
use surmise_sys::ptrace::{Registers, RestartableSequences, call};

use crate::attributes::{Change, Changed};
use crate::descriptors::Descriptors;
use crate::error::{CheckpointError, taking};
use crate::gate::Gate;
use crate::halted::Halted;
use crate::held::{Hand, Held};
use crate::own::{self, Names, SignalStack};
use crate::process::Process;
use crate::vessel::Vessel;

/// What a process was at one moment, with all its threads. It can be restored any number of times.
///
/// The memory is in the vessel, which shares every page that is not written to. Dropping it without
/// [`Checkpoint::discard`] leaves the vessel to the end of this process.
#[derive(Debug)]
pub struct Checkpoint {
    pub(crate) vessel: Vessel,
    pub(crate) threads: Vec<Image>,
    pub(crate) descriptors: Descriptors,
    /// Where the vessel has a `syscall` instruction.
    pub(crate) instruction: u64,
    /// What the process has changed since that the vessel has to be asked for.
    pub(crate) changed: Changed,
    /// Where the kernel was to write when the only thread ended. The vessel has none, and of several threads it is
    /// not asked.
    pub(crate) tid_address: Option<u64>,
    /// What threads were called that have another name since.
    pub(crate) names: Names,
}

/// What a checkpoint knows of an open file that its process has now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Had {
    /// The process did not have the file at that moment.
    No,
    /// The process had the file, and no move of its position is noted.
    Unmoved,
    /// The process had the file, and a move of its position since is noted.
    Moved,
}

/// What a thread has that its process has not.
#[derive(Debug)]
pub(crate) struct Image {
    pub(crate) thread: Pid,
    pub(crate) registers: Registers,
    pub(crate) extended: Box<[u8]>,
    pub(crate) mask: u64,
    pub(crate) robust_list: (u64, u64),
    pub(crate) restartable: RestartableSequences,
    /// Of several threads alone.
    pub(crate) signal_stack: Option<SignalStack>,
}

impl Image {
    fn of(held: &Held) -> io::Result<Self> {
        Ok(Self {
            thread: held.thread(),
            registers: held.registers_settled(),
            extended: held.stopped()?.extended_state()?,
            mask: held.mask(),
            robust_list: memory::robust_list(held.thread())?,
            restartable: held.stopped()?.restartable_sequences()?,
            signal_stack: None,
        })
    }
}

impl Checkpoint {
    /// Frees what it holds, soon. Who waits for news of all tracees may hear of the vessel's end.
    ///
    /// # Errors
    /// As ending the vessel: none that a process of one's own can cause.
    pub fn discard(self, process: &mut Process) -> io::Result<()> {
        process.retire(self.vessel)
    }

    /// Frees what it holds, when the process has ended; returns when that is done.
    ///
    /// # Errors
    /// As [`Self::discard`].
    pub fn destroy(self) -> io::Result<()> {
        self.vessel.kill()?;
        self.vessel.await_end()
    }

    /// Notes that the process is about to change something that a rollback has to ask the vessel for. The newest checkpoint of a
    /// process notes first. False if no older one need note it, so long as nobody passes descriptors.
    ///
    /// Only others can give a process back an open file that it has closed. So a file that it did not have at its newest checkpoint
    /// it had at no older one. And what the newest one has noted before, the older ones have: they were there by then.
    pub fn note(&mut self, process: Pid, changed: Change) -> bool {
        match changed {
            Change::Position(number) => {
                return self.descriptors.note_moved(&self.vessel, process, number);
            }
            Change::Flags(number) => self.descriptors.note_flags(&self.vessel, process, number),
            Change::Name(thread) if self.has_thread(thread) => self.names.note(process, thread),
            // The first thread has the name of the program.
            Change::Program => self.names.note(process, process),
            _ => {}
        }
        self.changed.add(changed);
        true
    }

    /// What is known of the open file that the process has by this number now.
    ///
    /// # Errors
    /// Where the file cannot be compared: the process or the vessel has ended, or there is no such descriptor.
    pub fn had(&self, process: Pid, number: RawFd) -> io::Result<Had> {
        self.descriptors.had(&self.vessel, process, number)
    }

    /// Whether a rollback moves an open file, which the process has by this number now, back to a position other than its start.
    pub fn was_midway(&self, process: Pid, number: RawFd) -> bool {
        let noted = self
            .descriptors
            .noted_position(&self.vessel, process, number);
        // In doubt it was.
        noted.map_or(true, |noted| noted.is_some_and(|noted| noted != 0))
    }

    /// Whether the process had this thread at that moment. A rollback ends those that it has got since.
    pub fn has_thread(&self, thread: Pid) -> bool {
        self.threads.iter().any(|image| image.thread == thread)
    }

    /// Whether it can give back where the kernel writes when the thread ends.
    pub fn knows_tid_address(&self) -> bool {
        self.tid_address.is_some()
    }

    /// Whether it can give back the signal stacks of its threads.
    pub fn knows_signal_stacks(&self) -> bool {
        // The vessel has that of an only one.
        self.threads.len() == 1
            || self
                .threads
                .iter()
                .all(|image| image.signal_stack.is_some())
    }

    /// Whether a rollback brings back the program that the process executed at that moment, if it executes another one since.
    pub fn can_undo_execution(&self) -> bool {
        // The others would have ended. And a kernel that tells this can be told where a process has what.
        self.threads.len() == 1 && self.knows_tid_address()
    }

    /// Whether any thread blocked a signal at that moment.
    pub fn blocks(&self, signal: Signal) -> bool {
        let bit = 1 << (signal.as_raw() - 1);
        self.threads.iter().any(|thread| thread.mask & bit != 0)
    }

    /// Whether the process may take a signal in another way since that moment.
    pub fn has_handler_changed(&self, signal: Signal) -> bool {
        self.changed.has_handler(signal.as_raw().cast_unsigned())
    }

    /// The stopped process that holds the memory.
    pub fn vessel(&self) -> Pid {
        self.vessel.process()
    }
}

impl<'a> Halted<'a> {
    /// Frees a checkpoint of the process.
    ///
    /// # Errors
    /// As [`Checkpoint::discard`].
    pub fn discard(self, checkpoint: Checkpoint) -> io::Result<Self> {
        checkpoint.discard(self.process)?;
        Ok(self)
    }

    /// Takes a checkpoint of the process as it stands: calls that have not happened are made again when
    /// it is restored.
    ///
    /// # Errors
    /// [`CheckpointError::System`]: the process is as it was.
    pub fn checkpoint(&mut self, gate: &mut dyn Gate) -> Result<Checkpoint, CheckpointError> {
        let threads = self.threads.iter().map(Image::of);
        let mut threads = threads
            .collect::<io::Result<Vec<_>>>()
            .map_err(taking("read a thread's state"))?;
        let asked = self.ask_signal_stacks(&mut threads, gate);
        asked.map_err(taking("ask for signal stacks"))?;
        let tid_address = self.tid_address(gate);
        let tid_address = tid_address.map_err(taking("read where a thread's end is told"))?;
        let vessel = self.vessel(call::CLONE_VESSEL, gate);
        let vessel = vessel.map_err(taking("make a vessel"))?;
        Ok(Checkpoint {
            vessel,
            threads,
            descriptors: Descriptors::default(),
            instruction: self.instruction,
            changed: Changed::default(),
            tid_address,
            names: Names::default(),
        })
    }

    /// Of an only thread the vessel is asked.
    fn ask_signal_stacks(&mut self, images: &mut [Image], gate: &mut dyn Gate) -> io::Result<()> {
        if images.len() == 1 {
            return Ok(());
        }
        let instruction = self.instruction;
        for (held, image) in self.threads.iter_mut().zip(images) {
            image.signal_stack = own::signal_stack(&mut Hand {
                held,
                instruction,
                gate,
            })?;
        }
        Ok(())
    }

    /// Where the kernel writes when the only thread ends. `None` where there are several, or the kernel does not tell
    /// (`CONFIG_CHECKPOINT_RESTORE`).
    fn tid_address(&mut self, gate: &mut dyn Gate) -> io::Result<Option<u64>> {
        let [held] = &mut self.threads[..] else {
            return Ok(None);
        };
        let mut hand = Hand {
            held,
            instruction: self.instruction,
            gate,
        };
        let asking = |place| (call::PRCTL, [call::GET_TID_ADDRESS, place, 0, 0, 0, 0]);
        Ok(hand.ask(asking)?.map(u64::from_ne_bytes))
    }
}
