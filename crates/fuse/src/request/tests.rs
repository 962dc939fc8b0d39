//! Requests written out by hand from the layouts in linux/fuse.h.

mod any_bytes;
mod through;

use std::ffi::OsStr;

use super::*;

const UNIQUE: u64 = 0x0102_0304_0506_0708;

/// A request's bytes, field by field.
struct Bytes(Vec<u8>);

impl Bytes {
    fn new(opcode: u32) -> Self {
        Self(Vec::new())
            .u32(0)
            .u32(opcode)
            .u64(UNIQUE)
            .u64(9)
            .u32(1000)
            .u32(100)
            .u32(77)
            .u32(0)
    }

    fn u32(self, value: u32) -> Self {
        self.bytes(&value.to_ne_bytes())
    }

    fn u64(self, value: u64) -> Self {
        self.bytes(&value.to_ne_bytes())
    }

    fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend(bytes);
        self
    }

    /// Sets the header's length to what is there.
    fn sealed(mut self) -> Vec<u8> {
        let length = u32::try_from(self.0.len()).unwrap();
        self.0[..4].copy_from_slice(&length.to_ne_bytes());
        self.0
    }

    #[track_caller]
    fn gives(self, operation: Operation<'_>) {
        let bytes = self.sealed();
        let request = Request::decode(&bytes, Capabilities::LOCAL_VIEW).unwrap();
        assert_eq!(request.unique, UNIQUE);
        assert_eq!(
            request.caller,
            Caller {
                uid: 1000,
                gid: 100,
                pid: 77
            }
        );
        assert_eq!(request.node, 9);
        assert_eq!(request.operation, operation);
    }

    #[track_caller]
    fn gives_through(self, handle: u64, operation: HandleOperation<'_>) {
        self.gives(Operation::Through { handle, operation });
    }
}

fn name(name: &str) -> &OsStr {
    OsStr::new(name)
}

#[test]
fn names() {
    Bytes::new(1)
        .bytes(b"lib\0")
        .gives(Operation::Lookup { name: name("lib") });
    Bytes::new(6)
        .bytes(b"link\0../target\0")
        .gives(Operation::Symlink {
            name: name("link"),
            target: name("../target"),
        });
    Bytes::new(8)
        .u32(0o20644)
        .u32(0x0103)
        .u32(0o22)
        .u32(0)
        .bytes(b"null\0")
        .gives(Operation::Mknod {
            name: name("null"),
            mode: 0o20644,
            umask: 0o22,
            device: 0x0103,
        });
    Bytes::new(9)
        .u32(0o755)
        .u32(0o22)
        .bytes(b"d\0")
        .gives(Operation::Mkdir {
            name: name("d"),
            mode: 0o755,
            umask: 0o22,
        });
    Bytes::new(10)
        .bytes(b"f\0")
        .gives(Operation::Unlink { name: name("f") });
    Bytes::new(11)
        .bytes(b"d\0")
        .gives(Operation::Rmdir { name: name("d") });
    Bytes::new(13)
        .u64(5)
        .bytes(b"again\0")
        .gives(Operation::Link {
            node: 5,
            new_name: name("again"),
        });
}

#[test]
fn both_renames() {
    let renamed = |flags| Operation::Rename {
        name: name("a"),
        new_parent: 4,
        new_name: name("b"),
        flags,
    };
    Bytes::new(12)
        .u64(4)
        .bytes(b"a\0b\0")
        .gives(renamed(RenameFlags::empty()));
    Bytes::new(45)
        .u64(4)
        .u32(2)
        .u32(0)
        .bytes(b"a\0b\0")
        .gives(renamed(RenameFlags::EXCHANGE));
}

#[test]
fn creation_and_opening() {
    let create = Create {
        flags: 0o101,
        mode: 0o100_644,
        umask: 0o22,
        kill_privileges: true,
    };
    let fields = |opcode| {
        Bytes::new(opcode)
            .u32(0o101)
            .u32(0o100_644)
            .u32(0o22)
            .u32(1)
    };
    fields(35).bytes(b"new\0").gives(Operation::Create {
        name: name("new"),
        create,
    });
    fields(51).bytes(b"/\0").gives(Operation::Tmpfile(create));
    Bytes::new(14)
        .u32(0o1001)
        .u32(1)
        .gives(Operation::Open(Open {
            flags: 0o1001,
            kill_privileges: true,
        }));
    Bytes::new(27)
        .u32(0)
        .u32(0)
        .gives(Operation::Opendir(Open::default()));
}

#[test]
fn forgetting() {
    fn pairs(operation: Operation<'_>) -> Vec<(u64, u64)> {
        let Operation::Forget(forgets) = operation else {
            panic!("{operation:?}")
        };
        forgets.collect()
    }
    let single = Bytes::new(2).u64(3).sealed();
    let batch = Bytes::new(42)
        .u32(2)
        .u32(0)
        .u64(5)
        .u64(1)
        .u64(6)
        .u64(2)
        .sealed();
    let agreed = Capabilities::LOCAL_VIEW;
    let single = Request::decode(&single, agreed).unwrap();
    let batch = Request::decode(&batch, agreed).unwrap();
    assert_eq!(pairs(single.operation), [(9, 3)]);
    assert_eq!(pairs(batch.operation), [(5, 1), (6, 2)]);
}

#[test]
fn attributes() {
    Bytes::new(3)
        .u32(1)
        .u32(0)
        .u64(8)
        .gives(Operation::Getattr { handle: Some(8) });
    Bytes::new(3)
        .u32(0)
        .u32(0)
        .u64(8)
        .gives(Operation::Getattr { handle: None });
    Bytes::new(52)
        .u32(1)
        .u32(0)
        .u64(8)
        .u32(0)
        .u32(0x800)
        .gives(Operation::Statx {
            handle: Some(8),
            mask: 0x800,
        });
    let everything = 0b1100_0111_1111; // all but the times of day now and the lock owner
    let set = Bytes::new(4)
        .u32(everything)
        .u32(0)
        .u64(8)
        .u64(4096)
        .u64(0)
        .u64(11)
        .u64(-1i64 as u64)
        .u64(13)
        .u32(1)
        .u32(2)
        .u32(3)
        .u32(0o100_600)
        .u32(0)
        .u32(20)
        .u32(30)
        .u32(0);
    set.gives(Operation::Setattr(SetAttributes {
        size: Some(4096),
        mode: Some(0o100_600),
        uid: Some(20),
        gid: Some(30),
        accessed: Some(TimeToSet::At(Timestamp {
            seconds: 11,
            nanoseconds: 1,
        })),
        modified: Some(TimeToSet::At(Timestamp {
            seconds: -1,
            nanoseconds: 2,
        })),
        changed: Some(Timestamp {
            seconds: 13,
            nanoseconds: 3,
        }),
        kill_privileges: true,
        handle: Some(8),
    }));
    Bytes::new(4)
        .u32(1 << 5 | 1 << 8)
        .u32(0)
        .bytes(&[0; 80])
        .gives(Operation::Setattr(SetAttributes {
            modified: Some(TimeToSet::Now),
            ..SetAttributes::default()
        }));
}

#[test]
fn extended_attributes() {
    let set = |extension: &[u8]| {
        Bytes::new(21)
            .u32(2)
            .u32(1)
            .bytes(extension)
            .bytes(b"user.k\0hi")
            .sealed()
    };
    let expected = |kill_set_group_id| {
        Operation::Xattr(XattrOperation::Set {
            name: name("user.k"),
            value: b"hi",
            flags: 1,
            kill_set_group_id,
        })
    };
    let short = set(&[]);
    let request = Request::decode(&short, Capabilities::empty()).unwrap();
    assert_eq!(request.operation, expected(false));
    let long = set(&[1u32.to_ne_bytes(), [0; 4]].concat());
    let request = Request::decode(&long, Capabilities::SETXATTR_EXT).unwrap();
    assert_eq!(request.operation, expected(true));

    Bytes::new(22)
        .u32(64)
        .u32(0)
        .bytes(b"user.k\0")
        .gives(Operation::Xattr(XattrOperation::Get {
            name: name("user.k"),
            size: 64,
        }));
    Bytes::new(23)
        .u32(0)
        .u32(0)
        .gives(Operation::Xattr(XattrOperation::List { size: 0 }));
    Bytes::new(24)
        .bytes(b"user.k\0")
        .gives(Operation::Xattr(XattrOperation::Remove {
            name: name("user.k"),
        }));
}

#[test]
fn the_handshake_of_old_and_new_kernels() {
    let init = |minor, capabilities| {
        Operation::Init(Init {
            major: 7,
            minor,
            readahead_bytes_max: 131_072,
            capabilities,
        })
    };
    Bytes::new(26)
        .u32(7)
        .u32(31)
        .u32(131_072)
        .u32(1)
        .gives(init(31, Capabilities::ASYNC_READ));
    let both = Capabilities::INIT_EXT | Capabilities::DIRECT_IO_ALLOW_MMAP;
    Bytes::new(26)
        .u32(7)
        .u32(45)
        .u32(131_072)
        .u32(1 << 30)
        .u32(1 << 4)
        .bytes(&[0; 44])
        .gives(init(45, both));
}

#[test]
fn the_rest() {
    Bytes::new(5).gives(Operation::Readlink);
    Bytes::new(17).gives(Operation::Statfs);
    Bytes::new(34)
        .u32(4)
        .u32(0)
        .gives(Operation::Access { mask: 4 });
    Bytes::new(36)
        .u64(1)
        .gives(Operation::Interrupt { request: 1 });
    Bytes::new(38).gives(Operation::Destroy);
    Bytes::new(41).bytes(&[0; 40]).gives(Operation::NotifyReply);
    Bytes::new(50).u64(0).gives(Operation::Syncfs);
    Bytes::new(4242)
        .bytes(b"anything")
        .gives(Operation::Unsupported { opcode: 4242 });
}

#[test]
fn extensions_at_the_end_are_no_data() {
    let mut bytes = Bytes::new(1)
        .bytes(b"unterminated")
        .bytes(&[0; 16])
        .sealed();
    bytes[36..38].copy_from_slice(&2u16.to_ne_bytes());
    let truncated = DecodeError::Truncated {
        unique: UNIQUE,
        opcode: 1,
    };
    assert_eq!(
        Request::decode(&bytes, Capabilities::empty()),
        Err(truncated)
    );
}

#[test]
fn a_length_that_lies_is_refused() {
    let mut bytes = Bytes::new(17).sealed();
    bytes.push(0);
    let wrong = DecodeError::Length { received: 41 };
    assert_eq!(Request::decode(&bytes, Capabilities::empty()), Err(wrong));
}
