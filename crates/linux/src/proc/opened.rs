//! What the kernel tells of an open file, whatever file system that is on (proc_pid_fdinfo(5)).

use std::fs;
use std::io;

use rustix::fs::OFlags;

use super::Entry;

/// An open file of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Where the next byte is read or written.
    pub position: u64,
    /// The access mode and the status flags; `CLOEXEC` is the descriptor's.
    pub flags: OFlags,
    /// The number of the mount that it was opened by.
    pub mount: u64,
    /// The number of the inode. Before Linux 5.14 the kernel does not tell it.
    pub inode: Option<u64>,
}

impl Opened {
    /// That of one descriptor.
    ///
    /// # Errors
    /// As for reading /proc: `NotFound` where it is not open. `InvalidData` where the kernel tells less than it should.
    pub fn of(entry: impl Into<Entry>, descriptor: i32) -> io::Result<Self> {
        let text = entry.into().read(&format!("fdinfo/{descriptor}"))?;
        let opened = Self::parse(&String::from_utf8_lossy(&text));
        opened.ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Whether the file may be read by it.
    pub fn is_for_reading(&self) -> bool {
        let mode = self.flags & OFlags::RWMODE;
        !self.flags.contains(OFlags::PATH) && (mode == OFlags::RDONLY || mode == OFlags::RDWR)
    }

    /// Whether the file may be written by it.
    pub fn is_for_writing(&self) -> bool {
        !self.flags.contains(OFlags::PATH) && self.flags & OFlags::RWMODE != OFlags::RDONLY
    }

    fn parse(text: &str) -> Option<Self> {
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
        let number = |name| field(name)?.trim().parse().ok();
        let flags = u32::from_str_radix(field("flags:")?.trim(), 8).ok()?;
        Some(Self {
            position: number("pos:")?,
            flags: OFlags::from_bits_retain(flags),
            mount: number("mnt_id:")?,
            inode: number("ino:"),
        })
    }
}

/// All of a process, each with its descriptor.
///
/// # Errors
/// As for reading /proc.
pub fn opened(entry: impl Into<Entry>) -> io::Result<Vec<(i32, Opened)>> {
    let entry = entry.into();
    let mut found = Vec::new();
    for one in fs::read_dir(entry.path("fdinfo"))? {
        let name = one?.file_name();
        let Some(descriptor) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        match Opened::of(entry.clone(), descriptor) {
            // It was closed meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            opened => found.push((descriptor, opened?)),
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn a_file_is_told_with_its_inode_and_how_it_is_open() {
        let path = std::env::temp_dir().join(format!("surmise-opened-{}", std::process::id()));
        let written = File::create(&path).expect("make a file");
        let read = File::open(&path).expect("open it");
        let inode = read.metadata().expect("its attributes").ino();
        let all = opened(Entry::own()).expect("list");
        let of = |file: &File| {
            let descriptor = file.as_raw_fd();
            let one = Opened::of(Entry::own(), descriptor).expect("look");
            assert!(all.contains(&(descriptor, one)), "{all:?}");
            assert_eq!(one.inode, Some(inode));
            one
        };
        assert!(of(&written).is_for_writing());
        assert!(!of(&read).is_for_writing());
        assert_eq!(of(&read).mount, of(&written).mount);
        fs::remove_file(path).expect("remove it");
        assert_eq!(
            Opened::of(Entry::own(), i32::MAX).map_err(|error| error.kind()),
            Err(io::ErrorKind::NotFound)
        );
    }

    #[test]
    fn a_place_is_not_for_writing_and_an_old_kernel_tells_no_inode() {
        let place = Opened::parse("pos:\t7\nflags:\t012000002\nmnt_id:\t29\n").expect("parse");
        assert!(!place.is_for_writing());
        assert_eq!((place.position, place.mount, place.inode), (7, 29, None));
        assert_eq!(Opened::parse("pos:\t0\n"), None);
    }
}
