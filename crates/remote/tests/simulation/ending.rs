//! The end: all is compared, and then the clients leave.

use surmise_remote::client::{self, Request};
use surmise_remote::frame::ClientKey;
use surmise_remote::operation::Change;

use crate::machine::Machine;
use crate::world::World;

impl World {
    /// Whether all calls are answered, and all that was done is in the directory.
    pub fn is_settled(&self) -> bool {
        let is_done = |(machine, left): (&Machine, &u32)| {
            *left == 0 && machine.calls.is_empty() && machine.client.undecided() == 0
        };
        self.machines.iter().zip(&self.left).all(is_done)
            && self.server.is_some()
            && self.disk.is_settled()
    }

    pub fn open_calls(&self) -> Vec<(usize, Vec<Request>)> {
        let open = |machine: &Machine| machine.calls.values().map(|call| call.0.clone()).collect();
        self.machines.iter().map(open).enumerate().collect()
    }

    pub fn end(&mut self) {
        self.is_ending = true;
        // Of clients that have died, the changes that they had not sent were never made.
        let dead = |key: &&ClientKey| self.machines.iter().all(|machine| machine.key != **key);
        let dead: Vec<_> = self.sessions.keys().filter(dead).copied().collect();
        for key in dead {
            self.settle(key);
        }
        self.compare();
        for machine in 0..self.machines.len() {
            self.tell_client(machine, client::Event::Leave);
        }
    }

    pub fn left(&mut self, machine: usize) {
        let one = &mut self.machines[machine];
        assert!(self.is_ending, "machine {machine} was to stay");
        assert!(!one.has_left, "machine {machine} leaves once");
        one.has_left = true;
        assert!(self.disk.has_made_all_of(one.key), "machine {machine}");
    }

    pub fn all_have_left(&self) -> bool {
        self.machines.iter().all(|machine| machine.has_left)
    }

    /// What the directory has at the end is what was done.
    fn compare(&self) {
        for (key, session) in &self.sessions {
            let made = self.disk.made_by(*key);
            let done = self.truth.done_by(*session);
            assert_eq!(made, done, "client {session}");
        }
        let (ours, truth) = (
            self.disk.directory.picture(self.root),
            self.truth.now.picture(self.root),
        );
        assert_eq!(ours, truth);
    }

    /// A server has forgotten a client for good: what it had not sent was never done.
    pub fn settle(&mut self, key: ClientKey) {
        let session = self.sessions[&key];
        let made = self.disk.made_by(key);
        let lost = self.truth.keep(session, made.len());
        self.lost.insert(session, lost);
        let done = self.truth.done_by(session);
        // It was performed, and the client never heard of that.
        for operation in made[done.len()..].iter().cloned() {
            let said = format!("{operation:?}");
            assert!(matches!(operation.change, Change::Rename { .. }), "{said}");
            self.truth.done(session, operation).expect(&said);
        }
        if self.machines.iter().all(|machine| machine.key != key) {
            self.told.lost += lost;
        }
        let fresh = self.next_session;
        self.next_session += 1;
        self.sessions.insert(key, fresh);
        self.disk.begin_anew(key);
        for machine in &mut self.machines {
            if machine.key == key {
                machine.session = fresh;
            }
        }
    }
}
