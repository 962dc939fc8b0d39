//! The mounts of a domain.

use std::collections::HashSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The mounts that a domain has from its start. They never change, but a process may come to have a copy, with other numbers.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mounts {
    /// The kernel's number of the view's mount.
    pub(super) view: u64,
    /// Its device, as proc_pid_maps(5) names it.
    pub(super) device: String,
    /// Where the others are.
    pub(super) others: Arc<HashSet<PathBuf>>,
}

impl Mounts {
    /// From proc_pid_mountinfo(5); `None` if the root is no view.
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        let mut view = None;
        let mut others = HashSet::new();
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
                false => {
                    others.insert(point);
                }
            }
        }
        let (view, device) = view?;
        Some(Self {
            view,
            device,
            others: Arc::new(others),
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

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) const MOUNTS: &str = "\
        40 30 0:50 / / rw,nodev shared:1 - fuse.surmise surmise rw\n\
        41 40 0:51 / /proc rw - proc proc rw\n\
        42 40 0:52 / /dev rw - tmpfs tmpfs rw\n\
        43 40 0:53 / /run/a\\040socket rw - tmpfs tmpfs rw\n";

    pub(in super::super) fn mounts() -> Mounts {
        Mounts::parse(MOUNTS.as_bytes()).expect("a view")
    }

    #[test]
    fn the_views_mount_is_the_uppermost_root() {
        let others = ["/proc", "/dev", "/run/a socket"].map(PathBuf::from);
        let wanted = Mounts {
            view: 40,
            device: "00:32".into(),
            others: Arc::new(others.into()),
        };
        assert_eq!(mounts(), wanted);
        let disk = "20 1 254:0 / / rw - ext4 /dev/vda rw\n";
        let (below, above) = (format!("{disk}{MOUNTS}"), format!("{MOUNTS}{disk}"));
        assert_eq!(Mounts::parse(below.as_bytes()), Some(wanted));
        assert_eq!(Mounts::parse(above.as_bytes()), None);
        assert_eq!(Mounts::parse(b""), None);
    }
}
