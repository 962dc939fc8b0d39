//! What the supervisor's listener does for a thread that makes calls for the supervisor.

use std::io;
use std::os::fd::{BorrowedFd, RawFd};

use rustix::process::Pid;
use surmise_sys::ptrace::Registers;

/// A call that notified the supervisor and waits for its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingCall {
    /// Who makes it.
    pub thread: Pid,
    /// The kernel's number for the notification (seccomp_unotify(2)).
    pub id: u64,
}

/// The supervisor's listener, as far as checkpoint and rollback need it.
///
/// The filter of a supervised process answers most calls by a notification, also those that a stopped
/// thread makes for the supervisor: the supervisor then meets itself. And descriptors can be added to
/// a process only while one of its calls waits for an answer.
pub trait Gate {
    /// Whether the filter answers a call by a notification.
    fn notifies(&self, number: i64, arguments: &[u64; 6]) -> bool;

    /// The number of a call for which it does, whatever its arguments.
    fn notifying_call(&self) -> i64;

    /// A thread has stopped. Returns whether the call that it comes from may have begun: one that still waits to be received has
    /// not. Whatever call it is in later, be it the same made again, is another one.
    fn has_stopped(&mut self, thread: Pid, registers: &Registers) -> bool {
        let _ = (thread, registers);
        true
    }

    /// Waits for a short while until a thread that was let make a call that notifies is in it. `None`: it
    /// may come later, or never.
    ///
    /// # Errors
    /// As the listener's.
    fn await_call(&mut self, thread: Pid) -> io::Result<Option<PendingCall>>;

    /// Lets the caller's process have a descriptor, in place of any that it has at that number.
    ///
    /// # Errors
    /// As the listener's; `EMFILE` by the process' own limit.
    fn add_descriptor(
        &mut self,
        call: PendingCall,
        descriptor: BorrowedFd<'_>,
        at: RawFd,
        close_on_exec: bool,
    ) -> io::Result<()>;

    /// Answers with a result, without the call having happened. False when it waits no more.
    ///
    /// # Errors
    /// As the listener's.
    fn answer(&mut self, call: PendingCall, result: i64) -> io::Result<bool>;

    /// Has the call happen. False when it waits no more.
    ///
    /// # Errors
    /// As the listener's.
    fn let_pass(&mut self, call: PendingCall) -> io::Result<bool>;
}
