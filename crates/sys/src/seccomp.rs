//! The system-call filter of a domain: compiled from the table, installed by the command's
//! process just before it becomes the command.
//!
//! The kernel runs the filter at every call, except where it can prove beforehand that a number
//! is always allowed: then it only tests a bit. So the program decides plain calls by number
//! alone, and reads arguments only where a row of the table has an exception that matters.
//!
//! Nothing here kills. A refused call answers with an error number, which the program can
//! report or work around; a killed one would lose its unsaved work over a probe that most
//! programs make only to see what the kernel offers.
//!
//! Where tasks speculate, a call that the table tracks waits for who listens: [`Listener`] receives
//! such calls and answers them. So does one that is refused, where somebody is to be told of that.

mod assembler;
mod compiler;
mod data;
mod install;
#[cfg(test)]
mod interpreter;
mod listener;
#[cfg(test)]
mod tests;

pub use compiler::{Changes, Listening, Program, Telling};
pub use install::{Privilege, install, install_with_listener, install_with_witness};
pub use listener::{Answer, Listener, Notification};
