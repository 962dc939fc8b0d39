//! The log's bytes: what is written is read back, and nothing that is not an operation passes for
//! one.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use proptest::option;
use proptest::prelude::*;
use surmise_view::{FileKind, Identity, MarkId, NodeId, ObjectId, Operation, Record, Timestamp};

const KINDS: [FileKind; 7] = [
    FileKind::Regular,
    FileKind::Directory,
    FileKind::Symlink,
    FileKind::Fifo,
    FileKind::Socket,
    FileKind::CharacterDevice,
    FileKind::BlockDevice,
];

prop_compose! {
    fn time()(seconds: i64, nanoseconds in 0..1_000_000_000u32) -> Timestamp {
        Timestamp { seconds, nanoseconds }
    }
}

prop_compose! {
    fn identity()(
        device: u64,
        inode: u64,
        kind in prop::sample::select(&KINDS[..]),
        size: u64,
        modified in time(),
        changed in time(),
    ) -> Identity {
        Identity { device, inode, kind, size, modified, changed }
    }
}

fn name() -> impl Strategy<Value = OsString> {
    prop::collection::vec(any::<u8>(), 0..300).prop_map(OsString::from_vec)
}

fn node() -> impl Strategy<Value = NodeId> {
    any::<u64>().prop_map(NodeId)
}

prop_compose! {
    fn adopt()(
        (node, parent, name) in (node(), node(), name()),
        identity in identity(),
        (links, permissions, uid, gid, special) in any::<(u32, u16, u32, u32, u64)>(),
    ) -> Record {
        Record::Adopt { node, parent, name, identity, links, permissions, uid, gid, special }
    }
}

prop_compose! {
    fn create()(
        (node, device, target) in (node(), any::<u64>(), name()),
        kind in prop::sample::select(&KINDS[..]),
        (permissions, uid, gid, special) in any::<(u16, u32, u32, u64)>(),
        object in option::of(any::<u64>().prop_map(ObjectId)),
    ) -> Record {
        Record::Create { node, device, kind, permissions, uid, gid, special, object, target }
    }
}

fn change() -> impl Strategy<Value = Record> {
    let value = option::of(prop::collection::vec(any::<u8>(), 0..100));
    prop_oneof![
        (node(), any::<u64>()).prop_map(|(node, object)| Record::Content {
            node,
            object: ObjectId(object)
        }),
        (node(), any::<u64>(), identity(), any::<(u64, u64)>()).prop_map(
            |(node, object, from, (allocated, limit))| Record::Borrow {
                node,
                object: ObjectId(object),
                from,
                allocated,
                limit
            }
        ),
        (node(), any::<(u64, u64)>()).prop_map(|(node, (first, end))| Record::Own {
            node,
            first,
            end
        }),
        (node(), any::<u64>()).prop_map(|(node, limit)| Record::Cut { node, limit }),
        (node(), any::<u16>())
            .prop_map(|(node, permissions)| Record::Permissions { node, permissions }),
        (node(), any::<u32>(), any::<u32>()).prop_map(|(node, uid, gid)| Record::Owner {
            node,
            uid,
            gid
        }),
        (node(), option::of(time()), option::of(time())).prop_map(|(node, accessed, modified)| {
            Record::Times {
                node,
                accessed,
                modified,
            }
        }),
        (node(), name(), value).prop_map(|(node, name, value)| Record::Xattr { node, name, value }),
    ]
}

fn marks() -> impl Strategy<Value = Vec<MarkId>> {
    prop::collection::vec(any::<u64>().prop_map(MarkId), 0..3)
}

fn record() -> impl Strategy<Value = Record> {
    prop_oneof![
        adopt(),
        create(),
        (node(), name(), node(), option::of(identity())).prop_map(
            |(directory, name, node, lower)| Record::Bind {
                directory,
                name,
                node,
                lower
            }
        ),
        (node(), name(), option::of(identity())).prop_map(|(directory, name, lower)| {
            Record::Unbind {
                directory,
                name,
                lower,
            }
        }),
        change(),
        any::<u64>().prop_map(|mark| Record::By(MarkId(mark))),
        marks().prop_map(Record::Settle),
        marks().prop_map(Record::TakeBack),
        Just(Record::Rebase),
    ]
}

prop_compose! {
    fn operation()(
        time in time(),
        records in prop::collection::vec(record(), 0..6),
    ) -> Operation {
        Operation { time, records }
    }
}

proptest! {
    #[test]
    fn an_operation_is_read_back_as_it_was_written(operation in operation()) {
        prop_assert_eq!(Operation::decode(&operation.encode()), Ok(operation));
    }

    #[test]
    fn a_cut_operation_is_refused_or_a_shorter_one(operation in operation(), cut: usize) {
        let bytes = operation.encode();
        let cut = cut % bytes.len();
        if let Ok(shorter) = Operation::decode(&bytes[..cut]) {
            prop_assert_eq!(&shorter.records[..], &operation.records[..shorter.records.len()]);
            prop_assert!(shorter.records.len() < operation.records.len());
        }
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        if let Ok(operation) = Operation::decode(&bytes) {
            prop_assert_eq!(operation.encode(), bytes);
        }
    }
}
