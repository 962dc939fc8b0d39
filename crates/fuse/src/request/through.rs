//! Decoding of what is asked for through an open file or directory.

use super::HandleOperation;
use super::body::{Body, End};
use crate::abi::{flags, input, opcode};
use crate::{CopyRange, FileLock, Ioctl, Write};

/// Operations on an open file or directory, and its handle; `None` if the code is none of theirs.
pub(super) fn handle_operation(
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
            let release: input::ReleaseIn = body.fixed()?;
            let unlocks = release.release_flags & flags::RELEASE_FLOCK_UNLOCK != 0;
            let operation = HandleOperation::Release {
                flags: release.flags,
                flock_owner: unlocks.then_some(release.lock_owner),
            };
            (release.fh, operation)
        }
        opcode::RELEASEDIR => {
            let input::ReleaseIn { fh, flags, .. } = body.fixed()?;
            (fh, HandleOperation::Releasedir { flags })
        }
        opcode::FLUSH => {
            let input::FlushIn { fh, lock_owner, .. } = body.fixed()?;
            (fh, HandleOperation::Flush { lock_owner })
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
        _ => return rarer_operation(code, body),
    }))
}

fn rarer_operation(
    code: u32,
    mut body: Body<'_>,
) -> Result<Option<(u64, HandleOperation<'_>)>, End> {
    Ok(Some(match code {
        opcode::GETLK | opcode::SETLK | opcode::SETLKW => {
            let wire: input::LkIn = body.fixed()?;
            let Some(lock) = FileLock::of_wire(&wire) else {
                return Ok(None);
            };
            let operation = match code {
                opcode::GETLK => HandleOperation::Getlk(lock),
                _ => HandleOperation::Setlk {
                    lock,
                    waits: code == opcode::SETLKW,
                },
            };
            (wire.fh, operation)
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
        flags: write.flags,
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

fn data_only(sync: &input::FsyncIn) -> bool {
    sync.fsync_flags & flags::FSYNC_FDATASYNC != 0
}
