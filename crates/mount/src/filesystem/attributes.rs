//! What stat(2) tells, and what changes it.

use std::io;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use rustix::fs::{major, makedev, minor};
use rustix::io::Errno;
use surmise_fuse::{Attributes, KnownAttributes, SetAttributes, Statistics, TimeToSet, Timestamp};
use surmise_lower::FileKind;
use surmise_remote::client::{Intent, Request, Response};
use surmise_remote::object::{self, NAME_BYTES_MAX, ObjectId};
use surmise_remote::operation::{self, NewKind};
use surmise_remote::tree::without_set_ids;

use super::{Far, permissions_of};
use crate::clock;

/// Preferred size of a read or write, in bytes.
const BLOCK_BYTES: u32 = 4096;

/// `st_blocks` counts these.
const SECTOR_BYTES: u64 = 512;

/// For how long what the server has said of its space is told again.
const SPACE_HOLDS: Duration = Duration::from_secs(5);

impl Far {
    pub(super) fn attributes(&self, object: ObjectId, of: &object::Attributes) -> Attributes {
        let (uid, gid) = self.owners.shown(of.owner, of.group);
        Attributes {
            ino: object.number(),
            size: of.size,
            blocks: of.size.div_ceil(u64::from(BLOCK_BYTES))
                * (u64::from(BLOCK_BYTES) / SECTOR_BYTES),
            block_size: BLOCK_BYTES,
            links: of.links,
            mode: of.kind.mode_bits() | u32::from(of.permissions),
            uid,
            gid,
            device: device_to_kernel(of.device),
            accessed: to_kernel(of.accessed),
            modified: to_kernel(of.modified),
            changed: to_kernel(of.changed),
            created: None,
        }
    }

    pub(super) fn known(&self, response: Response) -> io::Result<KnownAttributes> {
        match response {
            Response::Object(object, attributes) => Ok(KnownAttributes {
                attributes: self.attributes(object, &attributes),
                lifetime: self.lifetimes().attributes,
            }),
            _ => Err(Errno::IO.into()),
        }
    }

    pub(super) fn set_attributes(
        &self,
        object: ObjectId,
        changes: &SetAttributes,
    ) -> io::Result<KnownAttributes> {
        let mut changed = None;
        if let Some(size) = changes.size {
            let strip = changes.kill_privileges;
            changed = Some(self.change(Intent::Resize {
                object,
                size,
                strip,
            })?);
        }
        let set = operation::SetAttributes {
            permissions: changes.mode.map(permissions_of),
            owner: changes.uid.map(|uid| self.owners.owner_meant(uid)),
            group: changes.gid.map(|gid| self.owners.group_meant(gid)),
            accessed: changes.accessed.map(time_meant),
            modified: changes.modified.map(time_meant),
        };
        let set = match changes.kill_privileges && set.permissions.is_none() {
            true if set.owner.is_some() || set.group.is_some() => {
                self.without_set_ids(object, set)?
            }
            _ => set,
        };
        if set != operation::SetAttributes::default() {
            changed = Some(self.change(Intent::SetAttributes { object, set })?);
        }
        let response = match changed {
            Some(response) => response,
            None => self.call(Request::Attributes(object))?,
        };
        // The kernel takes these for newer than a recall that it has heard of meanwhile, but asks again.
        Ok(KnownAttributes {
            lifetime: Duration::ZERO,
            ..self.known(response)?
        })
    }

    /// Another owner does not inherit the rights that a set-id bit gives (chown(2)).
    fn without_set_ids(
        &self,
        object: ObjectId,
        set: operation::SetAttributes,
    ) -> io::Result<operation::SetAttributes> {
        let Response::Object(_, known) = self.call(Request::Attributes(object))? else {
            return Err(Errno::IO.into());
        };
        // A directory keeps them: there they give nobody rights.
        if known.kind == FileKind::Directory {
            return Ok(set);
        }
        let left = without_set_ids(known.permissions);
        let permissions = (left != known.permissions).then_some(left);
        Ok(operation::SetAttributes { permissions, ..set })
    }

    /// The server's space, as it was some seconds ago at the earliest: walks through directories ask for it again and again.
    pub(super) fn space(&self) -> io::Result<Statistics> {
        let known = self.space.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((since, space)) = *known
            && since.elapsed() < SPACE_HOLDS
        {
            return Ok(space);
        }
        drop(known);
        let space = self.ask_space()?;
        let known = (Instant::now(), space);
        *self.space.lock().unwrap_or_else(PoisonError::into_inner) = Some(known);
        Ok(space)
    }

    /// Asks for the server's space before anybody wants to know.
    pub fn learn_space(&self) {
        // A failure is told when somebody does.
        let _ = self.space();
    }

    fn ask_space(&self) -> io::Result<Statistics> {
        let Response::Space(space) = self.call(Request::Space)? else {
            return Err(Errno::IO.into());
        };
        Ok(Statistics {
            blocks: space.blocks,
            blocks_free: space.blocks_free,
            blocks_available: space.blocks_available,
            files: space.objects,
            files_free: space.objects_free,
            block_size: space.block_bytes,
            name_bytes_max: NAME_BYTES_MAX as u32,
            fragment_size: space.block_bytes,
        })
    }
}

/// What mknod(2) is to make.
pub(super) fn new_kind(mode: u32, device: u32) -> io::Result<NewKind> {
    let device = device_from_kernel(device);
    Ok(match FileKind::of_mode(mode) {
        Some(FileKind::Regular) => NewKind::Regular,
        Some(FileKind::Fifo) => NewKind::Fifo,
        Some(FileKind::Socket) => NewKind::Socket,
        Some(FileKind::CharacterDevice) => NewKind::CharacterDevice(device),
        Some(FileKind::BlockDevice) => NewKind::BlockDevice(device),
        Some(FileKind::Directory | FileKind::Symlink) | None => return Err(Errno::INVAL.into()),
    })
}

pub(super) fn to_kernel(time: surmise_lower::Timestamp) -> Timestamp {
    Timestamp {
        seconds: time.seconds,
        nanoseconds: time.nanoseconds,
    }
}

fn time_meant(time: TimeToSet) -> surmise_lower::Timestamp {
    match time {
        TimeToSet::Now => clock::time_of_day(),
        TimeToSet::At(Timestamp {
            seconds,
            nanoseconds,
        }) => surmise_lower::Timestamp {
            seconds,
            nanoseconds,
        },
    }
}

/// The kernel's encoding of a device: 8 bits of minor, 12 of major, the rest of minor.
fn device_to_kernel(device: u64) -> u32 {
    let (major, minor) = (major(device), minor(device));
    (minor & 0xff) | (major & 0xfff) << 8 | (minor & !0xff) << 12
}

fn device_from_kernel(device: u32) -> u64 {
    makedev(
        (device >> 8) & 0xfff,
        (device & 0xff) | ((device >> 12) & !0xff),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_the_same_in_either_encoding() {
        for (major, minor) in [(1, 3), (259, 0), (8, 70_000)] {
            let device = makedev(major, minor);
            assert_eq!(device_from_kernel(device_to_kernel(device)), device);
        }
    }
}
