//! Signals that processes take though that may be undone.

use std::io;

use rustix::process::Signal;
use surmise_checkpoint::{Change, PendingCall};

use crate::call::Call;

/// Signals that are taken before all is certain that their process depends on. `P` is what it takes to stop a process, `M` an image,
/// `S` a thread that has stopped to take a signal, `I` all that is told of a signal, and `T` how a timer was set at a moment.
pub(crate) trait Signals<P, M, S, I, T> {
    /// What is told of the signal that a thread has stopped to take, if it may be taken now and be sent again later.
    fn taken(&self, signal: &S) -> io::Result<Option<I>>;

    /// The signal that a thread has stopped to take, if that ends its process and was certainly sent.
    fn deadly(&self, signal: &S) -> io::Result<Option<Signal>>;

    /// Whether a process might not end by a signal at this image: it blocked the signal then, or took it in another way.
    fn might_survive(&self, image: &M, signal: Signal) -> bool;

    /// If a signal waits that the thread of a call would take now, were it not for the call, interrupts the call. `sleeps`: whether the
    /// call would have slept in the kernel. False if it waits on.
    fn interrupt(&mut self, call: &Call, sleeps: bool) -> io::Result<bool>;

    /// Whether the timer of its process has sent a signal.
    fn is_of_timer(&self, signal: &I) -> bool;

    /// What else the kernel may change when it has a process take a signal (SA_RESETHAND of sigaction(2), SS_AUTODISARM of
    /// sigaltstack(2)).
    fn changes(&self, signal: &I) -> [Change; 2];

    /// Sends signals again to a process that stands still.
    fn send_again(&mut self, process: &mut P, signals: &[I]) -> io::Result<()>;

    /// Has the thread make the call that it waits in, which sets the timer of its process. Returns what the timer was before;
    /// `None` if the call has not happened. `others`: calls of the process' other threads that wait.
    fn set_timer(
        &mut self,
        process: &mut P,
        call: &Call,
        others: &[PendingCall],
    ) -> io::Result<Option<T>>;

    /// Gives a process that stands still its timer back. What the timer has sent that it had since was never sent.
    fn restore_timer(&mut self, process: &mut P, before: &T) -> io::Result<()>;
}
