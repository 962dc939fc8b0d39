//! One domain: state directory, namespaces, pid 1, supervision.
//!
//! [`run`] starts a command in a new domain and stays until it has ended. Five processes take
//! part, each with one role:
//!
//! * **control**, the caller: makes the state, starts the others, forwards signals, waits.
//! * the **view** process: serves the domain's file system; outside all namespaces, in a session
//!   of its own, so that no key on the terminal stops it.
//! * the **relay** process: passes on what crosses the boundary, a thread for each channel; in the
//!   caller's session, for it reads the keys of the caller's terminal.
//! * **pid 1** of the domain: mounts everything, starts the command, reaps, ends what lingers.
//! * the **command**: in the session that pid 1 leads, with a terminal of the domain's own where the
//!   caller's streams are a terminal.
//!
//! Whichever of them is killed, the others end: pid 1 watches control, the view and the relay process,
//! and when it
//! ends the kernel ends the domain's other processes; the mount then goes, which ends the view.
#![forbid(unsafe_code)]

mod capabilities;
mod command;
mod decide;
mod devices;
mod domain;
mod error;
mod exit;
mod held;
mod launch;
mod lock;
mod message;
mod mounts;
mod nested;
mod processes;
mod record;
mod remove;
mod roles;
mod signals;
mod state;
mod stops;
mod terminal;

pub use decide::DecideError;
pub use domain::{Domain, Status};
pub use error::LaunchError;
pub use exit::Exit;
pub use launch::{Launch, Lingering, LostStream, NetPolicy, Outcome, run};
pub use lock::Lock;
pub use record::Record;
pub use state::{StateError, StateRoot};
