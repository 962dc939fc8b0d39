//! The flags of open(2), and what an open file's handle says.

use rustix::fs::OFlags;
use surmise_fuse::{Caller, OpenReply};

use super::privileges;
use crate::view::{OpenHow, Opened, Way};

/// How a file with these flags is opened.
pub(super) fn how(caller: Caller, flags: u32, kill_privileges: bool) -> OpenHow {
    let truncate = has(flags, OFlags::TRUNC);
    OpenHow {
        truncate,
        drop_privileges: truncate && privileges::dropped_by_change(caller, kill_privileges),
        read: !truncate && !has(flags, OFlags::WRONLY),
        way: way(flags),
    }
}

/// Which way the data of a file with these flags may go. A write that is to be durable would be, at the
/// disk's pace, and is not to be: nothing that a domain does is before its commit.
pub(super) fn way(flags: u32) -> Way {
    if has(flags, OFlags::DSYNC) || has(flags, OFlags::DIRECT) {
        return Way::Messages;
    }
    match has(flags, OFlags::RDWR) {
        true => Way::PassedAndMapped,
        false => Way::Passed,
    }
}

/// What the kernel is told of an open file.
pub(super) fn reply(opened: Opened) -> OpenReply {
    OpenReply {
        handle: match opened.way {
            Way::Messages => 0,
            Way::Passed => 1,
            Way::PassedAndMapped => 2,
        },
        keep_cache: opened.keep_cache,
        no_flush: true,
        backing: opened.backing,
        ..OpenReply::default()
    }
}

/// Which way the data of an open file went.
pub(super) fn way_of(handle: u64) -> Way {
    match handle {
        1 => Way::Passed,
        2 => Way::PassedAndMapped,
        _ => Way::Messages,
    }
}

fn has(flags: u32, flag: OFlags) -> bool {
    flags & flag.bits() == flag.bits()
}
