//! Removal of a tree that a program may have left in any state.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags};
use rustix::io::Errno;
use rustix::path::Arg;

/// Removes `path` and everything below it. Follows no link, and opens up directories of the
/// user that are closed to it. Somebody else may be removing the same.
pub(crate) fn tree(path: &Path) -> io::Result<()> {
    Ok(remove(CWD, path)?)
}

fn remove(parent: BorrowedFd<'_>, name: impl Arg + Copy) -> Result<(), Errno> {
    match remove_present(parent, name) {
        Err(Errno::NOENT) => Ok(()),
        done => done,
    }
}

fn remove_present(parent: BorrowedFd<'_>, name: impl Arg + Copy) -> Result<(), Errno> {
    match rustix::fs::unlinkat(parent, name, AtFlags::empty()) {
        Err(Errno::ISDIR) => {}
        done => return done,
    }
    let directory = open(parent, name)?;
    let mode = Mode::from_raw_mode(rustix::fs::fstat(&directory)?.st_mode);
    if !mode.contains(Mode::RWXU) {
        rustix::fs::fchmod(&directory, Mode::RWXU)?;
    }
    for entry in Dir::read_from(&directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if name != c"." && name != c".." {
            remove(std::os::fd::AsFd::as_fd(&directory), name)?;
        }
    }
    rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR)
}

fn open(parent: BorrowedFd<'_>, name: impl Arg + Copy) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = || rustix::fs::openat(parent, name, flags, Mode::empty());
    match open() {
        Err(Errno::ACCESS) => {
            // Follows links, but this name is a directory in one that only the user can change.
            rustix::fs::chmodat(parent, name, Mode::RWXU, AtFlags::empty())?;
            open()
        }
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn closed_directories_go_and_links_are_not_followed() {
        let scratch = tempfile::tempdir().expect("a directory");
        let kept = scratch.path().join("kept");
        fs::create_dir(&kept).expect("mkdir");
        fs::write(kept.join("file"), "x").expect("write");
        let tree_path = scratch.path().join("tree");
        let closed = tree_path.join("closed");
        fs::create_dir_all(closed.join("deep")).expect("mkdir");
        fs::write(closed.join("deep/file"), "x").expect("write");
        symlink(&kept, tree_path.join("link")).expect("symlink");
        for mode_of in [closed.join("deep"), closed] {
            fs::set_permissions(mode_of, fs::Permissions::from_mode(0o000)).expect("chmod");
        }
        tree(&tree_path).expect("remove");
        assert!(!tree_path.exists());
        assert_eq!(fs::read(kept.join("file")).expect("read"), b"x");
    }

    #[test]
    fn two_may_remove_the_same() {
        let scratch = tempfile::tempdir().expect("a directory");
        for round in 0..20 {
            let path = scratch.path().join(round.to_string());
            for directory in 0..20 {
                let directory = path.join(directory.to_string());
                fs::create_dir_all(&directory).expect("mkdir");
                fs::write(directory.join("file"), "x").expect("write");
            }
            std::thread::scope(|scope| {
                let removals = [(); 2].map(|()| scope.spawn(|| tree(&path)));
                for removal in removals {
                    removal.join().expect("no panic").expect("remove");
                }
            });
            assert!(!path.exists());
        }
    }
}
