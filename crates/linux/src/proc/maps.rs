//! What a process has mapped (proc_pid_maps(5), proc_pid_smaps(5)).

use std::ffi::OsStr;
use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::makedev;

use super::Entry;

/// All maps of a process, as the kernel has told them.
#[derive(Clone, Debug)]
pub struct Maps(Vec<u8>);

/// One map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Map<'a> {
    /// Where it is, in bytes.
    pub addresses: Range<u64>,
    /// Three letters: `r`, `w` and `x`, or `-` for what may not be done with it.
    pub rights: &'a str,
    /// Whether stores into it are seen by others who map the same.
    pub is_shared: bool,
    /// Where in the file it begins, in bytes.
    pub offset: u64,
    /// The number of the file system that the file is on. It need not be what stat(2) tells of the file: each
    /// subvolume of a btrfs has another number there.
    pub device: u64,
    /// The file's; 0 for memory without one.
    pub inode: u64,
    /// What the file is called in its mounts, as far as the kernel says it unchanged: it marks removed files and
    /// replaces newlines. Or what the kernel calls it, in brackets, or nothing.
    pub path: &'a Path,
    /// What the kernel knows of it, in words of two letters; `None` where it was not asked ([`Maps::with_flags`]).
    pub flags: Option<&'a str>,
}

impl Maps {
    /// Those of a process.
    ///
    /// # Errors
    /// As for reading /proc.
    pub fn of(process: impl Into<Entry>) -> io::Result<Self> {
        Ok(Self(process.into().read_long("maps")?))
    }

    /// As [`Self::of`], with flags. To tell them takes the kernel a walk over all pages.
    ///
    /// # Errors
    /// As [`Self::of`].
    pub fn with_flags(process: impl Into<Entry>) -> io::Result<Self> {
        Ok(Self(process.into().read_long("smaps")?))
    }

    /// One after the other, rising. A line that is not of Linux is `InvalidData`.
    pub fn iter(&self) -> impl Iterator<Item = io::Result<Map<'_>>> {
        let mut rest = &self.0[..];
        std::iter::from_fn(move || {
            let map = parse(next_line(&mut rest)?);
            let mut flags = None;
            // What smaps says of a map follows it, a name at the beginning of each line.
            while let Some(line) = next_line(&mut { rest }).filter(|line| !is_of_map(line)) {
                next_line(&mut rest);
                flags = flags.or_else(|| std::str::from_utf8(line.strip_prefix(b"VmFlags:")?).ok());
            }
            Some(match map {
                Some(map) => Ok(Map { flags, ..map }),
                None => Err(io::ErrorKind::InvalidData.into()),
            })
        })
    }
}

impl Map<'_> {
    /// Whether it may be written to.
    pub fn is_writable(&self) -> bool {
        self.rights.contains('w')
    }

    /// Whether the kernel knows a flag of it; `None` where nothing was told.
    pub fn has_flag(&self, wanted: &str) -> Option<bool> {
        let mut flags = self.flags?.split_ascii_whitespace();
        Some(flags.any(|flag| flag == wanted))
    }
}

/// The text of maps, as a kernel may have told it.
impl From<&[u8]> for Maps {
    fn from(told: &[u8]) -> Self {
        Self(told.to_vec())
    }
}

fn next_line<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    if rest.is_empty() {
        return None;
    }
    let end = rest.iter().position(|byte| *byte == b'\n');
    let (line, after) = rest.split_at(end.unwrap_or(rest.len()));
    *rest = after.get(1..).unwrap_or_default();
    Some(line)
}

fn is_of_map(line: &[u8]) -> bool {
    let addresses = line.split(|byte| *byte == b' ').next();
    addresses.is_some_and(|addresses| addresses.contains(&b'-'))
}

fn parse(line: &[u8]) -> Option<Map<'_>> {
    let mut rest = line;
    let mut word = || {
        let end = rest.iter().position(|byte| *byte == b' ');
        let (word, after) = rest.split_at(end.unwrap_or(rest.len()));
        rest = after.get(1..).unwrap_or_default();
        std::str::from_utf8(word).ok()
    };
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let (start, end) = word()?.split_once('-')?;
    let (rights, sharing) = word()?.split_at_checked(3)?;
    let offset = hex(word()?)?;
    let (major, minor) = word()?.split_once(':')?;
    let inode = word()?.parse().ok()?;
    Some(Map {
        addresses: hex(start)?..hex(end)?,
        rights,
        is_shared: sharing == "s",
        offset,
        device: makedev(hex(major)? as u32, hex(minor)? as u32),
        inode,
        path: Path::new(OsStr::from_bytes(rest.trim_ascii_start())),
        flags: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_the_manual_says() {
        let line = b"7f00-7f10 rw-s 00008000 07:11 42                   /mnt/a base-shm";
        let map = parse(line).expect("a map");
        assert_eq!(map.addresses, 0x7f00..0x7f10);
        assert_eq!((map.offset, map.inode), (0x8000, 42));
        assert_eq!(map.device, makedev(7, 17));
        assert_eq!(map.path, Path::new("/mnt/a base-shm"));
        assert!(map.is_shared && map.is_writable());
        let private = parse(b"7f00-7f10 r-xp 00000000 00:00 0 ").expect("a map");
        assert!(!private.is_shared && !private.is_writable());
        assert_eq!(private.path, Path::new(""));
        for line in ["", "nonsense", "7f00 rw-p 0 0:0 0", "7f00-7f10 rw-p 0 0 0"] {
            assert_eq!(parse(line.as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn flags_are_those_of_the_map_before_them() {
        let told = b"\
7f00-7f10 rw-s 00000000 07:11 1   /written
Size:                  4 kB
VmFlags: rd wr sh mr mw me ms sd
7f10-7f20 r--s 00000000 07:11 2   /told-less-of
Rss:                   0 kB
7f20-7f30 r--s 00000000 07:11 3   /read
VmFlags: rd mr me ms sd
";
        let maps = Maps::from(&told[..]);
        let told = maps
            .iter()
            .map(|map| map.map(|map| (map.inode, map.has_flag("mw"))));
        let told: Vec<_> = told.collect::<io::Result<_>>().expect("maps");
        assert_eq!(told, [(1, Some(true)), (2, None), (3, Some(false))]);
        let broken = Maps::from(&b"nonsense\n"[..]);
        assert!(broken.iter().next().expect("a line").is_err());
    }

    #[test]
    fn the_own_maps_are_read() {
        for maps in [Maps::of(Entry::own()), Maps::with_flags(Entry::own())] {
            let maps = maps.expect("read");
            let maps: io::Result<Vec<_>> = maps.iter().collect();
            let maps = maps.expect("of Linux");
            assert!(maps.iter().any(|map| map.path == Path::new("[stack]")));
        }
    }
}
