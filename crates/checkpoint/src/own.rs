//! What the kernel keeps of one thread, and a thread seldom changes: its signal stack and its name.
//!
//! Of its signal stack the kernel tells the thread alone. A vessel has that of the thread whose copy it is: where there is only
//! one, the vessel is asked when a rollback needs it. Of several threads each is asked for the checkpoint.

use std::io;

use rustix::process::Pid;
use surmise_linux::proc::{Entry, Task};
use surmise_sys::ptrace::call;

use crate::held::Hand;
use crate::scratch::Scratch;

/// Where a thread handles signals that are not for its own stack, as sigaltstack(2) tells and takes it.
pub(crate) type SignalStack = [u8; 24];

/// Of a [`SignalStack`], where its flags are, and the flag that the thread is there now. The stack pointer tells that, too.
const FLAGS: usize = 8;
const ON_STACK: u8 = 1;

/// The signal stack of a thread; `None` if the thread has no memory to be told in.
pub(crate) fn signal_stack(hand: &mut Hand<'_>) -> io::Result<Option<SignalStack>> {
    hand.ask(asking)
}

/// The call that tells it at a place.
pub(crate) fn asking(place: u64) -> (i64, [u64; 6]) {
    (call::SIGALTSTACK, [0, place, 0, 0, 0, 0])
}

/// Gives a thread its signal stack back. The thread may be on another one.
pub(crate) fn restore_signal_stack(
    hand: &mut Hand<'_>,
    scratch: &mut Scratch,
    mut stack: SignalStack,
) -> io::Result<()> {
    stack[FLAGS] &= !ON_STACK;
    let place = scratch.write(hand, &stack)?;
    hand.call_without_stack(call::SIGALTSTACK, [place, 0, 0, 0, 0, 0])?;
    Ok(())
}

/// Names that threads had.
#[derive(Debug, Default)]
pub(crate) struct Names(Vec<(Pid, Vec<u8>)>);

impl Names {
    /// A thread is about to change its name.
    pub(crate) fn note(&mut self, process: Pid, thread: Pid) {
        if self.0.iter().any(|(noted, _)| *noted == thread) {
            return;
        }
        // Of one that has ended there is nothing to bring back.
        if let Ok(mut name) = Entry::from(Task { process, thread }).read("comm") {
            // A newline is after it.
            name.pop();
            self.0.push((thread, name));
        }
    }

    /// The name that a thread had, if it has changed since.
    pub(crate) fn take(&mut self, thread: Pid) -> Option<Vec<u8>> {
        let place = self.0.iter().position(|(noted, _)| *noted == thread)?;
        Some(self.0.swap_remove(place).1)
    }
}

/// Gives a thread its name back.
pub(crate) fn restore_name(
    hand: &mut Hand<'_>,
    scratch: &mut Scratch,
    mut name: Vec<u8>,
) -> io::Result<()> {
    name.push(0);
    let place = scratch.write(hand, &name)?;
    hand.call(call::PRCTL, [call::SET_NAME, place, 0, 0, 0, 0])?;
    Ok(())
}
