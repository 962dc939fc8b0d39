//! Every answer, beside that of one copy at that moment.

use surmise_lower::Timestamp;
use surmise_remote::client::{self, Request, Response, Token};
use surmise_remote::errno::Errno;
use surmise_remote::object::ObjectId;
use surmise_remote::operation::Operation;

use crate::machine::Cached;
use crate::truth::Copy;
use crate::world::World;

impl World {
    pub fn answered(&mut self, machine: usize, token: Token, answer: Result<Response, Errno>) {
        let one = &mut self.machines[machine];
        let (request, at) = one.calls.remove(&token).expect("a call is answered once");
        let (session, before) = self.made_before.remove(&token).expect("it was called");
        let said = format!("machine {machine} at {}: {request:?}: {answer:?}", self.now);
        if self.is_traced {
            eprintln!("       {said}");
        }
        let called = self.called_at.remove(&token).expect("it was called");
        if let Request::Lock(object, attempt) = request {
            let answer = (called, answer, &said[..]);
            return self.lock_answered(machine, (token, session), (object, attempt), answer);
        }
        // A client that was given up does not know what became of such a call.
        if answer == Err(Errno::IO) {
            let one = &mut self.machines[machine];
            let losses = one.client.losses();
            match request {
                Request::Sync(before) => assert!(before < losses, "{said}"),
                Request::Change(client::Intent::Rename { .. }) => {
                    assert_ne!(one.session, session, "{said}");
                }
                _ => panic!("{said}"),
            }
            one.losses = losses;
            return;
        }
        if let Request::Change(intent) = &request {
            self.changed(machine, intent, at, &answer, &said);
        } else {
            let is_right = self.truth.is_answer(&request, &answer);
            assert!(
                is_right || self.may_be_stale(&request, &answer),
                "{said}, and really {:?}",
                self.truth.now.answer(&request)
            );
        }
        if let (Request::Sync(_), Ok(_)) = (&request, &answer) {
            self.synced(machine, session, before, &said);
        }
        self.remember(machine, &request, &answer, &said);
    }

    fn synced(&self, machine: usize, session: u64, before: usize, said: &str) {
        assert!(self.locking.all_told(machine), "{said}: locks were lost");
        let one = &self.machines[machine];
        if one.session == session {
            let durable = self.disk.durable_of(one.key);
            assert!(
                durable >= before,
                "{said}: {durable} of {before} are durable"
            );
        } else {
            assert_eq!(self.lost.get(&session), Some(&0), "{said}");
        }
    }

    /// The kernel remembers an answer, and a reader compares the bytes.
    fn remember(
        &mut self,
        machine: usize,
        request: &Request,
        answer: &Result<Response, Errno>,
        said: &str,
    ) {
        let one = &mut self.machines[machine];
        match (request, answer) {
            (Request::Lookup(parent, name), Ok(Response::Entry(entry))) => {
                let cached = Cached::Name(*parent, name.clone());
                one.kernel.insert(cached, answer.clone());
                if let Some((object, attributes)) = entry {
                    one.seen.insert(*object);
                    let attributes = Response::Object(*object, *attributes);
                    one.kernel
                        .insert(Cached::Attributes(*object), Ok(attributes));
                }
            }
            (Request::Attributes(object), Ok(_)) => {
                one.kernel
                    .insert(Cached::Attributes(*object), answer.clone());
            }
            (
                Request::Read {
                    object,
                    offset,
                    length,
                },
                Ok(Response::Stored(stored)),
            ) => {
                let store = one.store.get(object).map_or(&[][..], |bytes| bytes);
                let mut bytes = store.to_vec();
                bytes.resize(bytes.len().max(200), 0);
                let start = usize::try_from(*offset).expect("small");
                let bytes = bytes[start..start + *stored as usize].to_vec();
                assert!(
                    self.truth.has_bytes(*object, *offset, *length, &bytes),
                    "{said}: {bytes:?}, and really {:?}",
                    self.truth.now.bytes(*object, *offset, *length)
                );
                let cached = Cached::Bytes(*object, *offset, *length);
                one.kernel.insert(cached.clone(), answer.clone());
                one.cached_bytes.insert(cached, bytes);
            }
            _ => {}
        }
    }

    fn changed(
        &mut self,
        machine: usize,
        intent: &client::Intent,
        at: Timestamp,
        answer: &Result<Response, Errno>,
        said: &str,
    ) {
        let one = &self.machines[machine];
        let made = match answer {
            Ok(Response::Object(object, _)) => Some(*object),
            _ => None,
        };
        if let Err(errno) = answer {
            let outcome = |copy: &Copy| {
                let mut copy = copy.clone();
                let change = copy.resolve(intent, None)?;
                copy.apply(&Operation { at, change })
            };
            let request = Request::Change(intent.clone());
            assert!(
                self.truth.agrees(|copy| outcome(copy) == Err(*errno))
                    || self.may_be_stale(&request, answer),
                "{said}, and really {:?}",
                outcome(&self.truth.now)
            );
            return;
        }
        let session = one.session;
        let became = match answer {
            Ok(Response::Object(object, attributes)) => Some((*object, *attributes)),
            _ => None,
        };
        self.truth
            .change(session, intent, made, at, became)
            .expect(said);
        let done = self.truth.done_by(session);
        let change = &done.last().expect("it was done").change;
        let touched = change.touches();
        let one = &mut self.machines[machine];
        one.forget(|cached| touched.contains(&cached.object()));
        one.seen.extend(change.makes());
    }

    /// An object that has lost its name can be gone for a client that had let go of its leases.
    fn may_be_stale(&self, request: &Request, answer: &Result<Response, Errno>) -> bool {
        let nameless = |object: &ObjectId| {
            self.truth.agrees(|copy| {
                let known = copy.tree.get(*object);
                known.is_none_or(|known| known.attributes.links == 0)
            })
        };
        let objects = match request {
            Request::Lookup(object, _)
            | Request::Attributes(object)
            | Request::Names(object)
            | Request::Target(object)
            | Request::Extended(object)
            | Request::Read { object, .. } => vec![*object],
            Request::Change(intent) => objects_of(intent),
            Request::Space | Request::Sync(_) | Request::Lock(..) => Vec::new(),
        };
        *answer == Err(Errno::STALE) && objects.iter().any(nameless)
    }
}

fn objects_of(intent: &client::Intent) -> Vec<ObjectId> {
    use client::Intent;
    match intent {
        Intent::Create { place, .. } | Intent::Remove { place, .. } => vec![place.parent],
        Intent::Link { object, place } => vec![*object, place.parent],
        Intent::Rename { from, to, .. } => vec![from.parent, to.parent],
        Intent::SetAttributes { object, .. }
        | Intent::Resize { object, .. }
        | Intent::Write { object, .. }
        | Intent::SetExtended { object, .. } => vec![*object],
    }
}
