//! What a server is told, and what it answers with.

use serde::{Deserialize, Serialize};

use crate::errno::Errno;
use crate::frame::{ClientKey, Space, ToClient, ToServer, Urgency};
use crate::lease::ClientId;
use crate::object::{Object, ObjectId, Prefix};
use crate::operation::Operation;
use crate::piece::{Digest, Found};
use crate::tree::Limits;

/// A connection, numbered by the shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Link(pub u64);

/// A moment by a clock that only goes forward, in milliseconds. The time that a machine sleeps counts, since others do not
/// sleep meanwhile (clock_gettime(2), `CLOCK_BOOTTIME`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Moment(pub u64);

/// What a server is told when it starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The directory that it serves.
    pub root: ObjectId,
    /// For how long a client that is not heard of keeps its leases, in milliseconds.
    pub lease_ms: u64,
    /// What the file system bears.
    pub limits: Limits,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A message came.
    Received(Link, ToServer),
    /// A connection is gone.
    Closed(Link),
    /// The disk was asked what an object is ([`Effect::Load`]).
    Loaded(ObjectId, Result<Loaded, Errno>),
    /// Bytes of a file were read ([`Effect::Read`]).
    Read {
        /// As in the effect.
        client: ClientId,
        /// As in the effect.
        request: u64,
        /// As in the effect.
        object: ObjectId,
        /// As in the effect.
        offset: u64,
        /// As in the effect.
        length: u32,
        /// The bytes: fewer than were asked for at the file's end alone.
        data: Result<Found, Errno>,
    },
    /// The file system was asked for its space ([`Effect::Space`]).
    Space {
        /// As in the effect.
        client: ClientId,
        /// As in the effect.
        request: u64,
        /// What it said.
        space: Result<Space, Errno>,
    },
    /// All records up to this one are durable.
    Durable(u64),
    /// The file system has room for about so many more bytes of changes. What is made counts as used.
    Room(u64),
    /// All records up to this one have been made in the directory.
    Applied(u64),
    /// Others than the clients have changed an object in the directory. A [`Event::Loaded`] that does not have the change
    /// comes before this, and one that says `ESTALE` since others have removed the object comes after it.
    Changed(ObjectId),
    /// Others may have changed any object.
    AnyChanged,
    /// A change of this client was decided and could not be made as promised, since others had changed the same. It was said of
    /// all objects that it would have changed that others have changed them.
    Unmade(ClientKey),
    /// A record cannot be made in the directory: the server stops, since it has promised that.
    Broken,
    /// Time has passed.
    Tick,
}

/// What is to be done, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Send a message.
    Send(Link, ToClient),
    /// Close a connection when all that was sent has left.
    Close(Link),
    /// Find out what an object is. A client may have named any number: the shell answers `ESTALE` for what it has not
    /// found below the root, and for what it was told to drop. An object without a name is kept until then, also over
    /// a restart. The versions differ from those of before a restart.
    Load(ObjectId, Urgency),
    /// A program waits by now for what was to be loaded ahead; it is still answered once.
    Hurry(ObjectId),
    /// Read bytes of a file.
    Read {
        /// For whom.
        client: ClientId,
        /// The client's number of the question.
        request: u64,
        /// Which file.
        object: ObjectId,
        /// The first byte.
        offset: u64,
        /// How many.
        length: u32,
        /// Who waits for them.
        urgency: Urgency,
        /// What the client has of them ([`Found::compared`]).
        kept: Option<Digest>,
    },
    /// Find out how much space the file system has.
    Space {
        /// For whom.
        client: ClientId,
        /// The client's number of the question.
        request: u64,
    },
    /// Append a record with this number to the log, make it durable, and then make in the directory what it says.
    Record(u64, Record),
    /// No client can name this object any more, and it has no name either.
    Drop(ObjectId),
}

/// What the log holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    /// A client came.
    Came {
        /// Which.
        client: ClientKey,
        /// What the ids of its objects begin with.
        prefix: Prefix,
        /// For how long it keeps its leases when it is not heard of, in milliseconds.
        lease_ms: u64,
    },
    /// A client that had come before this log began.
    Known {
        /// Which.
        client: ClientKey,
        /// As of [`Record::Came`].
        prefix: Prefix,
        /// As of [`Record::Came`].
        lease_ms: u64,
        /// The last of its groups that came.
        received: u64,
        /// The last object that it has made.
        made: Option<ObjectId>,
        /// Its groups that were refused, while it may not know that: the number of each, which operation was in the way, and
        /// why.
        refused: Vec<(u64, u32, Errno)>,
    },
    /// No prefix before this one is given out again.
    Prefixes(Prefix),
    /// A client is not known any more.
    Gone(ClientKey),
    /// A group was made.
    Made {
        /// Whose.
        client: ClientKey,
        /// Its number.
        sequence: u64,
        /// What it changes.
        operations: Vec<Operation>,
    },
    /// A group was refused.
    Refused {
        /// Whose.
        client: ClientKey,
        /// Its number.
        sequence: u64,
        /// Which operation was in the way.
        index: u32,
        /// Why.
        errno: Errno,
    },
}

/// What the disk has of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded {
    /// The object, with all that is in it.
    pub object: Object,
    /// The directory that it is in, if it is one and not the root.
    pub parent: Option<ObjectId>,
}
