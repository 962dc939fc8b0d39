//! Decoding: one buffer read from the device into one [`Request`]. Total: any bytes give a
//! request or an error.

mod body;
mod operation;
#[cfg(test)]
mod tests;
mod through;

use thiserror::Error;
use zerocopy::FromBytes;

use crate::abi::flags::{self, fattr};
use crate::abi::{input, opcode};
use crate::{Caller, Capabilities, Create, Open, RenameFlags, SetAttributes, TimeToSet, Timestamp};

use body::{Body, End};
use through::handle_operation;

pub use operation::{Forgets, HandleOperation, Init, Operation, XattrOperation};

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
    /// What the bytes of one read from the device ask for, and the thread that asks, as the mount's PID namespace numbers
    /// it: 0 where the kernel asks by itself. `None` where the bytes are too few.
    pub(crate) fn opcode_and_thread(bytes: &[u8]) -> Option<(u32, u32)> {
        let (header, _) = input::InHeader::read_from_prefix(bytes).ok()?;
        Some((header.opcode, header.pid))
    }

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
        opcode::INTERRUPT => {
            let input::InterruptIn { unique } = body.fixed()?;
            Operation::Interrupt { request: unique }
        }
        opcode::DESTROY => Operation::Destroy,
        opcode::NOTIFY_REPLY => Operation::NotifyReply,
        opcode::STATFS => Operation::Statfs,
        opcode::SYNCFS => Operation::Syncfs,
        opcode::SETXATTR => Operation::Xattr(set_xattr(&mut body, agreed)?),
        opcode::GETXATTR => {
            let input::GetxattrIn { size, .. } = body.fixed()?;
            let name = body.name()?;
            Operation::Xattr(XattrOperation::Get { name, size })
        }
        opcode::LISTXATTR => {
            let input::GetxattrIn { size, .. } = body.fixed()?;
            Operation::Xattr(XattrOperation::List { size })
        }
        opcode::REMOVEXATTR => {
            let name = body.name()?;
            Operation::Xattr(XattrOperation::Remove { name })
        }
        _ => return node_operation(header.opcode, body),
    })
}

fn set_xattr<'a>(body: &mut Body<'a>, agreed: Capabilities) -> Result<XattrOperation<'a>, End> {
    let set: input::SetxattrIn = body.fixed()?;
    let more = if agreed.contains(Capabilities::SETXATTR_EXT) {
        body.fixed()?
    } else {
        input::SetxattrExtIn::default()
    };
    Ok(XattrOperation::Set {
        name: body.name()?,
        value: body.data(set.size as usize)?,
        flags: set.flags,
        kill_set_group_id: more.setxattr_flags & flags::SETXATTR_ACL_KILL_SGID != 0,
    })
}

/// Operations on an object as such.
fn node_operation(code: u32, mut body: Body<'_>) -> Result<Operation<'_>, End> {
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
