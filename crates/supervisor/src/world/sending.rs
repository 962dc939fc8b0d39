//! Signals that speculating processes send.

use std::io;

use surmise_checkpoint::{Change, Interrupted, PendingCall};

use crate::call::Call;
use crate::meeting::Sending;

/// Who sends a signal: a process, its call that waits, and the calls of its other threads that wait.
pub(crate) type Sender<'a, P> = (&'a mut P, &'a Call, &'a [PendingCall]);

/// Who is to take it: a process, the calls of its threads that wait, and what becomes of such a call.
#[derive(Debug)]
pub(crate) struct Receiver<'a, P> {
    pub(crate) process: &'a mut P,
    pub(crate) calls: &'a [PendingCall],
    pub(crate) interrupted: Interrupted,
    /// Whether an image is to be taken of it before.
    pub(crate) is_imaged: bool,
}

/// What came of a signal that was to be sent.
#[derive(Debug)]
pub(crate) enum Delivered<I> {
    /// The receiver takes it, or has no notice of it, and the sender was told so. With the image of the receiver, if one was wanted.
    Taken(Option<I>),
    /// The receiver takes none. The sender was told so, or it still waits for its answer, or makes its call again.
    Not,
}

/// What it takes to send signals. `P` is what it takes to stop a process, `I` an image.
pub(crate) trait Sends<P, I> {
    /// Has a process take a signal before it executes anything more, and answers the call of the other that sends it.
    fn send(
        &mut self,
        sender: Sender<'_, P>,
        receiver: Receiver<'_, P>,
        sending: Sending,
    ) -> io::Result<Delivered<I>>;

    /// Has a process take a signal that its own thread sends by its call, and answers that call. False if that was not done.
    /// `others`: calls of the process' other threads that wait.
    fn send_to_itself(
        &mut self,
        process: &mut P,
        call: &Call,
        others: &[PendingCall],
        number: u32,
    ) -> io::Result<bool>;

    /// What changes in a process that takes a signal of this number, for its images to know before.
    fn changes_by(&self, number: u32) -> [Change; 2];

    /// Whether a call that waits sleeps until a signal comes, and would have its thread take one of this number.
    fn is_interrupted_by(&self, call: &Call, number: u32) -> io::Result<bool>;
}
