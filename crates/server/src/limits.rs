//! What the file system of an export bears, and the rights of its server.

use std::os::fd::AsFd;

use rustix::io::Errno;
use surmise_remote::object::{Name, ObjectId};
use surmise_remote::operation::Place;
use surmise_remote::tree::{Limits, User};

use crate::directory::STATE;
use crate::probe::Abilities;

/// Magic numbers of statfs(2), and how many names an inode may have there.
const LINKS_MAX: &[(u64, u32)] = &[
    // ext2, ext3 and ext4.
    (0xef53, 65_000),
    // XFS.
    (0x5846_5342, 0x7fff_ffff),
    // btrfs.
    (0x9123_683e, 65_535),
    // tmpfs.
    (0x0102_1994, 0x7fff_ffff),
];

/// For all other file systems: of those in use, f2fs and UDF bear no more.
const LINKS_MAX_ELSEWHERE: u32 = 32_000;

/// The limits of an export whose root is open and has this id.
pub(crate) fn limits(
    export: impl AsFd,
    root: ObjectId,
    abilities: &Abilities,
) -> Result<Limits, Errno> {
    let default = Limits::default();
    let magic = rustix::fs::fstatfs(export)?.f_type as u64 & 0xffff_ffff;
    let links = LINKS_MAX.iter().find(|(of, _)| *of == magic);
    let user = rustix::process::geteuid();
    let user = match user.is_root() {
        true => None,
        false => Some(User {
            id: user.as_raw(),
            groups: groups()?,
        }),
    };
    let reserved = Name::try_from(STATE.as_bytes()).ok();
    Ok(Limits {
        links_max: links.map_or(LINKS_MAX_ELSEWHERE, |(_, links)| *links),
        user,
        reserved: reserved.map(|name| Place { parent: root, name }),
        target_bytes_max: abilities.target_bytes_max,
        extended_bytes_max: match abilities.has_extended {
            true => default.extended_bytes_max,
            false => 0,
        },
        ..default
    })
}

/// The group of new files first.
fn groups() -> Result<Vec<u32>, Errno> {
    let own = rustix::process::getegid().as_raw();
    let all = rustix::process::getgroups()?;
    let others = all.into_iter().map(|group| group.as_raw());
    Ok([own]
        .into_iter()
        .chain(others.filter(|group| *group != own))
        .collect())
}
