//! What a server says to clients that lock, honest or not.

use super::super::tests::config;
use super::super::{Effect, Event, Link};
use super::*;
use crate::frame::{ClientKey, PROTOCOL, Reason, ToServer};
use crate::locks::Hold;

/// A server whose disk is quick, and what it has said to each of its clients.
struct World {
    server: Server,
    said: Vec<(Link, ToClient)>,
}

fn object() -> ObjectId {
    ObjectId::found(7).expect("a small number")
}

fn attempt(owner: u64, how: How) -> Attempt {
    Attempt {
        api: Api::Fcntl,
        owner,
        first: 0,
        last: 9,
        hold: Some(Hold::Exclusive),
        how,
        process: 5,
    }
}

fn lock(owner: u64) -> Lock {
    Lock {
        api: Api::Fcntl,
        owner,
        first: 0,
        last: 9,
        hold: Hold::Exclusive,
        process: 5,
    }
}

impl World {
    /// With so many clients, all of which know the object.
    fn new(clients: u64) -> Self {
        let server = Server::new(config(), Vec::new(), Moment(0));
        let said = Vec::new();
        let mut world = Self { server, said };
        for link in 1..=clients {
            let hello = ToServer::Hello {
                protocol: PROTOCOL,
                client: ClientKey([link as u8; 16]),
                prefix: None,
                decided: 0,
            };
            world.says(link, hello);
            let client = world.server.clients.links[&Link(link)];
            assert!(world.server.leases.offer(client, object(), Mode::Read));
        }
        world.said.clear();
        world
    }

    fn tell(&mut self, event: Event) {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            let mut effects = Vec::new();
            self.server.event(Moment(1), event, &mut effects);
            for effect in effects {
                match effect {
                    Effect::Send(link, message) => self.said.push((link, message)),
                    Effect::Record(number, _) => {
                        events.push(Event::Applied(number));
                        events.push(Event::Durable(number));
                    }
                    _ => {}
                }
            }
        }
    }

    fn says(&mut self, link: u64, message: ToServer) {
        self.tell(Event::Received(Link(link), message));
    }

    fn locks(&mut self, link: u64, request: u64, attempt: Attempt) {
        let object = object();
        let message = ToServer::Lock {
            request,
            object,
            attempt,
        };
        self.says(link, message);
    }

    fn gives(&mut self, link: u64, held: Vec<Lock>) {
        let object = object();
        self.says(link, ToServer::GiveLocks { object, held });
    }

    /// What was said since this was last asked.
    #[track_caller]
    fn expect(&mut self, said: &[(u64, ToClient)]) {
        let said: Vec<_> = said
            .iter()
            .map(|(link, message)| (Link(*link), message.clone()))
            .collect();
        assert_eq!(std::mem::take(&mut self.said), said);
    }
}

fn locked(request: u64, verdict: Verdict) -> ToClient {
    let verdict = Ok(verdict);
    ToClient::Locked { request, verdict }
}

fn failed(request: u64, errno: Errno) -> ToClient {
    let verdict = Err(errno);
    ToClient::Locked { request, verdict }
}

#[test]
fn the_first_to_ask_decides_until_another_asks() {
    let mut world = World::new(2);
    world.locks(1, 1, attempt(1, How::Try));
    world.expect(&[(1, locked(1, Verdict::Yours))]);
    world.locks(2, 1, attempt(1, How::Wait));
    world.expect(&[(1, ToClient::RecallLocks(object()))]);
    // It was under way when the client was told to give the locks back.
    world.locks(1, 2, attempt(3, How::Try));
    world.gives(1, vec![lock(1)]);
    let own = Verdict::Blocked(Lock {
        owner: 3,
        ..lock(3)
    });
    world.expect(&[(1, locked(2, own))]);
    let lifts = Attempt {
        hold: None,
        ..attempt(1, How::Try)
    };
    world.locks(1, 3, lifts);
    // The other is alone now.
    world.expect(&[
        (1, locked(3, Verdict::Done)),
        (2, locked(1, Verdict::Yours)),
    ]);
    // It has nothing to give any more.
    world.gives(1, vec![lock(1)]);
    world.locks(1, 4, attempt(1, How::Test));
    world.expect(&[(2, ToClient::RecallLocks(object()))]);
    world.gives(2, vec![lock(1)]);
    let process = 0;
    let others = Lock { process, ..lock(1) };
    world.expect(&[(1, locked(4, Verdict::Blocked(others)))]);
}

#[test]
fn who_waits_no_more_gets_nothing() {
    let mut world = World::new(2);
    world.locks(1, 1, attempt(1, How::Try));
    world.locks(2, 1, attempt(1, How::Wait));
    world.gives(1, vec![lock(1)]);
    world.said.clear();
    world.says(2, ToServer::Unwait { request: 1 });
    world.says(2, ToServer::Unwait { request: 1 });
    world.expect(&[(2, failed(1, Errno::INTR))]);
    let whole = Attempt {
        last: u64::MAX,
        hold: None,
        ..attempt(1, How::Try)
    };
    world.locks(1, 2, whole);
    world.expect(&[(1, locked(2, Verdict::Done))]);
    assert!(world.server.locks.objects.is_empty());
}

#[test]
fn a_client_that_leaves_gives_its_locks_to_those_that_wait() {
    let mut world = World::new(3);
    world.locks(1, 1, attempt(1, How::Try));
    world.locks(2, 1, attempt(1, How::Wait));
    world.gives(1, vec![lock(1)]);
    world.locks(3, 1, attempt(1, How::Wait));
    world.said.clear();
    world.says(2, ToServer::Bye);
    world.says(1, ToServer::Bye);
    let left = ToClient::Farewell(Reason::Left);
    let last = (3, locked(1, Verdict::Yours));
    world.expect(&[(2, left.clone()), last, (1, left)]);
}

#[test]
fn what_no_honest_client_says_is_refused() {
    let mut world = World::new(2);
    let unknown = ObjectId::found(8).expect("a small number");
    let message = ToServer::Lock {
        request: 1,
        object: unknown,
        attempt: attempt(1, How::Try),
    };
    world.says(1, message);
    let backwards = Attempt {
        first: 1,
        last: 0,
        ..attempt(1, How::Try)
    };
    world.locks(1, 2, backwards);
    world.expect(&[(1, failed(1, Errno::STALE)), (1, failed(2, Errno::INVAL))]);
    // Locks that another has.
    world.locks(1, 3, attempt(1, How::Try));
    world.locks(2, 1, attempt(1, How::Wait));
    world.gives(1, vec![lock(1)]);
    world.said.clear();
    world.says(2, ToServer::Locks(vec![(object(), vec![lock(1)])]));
    world.expect(&[(2, ToClient::Farewell(Reason::Expired))]);
}

#[test]
fn no_client_takes_more_than_its_share() {
    let mut world = World::new(2);
    world.locks(1, 1, attempt(1, How::Try));
    world.locks(2, 1, attempt(1, How::Test));
    world.gives(1, vec![lock(1)]);
    world.said.clear();
    for request in 2..WAITS_MAX as u64 + 2 {
        world.locks(2, request, attempt(request, How::Wait));
    }
    world.expect(&[]);
    world.locks(2, 9999, attempt(1, How::Wait));
    world.expect(&[(2, failed(9999, Errno::NOLCK))]);
    // What lifts locks waits for nothing, and is never too much.
    let lifts = Attempt {
        hold: None,
        ..attempt(1, How::Try)
    };
    world.locks(2, 10_000, lifts);
    world.expect(&[(2, locked(10_000, Verdict::Done))]);
    let single = |byte: u64| Lock {
        first: 2 * byte,
        last: 2 * byte,
        ..lock(1)
    };
    let many = (0..=LOCKS_MAX as u64).map(single).collect();
    world.says(1, ToServer::Locks(vec![(object(), many)]));
    let said = std::mem::take(&mut world.said);
    assert!(said.contains(&(Link(1), ToClient::Farewell(Reason::Expired))));
}
