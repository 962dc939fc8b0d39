//! Where the paths of calls lead, as far as it can be told from outside.
//!
//! What is below `/proc`, `/dev` and `/sys` inside is no part of the view, which cannot undo what is done
//! there. A path is followed in the real tree, with the real links, as long as the domain has made no link and moved none,
//! nor a directory, nor a FIFO or the like: then whatever it has made leads nowhere else, and what is a directory or a plain
//! file is known. From then on names are tangled, and the view is asked at each name what is there inside.

mod mounts;
mod walk;

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::process::Pid;
use surmise_syscalls::Syscall;

use crate::machine::task;
use crate::objects::files::Files;

use mounts::Mounts;
pub(crate) use walk::Last;
use walk::{Found, Walk, look};

/// What the domain's mounts are, and whether names can still be followed outside.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// `None` until they were looked at.
    mounts: Option<Mounts>,
    is_tangled: bool,
    /// Where the domain has ever made a directory.
    made: HashSet<PathBuf>,
    /// Threads whose last call that was heard of may tangle names, and may not be over.
    tangling: HashSet<Pid>,
}

impl Names {
    /// Of a domain with one mount, the view, which shows what is outside, and with a /proc.
    #[cfg(test)]
    pub(crate) fn of_view() -> Self {
        let mounts = Mounts {
            view: 1,
            device: String::new(),
            others: Arc::new(
                ["/proc", "/dev", "/dev/null", "/dev/tty"]
                    .map(PathBuf::from)
                    .into(),
            ),
        };
        Self {
            mounts: Some(mounts),
            ..Self::default()
        }
    }

    /// Looks at the domain's mounts.
    pub(crate) fn begin(&mut self, process: Pid) -> io::Result<()> {
        let path = format!("/proc/{}/mountinfo", process.as_raw_nonzero());
        self.mounts = Mounts::parse(&fs::read(path)?);
        Ok(())
    }

    /// Whether a descriptor leads to something that the view serves.
    pub(crate) fn is_served(&self, process: Pid, number: u64) -> io::Result<bool> {
        Ok(self.mounts.is_some()
            && task::mount_of(process, number)?.is_some_and(|mount| self.is_view(mount)))
    }

    /// Whether this is the number of the view's mount.
    pub(crate) fn is_view(&self, mount: u64) -> bool {
        self.mounts
            .as_ref()
            .is_some_and(|mounts| mounts.view == mount)
    }

    /// The view's device, as proc_pid_maps(5) names it.
    pub(crate) fn device(&self) -> Option<&str> {
        self.mounts.as_ref().map(|mounts| mounts.device.as_str())
    }

    /// Where in the view a path leads; `None` if it leads elsewhere, or in doubt.
    pub(crate) fn place(
        &self,
        process: Pid,
        (directory, path): (u64, u64),
        last: Last,
        inside: Option<&dyn Files>,
    ) -> io::Result<Option<PathBuf>> {
        let (Some(mounts), Some(text)) = (&self.mounts, task::string(process, path)) else {
            return Ok(None);
        };
        let text = Path::new(OsStr::from_bytes(text.to_bytes()));
        let base = match text.is_absolute() {
            true => PathBuf::from("/"),
            false if directory as i32 == task::HERE => task::directory(process)?,
            false if !self.is_served(process, directory)? => return Ok(None),
            false => task::link(process, directory)?,
        };
        let walk = Walk {
            mounts,
            is_inside: self.is_tangled,
            look: |place: &Path| self.look(place, inside),
        };
        let place = walk.follow(&base, text, last);
        let inside = inside.filter(|_| place.is_none() && !self.is_tangled);
        Ok(place.or_else(|| {
            // It may go up from where a link has led, which only the view tells for certain.
            let inside = inside?;
            let walk = Walk {
                mounts,
                is_inside: true,
                look: |place: &Path| inside.at(place).map_or(Found::Unknown, Found::from),
            };
            walk.follow(&base, text, last)
        }))
    }

    /// Where the domain has something else than the view; `None` if that is not known.
    pub(crate) fn elsewhere(&self) -> Option<&Arc<HashSet<PathBuf>>> {
        self.mounts.as_ref().map(|mounts| &mounts.others)
    }

    /// Whether the domain has a mount at just this place, beside the view.
    pub(crate) fn has_mount_at(&self, place: &Path) -> bool {
        let mounts = self.mounts.as_ref();
        mounts.is_some_and(|mounts| mounts.others.contains(place))
    }

    /// What is at a place in the view.
    fn look(&self, place: &Path, inside: Option<&dyn Files>) -> Found {
        match (self.is_tangled, inside) {
            (false, _) => look(place),
            (true, Some(files)) => files.at(place).map_or(Found::Unknown, Found::from),
            (true, None) => Found::Unknown,
        }
    }

    /// The threads that may be tangling names this moment, but for one.
    pub(crate) fn tangling(&self, but: Pid) -> Vec<Pid> {
        let others = self.tangling.iter().copied();
        others.filter(|&thread| thread != but).collect()
    }

    /// The last call of a thread that was heard of is over.
    pub(crate) fn passed(&mut self, thread: Pid) {
        // Hardly ever has any to be forgotten.
        if !self.tangling.is_empty() {
            self.tangling.remove(&thread);
        }
    }

    /// Whether nothing else than a file or directory is at a place in the view; a link is not followed there.
    pub(crate) fn is_plain(&self, place: &Path, inside: Option<&dyn Files>) -> bool {
        !matches!(self.look(place, inside), Found::Other | Found::Unknown)
    }

    /// Whether a directory may be at a place in the view.
    pub(crate) fn may_be_directory(&self, place: &Path, inside: Option<&dyn Files>) -> bool {
        let was_made = !self.is_tangled && self.made.contains(place);
        was_made || matches!(self.look(place, inside), Found::Directory | Found::Unknown)
    }

    /// A thread's call is about to happen that may tangle names.
    pub(crate) fn note(&mut self, thread: Pid, name: Syscall, arguments: &[u64; 6]) {
        self.look_for_tangles(thread, name, arguments);
        let tangles = matches!(
            name,
            Syscall::Symlink
                | Syscall::Symlinkat
                | Syscall::Link
                | Syscall::Linkat
                | Syscall::Rename
                | Syscall::Renameat
                | Syscall::Renameat2
                | Syscall::Mknod
                | Syscall::Mknodat
        );
        if tangles && self.is_tangled {
            self.tangling.insert(thread);
        }
    }

    /// Whether a call makes a directory, or puts what is at one path, or a link, at another.
    fn look_for_tangles(&mut self, process: Pid, name: Syscall, arguments: &[u64; 6]) {
        const HERE: u64 = task::HERE as i64 as u64;
        /// RENAME_EXCHANGE of renameat2(2); AT_SYMLINK_FOLLOW, AT_EMPTY_PATH of linkat(2).
        const EXCHANGE: u64 = 2;
        const OTHER: u64 = 0x400 | 0x1000;
        if self.is_tangled {
            return;
        }
        let [first, second, ..] = *arguments;
        let path = match name {
            Syscall::Symlink | Syscall::Symlinkat | Syscall::Mknod | Syscall::Mknodat => None,
            Syscall::Mkdir | Syscall::Rename | Syscall::Link => Some((HERE, first)),
            Syscall::Mkdirat | Syscall::Renameat => Some((first, second)),
            Syscall::Renameat2 if arguments[4] & EXCHANGE == 0 => Some((first, second)),
            Syscall::Linkat if arguments[4] & OTHER == 0 => Some((first, second)),
            Syscall::Renameat2 | Syscall::Linkat => None,
            _ => return,
        };
        let place = path.map(|path| self.place(process, path, Last::Named, None));
        let Some(Ok(Some(place))) = place else {
            self.is_tangled = true;
            return;
        };
        if matches!(name, Syscall::Mkdir | Syscall::Mkdirat) {
            self.made.insert(place);
        } else {
            let is_file = matches!(look(&place), Found::Nothing | Found::File);
            self.is_tangled = !is_file || self.made.contains(&place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::mounts::tests::MOUNTS;
    use super::*;

    #[test]
    fn among_tangled_names_that_nobody_looks_at_only_one_that_is_not_followed_is_sure() {
        let process = rustix::process::getpid();
        let names = Names {
            is_tangled: true,
            ..Names::of_view()
        };
        let place = |path: &std::ffi::CStr, last| {
            let path = (task::HERE as i64 as u64, path.as_ptr() as u64);
            names.place(process, path, last, None).expect("look")
        };
        assert_eq!(place(c"/x", Last::Named).as_deref(), Some(Path::new("/x")));
        assert_eq!(place(c"/x", Last::Followed), None);
        assert_eq!(place(c"/usr/x", Last::Named), None);
        assert_eq!(place(c"/proc", Last::Named), None);
        assert!(!names.is_plain(Path::new("/usr"), None));
    }

    #[test]
    fn a_call_may_tangle_names_until_its_thread_makes_another() {
        let process = rustix::process::getpid();
        let other = Pid::INIT;
        let mut names = Names::of_view();
        let path = c"/usr/nothing".as_ptr() as u64;
        names.note(process, Syscall::Rename, &[path, path, 0, 0, 0, 0]);
        assert!(names.tangling(other).is_empty(), "a file");
        names.note(process, Syscall::Mknod, &[path, 0, 0, 0, 0, 0]);
        assert_eq!(names.tangling(other), [process]);
        assert!(names.tangling(process).is_empty());
        names.passed(process);
        assert!(names.tangling(other).is_empty());
    }

    #[test]
    fn a_link_tangles_names_and_a_file_does_not() {
        let process = rustix::process::getpid();
        let paths = [c"/usr/nothing", c"/proc/self/exe", c"/usr", c"/dev/null"];
        let [nothing, link, directory, device] = paths.map(|path| path.as_ptr() as u64);
        let tangles = |name: Syscall, arguments: [u64; 6]| {
            let mut names = Names::of_view();
            names.note(process, name, &arguments);
            names.is_tangled
        };
        assert!(!tangles(Syscall::Rename, [nothing, nothing, 0, 0, 0, 0]));
        assert!(tangles(Syscall::Rename, [directory, nothing, 0, 0, 0, 0]));
        assert!(tangles(Syscall::Link, [link, nothing, 0, 0, 0, 0]));
        for name in [Syscall::Link, Syscall::Rename] {
            assert!(tangles(name, [device, nothing, 0, 0, 0, 0]), "no file");
        }
        assert!(tangles(Syscall::Renameat2, [0, nothing, 0, nothing, 2, 0]));
        assert!(!tangles(Syscall::Renameat2, [0, nothing, 0, nothing, 1, 0]));
        assert!(tangles(Syscall::Linkat, [0, nothing, 0, nothing, 0x400, 0]));
        assert!(tangles(Syscall::Symlink, [nothing, nothing, 0, 0, 0, 0]));
        assert!(!tangles(Syscall::Unlink, [directory, 0, 0, 0, 0, 0]));
        assert!(
            tangles(Syscall::Rename, [1, nothing, 0, 0, 0, 0]),
            "no text"
        );
    }

    #[test]
    fn a_directory_made_inside_is_known_and_tangles_names_when_it_is_moved() {
        let process = rustix::process::getpid();
        let mut names = Names {
            mounts: Mounts::parse(MOUNTS.as_bytes()),
            ..Names::default()
        };
        let path = c"/usr/made".as_ptr() as u64;
        assert!(!names.may_be_directory(Path::new("/usr/made"), None));
        assert!(names.may_be_directory(Path::new("/usr"), None));
        names.note(process, Syscall::Mkdir, &[path, 0, 0, 0, 0, 0]);
        assert!(names.may_be_directory(Path::new("/usr/made"), None));
        assert!(!names.is_tangled);
        names.note(process, Syscall::Rename, &[path, path, 0, 0, 0, 0]);
        assert!(names.is_tangled && names.may_be_directory(Path::new("/etc/nothing"), None));
    }
}
