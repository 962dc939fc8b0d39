//! Files that are flagged immutable or append-only (`chattr`) when a commit is to change them.
//!
//! Such a commit is refused, and its user takes the flag away. That moves the change time on, by which alone
//! nobody can tell whether the file was changed as well. So the refused commit notes what the file is: it still
//! is in the state in which the domain found it. A later commit takes the file for unchanged if it differs from
//! that state in its change time alone, and has the same fingerprint: data, mode, owner, number of names and
//! extended attributes. Sums are compared, as git does: Surmise contains mistakes, not attackers.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags};
use sha1::{Digest, Sha1};
use surmise_changes::real::{XATTR_BYTES_MAX, link, look, statx, xattr};
use surmise_view::{FileKind, Identity};

use crate::journal::{self, Flagged, Undone};
use crate::locate::Site;
use crate::plan::{Checks, Place};

/// Bytes that are read at once.
const PIECE: usize = 1 << 16;

/// Notes what the files at `places` are, which a commit has found flagged and otherwise as the domain did. What
/// can't be read, or written down, is not noted: then its changed time will be a conflict.
pub(crate) fn note(site: &Site<'_>, state: &Path, checks: &Checks<'_>, places: &[Place]) {
    if places.is_empty() {
        return;
    }
    let states = checks.names.iter().filter_map(|name| name.state);
    let states: HashMap<_, _> = states.map(|state| (state.key(), state)).collect();
    let found = places.iter().filter_map(|place| {
        let (identity, print) = fingerprint(site, place)?;
        // Of the domain's first use: the flag may have come and gone before.
        let then = states.get(&identity.key())?;
        Some((identity.key(), (*then, print)))
    });
    let found: Flagged = found.collect();
    if !found.is_empty() {
        let _ = journal::note_flagged(state, found);
    }
}

/// The change times of files that are as they were when a commit noted them, but for these.
pub(crate) fn unflagged(site: &Site<'_>, state: &Path, checks: &Checks<'_>) -> Undone {
    let flagged = journal::flagged(state);
    if flagged.is_empty() {
        return Undone::new();
    }
    let unflagged = checks.names.iter().filter_map(|name| {
        let wanted = name.state?;
        let (then, print) = flagged.get(&wanted.key())?;
        let found = site.look(&name.place).ok()??.identity;
        let is_same = *then == wanted && found != wanted && found == changed_at(wanted, &found);
        let is_unchanged =
            || fingerprint(site, &name.place).is_some_and(|now| now == (found, print.clone()));
        (is_same && is_unchanged()).then_some((found.key(), found.changed))
    });
    unflagged.collect()
}

/// `state` with the change time of another.
fn changed_at(state: Identity, other: &Identity) -> Identity {
    Identity {
        changed: other.changed,
        ..state
    }
}

/// What a regular file is, and in which state that was seen; `None` if it can't be read without a trace, or
/// changes meanwhile.
fn fingerprint(site: &Site<'_>, place: &Place) -> Option<(Identity, Vec<u8>)> {
    let identity = site.look(place).ok()??.identity;
    let inode = site.inode(place, identity.key()).ok()??;
    if identity.kind != FileKind::Regular {
        return None;
    }
    let mut sum = Sha1::new();
    add_metadata(&mut sum, inode.as_fd()).ok()?;
    add_data(&mut sum, inode.as_fd()).ok()?;
    let after = look(inode.as_fd()).ok()?.identity;
    (after == identity).then(|| (identity, sum.finalize().to_vec()))
}

fn add_metadata(sum: &mut Sha1, inode: BorrowedFd<'_>) -> io::Result<()> {
    let found = statx(inode, "")?;
    let numbers = [
        u32::from(found.stx_mode),
        found.stx_uid,
        found.stx_gid,
        found.stx_nlink,
    ];
    numbers
        .iter()
        .for_each(|number| sum.update(number.to_le_bytes()));
    let mut names = vec![0; XATTR_BYTES_MAX];
    let length = match rustix::fs::listxattr(link(inode), &mut names[..]) {
        Err(rustix::io::Errno::OPNOTSUPP) => 0,
        listed => listed?,
    };
    let mut names: Vec<_> = names[..length]
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty())
        .map(OsStr::from_bytes)
        .collect();
    names.sort_unstable();
    for name in names {
        let value = xattr(inode, name)?.unwrap_or_default();
        for bytes in [name.as_bytes(), &value] {
            sum.update((bytes.len() as u64).to_le_bytes());
            sum.update(bytes);
        }
    }
    Ok(())
}

fn add_data(sum: &mut Sha1, inode: BorrowedFd<'_>) -> io::Result<()> {
    // A refused commit changes no time stamp.
    let flags = OFlags::RDONLY | OFlags::NOATIME | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::openat(CWD, link(inode), flags, Mode::empty())?);
    let mut piece = vec![0; PIECE];
    loop {
        match file.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(length) => sum.update(&piece[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
