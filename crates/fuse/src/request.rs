//! Decoding: one buffer read from the device into one [`Request`]. Total: any bytes give a
//! request or an error.

mod operation;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use thiserror::Error;
use zerocopy::FromBytes;

use crate::abi::flags::{self, fattr};
use crate::abi::{input, opcode};
use crate::{
    Caller, Capabilities, CopyRange, Create, Ioctl, Open, RenameFlags, SetAttributes, TimeToSet,
    Timestamp, Write,
};

pub use operation::{Forgets, HandleOperation, Init, Operation};

/// Why bytes are no request. The kernel does not send such; a version of it to come might.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum DecodeError {
    /// No header, or one that tells another length than arrived.
    #[error("a request of {received} bytes whose header tells another length")]
    Length {
        /// How many bytes arrived.
        received: usize,
    },
    /// A known operation whose fields, names or data end early.
    #[error("request {unique} (operation {opcode}) ends early")]
    Truncated {
        /// The request to refuse.
        unique: u64,
        /// Its operation.
        opcode: u32,
    },
}

/// One request.
#[derive(Clone, Debug, PartialEq)]
pub struct Request<'a> {
    /// What its reply has to name.
    pub unique: u64,
    /// Who asks.
    pub caller: Caller,
    /// Which node it is about; 0 if none.
    pub node: u64,
    /// What it asks for.
    pub operation: Operation<'a>,
}

impl<'a> Request<'a> {
    /// Decodes the bytes of one read from the device; `agreed` is the handshake's outcome, on
    /// which some layouts depend.
    pub fn decode(bytes: &'a [u8], agreed: Capabilities) -> Result<Self, DecodeError> {
        let length = DecodeError::Length {
            received: bytes.len(),
        };
        let (header, body) = input::InHeader::read_from_prefix(bytes).map_err(|_| length)?;
        if u32::try_from(bytes.len()) != Ok(header.len) {
            return Err(length);
        }
        let extensions = usize::from(header.total_extlen) * 8;
        let body = body
            .len()
            .checked_sub(extensions)
            .map(|end| &body[..end])
            .ok_or(length)?;
        let operation = decode_operation(&header, Body(body), agreed).map_err(|End| {
            DecodeError::Truncated {
                unique: header.unique,
                opcode: header.opcode,
            }
        })?;
        Ok(Self {
            unique: header.unique,
            caller: Caller {
                uid: header.uid,
                gid: header.gid,
                pid: header.pid,
            },
            node: header.nodeid,
            operation,
        })
    }
}

fn decode_operation<'a>(
    header: &input::InHeader,
    mut body: Body<'a>,
    agreed: Capabilities,
) -> Result<Operation<'a>, End> {
    Ok(match header.opcode {
        opcode::INIT => Operation::Init(init(&mut body)?),
        opcode::FORGET => {
            let input::ForgetIn { nlookup } = body.fixed()?;
            Operation::Forget(Forgets::single(header.nodeid, nlookup))
        }
        opcode::BATCH_FORGET => {
            let batch: input::BatchForgetIn = body.fixed()?;
            let length = size_of::<input::ForgetOne>().checked_mul(batch.count as usize);
            Operation::Forget(Forgets::batch(body.data(length.ok_or(End)?)?))
        }
        opcode::INTERRUPT => Operation::Interrupt,
        opcode::DESTROY => Operation::Destroy,
        opcode::NOTIFY_REPLY => Operation::NotifyReply,
        opcode::STATFS => Operation::Statfs,
        opcode::SYNCFS => Operation::Syncfs,
        _ => return node_operation(header.opcode, body, agreed),
    })
}

/// Operations on an object as such: attributes and extended attributes.
fn node_operation<'a>(
    code: u32,
    mut body: Body<'a>,
    agreed: Capabilities,
) -> Result<Operation<'a>, End> {
    Ok(match code {
        opcode::GETATTR => {
            let get: input::GetattrIn = body.fixed()?;
            let handle = (get.getattr_flags & flags::GETATTR_FH != 0).then_some(get.fh);
            Operation::Getattr { handle }
        }
        opcode::STATX => {
            let get: input::StatxIn = body.fixed()?;
            let handle = (get.getattr_flags & flags::GETATTR_FH != 0).then_some(get.fh);
            Operation::Statx {
                handle,
                mask: get.sx_mask,
            }
        }
        opcode::SETATTR => Operation::Setattr(set_attributes(&body.fixed()?)),
        opcode::READLINK => Operation::Readlink,
        opcode::ACCESS => {
            let access: input::AccessIn = body.fixed()?;
            Operation::Access { mask: access.mask }
        }
        opcode::SETXATTR => {
            let set: input::SetxattrIn = body.fixed()?;
            let more = if agreed.contains(Capabilities::SETXATTR_EXT) {
                body.fixed()?
            } else {
                input::SetxattrExtIn::default()
            };
            Operation::Setxattr {
                name: body.name()?,
                value: body.data(set.size as usize)?,
                flags: set.flags,
                kill_set_group_id: more.setxattr_flags & flags::SETXATTR_ACL_KILL_SGID != 0,
            }
        }
        opcode::GETXATTR => {
            let get: input::GetxattrIn = body.fixed()?;
            Operation::Getxattr {
                name: body.name()?,
                size: get.size,
            }
        }
        opcode::LISTXATTR => {
            let list: input::GetxattrIn = body.fixed()?;
            Operation::Listxattr { size: list.size }
        }
        opcode::REMOVEXATTR => Operation::Removexattr { name: body.name()? },
        _ => return name_operation(code, body),
    })
}

/// Operations on a name in a directory.
fn name_operation(code: u32, mut body: Body<'_>) -> Result<Operation<'_>, End> {
    Ok(match code {
        opcode::LOOKUP => Operation::Lookup { name: body.name()? },
        opcode::SYMLINK => Operation::Symlink {
            name: body.name()?,
            target: body.name()?,
        },
        opcode::MKNOD => {
            let input::MknodIn {
                mode, rdev, umask, ..
            } = body.fixed()?;
            Operation::Mknod {
                name: body.name()?,
                mode,
                umask,
                device: rdev,
            }
        }
        opcode::MKDIR => {
            let input::MkdirIn { mode, umask } = body.fixed()?;
            Operation::Mkdir {
                name: body.name()?,
                mode,
                umask,
            }
        }
        opcode::UNLINK => Operation::Unlink { name: body.name()? },
        opcode::RMDIR => Operation::Rmdir { name: body.name()? },
        opcode::RENAME => {
            let input::RenameIn { newdir } = body.fixed()?;
            rename(&mut body, newdir, 0)?
        }
        opcode::RENAME2 => {
            let input::Rename2In { newdir, flags, .. } = body.fixed()?;
            rename(&mut body, newdir, flags)?
        }
        opcode::LINK => {
            let input::LinkIn { oldnodeid } = body.fixed()?;
            Operation::Link {
                node: oldnodeid,
                new_name: body.name()?,
            }
        }
        opcode::CREATE => {
            let create = create(&body.fixed()?);
            Operation::Create {
                name: body.name()?,
                create,
            }
        }
        // A name follows here as well, but it means nothing.
        opcode::TMPFILE => Operation::Tmpfile(create(&body.fixed()?)),
        _ => return open_operation(code, body),
    })
}

/// Operations that open.
fn open_operation(code: u32, mut body: Body<'_>) -> Result<Operation<'_>, End> {
    Ok(match code {
        opcode::OPEN => Operation::Open(open(&body.fixed()?)),
        opcode::OPENDIR => Operation::Opendir(open(&body.fixed()?)),
        _ => match handle_operation(code, body)? {
            Some((handle, operation)) => Operation::Through { handle, operation },
            None => Operation::Unsupported { opcode: code },
        },
    })
}

/// Operations on an open file or directory, and its handle; `None` if the code is none of theirs.
fn handle_operation(
    code: u32,
    mut body: Body<'_>,
) -> Result<Option<(u64, HandleOperation<'_>)>, End> {
    Ok(Some(match code {
        opcode::READ => {
            let input::ReadIn {
                fh, offset, size, ..
            } = body.fixed()?;
            (fh, HandleOperation::Read { offset, size })
        }
        opcode::READDIR => {
            let input::ReadIn {
                fh, offset, size, ..
            } = body.fixed()?;
            (fh, HandleOperation::Readdir { offset, size })
        }
        opcode::READDIRPLUS => {
            let input::ReadIn {
                fh, offset, size, ..
            } = body.fixed()?;
            (fh, HandleOperation::Readdirplus { offset, size })
        }
        opcode::WRITE => write(&mut body)?,
        opcode::RELEASE => {
            let input::ReleaseIn { fh, flags, .. } = body.fixed()?;
            (fh, HandleOperation::Release { flags })
        }
        opcode::RELEASEDIR => {
            let input::ReleaseIn { fh, flags, .. } = body.fixed()?;
            (fh, HandleOperation::Releasedir { flags })
        }
        opcode::FLUSH => {
            let input::FlushIn { fh, .. } = body.fixed()?;
            (fh, HandleOperation::Flush)
        }
        opcode::FSYNC => {
            let sync: input::FsyncIn = body.fixed()?;
            (
                sync.fh,
                HandleOperation::Fsync {
                    data_only: data_only(&sync),
                },
            )
        }
        opcode::FSYNCDIR => {
            let sync: input::FsyncIn = body.fixed()?;
            (
                sync.fh,
                HandleOperation::Fsyncdir {
                    data_only: data_only(&sync),
                },
            )
        }
        opcode::IOCTL => ioctl(&mut body)?,
        opcode::FALLOCATE => {
            let input::FallocateIn {
                fh,
                offset,
                length,
                mode,
                ..
            } = body.fixed()?;
            (
                fh,
                HandleOperation::Fallocate {
                    offset,
                    length,
                    mode,
                },
            )
        }
        opcode::LSEEK => {
            let input::LseekIn {
                fh, offset, whence, ..
            } = body.fixed()?;
            // The wire calls the offset unsigned; lseek(2) does not.
            (
                fh,
                HandleOperation::Lseek {
                    offset: offset as i64,
                    whence,
                },
            )
        }
        opcode::COPY_FILE_RANGE => copy_range(&body.fixed()?, false),
        opcode::COPY_FILE_RANGE_64 => copy_range(&body.fixed()?, true),
        _ => return Ok(None),
    }))
}

fn write<'a>(body: &mut Body<'a>) -> Result<(u64, HandleOperation<'a>), End> {
    let write: input::WriteIn = body.fixed()?;
    let operation = HandleOperation::Write(Write {
        offset: write.offset,
        data: body.data(write.size as usize)?,
        from_cache: write.write_flags & flags::WRITE_CACHE != 0,
        kill_privileges: write.write_flags & flags::WRITE_KILL_SUIDGID != 0,
    });
    Ok((write.fh, operation))
}

fn ioctl<'a>(body: &mut Body<'a>) -> Result<(u64, HandleOperation<'a>), End> {
    let wire: input::IoctlIn = body.fixed()?;
    let input = body.data(wire.in_size as usize)?;
    let ioctl = Ioctl {
        command: wire.cmd,
        argument: wire.arg,
        input,
    };
    Ok((
        wire.fh,
        HandleOperation::Ioctl {
            ioctl,
            output_size: wire.out_size,
        },
    ))
}

fn copy_range(wire: &input::CopyFileRangeIn, wide: bool) -> (u64, HandleOperation<'static>) {
    let copy = CopyRange {
        from_offset: wire.off_in,
        to_node: wire.nodeid_out,
        to_handle: wire.fh_out,
        to_offset: wire.off_out,
        length: wire.len,
        flags: wire.flags,
    };
    (wire.fh_in, HandleOperation::CopyFileRange { copy, wide })
}

fn init(body: &mut Body<'_>) -> Result<Init, End> {
    let init: input::InitIn = body.fixed()?;
    // Kernels before 7.36 send no more than that.
    let more: input::InitExtIn = body.fixed().unwrap_or_default();
    Ok(Init {
        major: init.major,
        minor: init.minor,
        readahead_bytes_max: init.max_readahead,
        capabilities: Capabilities::from_wire(init.flags, more.flags2),
    })
}

fn set_attributes(set: &input::SetattrIn) -> SetAttributes {
    let has = |flag| set.valid & flag != 0;
    let time = |flag, now_flag, seconds: u64, nanoseconds| match (has(flag), has(now_flag)) {
        (_, true) => Some(TimeToSet::Now),
        (true, false) => Some(TimeToSet::At(Timestamp {
            seconds: seconds as i64,
            nanoseconds,
        })),
        (false, false) => None,
    };
    SetAttributes {
        size: has(fattr::SIZE).then_some(set.size),
        mode: has(fattr::MODE).then_some(set.mode),
        uid: has(fattr::UID).then_some(set.uid),
        gid: has(fattr::GID).then_some(set.gid),
        accessed: time(fattr::ATIME, fattr::ATIME_NOW, set.atime, set.atimensec),
        modified: time(fattr::MTIME, fattr::MTIME_NOW, set.mtime, set.mtimensec),
        changed: has(fattr::CTIME).then_some(Timestamp {
            seconds: set.ctime as i64,
            nanoseconds: set.ctimensec,
        }),
        kill_privileges: has(fattr::KILL_SUIDGID),
        handle: has(fattr::FH).then_some(set.fh),
    }
}

fn rename<'a>(body: &mut Body<'a>, new_parent: u64, flags: u32) -> Result<Operation<'a>, End> {
    let flags = RenameFlags::from_bits_retain(flags);
    Ok(Operation::Rename {
        name: body.name()?,
        new_parent,
        new_name: body.name()?,
        flags,
    })
}

fn create(create: &input::CreateIn) -> Create {
    Create {
        flags: create.flags,
        mode: create.mode,
        umask: create.umask,
        kill_privileges: create.open_flags & flags::OPEN_KILL_SUIDGID != 0,
    }
}

fn open(open: &input::OpenIn) -> Open {
    Open {
        flags: open.flags,
        kill_privileges: open.open_flags & flags::OPEN_KILL_SUIDGID != 0,
    }
}

fn data_only(sync: &input::FsyncIn) -> bool {
    sync.fsync_flags & flags::FSYNC_FDATASYNC != 0
}

/// The bytes ended before a field, name or data did.
#[derive(Debug)]
struct End;

/// What of a request is not decoded yet.
struct Body<'a>(&'a [u8]);

impl<'a> Body<'a> {
    fn fixed<T: FromBytes>(&mut self) -> Result<T, End> {
        let (value, rest) = T::read_from_prefix(self.0).map_err(|_| End)?;
        self.0 = rest;
        Ok(value)
    }

    fn name(&mut self) -> Result<&'a OsStr, End> {
        let end = self.0.iter().position(|byte| *byte == 0).ok_or(End)?;
        let (name, rest) = self.0.split_at(end);
        self.0 = &rest[1..];
        Ok(OsStr::from_bytes(name))
    }

    fn data(&mut self, length: usize) -> Result<&'a [u8], End> {
        let (data, rest) = self.0.split_at_checked(length).ok_or(End)?;
        self.0 = rest;
        Ok(data)
    }
}
