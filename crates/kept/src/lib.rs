//! What is kept of a domain: its state directory, and what a caller does with it.
//!
//! A [`StateRoot`] lists, opens, makes and removes domains. A [`Domain`] tells what a command did, and makes that
//! real or throws it away. Every file of the directory that is about the domain itself has its format here: the
//! record, the exit, the lock, the seal, and the socket by which a domain that runs is asked ([`doorway`]).
//!
//! Nothing here starts a process. The crate that runs domains takes the [`Lock`], writes the record and answers at
//! the doorway.
#![forbid(unsafe_code)]

mod boundary;
mod commit;
mod committed;
mod contents;
mod domain;
pub mod doorway;
mod error;
mod exit;
mod forgetting;
mod glance;
mod link;
mod lock;
mod maker;
mod name;
mod notice;
mod outbox;
mod record;
mod remove;
mod seal;
mod state;
mod stopped;
mod visit;

pub use boundary::Boundary;
pub use commit::OnOutput;
pub use committed::{After, Committed};
pub use domain::{Aborted, Domain, Status};
pub use doorway::{Done, ReadChanged, Refusal};
pub use error::{DecideError, StateError};
pub use exit::Exit;
pub use glance::Glance;
pub use link::Link;
pub use lock::{Lock, Serving};
pub use maker::Maker;
pub use notice::{Answer, Notice};
pub use outbox::Holdings;
pub use record::{Native, Record, clear_exit, write_exit};
pub use seal::SealError;
pub use state::StateRoot;
pub use stopped::is_stopped;
pub use surmise_network::{Peer, Policy, Rule, Verdict};
pub use surmise_outbox::{DeliveryError, HeldChannel, HeldState, Resend, Sender, Target};
pub use visit::Watched;
