//! Native trees: directories of the system that a domain has as they are, read-only. What is executed, opened and looked
//! up there takes no message to the view, and its pages are those of the whole machine.
//!
//! A directory qualifies whose names the caller can change no more outside than in a domain. Then nothing is to be
//! undone there, and a refused change is refused with another number only (`EROFS` for `EACCES`). That nothing outside
//! is changed does not rest on this: the kernel refuses every change on a read-only mount. So root, who can change all of them,
//! has them on request.
//!
//! Of `/usr/share`, shells believe only what root owns (zsh's compaudit), and in an ordinary user's namespace nobody is
//! root: the view shows owners as they are outside, and serves it. So it does of `/etc`, where ssh looks at them; but for two
//! files, which most programs open at their start.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType};
use rustix::mount::mount_bind_recursive;
use surmise_kept::{Native, Record};
use surmise_sys::mounts;

use crate::message::Failure;

/// What holds programs, libraries and headers (hier(7)). Where `/usr` is merged, those of the root are links to these.
const SYSTEM: [&str; 13] = [
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

/// What holds the same, put there by hand: people often give a directory in it to themselves, for a package manager of their own.
/// In `/usr/local/lib` such directories lie deep.
const LOCAL: [&str; 5] = [
    "/usr/local/bin",
    "/usr/local/sbin",
    "/usr/local/libexec",
    "/usr/local/include",
    "/usr/local/go",
];

/// What the start of nearly every program opens: where the dynamic linker finds libraries (ld.so(8)), and other names of locales
/// (gettext). When one is replaced outside, a domain has the one before for as long as the view has the name.
const FILES: [&str; 2] = ["/etc/ld.so.cache", "/etc/locale.alias"];

/// The native trees of a domain.
#[derive(Debug, Default)]
pub(crate) struct Trees {
    paths: Vec<PathBuf>,
    /// Whether nothing may be changed there. Otherwise the view may serve one that cannot be mounted.
    must_be: bool,
}

impl Trees {
    /// Those that the calling user has.
    pub(crate) fn of_caller(kind: Native) -> Self {
        let candidates = SYSTEM.iter().chain(&LOCAL).chain(&FILES);
        Self::qualified(candidates.map(PathBuf::from), kind)
    }

    /// Those that qualify, of what qualified when a kept domain was made.
    pub(crate) fn of_kept(record: &Record) -> Self {
        Self::qualified(record.native.clone(), record.native_kind)
    }

    fn qualified(trees: impl IntoIterator<Item = PathBuf>, kind: Native) -> Self {
        let qualifies = |tree: &Path| match kind {
            Native::None => false,
            Native::Unchangeable => qualifies(tree),
            Native::All => qualifies(tree) || !is_any_of(&LOCAL, tree) && is_real(tree),
        };
        Self {
            paths: trees.into_iter().filter(|tree| qualifies(tree)).collect(),
            must_be: kind == Native::All,
        }
    }

    pub(crate) fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// Puts the trees of the host over the same names below the current directory, with all that is mounted there. Where the
    /// kernel does not let this process mount one, the view serves it, if it may.
    pub(crate) fn show(&self) -> Result<(), Failure> {
        for tree in &self.paths {
            let inside = tree.strip_prefix("/").unwrap_or(tree);
            let shown = match mount_bind_recursive(tree, inside) {
                Ok(()) => confine(inside),
                Err(errno) if self.must_be => Err(errno.into()),
                Err(_) => Ok(()),
            };
            shown.map_err(Failure::at(format!("show {}", tree.display())))?;
        }
        Ok(())
    }
}

fn confine(inside: &Path) -> io::Result<()> {
    mounts::confine(&CString::new(inside.as_os_str().as_bytes())?)
}

fn is_any_of(paths: &[&str], tree: &Path) -> bool {
    paths.iter().any(|path| tree == Path::new(path))
}

/// Whether a path leads through no link.
fn is_real(tree: &Path) -> bool {
    std::fs::canonicalize(tree).is_ok_and(|path| path == tree)
}

/// Whether a path leads, through no link, to a directory whose names the caller cannot change, or to a file that the caller cannot
/// change; and the caller can put nothing else in its place.
fn qualifies(tree: &Path) -> bool {
    let Some(own) = unchangeable(tree) else {
        return false;
    };
    let mut above = tree.ancestors().skip(1).map(unchangeable);
    if !above.all(|found| found.is_some_and(FileType::is_dir)) {
        return false;
    }
    match is_any_of(&FILES, tree) {
        true => own.is_file(),
        false if is_any_of(&LOCAL, tree) => own.is_dir() && holds_what_is_unchangeable(tree),
        false => own.is_dir(),
    }
}

/// Whether a directory has any entries, and the caller can change none of them. False in doubt.
fn holds_what_is_unchangeable(directory: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return false;
    };
    let mut entries = entries.peekable();
    entries.peek().is_some()
        && entries.all(|entry| {
            entry.is_ok_and(|entry| {
                entry.file_type().is_ok_and(|kind| kind.is_symlink())
                    || unchangeable(&entry.path()).is_some()
            })
        })
}

/// Of what kind a file or directory is that the caller cannot change.
fn unchangeable(path: &Path) -> Option<FileType> {
    let found = rustix::fs::lstat(path).ok()?;
    // An owner can give themselves the right to write.
    let is_own = found.st_uid == rustix::process::geteuid().as_raw();
    (!is_own && !is_writable(path)).then(|| FileType::from_raw_mode(found.st_mode))
}

/// True in doubt.
fn is_writable(path: &Path) -> bool {
    let access = rustix::fs::Access::WRITE_OK;
    match rustix::fs::accessat(CWD, path, access, AtFlags::EACCESS) {
        Ok(()) => true,
        // On a file system that is read-only, the mode may still allow it, and it may be mounted anew.
        Err(errno) => errno != rustix::io::Errno::ACCESS,
    }
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
        assert!(
            Trees::of_caller(Native::Unchangeable).paths.is_empty(),
            "root can change all"
        );
        let all = Trees::of_caller(Native::All).paths;
        assert!(all.contains(&PathBuf::from("/usr/bin")));
        assert!(!all.iter().any(|tree| is_any_of(&LOCAL, tree)), "{all:?}");
        // A thread that becomes another user stays that user, so other tests must not get this one.
        let other = thread::spawn(|| {
            become_ordinary_user();
            as_an_ordinary_user();
        });
        other.join().expect("no panic");
    }

    fn as_an_ordinary_user() {
        let trees = Trees::of_caller(Native::Unchangeable).paths;
        assert!(trees.contains(&PathBuf::from("/usr/bin")));
        for file in FILES.map(Path::new) {
            let is_file = fs::symlink_metadata(file).is_ok_and(|found| found.is_file());
            assert_eq!(trees.contains(&file.into()), is_file, "{file:?}");
        }
        assert!(!qualifies(Path::new("/etc/passwd")), "no other file does");
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
        assert!(holds_what_is_unchangeable(Path::new("/usr/bin")));
        assert!(!holds_what_is_unchangeable(&below), "it is empty");
        assert!(!holds_what_is_unchangeable(own.path()));
        assert_eq!(
            Trees::qualified([below, "/usr/bin".into()], Native::Unchangeable).paths,
            [Path::new("/usr/bin")]
        );
    }
}
