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
        let lines = self.0.split(|byte| *byte == b'\n');
        let mut lines = lines.filter(|line| !line.is_empty()).peekable();
        std::iter::from_fn(move || {
            let map = parse(lines.next()?);
            let mut flags = None;
            // What smaps says of a map follows it, a name at the beginning of each line.
            while let Some(line) = lines.next_if(|line| !is_of_map(line)) {
                let told = line.strip_prefix(b"VmFlags:");
                flags = flags.or(told.and_then(|told| std::str::from_utf8(told).ok()));
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

/// What smaps says of a map begins with a name, which has a capital letter.
fn is_of_map(line: &[u8]) -> bool {
    !line.first().is_some_and(u8::is_ascii_uppercase)
}

fn parse(line: &[u8]) -> Option<Map<'_>> {
    let mut words = line.splitn(6, |byte| *byte == b' ');
    let (start, end) = hex_pair(words.next()?, b'-')?;
    let (rights, sharing) = words.next()?.split_at_checked(3)?;
    let offset = hex(words.next()?)?;
    let (major, minor) = hex_pair(words.next()?, b':')?;
    let inode = std::str::from_utf8(words.next()?).ok()?.parse().ok()?;
    let path = words.next().unwrap_or_default();
    Some(Map {
        addresses: start..end,
        rights: std::str::from_utf8(rights).ok()?,
        is_shared: sharing == b"s",
        offset,
        device: makedev(major as u32, minor as u32),
        inode,
        path: Path::new(OsStr::from_bytes(path.trim_ascii_start())),
        flags: None,
    })
}

fn hex_pair(word: &[u8], separator: u8) -> Option<(u64, u64)> {
    let at = word.iter().position(|byte| *byte == separator)?;
    Some((hex(&word[..at])?, hex(&word[at + 1..])?))
}

/// Of bytes, which are not looked at for UTF-8 first: a process may have thousands of maps.
fn hex(digits: &[u8]) -> Option<u64> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).map(u64::from);
    let fits = (1..=16).contains(&digits.len());
    let mut digits = fits.then_some(digits)?.iter();
    digits.try_fold(0, |number, byte| Some(number << 4 | digit(byte)?))
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
