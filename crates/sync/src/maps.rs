//! What a process has mapped, shared (proc_pid_maps(5), proc_pid_smaps(5)).

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
    /// Whether it can be stored into now.
    pub(crate) is_writable: bool,
    /// Where in the file it begins.
    pub(crate) offset: u64,
    /// The number of the file system that the file is on. It need not be what stat(2) tells of the file: each
    /// subvolume of a btrfs has another number there.
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

/// All shared maps of files of a file system that a process has, given by the number of one of its threads.
pub(crate) fn shared_maps(process: i32, device: u64) -> io::Result<Vec<SharedMap>> {
    parse_all(&fs::read(format!("/proc/{process}/maps"))?, device)
}

/// Those that it can store into, or could after mprotect(2).
pub(crate) fn storable_maps(process: i32, device: u64) -> io::Result<Vec<SharedMap>> {
    let shared = shared_maps(process, device)?;
    if shared.iter().all(|map| map.is_writable) {
        return Ok(shared);
    }
    // To tell more takes the kernel a walk over all pages. What it does not tell may be any map.
    match fs::read(format!("/proc/{process}/smaps")) {
        Ok(told) => parse_all(&told, device),
        Err(_) => Ok(shared),
    }
}

/// Reads the lines of maps, or of smaps, which tells of some maps that they can never be stored into.
fn parse_all(told: &[u8], device: u64) -> io::Result<Vec<SharedMap>> {
    let mut shared = Vec::new();
    let mut is_wanted = false;
    for line in told.split(|byte| *byte == b'\n') {
        if is_of_map(line) {
            let map = is_shared(line).then(|| parse(line).ok_or(io::ErrorKind::InvalidData));
            let map = map.transpose()?.filter(|map| map.device == device);
            is_wanted = map.is_some();
            shared.extend(map);
        } else if is_wanted && is_never_writable(line) {
            shared.pop();
        }
    }
    Ok(shared)
}

/// Other lines of smaps begin with a name.
fn is_of_map(line: &[u8]) -> bool {
    let addresses = line.split(|byte| *byte == b' ').next();
    addresses.is_some_and(|addresses| addresses.contains(&b'-'))
}

fn is_shared(line: &[u8]) -> bool {
    rights(line).is_some_and(|rights| rights.ends_with(b"s"))
}

fn rights(line: &[u8]) -> Option<&[u8]> {
    line.split(|byte| *byte == b' ').nth(1)
}

/// Whether it was mapped by a descriptor that does not write: mprotect(2) refuses to make it writable.
fn is_never_writable(line: &[u8]) -> bool {
    let flags = line.strip_prefix(b"VmFlags:");
    flags.is_some_and(|flags| !flags.split(|byte| *byte == b' ').any(|flag| flag == b"mw"))
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
    let is_writable = word()?.contains('w');
    let offset = hex(word()?)?;
    let (major, minor) = word()?.split_once(':')?;
    let inode = word()?.parse().ok()?;
    Some(SharedMap {
        addresses: hex(start)?..hex(end)?,
        is_writable,
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
        assert!(map.is_writable);
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
    fn maps_of_other_file_systems_and_those_that_can_never_be_stored_into_are_passed_by() {
        let told = b"\
7f00-7f10 rw-s 00000000 07:11 1   /mnt/written
Size:                  4 kB
VmFlags: rd wr sh mr mw me ms sd
7f10-7f20 r--s 00000000 07:11 2   /mnt/protected
VmFlags: rd sh mr mw me ms sd
7f20-7f30 r--s 00000000 07:11 3   /mnt/read
VmFlags: rd mr me ms sd
7f30-7f40 rw-s 00000000 07:12 4   /other/written
VmFlags: rd wr sh mr mw me ms sd
7f40-7f50 r--p 00000000 07:11 5   /mnt/private
VmFlags: rd mr me sd
7f50-7f60 r--s 00000000 07:11 6   /mnt/told-less-of
Rss:                   0 kB
";
        let inodes = |told: &[u8]| -> Vec<u64> {
            let maps = parse_all(told, makedev(7, 17)).expect("maps");
            maps.iter().map(|map| map.inode).collect()
        };
        assert_eq!(inodes(told), [1, 2, 6]);
        let lines = told.split_inclusive(|byte| *byte == b'\n');
        let maps: Vec<u8> = lines
            .filter(|line| is_of_map(line))
            .flatten()
            .copied()
            .collect();
        assert_eq!(inodes(&maps), [1, 2, 3, 6]);
    }

    #[test]
    fn maps_of_this_very_process_are_found() {
        let own = rustix::process::getpid().as_raw_nonzero().get();
        assert!(storable_maps(own, 0).expect("maps").is_empty());
        assert!(shared_maps(i32::MAX, 0).is_err());
    }
}
