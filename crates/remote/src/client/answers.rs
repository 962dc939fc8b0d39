//! What the server says: leases, data, and what cannot be had.

use std::ops::Range;

use super::fetches::Fetching;
use super::questions::Asked;
use super::{Client, Effect, Lost, Parked, Request, Response, Token};
use crate::errno::Errno;
use crate::frame::{Lease, Reason, State, ToClient};
use crate::lease::Mode;
use crate::lost::LostChanges;
use crate::object::{Body, Object, ObjectId};
use crate::server::Moment;

impl Client {
    pub(super) fn receive(&mut self, message: ToClient, effects: &mut Vec<Effect>) {
        if !self.connection.takes(&message) {
            return;
        }
        self.connection.came(self.now);
        match message {
            ToClient::Welcome(welcome) => self.welcomed(welcome, effects),
            ToClient::Farewell(Reason::Left) if self.leaves => self.left(effects),
            ToClient::Farewell(reason) => {
                self.cut();
                effects.push(Effect::Parted(reason));
            }
            ToClient::Names { directory, names } => {
                self.coming.entry(directory).or_default().extend(names);
            }
            ToClient::Leases(leases) => {
                for lease in leases {
                    self.take_lease(lease, effects);
                }
            }
            ToClient::Granted { request } => {
                // First, since a recall may follow at once.
                if let Some(Asked { token, listed, .. }) = self.asked.remove(&request) {
                    if let Some(listed) = listed {
                        self.ahead.walks.begin(listed);
                    }
                    if let Some(token) = token {
                        self.go_on(token, effects);
                    }
                }
                self.go_on_all(effects);
            }
            ToClient::Explored { request, has_more } => {
                self.ahead.explored(request, has_more, self.now);
                self.go_on_all(effects);
            }
            ToClient::Failed {
                request,
                object,
                errno,
            } => self.failed(request, object, errno, effects),
            ToClient::Data { request, data } => self.take_data(request, data, effects),
            ToClient::Same { request } => self.is_same(request, effects),
            ToClient::Space { request, space } => {
                self.take_space(request, Ok(Response::Space(space)), effects);
            }
            ToClient::Decided { upto } => self.decided(upto, effects),
            ToClient::Refused {
                sequence, errno, ..
            } => self.refused(sequence, errno, effects),
            ToClient::Recall { recall, object, to } => {
                self.recalled.insert(object, (recall, to));
                self.give_back(effects);
            }
            ToClient::Locked { request, verdict } => self.locked(request, verdict, effects),
            ToClient::RecallLocks(object) => self.give_locks(object, effects),
            // The client may already have forgotten objects that it learned of over an earlier connection.
            ToClient::Nameless(objects) => self.candidates.extend(objects),
            ToClient::Unmade => self.lose(LostChanges::default(), Lost::Overtaken, effects),
            ToClient::Pong(number) => {
                self.connection.answered(Moment(number));
                self.go_on_all(effects);
            }
        }
    }

    fn take_lease(&mut self, lease: Lease, effects: &mut Vec<Effect>) {
        let Lease {
            object,
            mode,
            names,
            state,
        } = lease;
        let names_came = self.coming.remove(&object);
        let held = self.leases.get(&object).copied();
        // What it holds a lease on, the client knows better than the server did when it sent this.
        if let Some(state) = state.filter(|_| held < Some(Mode::Read)) {
            self.learn(object, state, effects);
        }
        if let (true, Some(came)) = (names, names_came)
            && self.tree.names(object).is_err()
        {
            // Of what is no directory none came.
            let _ = self.tree.learn_names(object, came);
        }
        if self.tree.get(object).is_some() {
            self.leases.insert(object, mode.max(held.unwrap_or(mode)));
        }
    }

    fn learn(&mut self, object: ObjectId, state: State, effects: &mut Vec<Effect>) {
        let before = self.tree.forget(object);
        let is_kept = |before: &Object| before.versions.content == state.versions.content;
        let kept = match before {
            Some(before) if is_kept(&before) => match before.body {
                Body::Names(names) => names,
                _ => None,
            },
            Some(_) => {
                self.stored.remove(&object);
                effects.push(Effect::Discard(object));
                None
            }
            None => None,
        };
        let mut new = Object::new(state.attributes, state.versions);
        new.extended = state.extended;
        if let (Body::Target(slot), Some(target)) = (&mut new.body, state.target) {
            *slot = target;
        }
        if let Body::Names(slot) = &mut new.body {
            *slot = kept;
        }
        self.tree.learn(object, new);
    }

    fn take_data(&mut self, request: u64, data: Vec<u8>, effects: &mut Vec<Effect>) {
        self.ahead.came(request, self.now);
        if let Some(fetching) = self.fetching.get(request) {
            self.kept.was_other(fetching.kept);
        }
        if let Some((object, bytes)) = self.store_data(request, data, effects) {
            self.keep(object, bytes, effects);
        }
        self.go_on_all(effects);
    }

    /// Has bytes stored, if they are still those of the file.
    pub(super) fn store_data(
        &mut self,
        request: u64,
        data: Vec<u8>,
        effects: &mut Vec<Effect>,
    ) -> Option<(ObjectId, Range<u64>)> {
        // If it is gone, the lease went meanwhile. The calls that need the bytes fetch them again.
        let fetching = self.fetching.remove(request)?;
        let Fetching {
            object,
            offset,
            length,
            version,
            ..
        } = fetching;
        let still_so = self
            .tree
            .get(object)
            .is_some_and(|known| known.versions.content == version);
        let is_leased = self.leases.get(&object) >= Some(&Mode::Read);
        if still_so && is_leased && (data.is_empty() || data.len() > length as usize) {
            // It asked for bytes that are in the file.
            self.fail_readers(object, Errno::IO, effects);
        } else if still_so && is_leased {
            let bytes = offset..offset + data.len() as u64;
            let stored = self.stored.entry(object).or_default();
            stored.add(bytes.start, bytes.end);
            effects.push(Effect::Store {
                object,
                offset,
                data,
            });
            return Some((object, bytes));
        }
        None
    }

    /// An object cannot be had: the calls that need it fail.
    fn failed(&mut self, request: u64, object: ObjectId, errno: Errno, effects: &mut Vec<Effect>) {
        if let Some(Asked {
            token: Some(token), ..
        }) = self.asked.remove(&request)
            && let Some(parked) = self.parked.get_mut(&token)
        {
            if parked.request.names(object) {
                self.parked.remove(&token);
                effects.push(Effect::Answer(token, Err(errno)));
            } else {
                // The name that led there may lead elsewhere by now. If it does not, the call fails.
                parked.failed = Some((object, errno));
                self.go_on(token, effects);
            }
        }
        self.take_space(request, Err(errno), effects);
        self.ahead.came(request, self.now);
        if self.fetching.remove(request).is_some() {
            self.fail_readers(object, errno, effects);
        }
        self.go_on_all(effects);
    }

    /// The server has told of its space, if this question was for that.
    fn take_space(
        &mut self,
        request: u64,
        answer: Result<Response, Errno>,
        effects: &mut Vec<Effect>,
    ) {
        if let Some(token) = self.spaces.remove(&request)
            && self.parked.remove(&token).is_some()
        {
            effects.push(Effect::Answer(token, answer));
        }
    }

    fn fail_readers(&mut self, object: ObjectId, errno: Errno, effects: &mut Vec<Effect>) {
        let reads = |(token, parked): (&Token, &Parked)| match parked.request {
            Request::Read { object: read, .. } if read == object => Some(*token),
            _ => None,
        };
        let readers: Vec<_> = self.parked.iter().filter_map(reads).collect();
        for token in readers {
            self.parked.remove(&token);
            effects.push(Effect::Answer(token, Err(errno)));
        }
    }
}
