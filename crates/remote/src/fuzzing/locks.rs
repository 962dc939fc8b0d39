//! Messages about locks.

use crate::errno::Errno;
use crate::frame::{ToClient, ToServer};
use crate::locks::{Api, Attempt, Hold, How, Lock, Verdict};
use crate::object::ObjectId;

use super::root;

/// A lock on a whole file.
pub(super) fn whole(how: How) -> Attempt {
    Attempt {
        api: Api::Fcntl,
        owner: 1,
        first: 0,
        last: u64::MAX,
        hold: Some(Hold::Exclusive),
        how,
        process: 1,
    }
}

pub(super) fn to_server(file: ObjectId) -> [ToServer; 5] {
    let lock = Lock {
        api: Api::Fcntl,
        owner: 1,
        first: 0,
        last: 9,
        hold: Hold::Shared,
        process: 1,
    };
    [
        ToServer::Lock {
            request: 4,
            object: file,
            attempt: whole(How::Wait),
        },
        ToServer::GiveLocks {
            object: file,
            held: vec![lock],
        },
        ToServer::Locks(vec![(file, vec![lock]), (root(), Vec::new())]),
        ToServer::Lock {
            request: 5,
            object: file,
            attempt: Attempt {
                owner: 2,
                ..whole(How::Test)
            },
        },
        ToServer::Unwait { request: 5 },
    ]
}

pub(super) fn to_client(file: ObjectId) -> [ToClient; 3] {
    [
        ToClient::Locked {
            request: 6,
            verdict: Ok(Verdict::Yours),
        },
        ToClient::RecallLocks(file),
        ToClient::Locked {
            request: 7,
            verdict: Err(Errno::NOLCK),
        },
    ]
}
