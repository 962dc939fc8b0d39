//! What the server and the clients want done.

use surmise_remote::client::{self, Lost};
use surmise_remote::server::{self, Link, Moment};

use crate::what::{OnServer, What};
use crate::wire::over_the_wire;
use crate::world::World;

impl World {
    /// Messages arrive in the order in which they were sent.
    fn arrives(&mut self, link: Link, to_server: bool) -> u64 {
        let earliest = self.now + self.random.u64(1..15);
        let arrival = self.arrivals.entry((link, to_server)).or_default();
        *arrival = earliest.max(*arrival);
        *arrival - self.now
    }

    pub fn tell_server(&mut self, event: server::Event) {
        let Some(server) = &mut self.server else {
            return;
        };
        let mut effects = Vec::new();
        server.event(Moment(self.now), event, &mut effects);
        let wakes_at = server.wakes_at();
        let start = self.start;
        for effect in effects {
            match effect {
                server::Effect::Send(link, message) => {
                    let message = over_the_wire(&message);
                    let after = self.arrives(link, false);
                    self.at(after, What::ToClient(link, message));
                }
                server::Effect::Close(link) => {
                    self.server_links.remove(&link);
                    // Behind all that was sent.
                    let after = self.arrives(link, false);
                    self.at(after, What::ClientSees(link));
                }
                server::Effect::Load(object, urgency) => {
                    let load = What::OnServer(start, OnServer::Load(object));
                    self.by_urgency(urgency, load);
                }
                // It is answered sooner or later anyhow.
                server::Effect::Hurry(_) => {}
                server::Effect::Read {
                    client,
                    request,
                    object,
                    offset,
                    length,
                    urgency,
                    kept,
                } => {
                    let read = OnServer::Read(client, request, object, (offset, length), kept);
                    self.by_urgency(urgency, What::OnServer(start, read));
                }
                server::Effect::Space { client, request } => {
                    self.soon(What::OnServer(start, OnServer::Space(client, request)));
                }
                server::Effect::Record(number, record) => {
                    self.disk.write(number, record);
                    let after = self.slowly();
                    self.at(after, What::OnServer(start, OnServer::Flush));
                }
                server::Effect::Drop(_) => {}
            }
        }
        if let Some(at) = wakes_at {
            let after = at.0.saturating_sub(self.now).max(1);
            self.at(after, What::OnServer(start, OnServer::Tick));
        }
        self.look_whether_seen();
    }

    pub fn tell_client(&mut self, machine: usize, event: client::Event) {
        let mut effects = Vec::new();
        let client = &mut self.machines[machine].client;
        client.event(Moment(self.now), event, &mut effects);
        let wakes_at = client.wakes_at();
        for effect in effects {
            self.client_effect(machine, effect);
        }
        if let Some(at) = wakes_at {
            let after = at.0.saturating_sub(self.now).max(1);
            self.at(after, What::ClientTick(machine));
        }
    }

    fn client_effect(&mut self, machine: usize, effect: client::Effect) {
        let session = self.machines[machine].session;
        match effect {
            client::Effect::Send(message) => {
                if let Some(link) = self.links[machine] {
                    let message = over_the_wire(&message);
                    let after = self.arrives(link, true);
                    self.at(after, What::ToServer(link, message));
                }
            }
            client::Effect::Answer(token, answer) => self.answered(machine, token, answer),
            client::Effect::Store {
                object,
                offset,
                data,
            } => {
                let bytes = self.machines[machine].store.entry(object).or_default();
                let offset = usize::try_from(offset).expect("small");
                if bytes.len() < offset + data.len() {
                    bytes.resize(offset + data.len(), 0);
                }
                bytes[offset..offset + data.len()].copy_from_slice(&data);
            }
            client::Effect::Resize(object, size) => {
                let bytes = self.machines[machine].store.entry(object).or_default();
                bytes.resize(usize::try_from(size).expect("small"), 0);
            }
            client::Effect::Discard(object) => {
                self.machines[machine].store.remove(&object);
            }
            client::Effect::Keep {
                object,
                offset,
                length,
            } => self.keep(machine, object, (offset, length)),
            client::Effect::Restore(request, piece) => {
                self.soon(What::Restores(machine, session, request, piece));
            }
            client::Effect::Invalidate(number, object) => {
                self.soon(What::KernelForgets(machine, session, number, object));
            }
            client::Effect::Suspend => self.machines[machine].forget(|_| true),
            client::Effect::Parted(_) => {}
            client::Effect::Left => self.left(machine),
            client::Effect::Reconnect => self.cut(machine),
            client::Effect::LocksLost(count) => {
                let losses = self.machines[machine].client.losses();
                assert!(count > 0 && losses > 0);
                self.locking.told(machine);
            }
            client::Effect::Lost(lost, why) => {
                assert_eq!(why, Lost::Expired, "{lost:?}");
                self.told.lost += lost.changes.len();
            }
        }
    }
}
