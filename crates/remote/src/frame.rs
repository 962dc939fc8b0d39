//! What goes over a connection. A frame is its length, four bytes little-endian, and one message in the wire format
//! of the crate `postcard` (version 1). The crate `surmise-wire` has frames go over the line in blocks, compressed or as they are. The
//! transport, which is ssh or TLS, sees to it that bytes are neither lost nor changed.

#[cfg(test)]
mod tests;

use std::fmt::{self, Display, Formatter};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::errno::Errno;
use crate::lease::Mode;
use crate::locks::{Attempt, Lock, Verdict};
use crate::object::{Attributes, Extended, Name, ObjectId, Prefix, Versions};
use crate::operation::Operation;
use crate::piece::Digest;
use crate::tree::Limits;

/// The first thing that either side says. Another version is refused before anything else is read.
pub const PROTOCOL: u32 = 3;

/// The longest message, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 4 << 20;

/// How many bytes of a file one message carries at most.
pub const DATA_BYTES_MAX: usize = 1 << 20;

/// How many objects one [`ToServer::Forget`] or [`ToClient::Nameless`] names at most.
pub const FORGET_MAX: usize = 1 << 16;

const LENGTH_BYTES: usize = 4;

/// A mounted client, chosen by itself at random: by this it is known again over another connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ClientKey(pub [u8; 16]);

/// From a client to the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToServer {
    /// The first message of a connection.
    Hello {
        /// [`PROTOCOL`].
        protocol: u32,
        /// Who it is.
        client: ClientKey,
        /// What the ids of its objects begin with, if it was welcomed before. A client that was given up since
        /// may come again and miss the welcome; by this it shows that it does not know yet.
        prefix: Option<Prefix>,
        /// The last group whose verdict it has.
        decided: u64,
    },
    /// Changes that the client has made, all of them or none.
    Group {
        /// One more than that of the group before.
        sequence: u64,
        /// The changes, in their order.
        operations: Vec<Operation>,
    },
    /// One change that only the server can tell the outcome of. The client has not made it, and waits.
    Perform {
        /// As of a group.
        sequence: u64,
        /// The change.
        operation: Operation,
    },
    /// The client needs leases, all of them at once.
    Ask {
        /// The client's number of the question.
        request: u64,
        /// Which.
        wants: Vec<Want>,
        /// About how many more objects the client would take besides, of what is below these.
        ahead: u32,
    },
    /// The client would take more objects that cost nobody anything: of what is below a directory, and then of what comes behind
    /// it in the order of names. No program waits for them.
    Explore {
        /// The client's number of the question.
        request: u64,
        /// Where to begin.
        directory: ObjectId,
        /// How many objects at most that the client does not have.
        most: u32,
    },
    /// The client wants bytes of a file that it has a lease on.
    Fetch {
        /// The client's number of the question.
        request: u64,
        /// Which file.
        object: ObjectId,
        /// The first byte.
        offset: u64,
        /// How many, at most [`DATA_BYTES_MAX`].
        length: u32,
        /// Who waits for them.
        urgency: Urgency,
        /// What the client has kept of just these bytes. If they are that, they are not sent.
        kept: Option<Digest>,
    },
    /// The client wants to know how much space there is.
    Space {
        /// The client's number of the question.
        request: u64,
    },
    /// The client gives a lease back.
    Lower {
        /// The number of the recall. A recall is answered again over another connection; the server takes one answer.
        recall: u64,
        /// On what.
        object: ObjectId,
        /// What it keeps.
        to: Mode,
    },
    /// The client does not know these objects any more. The server heeds this only for objects without a name.
    Forget(Vec<ObjectId>),
    /// The client keeps leases to read on these objects, where it had leases to change them. Nobody has asked for that. At most
    /// [`SHARE_MAX`] of them.
    Share(Vec<ObjectId>),
    /// A program of the client wants a lock, or lifts one, and the client is not master of the object's locks.
    Lock {
        /// The client's number of the question.
        request: u64,
        /// On what.
        object: ObjectId,
        /// What it wants.
        attempt: Attempt,
    },
    /// The program waits for its lock no more. Unless the server has answered by now, its answer is `EINTR`.
    Unwait {
        /// The number of the question.
        request: u64,
    },
    /// The client is master of the object's locks no more.
    GiveLocks {
        /// Which object.
        object: ObjectId,
        /// All locks that its programs hold there.
        held: Vec<Lock>,
    },
    /// All locks that the client's programs hold, on all objects: what a client that was known before says first over another
    /// connection. It is master of none, and waits for none.
    Locks(Vec<(ObjectId, Vec<Lock>)>),
    /// The client does not come again. All its groups are decided. Once they are in the directory, the server answers with
    /// [`Reason::Left`].
    Bye,
    /// All groups that were undecided when the connection began have been sent again.
    Resent,
    /// The client is there.
    Ping {
        /// Comes back with [`ToClient::Pong`].
        number: u64,
        /// As of [`ToServer::Hello`].
        decided: u64,
    },
}

impl ToServer {
    /// About how much memory it takes.
    pub fn bytes(&self) -> usize {
        const FIXED: usize = 64;
        let more = match self {
            Self::Group { operations, .. } => operations.iter().map(Operation::bytes).sum(),
            Self::Perform { operation, .. } => operation.bytes(),
            Self::Ask { wants, .. } => wants.len() * size_of::<Want>(),
            Self::Forget(objects) | Self::Share(objects) => objects.len() * size_of::<ObjectId>(),
            Self::GiveLocks { held, .. } => size_of_val(&held[..]),
            Self::Locks(all) => {
                let each = all.iter().map(|(_, held)| FIXED + size_of_val(&held[..]));
                each.sum()
            }
            _ => 0,
        };
        FIXED + more
    }
}

/// How many objects one [`ToServer::Share`] has.
pub const SHARE_MAX: usize = 256;

/// Whether a program waits for an answer. What is awaited goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Urgency {
    /// Nobody waits yet.
    Ahead,
    /// A program waits.
    Awaited,
}

/// A lease that a client needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Want {
    /// On what.
    pub object: ObjectId,
    /// For what.
    pub mode: Mode,
    /// Whether it needs a directory's names as well.
    pub names: bool,
    /// What it has kept of the object; nothing of that is sent again while it is right.
    pub kept: Option<Versions>,
}

/// From the server to a client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToClient {
    /// The answer to [`ToServer::Hello`].
    Welcome(Welcome),
    /// The server does not take the client, or not any longer; it then closes the connection.
    Farewell(Reason),
    /// Names of a directory. All of a directory's names come, in one or more of these, before the
    /// [`ToClient::Leases`] that gives the lease on it.
    Names {
        /// Which directory.
        directory: ObjectId,
        /// Some of its names.
        names: Vec<(Name, ObjectId)>,
    },
    /// The client has these leases: those that it wants, and others that cost nobody anything.
    Leases(Vec<Lease>),
    /// The client has all leases that it asked for.
    Granted {
        /// The number of the question.
        request: u64,
    },
    /// The answer to [`ToServer::Explore`], behind the leases.
    Explored {
        /// The number of the question.
        request: u64,
        /// Whether there is more to be had from where the client began.
        has_more: bool,
    },
    /// One of the objects that the client wanted a lease on is no more, or cannot be read.
    Failed {
        /// The number of the question.
        request: u64,
        /// Which object.
        object: ObjectId,
        /// Why.
        errno: Errno,
    },
    /// Bytes of a file; fewer than were asked for at its end alone.
    Data {
        /// The number of the question.
        request: u64,
        /// The bytes.
        #[serde(with = "crate::bytes")]
        data: Vec<u8>,
    },
    /// How much space there is.
    Space {
        /// The number of the question.
        request: u64,
        /// How much.
        space: Space,
    },
    /// All groups up to this one are durable, but for those that a `Refused` names.
    Decided {
        /// The sequence number.
        upto: u64,
    },
    /// A group, or what was to be performed, was not made.
    Refused {
        /// Its sequence number.
        sequence: u64,
        /// Which operation was in the way.
        index: u32,
        /// Why.
        errno: Errno,
    },
    /// An object that the client knows has lost its last name. Once the client does not need it any more, it says
    /// [`ToServer::Forget`].
    Nameless(Vec<ObjectId>),
    /// The client has to give a lease back.
    Recall {
        /// Its number.
        recall: u64,
        /// On what.
        object: ObjectId,
        /// What it may keep.
        to: Mode,
    },
    /// The answer to [`ToServer::Lock`].
    Locked {
        /// The number of the question.
        request: u64,
        /// What the server says.
        verdict: Result<Verdict, Errno>,
    },
    /// Another client wants a lock: the client has to give the mastery of an object's locks back, if it has not yet
    /// ([`ToServer::GiveLocks`]).
    RecallLocks(ObjectId),
    /// The answer to [`ToServer::Ping`].
    Pong(u64),
    /// A change of this client could not be made in the directory, since others there have changed the same. The server has
    /// kept the data of both.
    Unmade,
    /// The bytes that were asked for are those that the client has kept.
    Same {
        /// The number of the question.
        request: u64,
    },
}

/// What a client has to know of the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// [`PROTOCOL`].
    pub protocol: u32,
    /// Whether the server still knows the client, so that it takes the client's undecided groups.
    pub is_known: bool,
    /// Whether the client still has its leases.
    pub has_leases: bool,
    /// The last group of this client that the server has.
    pub received: u64,
    /// The directory that the mount shows.
    pub root: ObjectId,
    /// What the ids of the client's objects begin with.
    pub prefix: Prefix,
    /// For how long a client that is not heard of keeps its leases, in milliseconds.
    pub lease_ms: u64,
    /// What the server's file system bears.
    pub limits: Limits,
}

/// The space of the server's file system (statvfs(3)).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Space {
    /// The unit of the next three, in bytes.
    pub block_bytes: u32,
    /// All blocks.
    pub blocks: u64,
    /// Free blocks.
    pub blocks_free: u64,
    /// Free blocks that are not reserved for root.
    pub blocks_available: u64,
    /// How many objects there can be.
    pub objects: u64,
    /// How many more there can be.
    pub objects_free: u64,
}

/// Why a server has nothing more to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reason {
    /// It speaks another version of the protocol: this one.
    Protocol(u32),
    /// The client said what no client says.
    Breach,
    /// The client was not heard of for too long while others waited for it.
    Expired,
    /// The directory cannot be served any longer.
    Stopped,
    /// The client has said [`ToServer::Bye`], and all its changes are in the directory.
    Left,
}

impl Display for Reason {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Protocol(version) => write!(f, "it speaks version {version} of the protocol"),
            Self::Breach => write!(f, "it did not understand what it was sent"),
            Self::Expired => write!(f, "it has given this client up"),
            Self::Stopped => write!(f, "it cannot serve the directory any longer"),
            Self::Left => write!(f, "this client has left"),
        }
    }
}

/// A lease, and the state of its object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// On what.
    pub object: ObjectId,
    /// For what.
    pub mode: Mode,

    /// Whether the client now has a directory's names.
    pub names: bool,
    /// What the object is; `None` if the client has that.
    pub state: Option<State>,
}

/// An object, but for its names and its data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// What stat(2) tells.
    pub attributes: Attributes,
    /// In which state each part is.
    pub versions: Versions,
    /// Its extended attributes.
    pub extended: Extended,
    /// Where a symbolic link leads.
    pub target: Option<Vec<u8>>,
}

/// Why what came is no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Its length is above the limit.
    #[error("a message of {0} bytes, above {MESSAGE_BYTES_MAX}")]
    TooLong(usize),
    /// It does not decode, or has bytes behind its end.
    #[error("a message that does not decode")]
    Garbled,
}

/// Appends a message with its length to `bytes`.
///
/// # Errors
/// [`FrameError::TooLong`], and nothing was appended.
pub fn encode(message: &impl Serialize, bytes: &mut Vec<u8>) -> Result<(), FrameError> {
    let start = bytes.len();
    bytes.extend([0; LENGTH_BYTES]);
    let sent = postcard::to_extend(message, std::mem::take(bytes));
    *bytes = sent.expect("a vector takes all, and no type of ours fails to serialize");
    let length = bytes.len() - start - LENGTH_BYTES;
    if length > MESSAGE_BYTES_MAX {
        bytes.truncate(start);
        return Err(FrameError::TooLong(length));
    }
    let length = u32::try_from(length).expect("below the limit");
    bytes[start..start + LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
    Ok(())
}

/// Takes messages out of the bytes of a connection.
#[derive(Debug, Default)]
pub struct Decoder {
    bytes: Vec<u8>,
    /// Up to where they have been taken.
    taken: usize,
}

impl Decoder {
    /// What came.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.taken);
        self.taken = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// Whether all that came has been taken.
    pub fn is_empty(&self) -> bool {
        self.taken == self.bytes.len()
    }

    /// The next message; `None` until more has come.
    ///
    /// # Errors
    /// [`FrameError`]: nothing that follows can be understood.
    pub fn message<M: DeserializeOwned>(&mut self) -> Result<Option<M>, FrameError> {
        let left = &self.bytes[self.taken..];
        let Some((length, rest)) = left.split_first_chunk::<LENGTH_BYTES>() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes(*length) as usize;
        if length > MESSAGE_BYTES_MAX {
            return Err(FrameError::TooLong(length));
        }
        let Some(message) = rest.get(..length) else {
            return Ok(None);
        };
        let (message, behind) =
            postcard::take_from_bytes(message).map_err(|_| FrameError::Garbled)?;
        if !behind.is_empty() {
            return Err(FrameError::Garbled);
        }
        self.taken += LENGTH_BYTES + length;
        Ok(Some(message))
    }
}
