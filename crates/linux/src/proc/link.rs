//! What descriptors lead to, by their links: to read one never waits for the file that it leads to.

use std::fs;
use std::io;
use std::path::Path;

use super::Entry;

/// What a descriptor leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Link {
    /// A socket, by its inode.
    Socket(u64),
    /// A pipe, by its inode. A FIFO is `Other`.
    Pipe(u64),
    /// A path, or what the kernel calls it.
    Other(String),
}

impl Link {
    /// That of one descriptor.
    ///
    /// # Errors
    /// As for reading /proc: `NotFound` where it is not open.
    pub fn of(entry: impl Into<Entry>, descriptor: i32) -> io::Result<Self> {
        let path = entry.into().path("fd").join(descriptor.to_string());
        Ok(Self::parse(&fs::read_link(path)?))
    }

    fn parse(link: &Path) -> Self {
        let link = link.to_string_lossy();
        let inode = |kind| -> Option<u64> {
            let number = link.strip_prefix(kind)?.strip_prefix(":[")?;
            number.strip_suffix(']')?.parse().ok()
        };
        match (inode("socket"), inode("pipe")) {
            (Some(inode), _) => Self::Socket(inode),
            (_, Some(inode)) => Self::Pipe(inode),
            _ => Self::Other(link.into_owned()),
        }
    }
}

/// Calls `look` with each descriptor of a process, and what it leads to.
///
/// # Errors
/// As for reading /proc.
pub fn each_link(entry: impl Into<Entry>, mut look: impl FnMut(i32, Link)) -> io::Result<()> {
    for entry in fs::read_dir(entry.into().path("fd"))? {
        let entry = entry?;
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.parse().ok());
        // It may be closed meanwhile.
        if let (Some(number), Ok(link)) = (number, fs::read_link(entry.path())) {
            look(number, Link::parse(&link));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn links_lead_to_pipes_sockets_and_files() {
        let (reader, _writer) = rustix::pipe::pipe().expect("a pipe");
        let number = reader.as_raw_fd();
        let inode = rustix::fs::fstat(&reader).expect("stat").st_ino;
        let link = Link::of(Entry::own(), number).expect("a link");
        assert_eq!(link, Link::Pipe(inode));
        let mut found = Vec::new();
        let look = |of, link| found.extend((of == number).then_some(link));
        each_link(Entry::own(), look).expect("list");
        assert_eq!(found, [Link::Pipe(inode)]);
        assert_eq!(Link::parse(Path::new("socket:[7]")), Link::Socket(7));
        for path in ["/a/socket:[7]", "socket:[x]", "/dev/null"] {
            assert_eq!(Link::parse(Path::new(path)), Link::Other(path.into()));
        }
    }
}
