//! Where the paths of calls lead, as far as it can be told from outside.
//!
//! What is below `/proc`, `/dev` and `/sys` inside is no part of the view, which cannot undo what is done
//! there. The view itself is for nobody outside the domain, so a path is followed in the real tree, with the
//! real links. That is right as long as the domain has made no link and moved none, nor a directory, nor a FIFO
//! or the like: then whatever it has made leads nowhere else, and what is a directory or a plain file is known.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::FileType;
use rustix::io::Errno;
use rustix::process::Pid;

use surmise_syscalls::Syscall;

use crate::machine::task;

/// As many links as the kernel follows (path_resolution(7)).
const LINKS_MAX: usize = 40;

/// What the domain's mounts are, and whether names can still be followed outside.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// `None` until they were looked at.
    mounts: Option<Mounts>,
    is_tangled: bool,
    /// Where the domain has ever made a directory.
    made: HashSet<PathBuf>,
}

/// A domain's mounts, which never change.
#[derive(Debug, PartialEq, Eq)]
struct Mounts {
    /// The kernel's number of the view's mount.
    view: u64,
    /// Its device, as proc_pid_maps(5) names it.
    device: String,
    /// Where the others are.
    others: Vec<PathBuf>,
}

/// What a call does with the last name of its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Last {
    /// It follows a link.
    Followed,
    /// It means the link.
    Named,
}

impl Names {
    /// Of a domain with one mount, the view, which shows what is outside, and with a /proc.
    #[cfg(test)]
    pub(crate) fn of_view() -> Self {
        let mounts = Mounts {
            view: 1,
            device: String::new(),
            others: ["/proc", "/dev", "/dev/null"].map(PathBuf::from).to_vec(),
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
        let Some(mounts) = &self.mounts else {
            return Ok(false);
        };
        Ok(task::mount_of(process, number)? == Some(mounts.view))
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
            is_tangled: self.is_tangled,
            look,
        };
        Ok(walk.follow(&base, text, last))
    }

    /// Whether the domain has a mount at just this place, beside the view.
    pub(super) fn has_mount_at(&self, place: &Path) -> bool {
        let mut mounts = self.mounts.iter().flat_map(|mounts| &mounts.others);
        mounts.any(|other| other == place)
    }

    /// Whether names inside may mean what they do not mean outside, and be no plain files.
    pub(crate) fn are_tangled(&self) -> bool {
        self.is_tangled
    }

    /// Whether a directory may be at a place in the view.
    pub(crate) fn may_be_directory(&self, place: &Path) -> bool {
        self.is_tangled
            || self.made.contains(place)
            || matches!(look(place), Found::Directory | Found::Unknown)
    }

    /// A call is about to happen that makes a directory, or puts what is at one path, or a link, at another.
    pub(crate) fn note(&mut self, process: Pid, name: Syscall, arguments: &[u64; 6]) {
        const HERE: u64 = task::HERE as i64 as u64;
        /// RENAME_EXCHANGE of renameat2(2); AT_SYMLINK_FOLLOW, AT_EMPTY_PATH of linkat(2).
        const EXCHANGE: u64 = 2;
        const OTHER: u64 = 0x400 | 0x1000;
        if self.is_tangled {
            return;
        }
        let [first, second, ..] = *arguments;
        let path = match name {
            Syscall::Symlink | Syscall::Symlinkat => None,
            Syscall::Mkdir | Syscall::Rename | Syscall::Link => Some((HERE, first)),
            Syscall::Mkdirat | Syscall::Renameat => Some((first, second)),
            Syscall::Renameat2 if arguments[4] & EXCHANGE == 0 => Some((first, second)),
            Syscall::Linkat if arguments[4] & OTHER == 0 => Some((first, second)),
            Syscall::Renameat2 | Syscall::Linkat => None,
            _ => return,
        };
        let place = path.map(|path| self.place(process, path, Last::Named));
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

impl Mounts {
    /// From proc_pid_mountinfo(5); `None` if the root is no view.
    fn parse(text: &[u8]) -> Option<Self> {
        let mut view = None;
        let mut others = Vec::new();
        for line in text
            .split(|&byte| byte == b'\n')
            .filter(|line| !line.is_empty())
        {
            let mut words = line.split(|&byte| byte == b' ');
            let number = std::str::from_utf8(words.next()?).ok()?.parse().ok()?;
            let device = mapped_device(std::str::from_utf8(words.nth(1)?).ok()?)?;
            let point = PathBuf::from(unescaped(words.nth(1)?));
            let kind = words.skip_while(|word| *word != b"-").nth(1)?;
            match point == Path::new("/") {
                // The uppermost comes last.
                true => view = kind.starts_with(b"fuse").then_some((number, device)),
                false => others.push(point),
            }
        }
        let (view, device) = view?;
        Some(Self {
            view,
            device,
            others,
        })
    }
}

/// From decimal to hexadecimal numbers.
fn mapped_device(device: &str) -> Option<String> {
    let (major, minor) = device.split_once(':')?;
    let (major, minor): (u32, u32) = (major.parse().ok()?, minor.parse().ok()?);
    Some(format!("{major:02x}:{minor:02x}"))
}

/// Without the octal numbers that stand for blanks.
fn unescaped(word: &[u8]) -> OsString {
    let mut bytes = Vec::new();
    let mut rest = word;
    while let [first, tail @ ..] = rest {
        let digits = tail.get(..3).filter(|_| *first == b'\\');
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[3..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    OsString::from_vec(bytes)
}

/// What is at a place outside.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Found {
    Nothing,
    Directory,
    Link(PathBuf),
    File,
    /// A FIFO, a socket or a device.
    Other,
    /// It cannot be looked at.
    Unknown,
}

fn look(place: &Path) -> Found {
    let stat = match rustix::fs::lstat(place) {
        Ok(stat) => stat,
        Err(Errno::NOENT | Errno::NOTDIR) => return Found::Nothing,
        Err(_) => return Found::Unknown,
    };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => Found::Directory,
        FileType::RegularFile => Found::File,
        FileType::Symlink => fs::read_link(place).map_or(Found::Unknown, Found::Link),
        _ => Found::Other,
    }
}

/// Following one path.
struct Walk<'a, L> {
    mounts: &'a Mounts,
    is_tangled: bool,
    look: L,
}

impl<L: Fn(&Path) -> Found> Walk<'_, L> {
    /// Where a path from a directory of the view leads, if it stays there.
    ///
    /// A real link or directory that the path passes may have been removed inside. Then what is there now
    /// was made inside, and so was all below it: none of it is a link. But `..` leads elsewhere from such a
    /// directory than from a link's target, so nothing may be followed that has both.
    fn follow(&self, base: &Path, text: &Path, last: Last) -> Option<PathBuf> {
        let bytes = text.as_os_str().as_bytes();
        let last = match bytes.ends_with(b"/") {
            true => Last::Followed,
            false => last,
        };
        let goes_up = text.components().any(|part| part == Component::ParentDir);
        // Where it was removed, nothing can be made.
        let is_removed = base.as_os_str().as_bytes().ends_with(b" (deleted)");
        if bytes.is_empty() || is_removed || !base.is_absolute() || self.is_elsewhere(base) {
            return None;
        }
        let mut at = base.to_owned();
        let mut rest = text.to_owned();
        let mut links = 0;
        'link: loop {
            let whole = std::mem::take(&mut rest);
            let mut parts = whole.components();
            while let Some(part) = parts.next() {
                let name = match part {
                    Component::RootDir => {
                        at = PathBuf::from("/");
                        continue;
                    }
                    Component::ParentDir => {
                        at.pop();
                        continue;
                    }
                    Component::CurDir | Component::Prefix(_) => continue,
                    Component::Normal(name) => name,
                };
                let next = at.join(name);
                if self.is_elsewhere(&next) {
                    return None;
                }
                let is_last = parts.as_path().as_os_str().is_empty();
                if is_last && last == Last::Named {
                    return Some(next);
                }
                if self.is_tangled {
                    return None;
                }
                match (self.look)(&next) {
                    Found::Unknown => return None,
                    Found::Link(target) => {
                        links += 1;
                        if goes_up || goes_back(&target) || links > LINKS_MAX {
                            return None;
                        }
                        rest = target.join(parts.as_path());
                        continue 'link;
                    }
                    Found::Nothing | Found::Directory | Found::File | Found::Other => {
                        at = next;
                    }
                }
            }
            return Some(at);
        }
    }

    fn is_elsewhere(&self, place: &Path) -> bool {
        let mut others = self.mounts.others.iter();
        others.any(|other| place.starts_with(other))
    }
}

/// Whether a link's target goes up from where it went down.
fn goes_back(target: &Path) -> bool {
    let parts = target.components();
    let mut after_leading = parts.skip_while(|part| !matches!(part, Component::Normal(_)));
    after_leading.any(|part| part == Component::ParentDir)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    const MOUNTS: &str = "\
        40 30 0:50 / / rw,nodev shared:1 - fuse.surmise surmise rw\n\
        41 40 0:51 / /proc rw - proc proc rw\n\
        42 40 0:52 / /dev rw - tmpfs tmpfs rw\n\
        43 40 0:53 / /run/a\\040socket rw - tmpfs tmpfs rw\n";

    fn mounts() -> Mounts {
        Mounts::parse(MOUNTS.as_bytes()).expect("a view")
    }

    fn follow(is_tangled: bool, base: &str, text: &str, last: Last) -> Option<String> {
        let links = HashMap::from([
            ("/home/sub", "proj/src"),
            ("/home/shm", "/dev/shm"),
            ("/home/up", "../etc"),
            ("/home/back", "proj/../x"),
            ("/home/loop", "loop"),
            ("/lib", "usr/lib"),
        ]);
        let mounts = mounts();
        let walk = Walk {
            mounts: &mounts,
            is_tangled,
            look: |place: &Path| match place.to_str() {
                Some("/secret") => Found::Unknown,
                Some(place) if links.contains_key(place) => Found::Link(links[place].into()),
                _ => Found::Nothing,
            },
        };
        let place = walk.follow(Path::new(base), Path::new(text), last)?;
        Some(place.to_str().expect("text").to_owned())
    }

    #[test]
    fn the_views_mount_is_the_uppermost_root() {
        let others = ["/proc", "/dev", "/run/a socket"].map(PathBuf::from);
        let wanted = Mounts {
            view: 40,
            device: "00:32".into(),
            others: others.to_vec(),
        };
        assert_eq!(mounts(), wanted);
        let disk = "20 1 254:0 / / rw - ext4 /dev/vda rw\n";
        let (below, above) = (format!("{disk}{MOUNTS}"), format!("{MOUNTS}{disk}"));
        assert_eq!(Mounts::parse(below.as_bytes()), Some(wanted));
        assert_eq!(Mounts::parse(above.as_bytes()), None);
        assert_eq!(Mounts::parse(b""), None);
    }

    #[test]
    fn a_path_is_followed_as_the_kernel_does() {
        for (base, text, wanted) in [
            ("/home", "a/b", "/home/a/b"),
            ("/home", "./a//b/", "/home/a/b"),
            ("/home/a", "../b", "/home/b"),
            ("/", "../../x", "/x"),
            ("/home", "/etc/x", "/etc/x"),
            ("/home", "sub/x", "/home/proj/src/x"),
            ("/home", "up/passwd", "/etc/passwd"),
            ("/", "lib/x", "/usr/lib/x"),
            ("/home", "..", "/"),
        ] {
            let got = follow(false, base, text, Last::Followed);
            assert_eq!(got.as_deref(), Some(wanted), "{base} {text}");
        }
        let named = follow(false, "/home", "shm", Last::Named);
        assert_eq!(named.as_deref(), Some("/home/shm"));
    }

    #[test]
    fn what_leads_elsewhere_or_may_do_so_is_told_by_none() {
        for (base, text) in [
            ("/home", "/dev/null"),
            ("/home", "/proc/self/fd/1"),
            ("/home", "../dev/shm/x"),
            ("/home", "shm/x"),
            ("/home", "shm"),
            ("/home", "shm/"),
            ("/", "run/a socket"),
            ("/dev/shm", "x"),
            ("/home", "sub/../x"),
            ("/home", "back/y"),
            ("/home", "loop/x"),
            ("/", "secret/x"),
            ("/home/gone (deleted)", "x"),
            ("(unreachable)", "x"),
            ("/home", ""),
        ] {
            assert_eq!(
                follow(false, base, text, Last::Followed),
                None,
                "{base} {text}"
            );
        }
        assert_eq!(follow(false, "/home", "shm/", Last::Named), None);
        assert_eq!(follow(false, "/home", "shm/x", Last::Named), None);
    }

    #[test]
    fn among_links_made_inside_only_a_name_that_is_not_followed_is_sure() {
        let named = |text| follow(true, "/home", text, Last::Named);
        assert_eq!(named("x").as_deref(), Some("/home/x"));
        assert_eq!(named("../x").as_deref(), Some("/x"));
        assert_eq!(named("/etc/x"), None);
        assert_eq!(named("/dev"), None);
        assert_eq!(follow(true, "/home", "x", Last::Followed), None);
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
        assert!(!names.may_be_directory(Path::new("/usr/made")));
        assert!(names.may_be_directory(Path::new("/usr")));
        names.note(process, Syscall::Mkdir, &[path, 0, 0, 0, 0, 0]);
        assert!(names.may_be_directory(Path::new("/usr/made")));
        assert!(!names.is_tangled);
        names.note(process, Syscall::Rename, &[path, path, 0, 0, 0, 0]);
        assert!(names.is_tangled && names.may_be_directory(Path::new("/etc/nothing")));
    }
}
