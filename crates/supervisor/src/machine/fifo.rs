//! A FIFO of the view, as two of its ends: bytes are really taken and put while something is undecided, and moved back afterwards.
//!
//! The view is for nobody outside the domain, so this program can open no FIFO there. It borrows the ends of processes, and holds
//! both sides as long as an act is undecided. So the kernel tells nobody of the end of the FIFO meanwhile, nor a writer that
//! nobody is left to read. Therefore bytes are put only while a process that executes something has the FIFO open for reading. And a
//! task that finds nothing is told so only while such a process has the FIFO open for writing. Any other task waits.
//!
//! The open files are the programs' own, which may wait where there is nothing to read, or no room. So nothing is done before it
//! is known not to wait. Nobody else reads or writes at that moment (`objects/pipe.rs`).

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, epoll};
use rustix::fs::{FileType, OFlags};
use rustix::io::{Errno, ioctl_fionread};
use rustix::pipe::{
    PipeFlags, SpliceFlags, fcntl_getpipe_size, fcntl_setpipe_size, pipe_with, splice, tee,
};
use rustix::process::Pid;
use surmise_linux::proc::{Entry, Opened};
use surmise_sys::pagemap::PAGE;

use super::pipe::is_nameless;
use super::seen::Seen;
use super::task::{Reached, is_gone};
use crate::objects::input::Place;
use crate::objects::pipe::Taken;

/// Stands for the view's device: no device has this number.
const VIEW: u64 = u64::MAX;
/// A piece of a pipe: so much is written at once, or not at all (PIPE_BUF of pipe(7)).
const PIECE: usize = PAGE as usize;

/// The place of a FIFO of the view that has this inode.
pub(super) fn place(inode: u64) -> Place {
    Place(VIEW, inode)
}

/// The inode of the FIFO of the view that a descriptor leads to, if to one.
pub(super) fn inode(reached: &Reached, seen: &Seen) -> io::Result<Option<u64>> {
    // What the view has tells this program nothing of itself.
    if reached.kind != FileType::Fifo || reached.stat.is_some() && is_nameless(&reached.file)? {
        return Ok(None);
    }
    let opened = opened(&reached.file)?;
    let inode = opened.inode.filter(|_| seen.names().is_view(opened.mount));
    if inode.is_some() {
        seen.note_fifo();
    }
    Ok(inode)
}

/// Whether a descriptor leads to the FIFO at a place.
pub(super) fn is_at(reached: &Reached, place: Place) -> bool {
    place.0 == VIEW
        && reached.kind == FileType::Fifo
        && opened(&reached.file).is_ok_and(|opened| opened.inode == Some(place.1))
}

/// Whether a descriptor of a task may lead to a FIFO at one of these places. True in doubt.
pub(super) fn may_be_among(thread: Pid, number: &str, places: &[Place]) -> bool {
    let mut fifos = places.iter().filter(|place| place.0 == VIEW).peekable();
    if fifos.peek().is_none() {
        return false;
    }
    let opened = number.parse().map(|number| Opened::of(thread, number));
    match opened {
        Ok(Ok(opened)) => fifos.any(|place| opened.inode.is_none_or(|inode| inode == place.1)),
        Ok(Err(error)) => !is_gone(&error),
        Err(_) => true,
    }
}

/// What the kernel says of an open file that this program has borrowed.
fn opened(file: &OwnedFd) -> io::Result<Opened> {
    Opened::of(Entry::own(), file.as_raw_fd())
}

/// The ends of a FIFO.
#[derive(Debug)]
pub(crate) struct Fifo {
    pub(super) inode: u64,
    /// Without one, nothing is taken.
    pub(super) reader: Option<OwnedFd>,
    /// Without one, nothing could be put back.
    pub(super) writer: Option<OwnedFd>,
    /// Whether a process that executes something has the FIFO open for writing.
    pub(super) has_writers: bool,
    /// Whether such a process has it open for reading.
    pub(super) has_readers: bool,
}

impl Fifo {
    fn both(&self) -> Option<(&OwnedFd, &OwnedFd)> {
        self.reader.as_ref().zip(self.writer.as_ref())
    }

    /// Takes at most so many bytes out, unless they could not be put back.
    pub(super) fn take(&self, length: usize) -> io::Result<Taken> {
        let Some(reader) = &self.reader else {
            return Ok(Taken::Unmovable);
        };
        let unread = ioctl_fionread(reader)? as usize;
        if unread == 0 {
            return Ok(match self.has_writers {
                true => Taken::Nothing,
                // While this program holds an end for writing, the kernel does not tell whether others do.
                false if has_ended(reader)? => Taken::End,
                false => Taken::Unmovable,
            });
        }
        if self.writer.is_none() {
            return Ok(Taken::Unmovable);
        }
        let mut bytes = vec![0; length.min(unread)];
        let taken = read(reader, &mut bytes)?;
        bytes.truncate(taken);
        Ok(match bytes.is_empty() {
            true => Taken::Nothing,
            false => Taken::Bytes(bytes),
        })
    }

    /// Puts bytes in, if there is room for all of them besides `reserved` more, and somebody who may read them.
    pub(super) fn put(&self, bytes: &[u8], reserved: usize) -> io::Result<bool> {
        let Some((reader, writer)) = self.both().filter(|_| self.has_readers) else {
            return Ok(false);
        };
        let unread = ioctl_fionread(reader)? as usize;
        if !can_hold(writer, unread + reserved + bytes.len())? {
            return Ok(false);
        }
        // One piece has room where anything can be written. Else pieces may be nearly empty: written anew, they are full.
        if bytes.len() > PIECE || !is_writable(writer)? {
            self.restore(&[], 0)?;
            let pieces = unread.div_ceil(PIECE) + bytes.len().div_ceil(PIECE);
            if !can_hold(writer, pieces * PIECE)? {
                return Ok(false);
            }
        }
        write_all(writer, bytes)?;
        Ok(true)
    }

    /// Puts bytes back in front, and takes so many from the end away. Nobody reads or writes meanwhile.
    pub(super) fn restore(&self, front: &[u8], cut: usize) -> io::Result<()> {
        let both = self.both();
        let (reader, writer) = both.ok_or(io::ErrorKind::BrokenPipe)?;
        let mut bytes = front.to_vec();
        let mut piece = vec![0; fcntl_getpipe_size(reader)?];
        while ioctl_fionread(reader)? > 0 {
            let length = read(reader, &mut piece)?;
            bytes.extend(&piece[..length]);
        }
        let length = bytes.len().checked_sub(cut);
        bytes.truncate(length.ok_or(io::ErrorKind::UnexpectedEof)?);
        // It is empty, so each piece is filled.
        if bytes.len() > piece.len() {
            fcntl_setpipe_size(writer, bytes.len())?;
        }
        write_all(writer, &bytes)
    }

    /// Something that is readable when there are bytes. It keeps no end open.
    pub(super) fn await_input(&self) -> io::Result<Option<OwnedFd>> {
        let Some(reader) = &self.reader else {
            return Ok(None);
        };
        let waits = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let data = epoll::EventData::new_u64(0);
        epoll::add(&waits, reader, data, epoll::EventFlags::IN)?;
        Ok(Some(waits))
    }
}

/// Whether an open file is for reading, and whether it is for writing.
pub(super) fn sides(file: &OwnedFd) -> io::Result<(bool, bool)> {
    let flags = rustix::fs::fcntl_getfl(file)?;
    Ok(match flags & OFlags::RWMODE {
        _ if flags.contains(OFlags::PATH) => (false, false),
        OFlags::RDONLY => (true, false),
        OFlags::WRONLY => (false, true),
        _ => (true, true),
    })
}

/// Whether a read of an empty FIFO would be told of the end. The hangup that poll(2) tells of is not the same: one that was opened
/// while there was no writer is not told of that before there was one.
fn has_ended(reader: &OwnedFd) -> io::Result<bool> {
    let (_other, scratch) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    match tee(reader, &scratch, 1, SpliceFlags::NONBLOCK) {
        Ok(copied) => Ok(copied == 0),
        Err(Errno::AGAIN) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

/// Whether a FIFO is made so large. Where it may not be made so large, the writer waits.
fn can_hold(end: &OwnedFd, bytes: usize) -> io::Result<bool> {
    Ok(bytes <= fcntl_getpipe_size(end)? || fcntl_setpipe_size(end, bytes).is_ok())
}

fn is_writable(writer: &OwnedFd) -> io::Result<bool> {
    let mut events = [PollFd::new(writer, PollFlags::OUT)];
    rustix::event::poll(&mut events, Some(&Timespec::default()))?;
    Ok(events[0].revents().contains(PollFlags::OUT))
}

/// Reads what there is. A read by the open file itself might wait for ever, were it wrong that nobody else reads; a splice never does.
fn read(reader: &OwnedFd, bytes: &mut [u8]) -> io::Result<usize> {
    let (out, scratch) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    let mut filled = 0;
    while filled < bytes.len() {
        let left = &mut bytes[filled..];
        match splice(
            reader,
            None,
            &scratch,
            None,
            left.len(),
            SpliceFlags::NONBLOCK,
        ) {
            Ok(0) | Err(Errno::AGAIN) => break,
            Ok(moved) => filled += rustix::io::read(&out, &mut left[..moved])?,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(filled)
}

/// Writes bytes that have room.
fn write_all(writer: &OwnedFd, bytes: &[u8]) -> io::Result<()> {
    match bytes.is_empty() || rustix::io::write(writer, bytes)? == bytes.len() {
        true => Ok(()),
        false => Err(io::ErrorKind::WriteZero.into()),
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, Mode, mkfifoat, open};
    use tempfile::TempDir;

    use super::*;

    /// A FIFO, with the ends of processes. A read or write by these would wait.
    struct Setting {
        directory: TempDir,
        both: OwnedFd,
    }

    impl Setting {
        fn new() -> Self {
            let directory = tempfile::tempdir().expect("a directory");
            mkfifoat(CWD, directory.path().join("fifo"), Mode::RWXU).expect("a FIFO");
            let both = opened_at(&directory, OFlags::RDWR);
            Self { directory, both }
        }

        fn opened(&self, flags: OFlags) -> OwnedFd {
            opened_at(&self.directory, flags)
        }

        /// As it is borrowed while processes have both sides open.
        fn fifo(&self) -> Fifo {
            Fifo {
                inode: 1,
                reader: Some(self.opened(OFlags::RDONLY)),
                writer: Some(self.opened(OFlags::WRONLY)),
                has_writers: true,
                has_readers: true,
            }
        }

        /// All that is to be read.
        fn all(&self) -> Vec<u8> {
            let unread = ioctl_fionread(&self.both).expect("look") as usize;
            let mut bytes = vec![0; unread];
            if unread > 0 {
                assert_eq!(read(&self.both, &mut bytes).expect("read"), unread);
            }
            bytes
        }
    }

    fn opened_at(directory: &TempDir, flags: OFlags) -> OwnedFd {
        let path = directory.path().join("fifo");
        open(path, flags | OFlags::CLOEXEC, Mode::empty()).expect("open")
    }

    fn reached(file: OwnedFd) -> Reached {
        Reached {
            file,
            kind: FileType::Fifo,
            stat: None,
        }
    }

    #[test]
    fn what_was_taken_comes_back_in_front_and_what_was_put_goes() {
        let setting = Setting::new();
        let fifo = setting.fifo();
        rustix::io::write(&setting.both, b"abcdef").expect("write");
        assert_eq!(fifo.take(4).expect("take"), Taken::Bytes(b"abcd".into()));
        assert!(fifo.put(b"12345", 4).expect("put"));
        fifo.restore(&[], 5).expect("undo the put");
        fifo.restore(b"abcd", 0).expect("undo the taking");
        assert_eq!(setting.all(), b"abcdef");
        assert_eq!(fifo.take(4).expect("take"), Taken::Nothing);
        assert!(fifo.restore(&[], 1).is_err(), "there is nothing");
    }

    /// Each byte that is copied there has a piece of its own, so that there is no room long before there are as many bytes.
    #[test]
    fn no_act_waits_for_room() {
        let setting = Setting::new();
        let fifo = setting.fifo();
        let (feed, fed) = pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
        for _ in 0..16 {
            rustix::io::write(&fed, b"x").expect("write");
            tee(&feed, &setting.both, 1, SpliceFlags::NONBLOCK).expect("a copy");
            rustix::io::read(&feed, &mut [0; 1]).expect("read");
        }
        assert!(!is_writable(&setting.both).expect("look"));
        assert!(fifo.put(b"y", 0).expect("put"));
        assert!(fifo.put(&[b'z'; 60_000], 0).expect("put"));
        let most = fcntl_getpipe_size(&setting.both).expect("its size");
        assert_eq!(most, 65_536, "it need not be larger");
        assert!(fifo.put(&[b'z'; 60_000], 0).expect("put"));
        let wanted = [&[b'x'; 16][..], b"y", &[b'z'; 120_000]].concat();
        assert!(setting.all() == wanted);
        assert!(!fifo.put(&vec![b'z'; 1 << 30], 0).expect("put"));
        assert!(!fifo.put(b"z", 1 << 30).expect("put"));
        assert!(setting.all().is_empty());
    }

    #[test]
    fn nothing_is_done_that_could_not_be_undone_or_that_nobody_would_see() {
        let setting = Setting::new();
        rustix::io::write(&setting.both, b"abc").expect("write");
        let alone = Fifo {
            writer: None,
            has_writers: false,
            ..setting.fifo()
        };
        assert_eq!(alone.take(1).expect("take"), Taken::Unmovable);
        assert!(!alone.put(b"d", 0).expect("put"));
        let unread = Fifo {
            has_readers: false,
            ..setting.fifo()
        };
        assert!(!unread.put(b"d", 0).expect("put"));
        assert_eq!(setting.all(), b"abc");
        // This program has the other side open, so the kernel does not tell of the end.
        let kept = Fifo {
            has_writers: false,
            ..setting.fifo()
        };
        assert_eq!(kept.take(1).expect("take"), Taken::Unmovable);
    }

    /// Whether the reader has seen a writer or none, and whether its reads wait or not.
    #[test]
    fn the_end_is_told_as_a_read_would_be() {
        let setting = Setting::new();
        let seen = setting.opened(OFlags::RDONLY);
        drop(setting.both);
        let fresh = opened_at(&setting.directory, OFlags::RDONLY | OFlags::NONBLOCK);
        rustix::fs::fcntl_setfl(&fresh, OFlags::empty()).expect("have it wait");
        for reader in [seen, fresh] {
            assert!(has_ended(&reader).expect("look"));
            let fifo = Fifo {
                inode: 1,
                reader: Some(reader),
                writer: None,
                has_writers: false,
                has_readers: true,
            };
            assert_eq!(fifo.take(1).expect("take"), Taken::End);
            let writer = opened_at(&setting.directory, OFlags::WRONLY);
            assert_eq!(fifo.take(1).expect("take"), Taken::Unmovable);
            drop(writer);
        }
    }

    #[test]
    fn a_fifo_is_one_of_the_view_by_its_mount() {
        let setting = Setting::new();
        let here = opened(&setting.both).expect("look");
        let own = rustix::process::getpid();
        let inside = Seen::below_in_view(own, here.mount);
        let outside = Seen::below_in_view(own, here.mount + 1_000_000);
        let fifo = reached(setting.opened(OFlags::RDONLY));
        assert_eq!(inode(&fifo, &outside).expect("look"), None);
        assert!(!outside.has_fifos());
        assert_eq!(inode(&fifo, &inside).expect("look"), here.inode);
        assert!(inside.has_fifos());
        let known = place(here.inode.expect("an inode"));
        assert!(is_at(&fifo, known) && !is_at(&fifo, place(known.1 + 1)));
        let number = fifo.file.as_raw_fd().to_string();
        assert!(may_be_among(own, &number, &[known]));
        assert!(!may_be_among(
            own,
            &number,
            &[place(known.1 + 1), Place(0, known.1)]
        ));
        let (nameless, _writer) = pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
        let nameless = Reached::by(nameless);
        assert_eq!(inode(&nameless, &inside).expect("look"), None);
        let file = Reached::by(tempfile::tempfile().expect("a file").into());
        assert_eq!(inode(&file, &inside).expect("look"), None);
    }
}
