//! What descriptors and names of a task lead to, looked up in /proc.

use std::ffi::OsString;
use std::io;
use std::os::fd::RawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Stat, lstat, major, stat, statfs};
use rustix::io::Errno;
use rustix::process::Pid;
use surmise_sys::memory;

/// Types of file systems that keep nothing over a loss of power (statfs(2)): what is written there waits for
/// nothing.
const FLEETING: [u32; 13] = [
    0x0102_1994, // tmpfs
    0x8584_58f6, // ramfs
    0x0000_9fa0, // proc
    0x6265_6572, // sysfs
    0x0000_1cd1, // devpts
    0x0904_1934, // anonymous inodes
    0x6e73_6673, // namespaces
    0x9584_58f6, // hugetlbfs
    0x1980_0202, // message queues
    0x0027_e0eb, // cgroup
    0x6367_7270, // cgroup2
    0x6462_6720, // debugfs
    0x7472_6163, // tracefs
];

/// Those of pipes and sockets that have no name.
const NAMELESS: [u32; 2] = [0x5049_5045, 0x534f_434b];

/// Devices of a domain that nothing leaves by: memory, terminals of its own.
const HARMLESS_MAJORS: [u32; 10] = [1, 5, 136, 137, 138, 139, 140, 141, 142, 143];

/// The longest path, with the byte that ends it.
const PATH_MAX: usize = 4096;

/// What something leads to.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// Its place in /proc, by which it is looked at.
    path: PathBuf,
    stat: Stat,
}

impl Target {
    /// What a descriptor leads to; `None` where it is not open.
    pub(crate) fn of_descriptor(thread: Pid, descriptor: RawFd) -> io::Result<Option<Self>> {
        Self::at(descriptor_path(thread, descriptor))
    }

    /// What is at a path, links followed; `None` where nothing is.
    pub(crate) fn at(path: PathBuf) -> io::Result<Option<Self>> {
        match stat(&path) {
            Ok(stat) => Ok(Some(Self { path, stat })),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::SRCH) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// What is at a path, which may be a link itself; `None` where nothing is.
    pub(crate) fn named(path: PathBuf) -> io::Result<Option<Self>> {
        match lstat(&path) {
            Ok(stat) => Ok(Some(Self { path, stat })),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::SRCH) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// What was found at a path.
    pub(crate) fn new(path: PathBuf, stat: Stat) -> Self {
        Self { path, stat }
    }

    pub(crate) fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.stat.st_mode)
    }

    pub(crate) fn device(&self) -> u64 {
        self.stat.st_dev
    }

    pub(crate) fn inode(&self) -> u64 {
        self.stat.st_ino
    }

    /// Whether the name that the kernel has for it, if it has one, ends in such a way.
    pub(crate) fn is_named(&self, end: &str) -> bool {
        let name = std::fs::read_link(&self.path);
        name.is_ok_and(|name| name.as_os_str().as_bytes().ends_with(end.as_bytes()))
    }

    /// Whether it is data or a name of a file system.
    pub(crate) fn is_file(&self) -> bool {
        matches!(
            self.kind(),
            FileType::RegularFile | FileType::Directory | FileType::Symlink
        )
    }

    /// Whether what is written there neither outlives a loss of power nor is seen by anybody outside at once.
    pub(crate) fn is_harmless(&self) -> bool {
        match self.kind() {
            FileType::CharacterDevice => HARMLESS_MAJORS.contains(&major(self.stat.st_rdev)),
            FileType::BlockDevice => false,
            // By name anybody may have it open at the other end; without one only the domain and its relay.
            FileType::Fifo | FileType::Socket => self.is_of(&NAMELESS),
            _ => self.is_of(&FLEETING),
        }
    }

    fn is_of(&self, types: &[u32]) -> bool {
        // The kernel tells the number as a signed one on some machines.
        statfs(&self.path).is_ok_and(|found| types.contains(&(found.f_type as u32)))
    }
}

/// How a descriptor was opened, as its link in /proc shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) reads: bool,
    pub(crate) writes: bool,
}

impl Access {
    /// `None` where it is not open. One that was opened with O_PATH neither reads nor writes.
    pub(crate) fn of(thread: Pid, descriptor: RawFd) -> io::Result<Option<Self>> {
        Self::at(&descriptor_path(thread, descriptor))
    }

    pub(crate) fn at(link: &Path) -> io::Result<Option<Self>> {
        match lstat(link) {
            Ok(link) => Ok(Some(Self::of_link(&link))),
            Err(Errno::NOENT | Errno::SRCH) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// By the rights of the link.
    pub(crate) fn of_link(link: &Stat) -> Self {
        Self {
            reads: link.st_mode & 0o400 != 0,
            writes: link.st_mode & 0o200 != 0,
        }
    }
}

/// Where a name begins.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Base {
    Working,
    Descriptor(RawFd),
}

/// The path that leads this process to what a name leads a task to, but for absolute links of a task with
/// another root: these are followed from this process' root.
pub(crate) fn path_of(thread: Pid, base: Base, name: &Path) -> PathBuf {
    let task = PathBuf::from(format!("/proc/{}", thread.as_raw_nonzero()));
    match (name.strip_prefix("/"), base) {
        (Ok(inside), _) => task.join("root").join(inside),
        (Err(_), Base::Working) => task.join("cwd").join(name),
        (Err(_), Base::Descriptor(number)) => descriptor_path(thread, number).join(name),
    }
}

/// Where /proc shows a descriptor.
pub(crate) fn descriptor_path(thread: Pid, descriptor: RawFd) -> PathBuf {
    format!("/proc/{}/fd/{descriptor}", thread.as_raw_nonzero()).into()
}

/// A path that a task has in its memory, without the byte that ends it.
///
/// # Errors
/// `EFAULT` where none is, `ENAMETOOLONG`: the call fails, too.
pub(crate) fn read_path(thread: Pid, address: u64) -> io::Result<PathBuf> {
    const PAGE: u64 = 4096;
    let mut path = Vec::new();
    while path.len() < PATH_MAX {
        // Not beyond a page that may be the last one.
        let begin = address.wrapping_add(path.len() as u64);
        let length = (PAGE - begin % PAGE).min(256);
        let before = path.len();
        path.resize(before + length as usize, 0);
        memory::read(thread, begin, &mut path[before..])?;
        if let Some(end) = path[before..].iter().position(|byte| *byte == 0) {
            path.truncate(before + end);
            return Ok(OsString::from_vec(path).into());
        }
    }
    Err(Errno::NAMETOOLONG.into())
}

/// The directory that holds a name.
pub(crate) fn parent(name: &Path) -> PathBuf {
    let bytes = name.as_os_str().as_bytes();
    let end = bytes.iter().rposition(|byte| *byte != b'/');
    let slash = end.and_then(|end| bytes[..end].iter().rposition(|byte| *byte == b'/'));
    match slash {
        Some(0) => "/".into(),
        Some(slash) => OsString::from_vec(bytes[..slash].to_vec()).into(),
        None if bytes.starts_with(b"/") => "/".into(),
        None => ".".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_is_what_holds_the_name() {
        for (name, holds) in [
            ("a", "."),
            ("a/", "."),
            ("a/b", "a"),
            ("a/b//", "a"),
            ("/a", "/"),
            ("/", "/"),
            ("/a/b", "/a"),
            ("..", "."),
            ("a/..", "a"),
        ] {
            assert_eq!(parent(Path::new(name)), Path::new(holds), "{name}");
        }
    }

    #[test]
    fn descriptors_and_paths_of_this_very_process_are_found() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let thread = rustix::thread::gettid();
        let number = std::os::fd::AsRawFd::as_raw_fd(file.as_file());
        let found = Target::of_descriptor(thread, number).expect("look");
        assert!(found.expect("it is open").is_file());
        let both = Access {
            reads: true,
            writes: true,
        };
        assert_eq!(Access::of(thread, number).expect("look"), Some(both));
        assert_eq!(Access::of(thread, 9999).expect("look"), None);
        let text = std::ffi::CString::new("/etc/passwd").expect("a string");
        let read = read_path(thread, text.as_ptr() as u64).expect("a path");
        assert_eq!(read, Path::new("/etc/passwd"));
        let path = path_of(thread, Base::Working, &read);
        assert!(Target::at(path).expect("look").is_some());
        let null = path_of(thread, Base::Working, Path::new("/dev/null"));
        assert!(
            Target::at(null)
                .expect("look")
                .expect("it is there")
                .is_harmless()
        );
    }
}
