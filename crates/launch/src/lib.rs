//! How a domain starts and is run: namespaces, mounts, pid 1, the roles of its processes, decisions while it runs.
//!
//! [`run`] starts a command in a new domain and stays until the command has ended. Up to six processes take
//! part, each with one role:
//!
//! * **control**, the caller: makes the state, starts the others, forwards signals, waits.
//! * the **view** process: serves the domain's file system; outside all namespaces, in a session
//!   of its own, so that no key on the terminal stops it.
//! * the **relay** process: passes on what crosses the boundary, a thread for each channel; in the
//!   caller's session, for it reads the keys of the caller's terminal.
//! * the **supervisor**, where there are guesses or syncs are put off: hears the tracked calls of all tasks and
//!   answers them, and commits. While the command runs, it alone may trace tasks; in a session of its own.
//! * **pid 1** of the domain: mounts everything, starts the command, reaps, ends what lingers.
//! * the **command**: in the session that pid 1 leads, with a terminal of the domain's own where the
//!   caller's streams are a terminal.
//!
//! If any of them is killed, the others end. Pid 1 watches control, the view, the relay process and
//! the supervisor. When pid 1 ends, the kernel ends the domain's other processes. Then the mount goes,
//! which ends the view.
#![forbid(unsafe_code)]

mod capabilities;
mod command;
mod consent;
mod devices;
mod dial;
mod error;
mod files;
mod gate;
mod held;
mod inside;
mod launch;
mod limits;
mod message;
mod mounts;
mod native;
mod nested;
mod person;
mod proc;
mod processes;
mod refusals;
mod roles;
mod signals;
mod stall;
mod stops;
mod terminal;

pub use error::{LaunchError, StepError};
pub use gate::can_gate;
pub use launch::{
    Launch, Lingering, LostStream, Outcome, Synced, Through, check_outside, run, shell, sync,
};
pub use message::Messages;
pub use person::{Person, Question};
pub use surmise_refusals::{Kind as RefusalKind, Refusal as RefusedInside, Refusals};
