//! Calls that wait for the server.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use surmise_remote::client::{Request, Response, Token};
use surmise_remote::errno::Errno;
use surmise_remote::object::ObjectId;

use crate::signals;

/// How often it is looked whether a caller that got a signal is to end, or whether the connection was away for too long.
pub(super) const LOOKS_EVERY: Duration = Duration::from_millis(200);

/// Whose call it is: the kernel's number of the request, and the thread that waits.
#[derive(Debug, Clone, Copy, Default)]
pub struct Caller {
    /// The number.
    pub request: u64,
    /// The thread; 0 where the kernel asks by itself.
    pub thread: u32,
}

/// What a call wants besides the answer, at the moment of the answer.
pub(super) enum Wants<'b> {
    Answer,
    /// The kernel is told of the object in the answer.
    Reference,
    /// The bytes that were read.
    Bytes(&'b mut [u8]),
}

/// The call whose event is being carried out.
pub(super) struct Own<'b> {
    pub(super) token: Token,
    pub(super) wants: Wants<'b>,
    /// Where it reads.
    pub(super) at: Option<(ObjectId, u64)>,
    pub(super) answer: Option<Result<Response, Errno>>,
}

impl<'b> Own<'b> {
    pub(super) fn new(token: Token, request: &Request, wants: Wants<'b>) -> Self {
        let at = match request {
            Request::Read { object, offset, .. } => Some((*object, *offset)),
            _ => None,
        };
        Self {
            token,
            wants,
            at,
            answer: None,
        }
    }
}

/// An answer, and the bytes that were read.
pub(super) struct Outcome {
    pub(super) response: Response,
    pub(super) data: Vec<u8>,
}

/// A call that was not answered at once.
pub(super) struct Waiting {
    caller: Caller,
    pub(super) is_for_entry: bool,
    pub(super) at: Option<(ObjectId, u64)>,
    answer: Mutex<Option<Result<Outcome, Errno>>>,
    answered: Condvar,
    is_interrupted: AtomicBool,
}

impl Waiting {
    pub(super) fn new(own: &Own<'_>, caller: Caller) -> Self {
        Self {
            caller,
            is_for_entry: matches!(own.wants, Wants::Reference),
            at: own.at,
            answer: Mutex::new(None),
            answered: Condvar::new(),
            is_interrupted: AtomicBool::new(false),
        }
    }

    pub(super) fn answer(&self, answer: Result<Outcome, Errno>) {
        *self.answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
        self.answered.notify_one();
    }

    /// Waits for the answer; `None` when it is time to look whether the call is to go on waiting.
    pub(super) fn wait(&self) -> Option<Result<Outcome, Errno>> {
        let mut answer = self.answer.lock().unwrap_or_else(PoisonError::into_inner);
        if answer.is_none() {
            let waited = self.answered.wait_timeout(answer, LOOKS_EVERY);
            answer = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        answer.take()
    }

    /// A signal has come for the caller of a request; the kernel says so once. Whether this is that caller.
    pub(super) fn interrupted(&self, request: u64) -> bool {
        let is_it = self.caller.request == request;
        if is_it {
            self.is_interrupted.store(true, Ordering::Relaxed);
        }
        is_it
    }

    /// Whether the caller is to end by a signal.
    pub(super) fn callers_end(&self) -> bool {
        self.is_interrupted.load(Ordering::Relaxed) && signals::will_end(self.caller.thread)
    }
}
