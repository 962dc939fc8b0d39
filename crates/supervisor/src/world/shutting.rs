//! Pipes that nobody keeps open any more but processes that execute nothing.

use std::io;

use rustix::process::Pid;

use crate::call::Call;
use crate::objects::input::Place;

/// A process that executes nothing, and has open what it had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Still {
    pub(crate) process: Pid,
    /// Whether it holds an image, so that what it has open never changes. Else it stands still at its exit.
    pub(crate) is_image: bool,
}

/// A pipe that a call may touch, and whose other side is open in no process but some that execute nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shut {
    /// Those processes: at least one.
    pub(crate) keepers: Vec<Pid>,
    /// Whether the call may be told of the end: it reads and finds the pipe empty, or it asks whether the pipe can be read.
    pub(crate) is_end: bool,
    /// The pipe.
    pub(crate) place: Place,
}

/// What a supervisor learns of pipes that are shut.
pub(crate) trait Shutting {
    /// The pipes inside that a call may touch and that are shut, `still` being all processes that execute nothing. A pipe is
    /// among them, too, if nobody knows; then the call is not told of the end.
    fn shut_pipes(&mut self, call: &Call, still: &[Still]) -> io::Result<Vec<Shut>>;
}
