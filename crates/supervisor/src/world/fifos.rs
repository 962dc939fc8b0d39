//! FIFOs that are kept open though no process that executes anything has them.

use std::io;

use rustix::process::Pid;

use super::Still;
use crate::call::Call;
use crate::objects::files::Target;

/// What a supervisor learns of FIFOs. `P` is a pipe on which an act is undecided.
pub(crate) trait Fifos<P> {
    /// Whether a call may open a FIFO: it waits for the other side, or wakes those that wait for this one.
    fn may_open_fifo(&self, call: &Call) -> bool;

    /// The FIFOs of which a side is open, or may be, only in processes that execute nothing, each with such a process. `still` has all of
    /// those.
    fn kept_fifos(&mut self, still: &[Still]) -> io::Result<Vec<(Pid, Target)>>;

    /// The FIFO that a pipe is, if it is one. This program has both sides of it open.
    fn fifo(&self, pipe: &P) -> Option<Target>;
}
