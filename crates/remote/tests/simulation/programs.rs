//! What programs call, and what their kernel answers by itself.

use std::collections::BTreeSet;

use surmise_lower::Timestamp;
use surmise_remote::client::{self, Request, Response, Token};
use surmise_remote::errno::Errno;

use crate::machine::Cached;
use crate::what::What;
use crate::world::{CALLS_AT_ONCE, World};

impl World {
    pub fn program(&mut self, machine: usize) {
        if self.left[machine] > 0 {
            let after = self.random.u64(0..60);
            self.at(after, What::Program(machine));
        }
        if self.machines[machine].calls.len() >= CALLS_AT_ONCE || self.left[machine] == 0 {
            return;
        }
        if self.random.u8(0..3) == 0 {
            return self.ask_kernel(machine);
        }
        if self.random.u8(0..10) == 0 {
            self.kernel_lets_go(machine);
        }
        if self.random.u8(0..6) == 0 {
            self.store_makes_room(machine);
        }
        self.left[machine] -= 1;
        let request = match self.left[machine] {
            // So that all that was done is compared.
            0 => Request::Sync(self.machines[machine].losses),
            _ if self.random.u8(0..3) == 0 => {
                let Some(lock) = self.next_lock(machine) else {
                    return;
                };
                lock
            }
            _ => self.machines[machine].next_request(&mut self.random),
        };
        self.call(machine, request);
    }

    pub fn call(&mut self, machine: usize, request: Request) {
        self.told.calls += 1;
        self.next_token += 1;
        let token = Token(self.next_token);
        let at = Timestamp {
            seconds: i64::try_from(self.next_token).expect("few"),
            nanoseconds: 0,
        };
        let session = self.machines[machine].session;
        let count = self.truth.count(session);
        self.made_before.insert(token, (session, count));
        self.called_at.insert(token, self.now);
        self.lock_called(machine, token, &request);
        self.machines[machine]
            .calls
            .insert(token, (request.clone(), at));
        if self.is_traced {
            eprintln!("       machine {machine} calls {token:?} {request:?}");
        }
        self.tell_client(machine, client::Event::Called(token, request, at));
    }

    /// A call that the kernel answers from what it remembers.
    fn ask_kernel(&mut self, machine: usize) {
        let known: Vec<_> = self.machines[machine].kernel.keys().cloned().collect();
        let Some(cached) = self.random.choice(known) else {
            return;
        };
        let said = self.machines[machine].kernel[&cached].clone();
        let is_right = match &cached {
            Cached::Name(parent, name) => {
                let said = match &said {
                    Ok(Response::Entry(entry)) => entry.map(|(object, _)| object),
                    other => panic!("{other:?}"),
                };
                self.truth.agrees(|copy| {
                    let led = copy.tree.names(*parent).ok();
                    led.and_then(|names| names.get(name).copied()) == said
                })
            }
            Cached::Attributes(object) => {
                let request = Request::Attributes(*object);
                self.truth.agrees(|copy| copy.answer(&request) == said)
            }
            Cached::Bytes(object, offset, length) => {
                let bytes = &self.machines[machine].cached_bytes[&cached];
                self.truth.has_bytes(*object, *offset, *length, bytes)
            }
        };
        assert!(
            is_right,
            "machine {machine} at {}: {cached:?}: {said:?}",
            self.now
        );
        self.told.cached += 1;
    }

    fn store_makes_room(&mut self, machine: usize) {
        let stored: BTreeSet<_> = self.machines[machine].store.keys().copied().collect();
        if let Some(object) = self.random.choice(stored) {
            self.machines[machine].store.remove(&object);
            self.tell_client(machine, client::Event::Evicted(object));
        }
    }

    /// The kernel forgets an object that nobody uses.
    fn kernel_lets_go(&mut self, machine: usize) {
        let one = &mut self.machines[machine];
        let unused: Vec<_> = one
            .seen
            .iter()
            .copied()
            .filter(|id| *id != self.root && !self.locking.holds(one.session, *id))
            .collect();
        if !one.calls.is_empty() {
            return;
        }
        if let Some(object) = self.random.choice(unused) {
            one.seen.remove(&object);
            one.forget(|cached| cached.object() == object);
            let leads = |cached: &Cached, said: &Result<Response, Errno>| matches!((cached, said), (Cached::Name(..), Ok(Response::Entry(Some((led, _))))) if *led == object);
            one.kernel.retain(|cached, said| !leads(cached, said));
            self.tell_client(machine, client::Event::Forgotten(object));
        }
    }
}
