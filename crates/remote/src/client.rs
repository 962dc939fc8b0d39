//! The client of an export, as a pure state machine: told what programs ask for and what the server says, it answers
//! from what it holds leases on, and asks for leases on the rest.
//!
//! A change that the client has the leases for is made in its own tree at once, and sent with others as one group. The
//! server can only come to the same outcome. Before a lease goes back, the changes made under it are sent.
//! A client that may not have been heard for as long as the server waits relies on nothing until it is heard again.

mod ahead;
mod answers;
mod connection;
mod fetches;
mod giving;
mod giving_up;
mod groups;
mod intents;
mod kept;
mod locks;
mod questions;
mod requests;
mod sharing;
mod trail;

use std::collections::{BTreeMap, HashMap, HashSet};

use surmise_lower::Timestamp;

use self::groups::{Groups, Sent};
use crate::errno::Errno;
use crate::frame::{ClientKey, Reason, Space, ToClient, ToServer, Want, Welcome};
use crate::lease::Mode;
use crate::locks::{Attempt, Lock};
use crate::lost::LostChanges;
use crate::object::{Attributes, Extended, Name, Names, ObjectId};
use crate::operation::Operation;
use crate::piece::{PIECE_BYTES, Piece};
use crate::ranges::Ranges;
use crate::server::Moment;
use crate::tree::{Tree, User};
pub use intents::Intent;

/// A call of a program, numbered by the shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

/// What a program wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// What a name leads to.
    Lookup(ObjectId, Name),
    /// What stat(2) tells.
    Attributes(ObjectId),
    /// The names in a directory.
    Names(ObjectId),
    /// Where a symbolic link leads.
    Target(ObjectId),
    /// The extended attributes.
    Extended(ObjectId),
    /// Bytes of a file, to be in the shell's store.
    Read {
        /// Which file.
        object: ObjectId,
        /// The first byte.
        offset: u64,
        /// How many.
        length: u32,
    },
    /// How much space there is.
    Space,
    /// A change.
    Change(Intent),
    /// A lock on an object.
    Lock(ObjectId, Attempt),
    /// All that was changed so far is to be durable. The call fails if more changes were lost than this many, which is what
    /// [`Client::losses`] was when the caller opened its file.
    Sync(u64),
}

impl Request {
    /// Whether the caller itself names this object.
    fn names(&self, object: ObjectId) -> bool {
        match self {
            Self::Lookup(one, _)
            | Self::Attributes(one)
            | Self::Names(one)
            | Self::Target(one)
            | Self::Extended(one)
            | Self::Read { object: one, .. } => *one == object,
            Self::Change(intent) => intent.names(object),
            Self::Lock(one, _) => *one == object,
            Self::Space | Self::Sync(_) => false,
        }
    }
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Response {
    /// Of a look-up: what the name leads to, or nothing.
    Entry(Option<(ObjectId, Attributes)>),
    /// Of a change that makes or changes an object: what it has become.
    Object(ObjectId, Attributes),
    /// The names.
    Names(Names),
    /// Where the link leads.
    Target(Vec<u8>),
    /// The extended attributes.
    Extended(Extended),
    /// So many of the bytes are in the file, and all of these are in the store.
    Stored(u32),
    /// So much space there is.
    Space(Space),
    /// Of a test: the lock that is in the way.
    Blocked(Option<Lock>),
    /// It is done.
    Done,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A program calls, at this time of day.
    Called(Token, Request, Timestamp),
    /// A program does not wait any more.
    Withdrawn(Token),
    /// A signal has come for the program that calls for a lock. The call is answered soon, with `EINTR` if it has not come
    /// to its lock by now. As long as it is not, this may be said again.
    Interrupted(Token),
    /// There is a connection.
    Connected,
    /// A message came.
    Received(ToClient),
    /// The connection is gone.
    Cut,
    /// The kernel has forgotten what [`Effect::Invalidate`] said.
    Invalidated(u64),
    /// The kernel does not know an object any more.
    Forgotten(ObjectId),
    /// The shell has made room, and keeps no bytes of a file any more.
    Evicted(ObjectId),
    /// The shell has these pieces of files on disk, from now or from an earlier mount.
    Kept(Vec<Piece>),
    /// The shell has these pieces no more.
    Unkept(Vec<Piece>),
    /// What the shell has found of a piece ([`Effect::Restore`]): the bytes, if they still have that digest.
    Restored(u64, Option<Vec<u8>>),
    /// The client is to end when all calls are answered and all its changes are in the directory. Then it says
    /// [`Effect::Left`].
    Leave,
    /// The client ends without the server: all calls fail with `EIO`, and it says [`Effect::Left`]. What has no verdict is lost
    /// by that, unless the shell has kept it before ([`Client::without_verdict`]).
    GiveUp,
    /// Time has passed.
    Tick,
}

/// What is to be done, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Send a message.
    Send(ToServer),
    /// A call is answered.
    Answer(Token, Result<Response, Errno>),
    /// Keep bytes of a file.
    Store {
        /// Which file.
        object: ObjectId,
        /// Where the first byte goes.
        offset: u64,
        /// The bytes.
        data: Vec<u8>,
    },
    /// Cut the stored file, or let it grow by zeros.
    Resize(ObjectId, u64),
    /// Keep nothing of a file.
    Discard(ObjectId),
    /// These bytes are in the store, and may be of use to a later mount: put them on disk, if there is room for them. Say
    /// [`Event::Kept`] when they are there.
    Keep {
        /// Which file.
        object: ObjectId,
        /// The first byte.
        offset: u64,
        /// How many.
        length: u32,
    },
    /// The file has the bytes of this piece now: get them from the disk, and say [`Event::Restored`] with this number.
    Restore(u64, Piece),
    /// Have the kernel forget what it knows of an object; say [`Event::Invalidated`] when it has. That must not wait for
    /// any call which waits here: the kernel holds locks for those.
    Invalidate(u64, ObjectId),
    /// All changes are in the directory, and the server knows the client no more; or the client was given up.
    Left,
    /// Cut the connection and make another one.
    Reconnect,
    /// The server has said why it has nothing more to say. It closes the connection.
    Parted(Reason),
    /// Have the kernel forget all that it knows: the server may let others change it from now on.
    Suspend,
    /// Nobody knows whether these changes were made, and the client does not send them again: the server has forgotten the
    /// client, or refused them.
    Lost(LostChanges, Lost),
    /// Programs hold so many locks no more, and do not know: the server has forgotten the client.
    LocksLost(usize),
}

/// Why changes were lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lost {
    /// The client was away for too long, and others needed what it had.
    Expired,
    /// The server refused a group for this error.
    Refused(Errno),
    /// Others have changed the same in the directory, and the server has kept the changes elsewhere. It does not tell which
    /// they were.
    Overtaken,
}

/// How many bytes of changes may be undecided. A call that would change more waits.
const UNDECIDED_BYTES_MAX: usize = 64 << 20;

/// A client.
#[derive(Debug)]
pub struct Client {
    key: ClientKey,
    tree: Tree,
    leases: HashMap<ObjectId, Mode>,
    /// Which bytes of each file the store has.
    stored: HashMap<ObjectId, Ranges>,
    /// Names that came and whose lease has not come yet.
    coming: HashMap<ObjectId, Names>,
    parked: BTreeMap<Token, Parked>,
    /// Open questions, by number.
    asked: BTreeMap<u64, questions::Asked>,
    fetching: fetches::Fetches,
    kept: kept::Kept,
    ahead: ahead::Ahead,
    trail: trail::Trail,
    locks: locks::Locks,
    /// The calls that have asked for the server's space.
    spaces: BTreeMap<u64, Token>,
    /// What was recalled and has not been looked at: the number of the recall, and what may stay of the lease.
    recalled: BTreeMap<ObjectId, (u64, Mode)>,
    /// What the kernel is to forget, and the recall that is then answered, if it was for one.
    invalidating: BTreeMap<u64, (ObjectId, Option<(u64, Mode)>)>,
    /// Objects that the kernel was told of and has not forgotten.
    in_kernel: HashSet<ObjectId>,
    /// Objects that this client may be able to forget.
    candidates: Vec<ObjectId>,
    made: sharing::Made,
    /// The client is to end.
    leaves: bool,
    connection: connection::Connection,
    groups: Groups,
    /// How often changes were lost.
    losses: u64,
    next_request: u64,
    next_object: u32,
    welcome: Option<Welcome>,
    now: Moment,
    time: Timestamp,
}

#[derive(Debug)]
struct Parked {
    request: Request,
    at: Timestamp,
    /// What the server could not give it, and why.
    failed: Option<(ObjectId, Errno)>,
    /// The group whose verdict it waits for.
    until: Option<u64>,
}

/// How far a call gets.
enum Step {
    Done(Result<Response, Errno>),
    /// These leases are needed first.
    Wants(Vec<Want>),
    /// These bytes are needed first.
    Fetch(ObjectId, u64, u32),
    /// The server's space is needed.
    Space,
    /// The server alone can tell.
    Perform(Operation),
    /// Until the group of this number is decided.
    Until(u64),
    /// Until something else has happened.
    Wait,
}

impl Client {
    /// A client that has no connection yet.
    pub fn new(key: ClientKey) -> Self {
        Self {
            key,
            tree: Tree::default(),
            leases: HashMap::new(),
            stored: HashMap::new(),
            coming: HashMap::new(),
            parked: BTreeMap::new(),
            asked: BTreeMap::new(),
            fetching: fetches::Fetches::default(),
            kept: kept::Kept::new(PIECE_BYTES),
            ahead: ahead::Ahead::default(),
            trail: trail::Trail::default(),
            locks: locks::Locks::default(),
            spaces: BTreeMap::new(),
            recalled: BTreeMap::new(),
            invalidating: BTreeMap::new(),
            in_kernel: HashSet::new(),
            candidates: Vec::new(),
            made: sharing::Made::default(),
            leaves: false,
            connection: connection::Connection::default(),
            groups: Groups::default(),
            losses: 0,
            next_request: 1,
            next_object: 1,
            welcome: None,
            now: Moment::default(),
            time: Timestamp::default(),
        }
    }

    /// The directory that the mount shows, once the server has said so.
    pub fn root(&self) -> Option<ObjectId> {
        self.welcome.as_ref().map(|welcome| welcome.root)
    }

    /// Whose rights the server has, once it has said so; `None` for all.
    pub fn user(&self) -> Option<&User> {
        self.welcome.as_ref()?.limits.user.as_ref()
    }

    /// What a name in a directory leads to, if the leases that the client has tell that. The kernel is then taken to know
    /// the object.
    pub fn glance(
        &mut self,
        now: Moment,
        directory: ObjectId,
        name: &Name,
    ) -> Option<(ObjectId, Attributes)> {
        self.now = self.now.max(now);
        let may_read = |object| self.leases.get(object) >= Some(&Mode::Read);
        if !self.may_rely() || !may_read(&directory) {
            return None;
        }
        let object = *self.tree.names(directory).ok()?.get(name)?;
        let attributes = self.tree.get(object)?.attributes;
        if !may_read(&object) {
            return None;
        }
        self.in_kernel.insert(object);
        self.found(directory, name, object);
        Some((object, attributes))
    }

    /// How many bytes of changes are not decided.
    pub fn undecided_bytes(&self) -> usize {
        self.groups.bytes()
    }

    /// How often changes of this client were lost.
    pub fn losses(&self) -> u64 {
        self.losses
    }

    /// How many groups are not decided, the one that is not sent included.
    pub fn undecided(&self) -> usize {
        self.groups.sent.len() + usize::from(!self.groups.open.is_empty())
    }

    /// Takes an event at a moment that is not before the last one's; appends what is to be done.
    pub fn event(&mut self, now: Moment, event: Event, effects: &mut Vec<Effect>) {
        self.now = self.now.max(now);
        match event {
            Event::Called(token, _, _) if self.connection.has_left() => {
                effects.push(Effect::Answer(token, Err(Errno::IO)));
            }
            Event::Called(token, request, at) => {
                // A clock that is set back does not set times back, and no two changes have one time: by that a replay tells
                // which of them the server has made.
                self.time = at.max(self.time.next());
                let parked = Parked {
                    request,
                    at: self.time,
                    failed: None,
                    until: None,
                };
                self.parked.insert(token, parked);
                self.go_on(token, effects);
            }
            Event::Withdrawn(token) => {
                self.parked.remove(&token);
            }
            Event::Interrupted(token) => self.interrupt(token, effects),
            Event::Connected => self.connected(effects),
            Event::Received(message) => self.receive(message, effects),
            Event::Cut => self.cut(),
            Event::Invalidated(number) => {
                if let Some((object, Some(answer))) = self.invalidating.remove(&number) {
                    self.lower(object, answer, effects);
                }
            }
            Event::Forgotten(object) => {
                self.in_kernel.remove(&object);
                self.candidates.push(object);
                self.forget_place(object);
                self.forget_locks(object, effects);
            }
            Event::Evicted(object) => {
                self.stored.remove(&object);
            }
            Event::Kept(pieces) => self.kept.add(pieces),
            Event::Unkept(pieces) => pieces.iter().for_each(|piece| self.kept.remove(piece)),
            Event::Restored(request, bytes) => self.restored(request, bytes, effects),
            Event::Leave => self.leaves = true,
            Event::GiveUp => self.give_up(effects),
            Event::Tick => {}
        }
        self.tick(effects);
    }

    /// Tries every parked call again, in the order in which they came.
    fn go_on_all(&mut self, effects: &mut Vec<Effect>) {
        let parked: Vec<_> = self.parked.keys().copied().collect();
        for token in parked {
            self.go_on(token, effects);
        }
    }

    fn go_on(&mut self, token: Token, effects: &mut Vec<Effect>) {
        let Some(parked) = self.parked.remove(&token) else {
            return;
        };
        let step = self.step(token, &parked, effects);
        let until = match step {
            Step::Done(answer) => {
                if let Ok(Response::Entry(Some((object, _))) | Response::Object(object, _)) =
                    &answer
                {
                    self.in_kernel.insert(*object);
                }
                effects.push(Effect::Answer(token, answer));
                return;
            }
            Step::Wants(wants) => {
                let lacks = |object| wants.iter().any(|want| want.object == object);
                if let Some((_, errno)) = parked.failed.filter(|(object, _)| lacks(*object)) {
                    effects.push(Effect::Answer(token, Err(errno)));
                    return;
                }
                self.ask(token, wants, effects);
                None
            }
            Step::Fetch(object, offset, length) => {
                self.fetch_awaited(object, offset, length, effects);
                None
            }
            Step::Space => {
                self.ask_space(token, effects);
                None
            }
            Step::Perform(operation) => Some(self.perform(token, operation, effects)),
            Step::Until(until) => {
                self.cut_group(effects);
                Some(until)
            }
            Step::Wait => parked.until,
        };
        self.parked.insert(token, Parked { until, ..parked });
    }
}
