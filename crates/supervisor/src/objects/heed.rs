//! Calls that a signal interrupts, and the signal that tells of the end of a child.

use surmise_syscalls::Syscall;

use crate::call::Call;

/// What a call makes of the signal that tells of the end of a child, were it to come now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heed {
    /// It sleeps on.
    None,
    /// Its thread takes the signal, and the call fails with `EINTR`.
    Interrupted,
    /// Its thread takes the signal only within the call.
    Within,
    /// Such a signal waits already, and the call takes that at once.
    Waiting,
}

/// Where a call has the mask of signals that its thread blocks meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mask {
    /// It blocks those that its thread blocks anyway.
    Own,
    /// At an address; 0 is the thread's own.
    At(u64),
    /// At an address that is at this address.
    Behind(u64),
}

/// The mask of a call that any signal with a handler ends; `None` of other calls.
pub(crate) fn mask_of(call: &Call) -> Option<Mask> {
    let [first, _, _, fourth, fifth, sixth] = *call.arguments();
    // A queue that is only looked at is not waited for, whatever signal has come.
    let waits = fourth as i32 != 0;
    Some(match call.name() {
        Syscall::Poll | Syscall::Select | Syscall::Pause => Mask::Own,
        Syscall::Ppoll => Mask::At(fourth),
        Syscall::Pselect6 => Mask::Behind(sixth),
        Syscall::RtSigsuspend => Mask::At(first),
        Syscall::EpollWait if waits => Mask::Own,
        Syscall::EpollPwait if waits => Mask::At(fifth),
        _ => return None,
    })
}
