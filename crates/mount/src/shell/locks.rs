//! Calls for locks. No thread waits for them: each is answered when the kernel's request is tried again.

use std::collections::HashMap;
use std::sync::PoisonError;

use surmise_remote::client::{Event, Request, Response, Token};
use surmise_remote::errno::Errno;
use surmise_remote::locks::{Attempt, How};
use surmise_remote::object::ObjectId;

use super::waiting::{Caller, LOOKS_EVERY, Own, Wants};
use super::{Shell, State};
use crate::signals;

/// The calls that were not answered at once.
#[derive(Default)]
pub(super) struct LockCalls {
    /// By the kernel's number of the request.
    calls: HashMap<u64, LockCall>,
    numbers: HashMap<Token, u64>,
}

struct LockCall {
    token: Token,
    thread: u32,
    /// Whether a signal ends it that does not end its program.
    waits: bool,
    is_interrupted: bool,
    answer: Option<Result<Response, Errno>>,
}

impl LockCalls {
    pub(super) fn has(&self, token: Token) -> bool {
        self.numbers.contains_key(&token)
    }

    pub(super) fn answer(&mut self, token: Token, answer: Result<Response, Errno>) {
        let number = self.numbers.remove(&token);
        if let Some(call) = number.and_then(|number| self.calls.get_mut(&number)) {
            call.answer = Some(answer);
        }
    }

    fn has_answer(&self) -> bool {
        self.calls.values().any(|call| call.answer.is_some())
    }

    fn unanswered(&self, which: impl Fn(&LockCall) -> bool) -> Vec<Token> {
        let calls = self.calls.values();
        let calls = calls.filter(|call| call.answer.is_none() && which(call));
        calls.map(|call| call.token).collect()
    }
}

impl Shell {
    /// Calls for a lock, or comes again for the answer; `None` while there is none.
    pub fn call_for_lock(
        &self,
        object: ObjectId,
        attempt: Attempt,
        caller: Caller,
    ) -> Option<Result<Response, Errno>> {
        let mut state = self.lock();
        if let Some(call) = state.lock_calls.calls.get_mut(&caller.request) {
            let answer = call.answer.take()?;
            state.lock_calls.calls.remove(&caller.request);
            return Some(answer);
        }
        let request = Request::Lock(object, attempt);
        let Own { token, answer, .. } = self.begin(&mut state, request, Wants::Answer);
        if answer.is_none() {
            let call = LockCall {
                token,
                thread: caller.thread,
                waits: attempt.how == How::Wait && !attempt.lifts(),
                is_interrupted: false,
                answer: None,
            };
            state.lock_calls.calls.insert(caller.request, call);
            state.lock_calls.numbers.insert(token, caller.request);
            self.locks_change.notify_all();
        }
        answer
    }

    /// Lifts locks of an open file that is gone. Nobody waits for that.
    pub fn lift(&self, object: ObjectId, attempt: Attempt) {
        let mut state = self.lock();
        self.begin(&mut state, Request::Lock(object, attempt), Wants::Answer);
    }

    /// A signal has come for the caller of this request, if that waits for a lock.
    pub(super) fn lock_interrupted(&self, state: &mut State, request: u64) -> bool {
        let Some(call) = state.lock_calls.calls.get_mut(&request) else {
            return false;
        };
        call.is_interrupted = true;
        if call.waits && call.answer.is_none() {
            let token = call.token;
            self.tell(state, Event::Interrupted(token), None);
        }
        true
    }

    /// No program of this machine waits for a lock any more.
    pub(super) fn interrupt_locks(&self, state: &mut State) {
        for token in state.lock_calls.unanswered(|_| true) {
            self.tell(state, Event::Interrupted(token), None);
        }
    }

    /// Whether an answer has come that a request waits for.
    pub fn has_lock_answer(&self) -> bool {
        self.lock().lock_calls.has_answer()
    }

    /// Waits until an answer has come; returns whether there will be more.
    pub fn await_lock_answers(&self) -> bool {
        let mut state = self.lock();
        while !state.has_left && !state.lock_calls.has_answer() {
            state = match state.lock_calls.calls.is_empty() {
                true => super::wait(&self.locks_change, state),
                false => {
                    let waited = self.locks_change.wait_timeout(state, LOOKS_EVERY);
                    let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
                    self.look_at_locks(&mut state);
                    state
                }
            };
        }
        !state.has_left
    }

    /// Ends the calls that a signal ends, also where the server is not heard of meanwhile, and all when the connection was away for
    /// too long.
    fn look_at_locks(&self, state: &mut State) {
        let ends =
            |call: &LockCall| call.is_interrupted && (call.waits || signals::will_end(call.thread));
        for token in state.lock_calls.unanswered(ends) {
            self.tell(state, Event::Interrupted(token), None);
        }
        if self.gives_up(state) {
            for token in state.lock_calls.unanswered(|_| true) {
                self.tell(state, Event::Withdrawn(token), None);
                state.lock_calls.answer(token, Err(Errno::IO));
            }
        }
    }
}
