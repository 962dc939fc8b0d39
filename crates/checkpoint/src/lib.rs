//! Checkpoint and in-place rollback of unmodified processes, on a stock kernel.
//!
//! A supervisor stops all threads of a [`Process`] ([`Process::halt`]) and takes a [`Checkpoint`]. One
//! thread is made to copy the process. The copy, the **vessel**, stays stopped and holds the memory,
//! whose pages both share until one of them writes. The checkpoint keeps what the vessel cannot hold: the registers of
//! threads and the positions of files. A rollback ([`Halted::roll_back`]) gives the process back what differs. The
//! process keeps its number, parent, group, threads and terminal.
//!
//! Paper 1 (Nightingale, Chen, Flinn: Speculative Execution in a Distributed File System, SOSP 2005),
//! section 5.1, does this in the kernel by copy-on-write fork.
//!
//! # What is restored
//!
//! Registers with floating point and vector state, signal masks, robust lists and restartable sequences
//! of all threads; private memory with its mappings and protection, the break; descriptors and the
//! positions of their files; threads born since end. Processes borne since ([`Halted::bear`], [`Process::lend`]) must have ended
//! ([`Process::end`]), and are reaped. Handlers of signals, umask, working directory, and where the kernel
//! tells of the end of an only thread (set_tid_address(2)), if the supervisor has noted that they changed
//! ([`Checkpoint::note`]). The program, likewise, of a process with one thread ([`Checkpoint::can_undo_execution`],
//! [`lasts_beyond_execution`], [`Halted::can_come_back_from`], [`can_undo_executions`]).
//!
//! # What is not
//!
//! Shared memory that is written to, threads that have ended, changes of
//! files and of other processes. Calls that do such things have to wait, or others have to undo them.
//!
//! A process may also stand still at its exit ([`Halted::stand`]) until its supervisor has it end ([`Halted::exit`]), its parent
//! having been told before, or has it go back.
//!
//! This crate knows no policy: its user decides when to take a checkpoint, what a guess is, and which calls wait.
#![forbid(unsafe_code)]

mod attributes;
mod birth;
mod checkpoint;
mod contents;
mod descriptors;
mod ending;
mod error;
mod execution;
mod gate;
mod halted;
mod held;
mod lending;
mod mappings;
mod obstacles;
mod own;
mod pages;
mod passing;
mod process;
mod rollback;
mod scratch;
mod sending;
mod threads;
mod timer;
mod vessel;

pub use attributes::Change;
pub use birth::Birth;
pub use checkpoint::{Checkpoint, Had};
pub use descriptors::is_shared_with_relatives;
pub use ending::{Account, Usage};
pub use error::{CheckpointError, RollbackError};
pub use execution::{can_undo_executions, lasts_beyond_execution};
pub use gate::{Gate, PendingCall};
pub use halted::{Halted, Standing, Traced};
pub use lending::Lent;
pub use obstacles::{Suspicions, filters, obstacle, pid_namespaces};
pub use passing::{Passed, pass_boundaries};
pub use process::{GiveWay, Process};
pub use rollback::{Departing, Restored};
pub use sending::Interrupted;
pub use timer::Timer;
pub use vessel::is_vessel;
