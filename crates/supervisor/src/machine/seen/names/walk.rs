//! A path, followed as the kernel follows it.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::FileType;
use rustix::io::Errno;

use super::mounts::Mounts;
use crate::objects::files::At;

/// As many links as the kernel follows (path_resolution(7)).
const LINKS_MAX: usize = 40;

/// What a call does with the last name of its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Last {
    /// It follows a link.
    Followed,
    /// It means the link.
    Named,
}

/// What is at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Nothing,
    Directory,
    Link(PathBuf),
    File,
    /// A FIFO, a socket or a device.
    Other,
    /// It cannot be looked at.
    Unknown,
}

impl From<At> for Found {
    fn from(at: At) -> Self {
        match at {
            At::Nothing => Self::Nothing,
            At::Directory => Self::Directory,
            At::Link(target) => Self::Link(target),
            At::File => Self::File,
            At::Other => Self::Other,
        }
    }
}

/// What is at a place outside.
pub(super) fn look(place: &Path) -> Found {
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
pub(super) struct Walk<'a, L> {
    pub(super) mounts: &'a Mounts,
    /// Whether what is found is what the domain would find.
    pub(super) is_inside: bool,
    pub(super) look: L,
}

impl<L: Fn(&Path) -> Found> Walk<'_, L> {
    /// Where a path from a directory of the view leads, if it stays there.
    ///
    /// Outside, a real link or directory that the path passes may have been removed inside. Then what is there now
    /// was made inside, and so was all below it: none of it is a link. But `..` leads elsewhere from such a
    /// directory than from a link's target, so nothing may be followed that has both.
    pub(super) fn follow(&self, base: &Path, text: &Path, last: Last) -> Option<PathBuf> {
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
                // The directories above it were looked at on the way.
                if self.is_mount(&next) {
                    return None;
                }
                let is_last = parts.as_path().as_os_str().is_empty();
                if is_last && last == Last::Named {
                    return Some(next);
                }
                match (self.look)(&next) {
                    Found::Unknown => return None,
                    Found::Link(target) => {
                        links += 1;
                        let misleads = !self.is_inside && (goes_up || goes_back(&target));
                        if misleads || links > LINKS_MAX {
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

    /// Whether a place is in another mount than the view.
    fn is_elsewhere(&self, place: &Path) -> bool {
        place.ancestors().any(|part| self.is_mount(part))
    }

    fn is_mount(&self, place: &Path) -> bool {
        self.mounts.others.contains(place)
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

    use super::super::mounts::tests::mounts;
    use super::*;

    fn follow(is_inside: bool, base: &str, text: &str, last: Last) -> Option<String> {
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
            is_inside,
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

    /// Each link leads where the kernel follows it to.
    #[test]
    fn inside_a_path_may_go_up_from_where_a_link_led() {
        for (text, wanted) in [
            ("sub/../x", Some("/home/proj/x")),
            ("back/y", Some("/home/x/y")),
            ("up/../x", Some("/x")),
            ("shm/x", None),
            ("loop", None),
        ] {
            let got = follow(true, "/home", text, Last::Followed);
            assert_eq!(got.as_deref(), wanted, "{text}");
        }
    }
}
