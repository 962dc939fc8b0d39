//! What holds of any bytes where a view's log should be. Ordinary tests ask it of mutated logs, and the
//! targets in `fuzz/` of whatever libFuzzer finds.

use std::ffi::OsString;

use crate::map::{Map, Node};
use crate::record::{Operation, Record};
use crate::types::{FileKind, Identity, MarkId, NodeId, ObjectId, Timestamp};
use crate::view::undo_undecided;

/// One operation: what is decoded is encoded as the same bytes. Whether it was one.
///
/// # Panics
/// When that does not hold.
pub fn operation(bytes: &[u8]) -> bool {
    let Ok(operation) = Operation::decode(bytes) else {
        return false;
    };
    assert_eq!(operation.encode(), bytes);
    true
}

/// A log of operations, each behind its length in two bytes: it is folded into a map, or is told to be
/// none. The map; `None` where it was no log.
///
/// # Panics
/// When that does not hold.
pub fn map(bytes: &[u8]) -> Option<Map> {
    let mut map = Map::default();
    for payload in pieces(bytes) {
        map.apply(&Operation::decode(payload).ok()?).ok()?;
    }
    if !map.is_undecided() {
        map.prune();
    }
    Some(map)
}

/// What a damaged log, of which any operations are missing, makes a map of. Only to be shown.
pub fn salvaged(bytes: &[u8]) -> Map {
    let mut map = Map::default();
    for payload in pieces(bytes) {
        // Those that do not fit are left out, as far as they do not.
        let _ = Operation::decode(payload).map(|operation| map.apply(&operation));
    }
    undo_undecided(&mut map);
    map.prune();
    map
}

/// A number of operations in one byte, and a log, in which what comes after so many is undone.
///
/// # Panics
/// When the map is not as it was after the first.
pub fn undo(bytes: &[u8]) -> bool {
    let Some((&count, log)) = bytes.split_first() else {
        return false;
    };
    let mut payloads = pieces(log);
    let mut before = Map::default();
    for payload in payloads.by_ref().take(count.into()) {
        let operation = Operation::decode(payload).ok();
        if operation.is_none_or(|operation| before.apply(&operation).is_err()) {
            return false;
        }
    }
    let mark = MarkId(before.last_mark().0.saturating_add(1));
    if before.is_undecided() {
        return false;
    }
    let mut after = before.clone();
    for payload in payloads {
        let Ok(mut operation) = Operation::decode(payload) else {
            return false;
        };
        // A view neither commits nor decides meanwhile.
        let decides = |record: &Record| {
            matches!(
                record,
                Record::Rebase | Record::By(_) | Record::Settle(_) | Record::TakeBack(_)
            )
        };
        if operation.records.iter().any(decides) {
            return false;
        }
        operation.records.insert(0, Record::By(mark));
        if after.apply(&operation).is_err() {
            return false;
        }
    }
    let undone = after.apply(&alone(Record::TakeBack(vec![mark])));
    undone.expect("the only mark can be undone");
    let (known, adopted): (Vec<_>, Vec<_>) = after
        .nodes()
        .partition(|(id, _)| before.node(*id).is_some());
    for (_, node) in adopted {
        assert!(node.origin.is_some() && !node.is_modified() && node.entries.is_empty());
    }
    let sorted = |mut nodes: Vec<(NodeId, &Node)>| {
        nodes.sort_by_key(|(id, _)| *id);
        format!("{nodes:?}")
    };
    assert_eq!(sorted(before.nodes().collect()), sorted(known));
    true
}

/// The payloads in bytes that hold each behind its length in two bytes; the last may be cut off.
pub fn pieces(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (length, rest) = bytes.split_first_chunk()?;
        let length = usize::from(u16::from_le_bytes(*length)).min(rest.len());
        let (piece, rest) = rest.split_at(length);
        bytes = rest;
        Some(piece)
    })
}

/// Payloads as [`pieces`] reads them.
///
/// # Panics
/// When one is longer than 64 KiB.
pub fn joined(payloads: impl IntoIterator<Item = Vec<u8>>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for payload in payloads {
        let length = u16::try_from(payload.len()).expect("seeds are short");
        bytes.extend(length.to_le_bytes());
        bytes.extend(payload);
    }
    bytes
}

/// Operations as a view writes them.
pub fn operations() -> Vec<Vec<u8>> {
    let operations = history().into_iter();
    operations.map(|operation| operation.encode()).collect()
}

/// Logs as a view writes them, of several lengths.
pub fn logs() -> Vec<Vec<u8>> {
    let all = operations();
    (1..=all.len())
        .map(|count| joined(all[..count].to_vec()))
        .collect()
}

/// Each log, in which what comes after some operation is undone.
pub fn undos() -> Vec<Vec<u8>> {
    let counted = |(count, log): (u8, Vec<u8>)| [vec![count], log].concat();
    (0..5).zip(logs()).map(counted).collect()
}

const TIME: Timestamp = Timestamp {
    seconds: 1_700_000_000,
    nanoseconds: 999_999_999,
};

fn alone(record: Record) -> Operation {
    Operation {
        time: TIME,
        records: vec![record],
    }
}

fn identity(inode: u64, kind: FileKind) -> Identity {
    Identity {
        device: 7,
        inode,
        kind,
        size: 3 << 20,
        modified: TIME,
        changed: TIME,
    }
}

fn adopt(node: u64, parent: u64, name: &str, kind: FileKind) -> Record {
    Record::Adopt {
        node: NodeId(node),
        parent: NodeId(parent),
        name: name.into(),
        identity: identity(100 + node, kind),
        links: 1,
        permissions: 0o755,
        uid: 1000,
        gid: 1000,
        special: 0,
    }
}

fn create(node: u64, kind: FileKind, object: Option<u64>, target: &str) -> Record {
    Record::Create {
        node: NodeId(node),
        device: 7,
        kind,
        permissions: 0o644,
        uid: 1000,
        gid: 1000,
        special: 0,
        object: object.map(ObjectId),
        target: target.into(),
    }
}

fn bind(directory: u64, name: &str, node: u64, lower: Option<Identity>) -> Record {
    Record::Bind {
        directory: NodeId(directory),
        name: name.into(),
        node: NodeId(node),
        lower,
    }
}

fn unbind(directory: u64, name: &str, lower: Option<Identity>) -> Record {
    Record::Unbind {
        directory: NodeId(directory),
        name: name.into(),
        lower,
    }
}

/// A domain that does everything once.
fn history() -> Vec<Operation> {
    let timed = |records| Operation {
        time: TIME,
        records,
    };
    let operations = names().into_iter().chain(changes());
    operations.map(timed).collect()
}

fn names() -> Vec<Vec<Record>> {
    let root = NodeId::ROOT.0;
    let file = |inode| Some(identity(inode, FileKind::Regular));
    vec![
        vec![
            adopt(root, root, "", FileKind::Directory),
            create(2, FileKind::Regular, Some(1), ""),
            bind(root, "new", 2, None),
        ],
        vec![
            adopt(3, root, "directory", FileKind::Directory),
            adopt(4, 3, "large", FileKind::Regular),
            Record::Borrow {
                node: NodeId(4),
                object: ObjectId(2),
                from: identity(104, FileKind::Regular),
                allocated: 6144,
                limit: 3 << 20,
            },
            Record::Own {
                node: NodeId(4),
                first: 2,
                end: 4,
            },
            Record::Cut {
                node: NodeId(4),
                limit: 1 << 20,
            },
        ],
        vec![
            unbind(3, "large", file(104)),
            bind(root, "moved", 4, file(9)),
        ],
        vec![
            create(5, FileKind::Symlink, None, "to"),
            bind(3, "link", 5, None),
        ],
    ]
}

fn changes() -> Vec<Vec<Record>> {
    vec![
        vec![
            Record::Content {
                node: NodeId(2),
                object: ObjectId(3),
            },
            Record::Permissions {
                node: NodeId(2),
                permissions: 0o4711,
            },
            Record::Owner {
                node: NodeId(2),
                uid: 0,
                gid: 5,
            },
            Record::Times {
                node: NodeId(2),
                accessed: Some(TIME),
                modified: None,
            },
            Record::Xattr {
                node: NodeId(2),
                name: "user.x".into(),
                value: Some(vec![0, 255]),
            },
            Record::Xattr {
                node: NodeId(2),
                name: "user.y".into(),
                value: None,
            },
        ],
        vec![Record::By(MarkId(1)), unbind(NodeId::ROOT.0, "new", None)],
        vec![
            Record::By(MarkId(2)),
            create(6, FileKind::Directory, None, ""),
            bind(3, "below", 6, None),
        ],
        vec![
            Record::TakeBack(vec![MarkId(2)]),
            Record::Settle(vec![MarkId(1)]),
        ],
        vec![Record::Xattr {
            node: NodeId(2),
            name: OsString::from("user.x"),
            value: None,
        }],
        vec![Record::Rebase, create(7, FileKind::Regular, Some(4), "")],
    ]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use surmise_testkit::mutations;

    use super::*;

    #[test]
    fn the_seeds_are_logs() {
        assert!(operations().iter().all(|bytes| operation(bytes)));
        assert!(logs().iter().all(|bytes| map(bytes).is_some()));
        assert!(undos().iter().all(|bytes| undo(bytes)));
    }

    /// Who walks from a directory to the root would never come there.
    #[test]
    fn no_directory_but_the_root_is_in_itself() {
        let root = NodeId::ROOT.0;
        let log = |node| {
            [
                alone(adopt(root, root, "", FileKind::Directory)),
                alone(adopt(node, node, "d", FileKind::Directory)),
            ]
        };
        let log = log(3).map(|operation| operation.encode());
        assert!(map(&joined(log)).is_none());
    }

    proptest! {
        #[test]
        fn any_operation_is_read_or_refused(bytes in mutations(operations())) {
            operation(&bytes);
        }

        #[test]
        fn any_log_is_folded_or_refused(bytes in mutations(logs())) {
            map(&bytes);
        }

        #[test]
        fn what_any_log_does_can_be_undone(bytes in mutations(undos())) {
            undo(&bytes);
        }
    }
}
