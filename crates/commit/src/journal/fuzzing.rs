//! Frames of every kind, and what holds of any bytes where one should be.

use surmise_view::fuzzing::joined;
use surmise_view::{FileKind, Identity, InodeKey, ObjectId, Timestamp};

use super::record::{Frame, Left, Made, Staged};
use crate::plan::{
    Aside, Content, Directory, Edit, Expected, Finish, Item, Link, Metadata, Opened, Place,
    Placement, Plan, Removal, Staging,
};
use crate::preimage::{Data, Preimage};
use crate::report::Reason;

/// What is decoded is encoded as the same bytes. Whether it was a frame.
pub(crate) fn frame(payload: &[u8]) -> bool {
    let Some(frame) = Frame::decode(payload) else {
        return false;
    };
    assert_eq!(frame.encode(), payload);
    true
}

/// Journals of one frame each, and one of all.
pub fn seeds() -> Vec<Vec<u8>> {
    let payloads = || frames().into_iter().map(|frame| frame.encode());
    let each = payloads().map(|payload| joined([payload]));
    each.chain([joined(payloads())]).collect()
}

const KEY: InodeKey = InodeKey {
    device: 7,
    inode: 1 << 40,
};

const TIME: Timestamp = Timestamp {
    seconds: -1,
    nanoseconds: 999_999_999,
};

const STATE: Expected = Expected::State(Identity {
    device: 7,
    inode: 8,
    kind: FileKind::Socket,
    size: 9,
    modified: TIME,
    changed: TIME,
});

fn place(name: &str) -> Place {
    Place {
        directory: 3,
        name: name.into(),
    }
}

fn metadata() -> Metadata {
    Metadata {
        permissions: Some(0o7777),
        uid: Some(1),
        gid: None,
        xattrs: vec![("user.x".into(), Some(vec![0, 1])), ("user.y".into(), None)],
        accessed: None,
        modified: Some(TIME),
    }
}

fn stagings() -> Vec<Staging> {
    let contents = [
        Content::Directory,
        Content::Regular {
            object: Some(ObjectId(5)),
        },
        Content::Symlink { target: "t".into() },
        Content::Special {
            kind: FileKind::Fifo,
            device: 6,
        },
        Content::Staged { staging: 0 },
    ];
    let staging = |content| Staging {
        place: place("s"),
        content,
        metadata: Some(metadata()),
    };
    contents.map(staging).to_vec()
}

/// A plan that makes no sense, but has every part.
fn every_part() -> Plan {
    Plan {
        directories: vec![Directory {
            key: Some(KEY),
            staging: Some(4),
            places: vec![place("a"), place("b")],
            modified: Some(TIME),
        }],
        opened: vec![Opened {
            directory: 1,
            permissions: 0o555,
        }],
        stagings: stagings(),
        links: vec![Link {
            key: KEY,
            sources: vec![place("x")],
            place: place("y"),
            to: place("z"),
        }],
        asides: vec![Aside {
            place: place("a"),
            temporary: ".t".into(),
            expected: STATE,
        }],
        placements: vec![Placement {
            item: Item::Staged(2),
            from: place(".t"),
            to: place("n"),
            displaces: Some(STATE),
            home: Some("h".into()),
        }],
        edits: vec![Edit {
            key: KEY,
            places: vec![place("e")],
            object: None,
            metadata: metadata(),
        }],
        removals: vec![Removal {
            place: place("r"),
            expected: Expected::Inode(KEY),
            is_directory: true,
            home: None,
            is_kept: false,
        }],
        finishes: vec![Finish {
            directory: 2,
            metadata: metadata(),
        }],
    }
}

pub(super) fn frames() -> Vec<Frame> {
    let left = vec![Left {
        path: "p".into(),
        reason: Reason::Occupied,
    }];
    let staged = Staged {
        staging: 1,
        key: KEY,
        is_object: true,
    };
    let marks = [
        Frame::Head { root: "/".into() },
        Frame::Stage,
        Frame::Staged(staged),
        Frame::Made(Made {
            staging: 1,
            size: 9,
            modified: TIME,
        }),
        Frame::Preimage(Preimage {
            edit: 3,
            metadata: metadata(),
            data: Some(Data {
                size: 1 << 40,
                sum: 5,
                ranges: vec![(0, 1), (1 << 33, 1 << 32)],
            }),
        }),
        Frame::Undo,
        Frame::Reverted,
        Frame::Go,
        Frame::Written { left: left.clone() },
        Frame::End { left },
    ];
    Frame::of_plan(&every_part()).chain(marks).collect()
}
