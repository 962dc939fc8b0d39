//! What a process has mapped, shared (proc_pid_maps(5)).

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rustix::fs::makedev;

/// A map that is shared, as one line tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SharedMap {
    pub(crate) addresses: Range<u64>,
    /// Where in the file it begins.
    pub(crate) offset: u64,
    /// Of the file system that the file is on.
    pub(crate) device: u64,
    pub(crate) inode: u64,
    /// What the file is called in its mounts, as far as the kernel says it unchanged: it marks removed files and
    /// replaces newlines.
    pub(crate) path: PathBuf,
}

impl SharedMap {
    pub(crate) fn length(&self) -> u64 {
        self.addresses.end - self.addresses.start
    }

    pub(crate) fn overlaps(&self, addresses: &Range<u64>) -> bool {
        self.addresses.start < addresses.end && addresses.start < self.addresses.end
    }
}

/// All shared maps of a process, given by the number of one of its threads.
pub(crate) fn shared_maps(process: i32) -> io::Result<Vec<SharedMap>> {
    let maps = fs::read(format!("/proc/{process}/maps"))?;
    let mut shared = Vec::new();
    for line in maps.split(|byte| *byte == b'\n') {
        if is_shared(line) {
            shared.push(parse(line).ok_or(io::ErrorKind::InvalidData)?);
        }
    }
    Ok(shared)
}

/// Also one that is read only: it may become writable again.
fn is_shared(line: &[u8]) -> bool {
    let rights = line.split(|byte| *byte == b' ').nth(1);
    rights.is_some_and(|rights| rights.ends_with(b"s"))
}

fn parse(line: &[u8]) -> Option<SharedMap> {
    let mut rest = line;
    let mut word = || {
        rest = rest.trim_ascii_start();
        let end = rest.iter().position(|byte| *byte == b' ');
        let (word, after) = rest.split_at(end.unwrap_or(rest.len()));
        rest = after;
        std::str::from_utf8(word).ok()
    };
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let (start, end) = word()?.split_once('-')?;
    let _rights = word()?;
    let offset = hex(word()?)?;
    let (major, minor) = word()?.split_once(':')?;
    let inode = word()?.parse().ok()?;
    Some(SharedMap {
        addresses: hex(start)?..hex(end)?,
        offset,
        device: makedev(hex(major)? as u32, hex(minor)? as u32),
        inode,
        path: OsStr::from_bytes(rest.trim_ascii_start()).into(),
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_line_of_a_shared_map_is_read_as_the_manual_says() {
        let line = b"7f00-7f10 rw-s 00008000 07:11 42                   /mnt/a base-shm";
        assert!(is_shared(line));
        let map = parse(line).expect("a map");
        assert_eq!(map.addresses, 0x7f00..0x7f10);
        assert_eq!((map.offset, map.inode, map.length()), (0x8000, 42, 0x10));
        assert_eq!(map.device, makedev(7, 17));
        assert_eq!(map.path, Path::new("/mnt/a base-shm"));
        assert!(map.overlaps(&(0x7f0f..0x8000)) && !map.overlaps(&(0x7f10..0x8000)));
    }

    #[test]
    fn private_maps_are_none_and_shared_ones_may_have_no_name() {
        assert!(!is_shared(
            b"7f00-7f10 rw-p 00000000 07:11 42   /mnt/program"
        ));
        assert!(!is_shared(b""));
        let line = b"7f00-7f10 r--s 00000000 00:01 42";
        assert!(is_shared(line));
        assert_eq!(parse(line).expect("a map").path, Path::new(""));
    }

    #[test]
    fn maps_of_this_very_process_are_found() {
        let own = rustix::process::getpid().as_raw_nonzero().get();
        shared_maps(own).expect("maps");
        assert!(shared_maps(i32::MAX).is_err());
    }
}
