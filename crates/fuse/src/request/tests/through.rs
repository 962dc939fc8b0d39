//! Requests through an open file or directory.

use super::Bytes;
use crate::{CopyRange, FileLock, HandleOperation, Ioctl, LockKind, Operation, Write};

#[test]
fn data() {
    let range = |opcode, size| Bytes::new(opcode).u64(8).u64(512).u32(size);
    let tail = |bytes: Bytes, flags| bytes.u32(flags).u64(0).u32(0).u32(0);
    tail(range(15, 100), 0).gives_through(
        8,
        HandleOperation::Read {
            offset: 512,
            size: 100,
        },
    );
    tail(range(28, 100), 0).gives_through(
        8,
        HandleOperation::Readdir {
            offset: 512,
            size: 100,
        },
    );
    tail(range(44, 100), 0).gives_through(
        8,
        HandleOperation::Readdirplus {
            offset: 512,
            size: 100,
        },
    );
    for (flags, from_cache, kill_privileges) in [(1, true, false), (4, false, true)] {
        let write = Write {
            offset: 512,
            data: b"data",
            flags: 0o2001,
            from_cache,
            kill_privileges,
        };
        range(16, 4)
            .u32(flags)
            .u64(0)
            .u32(0o2001)
            .u32(0)
            .bytes(b"data")
            .gives_through(8, HandleOperation::Write(write));
    }
}

#[test]
fn open_files() {
    let released = |opcode| Bytes::new(opcode).u64(8).u32(2).u32(0).u64(0);
    let release = |flock_owner| HandleOperation::Release {
        flags: 2,
        flock_owner,
    };
    released(18).gives_through(8, release(None));
    let unlocking = Bytes::new(18).u64(8).u32(2).u32(2).u64(7);
    unlocking.gives_through(8, release(Some(7)));
    released(29).gives_through(8, HandleOperation::Releasedir { flags: 2 });
    let flushed = Bytes::new(25).u64(8).u32(0).u32(0).u64(7);
    flushed.gives_through(8, HandleOperation::Flush { lock_owner: 7 });
    let synced = |opcode, flags| Bytes::new(opcode).u64(8).u32(flags).u32(0);
    synced(20, 1).gives_through(8, HandleOperation::Fsync { data_only: true });
    synced(30, 0).gives_through(8, HandleOperation::Fsyncdir { data_only: false });
    Bytes::new(43)
        .u64(8)
        .u64(1)
        .u64(2)
        .u32(3)
        .u32(0)
        .gives_through(
            8,
            HandleOperation::Fallocate {
                offset: 1,
                length: 2,
                mode: 3,
            },
        );
    Bytes::new(46)
        .u64(8)
        .u64(-5i64 as u64)
        .u32(3)
        .u32(0)
        .gives_through(
            8,
            HandleOperation::Lseek {
                offset: -5,
                whence: 3,
            },
        );
}

#[test]
fn locks() {
    let kinds = [LockKind::Shared, LockKind::Exclusive, LockKind::None];
    let wire = |opcode, number, flags| {
        let range = Bytes::new(opcode).u64(8).u64(7).u64(10).u64(19);
        range.u32(number).u32(77).u32(flags).u32(0)
    };
    for (number, kind) in (0..).zip(kinds) {
        for (flags, is_flock) in [(0, false), (1, true)] {
            let lock = FileLock {
                owner: 7,
                first: 10,
                last: 19,
                kind,
                process: 77,
                is_flock,
            };
            wire(31, number, flags).gives_through(8, HandleOperation::Getlk(lock));
            for (opcode, waits) in [(32, false), (33, true)] {
                let set = HandleOperation::Setlk { lock, waits };
                wire(opcode, number, flags).gives_through(8, set);
            }
        }
    }
    wire(32, 3, 0).gives(Operation::Unsupported { opcode: 32 });
}

#[test]
fn copies_and_device_calls() {
    let copy = CopyRange {
        from_offset: 1,
        to_node: 2,
        to_handle: 3,
        to_offset: 4,
        length: 5,
        flags: 0,
    };
    for (opcode, wide) in [(47, false), (53, true)] {
        Bytes::new(opcode)
            .u64(8)
            .u64(1)
            .u64(2)
            .u64(3)
            .u64(4)
            .u64(5)
            .u64(0)
            .gives_through(8, HandleOperation::CopyFileRange { copy, wide });
    }
    let ioctl = Ioctl {
        command: 0x5401,
        argument: 6,
        input: b"in",
    };
    Bytes::new(39)
        .u64(8)
        .u32(0)
        .u32(0x5401)
        .u64(6)
        .u32(2)
        .u32(4)
        .bytes(b"in")
        .gives_through(
            8,
            HandleOperation::Ioctl {
                ioctl,
                output_size: 4,
            },
        );
}
