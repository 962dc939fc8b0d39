//! A pipe inside the domain: bytes are really taken and put while something is undecided, and moved back afterwards.
//!
//! All that this does it does by open files of its own, each for a moment: an open end would keep readers from the pipe's
//! end, or writers from its breaking. In between only the pipe's name is held (O_PATH of open(2)), which counts as no end.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use rustix::pipe::{fcntl_getpipe_size, fcntl_setpipe_size};

use crate::objects::pipe::Taken;

/// A pipe without a name in any file system.
#[derive(Debug)]
pub(crate) struct Pipe {
    name: OwnedFd,
}

impl Pipe {
    /// The pipe that a descriptor leads to, if bytes can be moved back there; `is_write` says by which end.
    pub(crate) fn of(end: &OwnedFd, stat: &Stat, is_write: bool) -> io::Result<Option<Self>> {
        if FileType::from_raw_mode(stat.st_mode) != FileType::Fifo || !is_nameless(end)? {
            return Ok(None);
        }
        let flags = rustix::fs::fcntl_getfl(end)?;
        let is_such_end = match flags & OFlags::ACCMODE {
            OFlags::RDONLY => !is_write,
            OFlags::WRONLY => is_write,
            _ => true,
        };
        if !is_such_end {
            return Ok(None);
        }
        let name = open(end, OFlags::PATH)?;
        Ok(Some(Self { name }))
    }

    /// An open file that is readable when there are bytes, or nobody is left to write any. As long as it is there, the pipe has a
    /// reader.
    pub(crate) fn reader(&self) -> io::Result<OwnedFd> {
        open(&self.name, OFlags::RDONLY)
    }

    /// Takes at most so many bytes out.
    pub(crate) fn take(&self, length: usize) -> io::Result<Taken> {
        let mut bytes = vec![0; length];
        let end = open(&self.name, OFlags::RDONLY)?;
        Ok(match read(&end, &mut bytes)? {
            None => Taken::Nothing,
            Some(0) => Taken::End,
            Some(taken) => {
                bytes.truncate(taken);
                Taken::Bytes(bytes)
            }
        })
    }

    /// Puts bytes in, if there is room for all of them besides `reserved` more, and somebody who may read them.
    pub(crate) fn put(&self, bytes: &[u8], reserved: usize) -> io::Result<bool> {
        let end = open(&self.name, OFlags::WRONLY)?;
        let size = fcntl_getpipe_size(&end)?;
        let unread = rustix::io::ioctl_fionread(&end)? as usize;
        let needed = unread + reserved + bytes.len();
        // Where it may not be made so large, the writer waits.
        if needed > size && fcntl_setpipe_size(&end, needed).is_err() {
            return Ok(false);
        }
        let written = match rustix::io::write(&end, bytes) {
            Ok(written) => written,
            // It is full, or nobody reads.
            Err(Errno::AGAIN | Errno::PIPE) => 0,
            Err(errno) => return Err(errno.into()),
        };
        if written > 0 && written < bytes.len() {
            self.restore(&[], written)?;
        }
        Ok(written == bytes.len())
    }

    /// Puts bytes back in front, and takes so many from the end away. Nobody reads or writes meanwhile.
    ///
    /// Nothing is left to be restored where nobody has an end any more: all that had one had closed theirs, or were never
    /// born and have been destroyed.
    pub(crate) fn restore(&self, front: &[u8], cut: usize) -> io::Result<()> {
        if self.is_gone()? {
            return Ok(());
        }
        let both = open(&self.name, OFlags::RDWR)?;
        let mut bytes = front.to_vec();
        let mut piece = vec![0; fcntl_getpipe_size(&both)?];
        while let Some(length @ 1..) = read(&both, &mut piece)? {
            bytes.extend(&piece[..length]);
        }
        let length = bytes.len().checked_sub(cut);
        bytes.truncate(length.ok_or(io::ErrorKind::UnexpectedEof)?);
        if bytes.len() > piece.len() {
            fcntl_setpipe_size(&both, bytes.len())?;
        }
        match bytes.is_empty() || rustix::io::write(&both, &bytes)? == bytes.len() {
            true => Ok(()),
            false => Err(io::ErrorKind::WriteZero.into()),
        }
    }

    /// Whether nobody has an end. What was in the pipe went with the last one.
    fn is_gone(&self) -> io::Result<bool> {
        let end = open(&self.name, OFlags::WRONLY)?;
        let mut events = [PollFd::new(&end, PollFlags::empty())];
        rustix::event::poll(&mut events, Some(&Timespec::default()))?;
        if !events[0].revents().contains(PollFlags::ERR) {
            // Somebody may read.
            return Ok(false);
        }
        drop(end);
        let end = open(&self.name, OFlags::RDONLY)?;
        let is_empty = rustix::io::ioctl_fionread(&end)? == 0;
        Ok(is_empty && read(&end, &mut [0])? == Some(0))
    }
}

/// Whether a file is a pipe that has no name in any file system.
pub(super) fn is_nameless(file: &OwnedFd) -> io::Result<bool> {
    /// PIPEFS_MAGIC of statfs(2).
    const PIPES: u64 = 0x5049_5045;
    Ok(rustix::fs::fstatfs(file)?.f_type as u64 == PIPES)
}

/// Opens the same pipe once more.
fn open(pipe: &OwnedFd, flags: OFlags) -> io::Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", pipe.as_raw_fd());
    let flags = flags | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// `None` if it would wait.
fn read(end: &OwnedFd, bytes: &mut [u8]) -> io::Result<Option<usize>> {
    loop {
        return match rustix::io::read(end, &mut *bytes) {
            Ok(length) => Ok(Some(length)),
            Err(Errno::AGAIN) => Ok(None),
            Err(Errno::INTR) => continue,
            Err(errno) => Err(errno.into()),
        };
    }
}

#[cfg(test)]
mod tests {
    use rustix::pipe::{PipeFlags, pipe_with};

    use super::*;

    fn ends() -> (OwnedFd, OwnedFd) {
        pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).expect("a pipe")
    }

    fn pipe_of(end: &OwnedFd, is_write: bool) -> Option<Pipe> {
        let stat = rustix::fs::fstat(end).expect("stat");
        Pipe::of(end, &stat, is_write).expect("look")
    }

    fn all(end: &OwnedFd) -> String {
        let mut bytes = vec![0; 1 << 20];
        let length = read(end, &mut bytes).expect("read").unwrap_or(0);
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    }

    fn events(end: &OwnedFd) -> PollFlags {
        let mut events = [PollFd::new(end, PollFlags::IN | PollFlags::OUT)];
        rustix::event::poll(&mut events, Some(&Timespec::default())).expect("poll");
        events[0].revents()
    }

    #[test]
    fn what_was_taken_comes_back_in_front_and_what_was_put_goes() {
        let (reader, writer) = ends();
        let pipe = pipe_of(&reader, false).expect("a pipe");
        rustix::io::write(&writer, b"abcdef").expect("write");
        assert_eq!(pipe.take(4).expect("take"), Taken::Bytes(b"abcd".into()));
        assert!(pipe.put(b"12345", 4).expect("put"));
        pipe.restore(&[], 5).expect("undo the put");
        pipe.restore(b"abcd", 0).expect("undo the taking");
        assert_eq!(all(&reader), "abcdef");
        assert_eq!(pipe.take(4).expect("take"), Taken::Nothing);
        assert!(pipe.restore(&[], 1).is_err(), "there is nothing");
    }

    /// Neither end of its own keeps the other from what the program's ends tell.
    #[test]
    fn the_ends_are_the_programs_alone() {
        let (reader, writer) = ends();
        let pipe = pipe_of(&reader, false).expect("a pipe");
        assert!(pipe.put(b"a", 0).expect("put"));
        assert_eq!(pipe.take(1).expect("take"), Taken::Bytes(b"a".into()));
        pipe.restore(b"a", 0).expect("restore");
        drop(writer);
        assert_eq!(events(&reader), PollFlags::IN | PollFlags::HUP);
        assert_eq!(all(&reader), "a");
        assert_eq!(pipe.take(1).expect("take"), Taken::End);

        let (reader, writer) = ends();
        let unread = pipe_of(&writer, true).expect("a pipe");
        drop(reader);
        assert!(events(&writer).contains(PollFlags::ERR));
        assert!(!unread.put(b"a", 0).expect("put"), "nobody would read it");
    }

    #[test]
    fn what_has_no_room_is_not_put_at_all() {
        let (reader, writer) = ends();
        let pipe = pipe_of(&writer, true).expect("a pipe");
        fcntl_setpipe_size(&writer, 4096).expect("make it small");
        // It grows for what has to fit, and no further than anybody may make it.
        assert!(pipe.put(&[b'a'; 6000], 3000).expect("put"));
        let size = fcntl_getpipe_size(&writer).expect("size");
        assert!(size >= 9000, "{size}");
        assert!(!pipe.put(&vec![b'b'; 1 << 30], 0).expect("put"));
        assert!(!pipe.put(b"b", 1 << 30).expect("put"));
        assert_eq!(all(&reader).len(), 6000);
    }

    #[test]
    fn bytes_come_back_where_the_pipe_was_filled_again() {
        let (reader, writer) = ends();
        let pipe = pipe_of(&reader, false).expect("a pipe");
        fcntl_setpipe_size(&writer, 8192).expect("make it small");
        rustix::io::write(&writer, &[b'a'; 8192]).expect("write");
        let Taken::Bytes(taken) = pipe.take(8192).expect("take") else {
            panic!("there are bytes");
        };
        // In pieces, each of which has a page of its own.
        for _ in 0..2 {
            rustix::io::write(&writer, &[b'b'; 4096]).expect("write");
        }
        pipe.restore(&taken, 0).expect("restore");
        assert_eq!(all(&reader), "a".repeat(8192) + &"b".repeat(8192));
    }

    #[test]
    fn nothing_is_restored_where_nobody_has_an_end() {
        let (reader, writer) = ends();
        let pipe = pipe_of(&reader, false).expect("a pipe");
        assert!(pipe.put(b"abc", 0).expect("put"));
        drop(writer);
        pipe.restore(b"0", 1).expect("somebody may read");
        assert_eq!(all(&reader), "0ab");
        assert!(pipe.restore(&[], 1).is_err(), "there is nothing");
        drop(reader);
        pipe.restore(b"x", 3).expect("it is gone");

        let (reader, writer) = ends();
        let pipe = pipe_of(&reader, false).expect("a pipe");
        drop(reader);
        assert!(pipe.restore(&[], 1).is_err(), "somebody may write");
        drop(writer);
        pipe.restore(&[], 1).expect("it is gone");
    }

    #[test]
    fn a_pipe_is_one_by_its_ends() {
        let (reader, writer) = ends();
        assert!(pipe_of(&reader, true).is_none() && pipe_of(&writer, false).is_none());
        let file = rustix::fs::open("/dev/null", OFlags::RDONLY, Mode::empty()).expect("open");
        assert!(pipe_of(&file, false).is_none());
    }
}
