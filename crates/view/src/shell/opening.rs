//! The flags of open(2), and what an open file's handle says.

use rustix::fs::OFlags;
use surmise_fuse::{self as fuse, Caller, OpenReply};

use super::entry::entry_of;
use super::privileges;
use crate::types::Lifetime;
use crate::view::{Entry, OpenHow, Opened, Way};

/// Of a handle: the file is passed through. The bits above are the number of the open file.
const PASSED: u64 = 1;

/// How a file with these flags is opened.
pub(super) fn how(caller: Caller, flags: u32, kill_privileges: bool) -> OpenHow {
    let truncate = has(flags, OFlags::TRUNC);
    OpenHow {
        truncate,
        drop_privileges: truncate && privileges::dropped_by_change(caller, kill_privileges),
        reads: !has(flags, OFlags::WRONLY),
        writes: has(flags, OFlags::WRONLY) || has(flags, OFlags::RDWR),
        // Passed through, it would be so, at the disk's pace, and nothing that a domain does is to be
        // durable before its commit.
        is_synchronous: has(flags, OFlags::DSYNC) || has(flags, OFlags::DIRECT),
        is_new: false,
        opener: caller.pid,
    }
}

/// What the kernel is told of an open file.
pub(super) fn reply(opened: Opened) -> OpenReply {
    let backing = match opened.way {
        Way::Passed(backing) => Some(backing),
        Way::Messages => None,
    };
    OpenReply {
        handle: (opened.number << 1) | (u64::from(backing.is_some()) * PASSED),
        keep_cache: opened.keep_cache,
        no_flush: true,
        backing,
        ..OpenReply::default()
    }
}

/// What the kernel is told of a file that was opened as it was made.
pub(super) fn replies(mut entry: Entry, how: OpenHow, opened: Opened) -> (fuse::Entry, OpenReply) {
    if how.reads && how.writes && matches!(opened.way, Way::Passed(_)) {
        // A process could map it, and write to it without a message.
        entry.attributes_lifetime = Lifetime::Never;
    }
    (entry_of(&entry), reply(opened))
}

/// Whether the data of an open file with this handle were passed through.
pub(super) fn was_passed(handle: u64) -> bool {
    handle & PASSED != 0
}

/// The number of the open file with this handle.
pub(super) fn number(handle: u64) -> u64 {
    handle >> 1
}

fn has(flags: u32, flag: OFlags) -> bool {
    flags & flag.bits() == flag.bits()
}
