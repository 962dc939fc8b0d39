//! A server and its clients that answer at once, over connections on which each message takes the same time. So time tells round
//! trips.

use std::collections::{BTreeMap, HashMap};

use surmise_lower::{FileKind, Timestamp};
use surmise_remote::client::{self, Client, Intent, Request, Response, Token};
use surmise_remote::errno::Errno;
use surmise_remote::frame::{ClientKey, Space, ToClient, ToServer};
use surmise_remote::object::{Attributes, Body, Name, Names, Object, ObjectId, Versions};
use surmise_remote::operation::{NewKind, NewObject, Place, SetAttributes};
use surmise_remote::piece::{Digest, Found, Piece};
use surmise_remote::server::{self, Config, Link, Loaded, Moment, Server};
use surmise_remote::tree::{Limits, Tree};

const ONE_WAY_MS: u64 = 100;

/// Where the programs are slow, in round trips.
pub type RoundTrips = f64;

enum Message {
    ToServer(Link, ToServer),
    ToClient(usize, ToClient),
}

pub struct World {
    now: u64,
    disk: Tree,
    server: Server,
    clients: Vec<Client>,
    wire: BTreeMap<(u64, u64), Message>,
    sent: u64,
    answers: HashMap<Token, Result<Response, Errno>>,
    calls: u64,
    /// Whether programs take the last directory first.
    pub is_backwards: bool,
    /// What all bytes of a file are, if they are not 0.
    pub contents: HashMap<ObjectId, u8>,
    /// What the disk of the clients' machine keeps.
    pub kept: HashMap<(ObjectId, u64), (Piece, Vec<u8>)>,
    stores: HashMap<(usize, ObjectId), Vec<u8>>,
    /// How many bytes of files the server has sent.
    pub sent_bytes: usize,
    /// How many clients have left.
    left: usize,
}

pub fn id(number: u64) -> ObjectId {
    ObjectId::found(number).expect("a small number")
}

pub fn name(text: &str) -> Name {
    Name::try_from(text.as_bytes()).expect("a name")
}

pub fn object(kind: FileKind, size: u64, body: Body) -> Object {
    let attributes = Attributes {
        kind,
        permissions: 0o755,
        links: 1,
        owner: 0,
        group: 0,
        size,
        device: 0,
        accessed: Timestamp::default(),
        modified: Timestamp::default(),
        changed: Timestamp::default(),
    };
    let mut object = Object::new(attributes, Versions::default());
    object.body = body;
    object
}

/// `directories` directories of `files` files each.
pub fn export(directories: u64, files: u64, size: u64) -> Tree {
    let mut tree = Tree::whole(Limits::default());
    let mut next = 2;
    let mut all = Names::new();
    for directory in 0..directories {
        let mut names = Names::new();
        next += 1;
        let at = id(next);
        for file in 0..files {
            next += 1;
            tree.learn(id(next), object(FileKind::Regular, size, Body::Data));
            names.insert(name(&format!("f{file:05}")), id(next));
        }
        tree.learn(at, object(FileKind::Directory, 0, Body::Names(Some(names))));
        tree.learn_parent(at, id(2));
        all.insert(name(&format!("d{directory:03}")), at);
    }
    tree.learn(
        id(2),
        object(FileKind::Directory, 0, Body::Names(Some(all))),
    );
    tree
}

impl World {
    pub fn new(disk: Tree, clients: usize) -> Self {
        let config = Config {
            root: id(2),
            lease_ms: 1_000_000,
            limits: Limits::default(),
        };
        let mut world = Self {
            now: 0,
            disk,
            server: Server::new(config, [], Moment(0)),
            clients: Vec::new(),
            wire: BTreeMap::new(),
            sent: 0,
            answers: HashMap::new(),
            calls: 0,
            is_backwards: false,
            contents: HashMap::new(),
            kept: HashMap::new(),
            stores: HashMap::new(),
            sent_bytes: 0,
            left: 0,
        };
        for _ in 0..clients {
            world.mount();
        }
        world
    }

    /// A client comes, and finds what is kept on the disk of its machine.
    pub fn mount(&mut self) -> usize {
        let number = self.clients.len();
        let key = ClientKey([u8::try_from(number).expect("few clients"); 16]);
        self.clients.push(Client::new(key));
        let pieces = self.kept.values().map(|(piece, _)| *piece).collect();
        self.tell_client(number, client::Event::Kept(pieces));
        self.tell_client(number, client::Event::Connected);
        while self.clients[number].root().is_none() {
            self.step();
        }
        number
    }

    pub fn unmount(&mut self, number: usize) {
        let left = self.left;
        self.tell_client(number, client::Event::Leave);
        while self.left == left {
            self.step();
        }
    }

    /// What a client's disk does.
    fn store(&mut self, number: usize, effect: client::Effect) -> Option<client::Event> {
        match effect {
            client::Effect::Store {
                object,
                offset,
                data,
            } => {
                let bytes = self.stores.entry((number, object)).or_default();
                let offset = usize::try_from(offset).expect("small");
                bytes.resize(bytes.len().max(offset + data.len()), 0);
                bytes[offset..][..data.len()].copy_from_slice(&data);
                None
            }
            client::Effect::Keep {
                object,
                offset,
                length,
            } => {
                let start = usize::try_from(offset).expect("small");
                let bytes = &self.stores[&(number, object)][start..][..length as usize];
                let digest = Digest::of(bytes);
                let piece = Piece {
                    object,
                    offset,
                    length,
                    digest,
                };
                self.kept.insert((object, offset), (piece, bytes.to_vec()));
                Some(client::Event::Kept(vec![piece]))
            }
            client::Effect::Restore(request, piece) => {
                let kept = &self.kept[&(piece.object, piece.offset)];
                Some(client::Event::Restored(request, Some(kept.1.clone())))
            }
            _ => None,
        }
    }

    fn send(&mut self, message: Message) {
        self.sent += 1;
        self.wire
            .insert((self.now + ONE_WAY_MS, self.sent), message);
    }

    /// What comes next in time happens.
    fn step(&mut self) {
        let arrives = self.wire.keys().next().map(|(at, _)| *at);
        let wakes = self.clients.iter().filter_map(Client::wakes_at);
        let wakes = wakes.map(|at| at.0.max(self.now + 1)).min();
        let at = [arrives, wakes].into_iter().flatten().min();
        self.now = at.expect("something is to come");
        if arrives != Some(self.now) {
            for client in 0..self.clients.len() {
                self.tell_client(client, client::Event::Tick);
            }
            return;
        }
        match self.wire.pop_first().expect("it arrives").1 {
            Message::ToServer(link, message) => {
                self.tell_server(server::Event::Received(link, message));
            }
            Message::ToClient(client, message) => {
                self.tell_client(client, client::Event::Received(message));
            }
        }
    }

    fn tell_client(&mut self, number: usize, event: client::Event) {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            let mut effects = Vec::new();
            self.clients[number].event(Moment(self.now), event, &mut effects);
            for effect in effects {
                match effect {
                    client::Effect::Send(message) => {
                        self.send(Message::ToServer(Link(number as u64), message));
                    }
                    client::Effect::Answer(token, answer) => {
                        self.answers.insert(token, answer);
                    }
                    client::Effect::Invalidate(asked, _) => {
                        events.push(client::Event::Invalidated(asked));
                    }
                    client::Effect::Left => self.left += 1,
                    client::Effect::Reconnect | client::Effect::Parted(_) => {
                        panic!("{effect:?}");
                    }
                    other => events.extend(self.store(number, other)),
                }
            }
        }
    }

    fn tell_server(&mut self, event: server::Event) {
        let mut events = std::collections::VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let mut effects = Vec::new();
            self.server.event(Moment(self.now), event, &mut effects);
            for effect in effects {
                events.extend(self.server_effect(effect));
            }
        }
    }

    fn server_effect(&mut self, effect: server::Effect) -> Vec<server::Event> {
        match effect {
            server::Effect::Send(Link(client), message) => {
                let client = usize::try_from(client).expect("few clients");
                if let ToClient::Data { data, .. } = &message {
                    self.sent_bytes += data.len();
                }
                self.send(Message::ToClient(client, message));
            }
            server::Effect::Load(object, _) => {
                let found = self.disk.get(object).cloned().ok_or(Errno::STALE);
                let parent = self.disk.parent(object);
                let loaded = found.map(|object| Loaded { object, parent });
                return vec![server::Event::Loaded(object, loaded)];
            }
            server::Effect::Read {
                client,
                request,
                object,
                offset,
                length,
                kept,
                ..
            } => {
                let bytes = self.contents.get(&object).copied().unwrap_or(0);
                let data = Ok(Found::compared(vec![bytes; length as usize], length, kept));
                return vec![server::Event::Read {
                    client,
                    request,
                    object,
                    offset,
                    length,
                    data,
                }];
            }
            server::Effect::Space { client, request } => {
                let space = Ok(Space::default());
                return vec![server::Event::Space {
                    client,
                    request,
                    space,
                }];
            }
            server::Effect::Record(number, _) => {
                return vec![
                    server::Event::Durable(number),
                    server::Event::Applied(number),
                ];
            }
            // A client is closed when it has left, or when it is parted with, of which it tells.
            server::Effect::Hurry(_) | server::Effect::Drop(_) | server::Effect::Close(_) => {}
        }
        Vec::new()
    }

    pub fn call(&mut self, client: usize, request: Request) -> Response {
        self.calls += 1;
        let token = Token(self.calls);
        let called = client::Event::Called(token, request, Timestamp::default());
        self.tell_client(client, called);
        loop {
            if let Some(answer) = self.answers.remove(&token) {
                return answer.expect("nothing is in the way");
            }
            self.step();
        }
    }

    /// How often `program` waits.
    pub fn waits(&mut self, program: impl FnOnce(&mut Self)) -> RoundTrips {
        let begun = self.now;
        program(self);
        (self.now - begun) as RoundTrips / (2 * ONE_WAY_MS) as RoundTrips
    }

    pub fn names(&mut self, client: usize, directory: ObjectId) -> Vec<Name> {
        let Response::Names(names) = self.call(client, Request::Names(directory)) else {
            panic!("the names of {directory}");
        };
        names.into_keys().collect()
    }

    pub fn find(
        &mut self,
        client: usize,
        directory: ObjectId,
        name: Name,
    ) -> (ObjectId, Attributes) {
        let Response::Entry(Some(found)) = self.call(client, Request::Lookup(directory, name))
        else {
            panic!("an entry of {directory}");
        };
        found
    }

    pub fn write_new(&mut self, client: usize, parent: ObjectId, name: Name) {
        let place = Place { parent, name };
        let new = NewObject {
            kind: NewKind::Regular,
            permissions: 0o644,
            owner: 0,
            group: 0,
        };
        let create = Intent::Create { place, new };
        let Response::Object(object, _) = self.call(client, Request::Change(create)) else {
            panic!("a new file");
        };
        let write = Intent::Write {
            object,
            offset: None,
            data: vec![0; 10],
            strip: false,
        };
        self.call(client, Request::Change(write));
    }

    /// Looks at all there is, as `find -ls` does, and does something with each file.
    pub fn walk(&mut self, client: usize, each: &mut dyn FnMut(&mut Self, ObjectId, u64)) {
        let mut directories = vec![id(2)];
        while let Some(directory) = directories.pop() {
            let mut found = Vec::new();
            for name in self.names(client, directory) {
                let (object, attributes) = self.find(client, directory, name);
                match attributes.kind {
                    FileKind::Directory => found.push(object),
                    _ => each(self, object, attributes.size),
                }
            }
            if self.is_backwards {
                found.reverse();
            }
            directories.extend(found.into_iter().rev());
        }
    }
}

pub fn nothing(_: &mut World, _: ObjectId, _: u64) {}

pub fn reads(client: usize) -> impl FnMut(&mut World, ObjectId, u64) {
    move |world, object, size| {
        let length = u32::try_from(size).expect("a small file");
        let offset = 0;
        world.call(
            client,
            Request::Read {
                object,
                offset,
                length,
            },
        );
        let content = world.contents.get(&object).copied().unwrap_or(0);
        let read = &world.stores[&(client, object)];
        assert!(read.len() as u64 == size && read.iter().all(|byte| *byte == content));
    }
}

pub fn touches(client: usize) -> impl FnMut(&mut World, ObjectId, u64) {
    move |world, object, _| {
        let set = SetAttributes {
            permissions: Some(0o700),
            ..SetAttributes::default()
        };
        let intent = Intent::SetAttributes { object, set };
        world.call(client, Request::Change(intent));
    }
}
