//! What a process has mapped, shared.

use std::io;
use std::ops::Range;
use std::path::PathBuf;

use rustix::process::Pid;
use surmise_linux::proc::Maps;

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
pub(crate) fn shared_maps(process: Pid, device: u64) -> io::Result<Vec<SharedMap>> {
    storable(&Maps::of(process)?, device)
}

/// Those that it can store into, or could after mprotect(2).
pub(crate) fn storable_maps(process: Pid, device: u64) -> io::Result<Vec<SharedMap>> {
    let shared = shared_maps(process, device)?;
    if shared.iter().all(|map| map.is_writable) {
        return Ok(shared);
    }
    // What the kernel does not tell may be any map.
    match Maps::with_flags(process) {
        Ok(told) => storable(&told, device),
        Err(_) => Ok(shared),
    }
}

/// Shared maps, but for those of which is told that they were mapped by a descriptor that does not write:
/// mprotect(2) refuses to make these writable.
fn storable(maps: &Maps, device: u64) -> io::Result<Vec<SharedMap>> {
    let mut shared = Vec::new();
    for map in maps.iter() {
        let map = map?;
        if map.is_shared && map.device == device && map.has_flag("mw") != Some(false) {
            shared.push(SharedMap {
                is_writable: map.is_writable(),
                addresses: map.addresses,
                offset: map.offset,
                device: map.device,
                inode: map.inode,
                path: map.path.to_owned(),
            });
        }
    }
    Ok(shared)
}

#[cfg(test)]
mod tests {
    use rustix::fs::makedev;

    use super::*;

    #[test]
    fn maps_overlap_by_their_addresses() {
        let told = b"7f00-7f10 rw-s 00008000 07:11 42 /mnt/base-shm";
        let maps = storable(&Maps::from(&told[..]), makedev(7, 17)).expect("maps");
        let [map] = &maps[..] else {
            panic!("{maps:?}");
        };
        assert_eq!(map.length(), 0x10);
        assert!(map.overlaps(&(0x7f0f..0x8000)) && !map.overlaps(&(0x7f10..0x8000)));
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
            let maps = storable(&Maps::from(told), makedev(7, 17)).expect("maps");
            maps.iter().map(|map| map.inode).collect()
        };
        assert_eq!(inodes(told), [1, 2, 6]);
        let lines = told.split_inclusive(|byte| *byte == b'\n');
        let maps: Vec<u8> = lines
            .filter(|line| line.starts_with(b"7f"))
            .flatten()
            .copied()
            .collect();
        assert_eq!(inodes(&maps), [1, 2, 3, 6]);
    }

    #[test]
    fn maps_of_this_very_process_are_found() {
        let own = rustix::process::getpid();
        assert!(storable_maps(own, 0).expect("maps").is_empty());
        let nobody = Pid::from_raw(i32::MAX).expect("a number");
        assert!(shared_maps(nobody, 0).is_err());
    }
}
