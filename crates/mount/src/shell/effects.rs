//! What the client wants done.

use std::io;

use surmise_remote::client::{Effect, Event, Response};
use surmise_remote::errno::Errno;
use surmise_remote::frame::encode;
use surmise_remote::object::ObjectId;
use surmise_remote::piece::Piece;

use super::losing::Reason;
use super::waiting::{Outcome, Own, Wants};
use super::{Shell, State, is_final};
use crate::clock;
use crate::kernel::Forget;

impl Shell {
    /// Tells the client what happened, and does what follows. `own` is the call that is then answered, if it is.
    pub(super) fn tell(&self, state: &mut State, event: Event, mut own: Option<&mut Own<'_>>) {
        let now = clock::now();
        let mut effects = std::mem::take(&mut state.effects);
        state.client.event(now, event, &mut effects);
        loop {
            let mut events = Vec::new();
            for effect in effects.drain(..) {
                self.carry_out(state, effect, own.as_deref_mut(), &mut events);
            }
            let evicted = std::iter::from_fn(|| state.store.evict());
            events.extend(evicted.map(Event::Evicted));
            if events.is_empty() {
                break;
            }
            for event in events {
                state.client.event(now, event, &mut effects);
            }
        }
        state.effects = effects;
        let before = std::mem::replace(&mut state.wakes_at, state.client.wakes_at());
        if state
            .wakes_at
            .is_some_and(|at| before.is_none_or(|before| at < before))
        {
            self.earlier.notify_one();
        }
    }

    fn has_left(&self, state: &mut State) {
        state.has_left = true;
        self.turned.notify_all();
        self.to_send.notify_all();
        self.earlier.notify_all();
        self.locks_change.notify_all();
    }

    /// What comes of it at once is among the `events`.
    fn carry_out(
        &self,
        state: &mut State,
        effect: Effect,
        own: Option<&mut Own<'_>>,
        events: &mut Vec<Event>,
    ) {
        let mut keep = |object, kept: io::Result<()>| {
            if kept.is_err() {
                events.push(Event::Evicted(object));
            }
        };
        match effect {
            Effect::Send(message) => {
                let sent = encode(&message, &mut state.outgoing);
                // No message of a client is longer: its groups are cut before, and reads ask for less.
                debug_assert!(sent.is_ok(), "{sent:?}");
                state.link.asks(&message);
                self.to_send.notify_all();
            }
            Effect::Answer(token, answer) => match own {
                Some(own) if own.token == token => {
                    own.answer = Some(state.finish(own, answer));
                }
                _ if state.lock_calls.has(token) => {
                    state.lock_calls.answer(token, answer);
                    self.locks_change.notify_all();
                }
                _ => state.answer_waiting(token, answer),
            },
            Effect::Store {
                object,
                offset,
                data,
            } => keep(object, state.store.write(object, offset, &data)),
            Effect::Resize(object, size) => keep(object, state.store.resize(object, size)),
            Effect::Discard(object) => state.store.discard(object),
            Effect::Keep {
                object,
                offset,
                length,
            } => state.keep(object, offset, length),
            Effect::Restore(request, piece) => {
                let bytes = state.restore(&piece);
                events.push(Event::Restored(request, bytes));
            }
            // The receiver lives as long as the mount.
            Effect::Invalidate(number, object) => {
                let _ = self.kernel.send(Forget::Object(number, object));
            }
            Effect::Suspend => {
                let root = state.client.root();
                let known = state.references.keys().copied().chain(root).collect();
                let _ = self.kernel.send(Forget::All(known));
            }
            Effect::Left => self.has_left(state),
            Effect::Reconnect => state.break_connection(),
            Effect::Parted(reason) => {
                state.parted = Some(reason);
                // Nothing more comes, whether the other side closes it or not.
                state.break_connection();
                if is_final(reason) {
                    self.turned.notify_all();
                }
            }
            Effect::Lost(changes, why) => state.lost.changes(changes, Reason::Lost(why)),
            Effect::LocksLost(count) => state.lost.locks(count),
        }
    }
}

impl State {
    /// Has the cache keep what the store has, if there is a cache that has the time.
    fn keep(&mut self, object: ObjectId, offset: u64, length: u32) {
        let Some(cache) = self.cache.as_ref().filter(|cache| cache.has_room(length)) else {
            return;
        };
        let mut bytes = vec![0; length as usize];
        // What could not be stored is read again from the server, and is then kept.
        if self.store.read(object, offset, &mut bytes).is_ok() {
            cache.keep(object, offset, bytes);
        }
    }

    fn restore(&mut self, piece: &Piece) -> Option<Vec<u8>> {
        let bytes = self.cache.as_ref()?.restore(piece)?;
        self.sources.reused_bytes += bytes.len() as u64;
        Some(bytes)
    }

    fn finish(
        &mut self,
        own: &mut Own<'_>,
        answer: Result<Response, Errno>,
    ) -> Result<Response, Errno> {
        let response = answer?;
        match (&mut own.wants, &response, own.at) {
            (Wants::Reference, response, _) => self.refer(response),
            (Wants::Bytes(buffer), Response::Stored(length), Some((object, offset))) => {
                let buffer = buffer.get_mut(..*length as usize).ok_or(Errno::IO)?;
                let read = self.store.read(object, offset, buffer);
                read.map_err(|_| Errno::IO)?;
            }
            _ => {}
        }
        Ok(response)
    }

    fn answer_waiting(
        &mut self,
        token: surmise_remote::client::Token,
        answer: Result<Response, Errno>,
    ) {
        let Some(waiting) = self.waiting.remove(&token) else {
            return;
        };
        let outcome = answer.and_then(|response| {
            let mut data = Vec::new();
            if waiting.is_for_entry {
                self.refer(&response);
            }
            if let (Response::Stored(length), Some((object, offset))) = (&response, waiting.at) {
                data.resize(*length as usize, 0);
                let read = self.store.read(object, offset, &mut data);
                read.map_err(|_| Errno::IO)?;
            }
            Ok(Outcome { response, data })
        });
        waiting.answer(outcome);
    }

    pub(super) fn break_connection(&mut self) {
        if let Some(breaker) = &mut self.link.breaker {
            breaker();
        }
    }

    /// The kernel is told of the object in this response.
    fn refer(&mut self, response: &Response) {
        if let Response::Entry(Some((object, _))) | Response::Object(object, _) = response {
            *self.references.entry(*object).or_default() += 1;
        }
    }
}
