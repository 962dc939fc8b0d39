//! Asking pipes whether they are ready.

use std::io;
use std::os::fd::OwnedFd;

use rustix::process::Pid;

use super::Apart;
use crate::call::Call;
use crate::objects::input::Place;

/// What a call was told that asks what is ready.
#[derive(Debug)]
pub(crate) enum Told {
    /// It asks of no pipe that matters.
    Other,
    /// This is its result. What else it is told is in its process' memory.
    Ready(i64),
    /// Nothing is ready yet. What is readable when something is, unless that comes by acts of tasks alone.
    Nothing(Option<OwnedFd>),
    /// The kernel alone can tell.
    Unknown,
    /// It asks of a connection whose end is not told yet: only processes that execute nothing have the other socket.
    Ending,
}

/// What a world does about calls that ask what is ready.
pub(crate) trait Asking {
    /// Whether a call does nothing but ask what is ready.
    fn asks(&self, call: &Call) -> bool;

    /// Whether a call that may touch any pipe of its process may touch this one. True in doubt.
    fn may_touch(&self, process: Pid, call: &Call, place: Place) -> bool;

    /// Tells a call what is ready, without waiting, if it asks of a pipe that matters: which do, besides those that nobody will
    /// write to any more.
    fn ask(
        &mut self,
        process: Pid,
        call: &Call,
        about: (&dyn Fn(Place) -> bool, &Apart),
    ) -> io::Result<Told>;
}
