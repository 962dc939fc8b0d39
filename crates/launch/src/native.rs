//! Native trees: directories of the system that a domain has as they are, read-only. What is executed, opened and looked
//! up there takes no message to the view, and its pages are those of the whole machine.
//!
//! A directory qualifies whose names the caller can change no more outside than in a domain. Then nothing is to be
//! undone there, and a refused change is refused with another number only (`EROFS` for `EACCES`). That nothing outside
//! is changed does not rest on this: the kernel refuses every change on a read-only mount, to whomever.
//!
//! Of `/usr/share`, shells believe only what root owns (zsh's compaudit), and in an ordinary user's namespace nobody is
//! root: the view shows owners as they are outside, and serves it.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType};
use rustix::mount::mount_bind_recursive;
use surmise_sys::mounts;

/// What holds programs, libraries and headers (hier(7)). Where `/usr` is merged, those of the root are links to these.
const CANDIDATES: [&str; 13] = [
    "/usr/bin",
    "/usr/sbin",
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/usr/libx32",
    "/usr/libexec",
    "/usr/include",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
];

/// Those that the calling user has.
pub(crate) fn trees() -> Vec<PathBuf> {
    qualified(CANDIDATES.iter().map(PathBuf::from))
}

/// Those that qualify, of the candidates or of what qualified when a kept domain was made.
pub(crate) fn qualified(trees: impl IntoIterator<Item = PathBuf>) -> Vec<PathBuf> {
    trees.into_iter().filter(|tree| qualifies(tree)).collect()
}

/// Whether a path leads, through no link, to a directory whose names the caller cannot change, and the caller can put no
/// other directory in its place.
fn qualifies(tree: &Path) -> bool {
    tree.ancestors().all(is_unchangeable)
}

fn is_unchangeable(directory: &Path) -> bool {
    let Ok(found) = rustix::fs::lstat(directory) else {
        return false;
    };
    let is_directory = FileType::from_raw_mode(found.st_mode).is_dir();
    // An owner can give themselves the right to write.
    let is_own = found.st_uid == rustix::process::geteuid().as_raw();
    is_directory && !is_own && !is_writable(directory)
}

/// True in doubt.
fn is_writable(directory: &Path) -> bool {
    let access = rustix::fs::Access::WRITE_OK;
    match rustix::fs::accessat(CWD, directory, access, AtFlags::EACCESS) {
        Ok(()) => true,
        // On a file system that is read-only, the mode may still allow it, and it may be mounted anew.
        Err(errno) => errno != rustix::io::Errno::ACCESS,
    }
}

/// Puts a tree of the host over the same name below the current directory, with all that is mounted there. Where the
/// kernel does not let this process mount it, the view serves it.
pub(crate) fn show(tree: &Path) -> io::Result<()> {
    let inside = tree.strip_prefix("/").unwrap_or(tree);
    if mount_bind_recursive(tree, inside).is_err() {
        return Ok(());
    }
    mounts::confine(&CString::new(inside.as_os_str().as_bytes())?)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::thread;

    use surmise_testkit::{become_ordinary_user, is_root};

    use super::*;

    #[test]
    fn only_what_the_caller_cannot_change_qualifies() {
        if !is_root() {
            return as_an_ordinary_user();
        }
        assert!(trees().is_empty(), "root can change all");
        // A thread that becomes another user stays that user, so other tests must not get this one.
        let other = thread::spawn(|| {
            become_ordinary_user();
            as_an_ordinary_user();
        });
        other.join().expect("no panic");
    }

    fn as_an_ordinary_user() {
        assert!(trees().contains(&PathBuf::from("/usr/bin")));
        let own = tempfile::tempdir().expect("a directory");
        let below = own.path().join("below");
        fs::create_dir(&below).expect("a directory");
        fs::set_permissions(&below, Permissions::from_mode(0o555)).expect("chmod");
        symlink("/usr/bin", own.path().join("link")).expect("a link");
        assert!(!qualifies(own.path()));
        assert!(!qualifies(&below), "its owner may change the mode");
        assert!(!qualifies(&own.path().join("link")));
        assert!(!qualifies(Path::new("/tmp")));
        assert!(!qualifies(Path::new("/usr/bin/env")));
        assert!(!qualifies(Path::new("/usr/nothing")));
        assert_eq!(
            qualified([below, "/usr/bin".into()]),
            [Path::new("/usr/bin")]
        );
    }
}
