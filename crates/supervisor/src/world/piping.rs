//! What the supervisor does about pipes and connections inside the domain.

use std::io;
use std::os::fd::OwnedFd;

use rustix::process::Pid;

use crate::call::Call;
use crate::objects::input::{Look, Place};
use crate::objects::pipe::{Queue, Taken};

/// A queue of bytes that a descriptor leads to.
#[derive(Debug)]
pub(crate) struct Found<P> {
    pub(crate) place: Place,
    pub(crate) queue: Queue,
    /// What has the queue.
    pub(crate) pipe: P,
    /// Whether a read waits where there is nothing.
    pub(crate) waits: bool,
    /// Whether what is there may also be looked at, and stay (`objects/input.rs`).
    pub(crate) may_be_input: bool,
}

/// What a world does about pipes, and about connections of two stream sockets. `P` is either.
pub(crate) trait Piping<P> {
    /// The queue of bytes that a descriptor leads to, if all its ends are inside and bytes can be moved back; `is_write` says whether
    /// the caller writes there, and
    /// `still` has the processes that execute nothing: they hold images, or stand still at their exits.
    fn pipe(
        &mut self,
        process: Pid,
        descriptor: u64,
        is_write: bool,
        still: &[Pid],
    ) -> io::Result<Option<Found<P>>>;

    /// Has all threads but one come past calls on a pipe or connection in which they are, but for those that wait for an answer.
    /// False if that would disturb one.
    fn clear(&mut self, pipe: &P, but: Pid, waiting: &[Pid]) -> io::Result<bool>;

    /// What of the caller's pipes and connections a call may touch in any way.
    fn touches_pipe(&self, process: Option<Pid>, call: &Call) -> Look;

    /// Whether it is a connection.
    fn is_connection(&self, pipe: &P) -> bool;

    /// Whether a call does nothing to a pipe but put bytes in.
    fn only_puts(&self, call: &Call) -> bool;

    /// Whether a call on a pipe or connection is one that kinds of object take part in.
    fn is_tracked_on_pipe(&self, call: &Call) -> bool;

    /// What a process has in memory at an address, of a length. `None` if some of it is not there.
    fn bytes(&self, process: Pid, bytes: (u64, u64)) -> Option<Vec<u8>>;

    /// Takes at most so many bytes out of a queue.
    fn take_out(&mut self, from: (&P, Queue), length: usize) -> io::Result<Taken>;

    /// What is readable when a queue has bytes, or nobody is left to write any.
    fn await_input(&mut self, from: (&P, Queue)) -> io::Result<Option<OwnedFd>>;

    /// Puts bytes in, if there is room for all of them besides `reserved` more.
    fn put_in(&mut self, to: (&P, Queue), bytes: &[u8], reserved: usize) -> io::Result<bool>;

    /// Puts bytes back in front, and takes so many from the end away.
    fn put_back(&mut self, to: (&P, Queue), front: &[u8], cut: usize) -> io::Result<()>;
}
