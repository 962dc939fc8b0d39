//! Everything on one clock.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap};

use surmise_remote::client::{self, Token};
use surmise_remote::frame::{ClientKey, Space, Urgency};
use surmise_remote::lease::ClientId;
use surmise_remote::object::ObjectId;
use surmise_remote::piece::{Digest, Found};
use surmise_remote::server::{self, Config, Link, Moment, Record, Server};
use surmise_remote::tree::Limits;

use crate::disk::Disk;
use crate::locking::Locking;
use crate::machine::Machine;
use crate::others::Others;
use crate::truth::{Truth, first_copy};
use crate::what::{OnServer, What};

const MACHINES: usize = 3;
const CALLS_EACH: u32 = 60;
pub const CALLS_AT_ONCE: usize = 3;
const LEASE_MS: u64 = 400;
const OTHERS_CHANGES: usize = 40;

/// A world in which so much happens has come to a standstill, going round and round.
const EVENTS_MAX: u64 = 400_000;

/// What goes wrong.
#[derive(Clone, Copy, Default)]
pub struct Faults {
    pub cuts: bool,
    pub server_crashes: bool,
    pub client_crashes: bool,
    /// Others change the directory, too.
    pub others: bool,
}

/// What came of it.
#[derive(Default)]
pub struct Told {
    pub calls: u64,
    pub cached: u64,
    pub lost: usize,
    pub locks: [u64; 3],
    /// How many changes others have made, and how often a change of a client could not be made for that.
    pub others: u64,
    pub collisions: u64,
    /// How often a client had just the bytes that a file has, from earlier, and how often they could be had from its disk.
    pub same: u64,
    pub restored: u64,
}

pub struct World {
    pub random: fastrand::Rng,
    pub now: u64,
    pub order: u64,
    pub events: BinaryHeap<Reverse<(u64, u64)>>,
    pub whats: HashMap<u64, What>,
    pub server: Option<Server>,
    pub start: u64,
    pub disk: Disk,
    pub machines: Vec<Machine>,
    /// The connection of each machine, and those that the server has not seen end.
    pub links: Vec<Option<Link>>,
    pub server_links: BTreeSet<Link>,
    pub next_link: u64,
    pub arrivals: HashMap<(Link, bool), u64>,
    pub left: Vec<u32>,
    pub next_token: u64,
    pub next_session: u64,
    /// Which client it was when a call began, and how many changes it had made.
    pub made_before: BTreeMap<Token, (u64, usize)>,
    pub called_at: BTreeMap<Token, u64>,
    pub locking: Locking,
    pub has_faults: bool,
    /// How many changes each client that was given up has lost.
    pub lost: HashMap<u64, usize>,
    pub sessions: HashMap<ClientKey, u64>,
    pub truth: Truth,
    pub root: ObjectId,
    pub told: Told,
    pub others: Others,
    /// All that was to be done is done, and compared; now the clients leave.
    pub is_ending: bool,
    pub is_traced: bool,
}

/// The seed that is to be printed.
pub fn traced() -> Option<u64> {
    let seed = std::env::var("SURMISE_SEED").ok()?;
    Some(seed.parse().expect("SURMISE_SEED is a number"))
}

impl World {
    pub fn new(seed: u64, faults: Faults) -> Self {
        let (copy, root) = first_copy();
        let mut world = Self {
            random: fastrand::Rng::with_seed(seed),
            now: 0,
            order: 0,
            events: BinaryHeap::new(),
            whats: HashMap::new(),
            server: None,
            start: 0,
            disk: Disk::new(copy.clone()),
            machines: (0..MACHINES as u64)
                .map(|one| Machine::new(one, root))
                .collect(),
            links: vec![None; MACHINES],
            server_links: BTreeSet::new(),
            next_link: 0,
            arrivals: HashMap::new(),
            left: vec![CALLS_EACH; MACHINES],
            next_token: 0,
            next_session: MACHINES as u64,
            made_before: BTreeMap::new(),
            called_at: BTreeMap::new(),
            locking: Locking::default(),
            has_faults: faults.cuts,
            lost: HashMap::new(),
            sessions: HashMap::new(),
            truth: Truth::new(copy),
            root,
            told: Told::default(),
            others: Others::default(),
            is_ending: false,
            is_traced: traced().is_some(),
        };
        world.sessions = world
            .machines
            .iter()
            .map(|one| (one.key, one.session))
            .collect();
        world.start_server(Vec::new());
        for machine in 0..MACHINES {
            world.at(0, What::Connect(machine));
            world.at(1, What::Program(machine));
        }
        world.plan(&faults);
        world
    }

    /// When what fails.
    fn plan(&mut self, faults: &Faults) {
        for machine in 0..MACHINES * usize::from(faults.cuts) {
            for _ in 0..self.random.u32(0..3) {
                let after = self.random.u64(0..2_000);
                self.at(after, What::Cut(machine));
            }
        }
        if faults.server_crashes {
            for _ in 0..self.random.u32(1..3) {
                let after = self.random.u64(0..2_000);
                self.at(after, What::ServerCrashes);
            }
        }
        if faults.client_crashes {
            let after = self.random.u64(0..2_000);
            let machine = self.random.usize(0..MACHINES);
            self.at(after, What::ClientCrashes(machine));
        }
        if faults.others {
            self.disk.others_change = true;
            for _ in 0..OTHERS_CHANGES {
                let after = self.random.u64(0..2_000);
                self.at(after, What::OthersChange);
            }
        }
    }

    pub fn run(mut self) -> Told {
        let mut happened = 0;
        while !self.all_have_left() {
            if !self.is_ending && self.is_settled() {
                self.end();
            }
            let Reverse((at, order)) = self.events.pop().expect("clients ping for ever");
            self.now = at;
            let what = self.whats.remove(&order).expect("every event is kept");
            if self.is_traced
                && !matches!(
                    what,
                    What::ClientTick(_) | What::OnServer(_, OnServer::Tick)
                )
            {
                eprintln!("{at:>6} {what:?}");
            }
            self.happen(what);
            happened += 1;
            assert!(
                happened < EVENTS_MAX,
                "no progress: {:?}",
                self.open_calls()
            );
        }
        let Locking {
            granted,
            waited,
            blocked,
            ..
        } = self.locking;
        self.told.locks = [granted, waited, blocked];
        self.told
    }

    pub fn at(&mut self, after: u64, what: What) {
        self.order += 1;
        self.events.push(Reverse((self.now + after, self.order)));
        self.whats.insert(self.order, what);
    }

    /// How long a disk takes: now and then longer than a connection that breaks and is made again.
    pub fn slowly(&mut self) -> u64 {
        if self.random.u8(0..8) == 0 {
            self.random.u64(0..400)
        } else {
            self.random.u64(0..8)
        }
    }

    pub fn soon(&mut self, what: What) {
        let after = self.random.u64(0..8);
        self.at(after, what);
    }

    /// What is not awaited can be answered long after.
    pub fn by_urgency(&mut self, urgency: Urgency, what: What) {
        match urgency {
            Urgency::Awaited => self.soon(what),
            Urgency::Ahead => {
                let after = self.slowly();
                self.at(after, what);
            }
        }
    }

    fn happen(&mut self, what: What) {
        match what {
            What::ToServer(link, message) => {
                // What was on its way when the connection broke may still come.
                if self.server_links.contains(&link) {
                    self.tell_server(server::Event::Received(link, message));
                }
            }
            What::ToClient(link, message) => {
                if let Some(machine) = self.links.iter().position(|one| *one == Some(link)) {
                    self.tell_client(machine, client::Event::Received(message));
                }
            }
            What::ServerSees(link) => {
                self.server_links.remove(&link);
                self.tell_server(server::Event::Closed(link));
            }
            What::ClientSees(link) => {
                if let Some(machine) = self.links.iter().position(|one| *one == Some(link)) {
                    self.cut(machine);
                }
            }
            What::Connect(machine) => self.connect(machine),
            What::Cut(machine) => self.cut(machine),
            What::Program(machine) => self.program(machine),
            What::Signal(machine, token) => self.signal(machine, token),
            What::Lift(machine, session, object, attempt) => {
                self.lift(machine, session, object, attempt);
            }
            What::KernelForgets(machine, session, number, object) => {
                if self.machines[machine].session == session {
                    self.machines[machine].forget(|cached| cached.object() == object);
                    self.tell_client(machine, client::Event::Invalidated(number));
                }
            }
            What::Restores(machine, session, request, piece) => {
                self.restore((machine, session), request, &piece);
            }
            What::OnServer(start, what) if start == self.start => self.happen_on_server(what),
            What::OnServer(..) => {}
            What::ServerCrashes => self.crash_server(),
            What::ServerStarts => {
                let log = self.disk.crash();
                self.start_server(log);
            }
            What::ClientCrashes(machine) => self.crash_client(machine),
            What::ClientTick(machine) => self.tell_client(machine, client::Event::Tick),
            What::OthersChange => self.others_change(),
            What::OthersAreSeen(objects) => self.others_are_seen(objects),
        }
    }

    fn happen_on_server(&mut self, what: OnServer) {
        match what {
            OnServer::Flush => {
                let gone = self.disk.gone_when_flushed();
                if let Some(last) = self.disk.flush() {
                    for key in gone {
                        self.settle(key);
                    }
                    self.tell_server(server::Event::Durable(last));
                    let after = self.slowly();
                    self.at(after, What::OnServer(self.start, OnServer::Apply));
                }
            }
            OnServer::Apply => {
                let (last, collided) = self.disk.apply();
                self.collided(collided);
                self.tell_server(server::Event::Applied(last));
            }
            OnServer::Load(object) => {
                let loaded = self.disk.load(object);
                // The shell looks what others have done before it says that something is gone.
                if loaded.is_err() {
                    self.others_are_seen_at_last();
                }
                self.tell_server(server::Event::Loaded(object, loaded));
            }
            OnServer::Read(client, request, object, at, kept) => {
                self.read((client, request), object, at, kept);
            }
            OnServer::Space(client, request) => {
                let space = Ok(Space::default());
                self.tell_server(server::Event::Space {
                    client,
                    request,
                    space,
                });
            }
            OnServer::Tick => self.tell_server(server::Event::Tick),
        }
    }

    fn read(
        &mut self,
        (client, request): (ClientId, u64),
        object: ObjectId,
        at: (u64, u32),
        kept: Option<Digest>,
    ) {
        let found = Found::compared(self.disk.directory.bytes(object, at.0, at.1), at.1, kept);
        self.told.same += u64::from(found == Found::Same);
        let data = Ok(found);
        self.tell_server(server::Event::Read {
            client,
            request,
            object,
            offset: at.0,
            length: at.1,
            data,
        });
    }

    fn start_server(&mut self, log: Vec<Record>) {
        let config = Config {
            root: self.root,
            lease_ms: LEASE_MS,
            limits: Limits::default(),
        };
        self.start += 1;
        self.server = Some(Server::new(config, log, Moment(self.now)));
        self.tell_server(server::Event::Tick);
    }

    fn crash_server(&mut self) {
        if self.server.take().is_none() {
            return;
        }
        self.start += 1;
        self.server_links.clear();
        for machine in 0..MACHINES {
            self.cut(machine);
        }
        let after = self.random.u64(0..300);
        self.at(after, What::ServerStarts);
    }

    fn crash_client(&mut self, machine: usize) {
        if self.machines[machine].has_left {
            return;
        }
        self.cut(machine);
        self.locking.given_up(self.machines[machine].session, None);
        self.locking.told(machine);
        let session = self.next_session;
        self.next_session += 1;
        let kept = std::mem::take(&mut self.machines[machine].kept);
        self.machines[machine] = Machine::new(session, self.root);
        self.remember_kept(machine, kept);
        self.sessions.insert(self.machines[machine].key, session);
        if self.is_ending {
            self.tell_client(machine, client::Event::Leave);
        }
    }

    fn connect(&mut self, machine: usize) {
        if self.links[machine].is_some() {
            return;
        }
        if self.server.is_none() {
            return self.at(20, What::Connect(machine));
        }
        self.next_link += 1;
        self.links[machine] = Some(Link(self.next_link));
        self.server_links.insert(Link(self.next_link));
        self.tell_client(machine, client::Event::Connected);
    }

    pub fn cut(&mut self, machine: usize) {
        if let Some(link) = self.links[machine].take() {
            // The other side may take long to notice.
            let after = self.random.u64(0..200);
            self.at(after, What::ServerSees(link));
            self.tell_client(machine, client::Event::Cut);
            let after = self.random.u64(0..1_000);
            self.at(after, What::Connect(machine));
        }
    }
}
