//! Pipes and streams in which bytes can be looked at without being taken.

use std::io;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags};
use rustix::fs::{FileType, OFlags, Stat};
use rustix::io::{Errno, ioctl_fionread};
use rustix::net::{AddressFamily, RecvFlags, SocketType, ipproto, sockopt};
use rustix::pipe::{
    PipeFlags, SpliceFlags, fcntl_getpipe_size, fcntl_setpipe_size, pipe_with, tee,
};
use rustix::time::Timespec;

use crate::meeting::LENGTH_MAX;
use crate::objects::input::Peeked;

/// How much is taken at once.
const PIECE: usize = 64 << 10;

/// A descriptor of something that bytes are read from in the order in which they were written.
#[derive(Debug)]
pub(crate) struct Source {
    file: OwnedFd,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A pipe without a name: one with a name may be read by anybody outside.
    Pipe,
    /// A stream socket.
    Stream,
}

impl Source {
    /// What a descriptor leads to, if reads of it can be foreseen.
    pub(crate) fn of(file: OwnedFd, stat: &Stat) -> io::Result<Option<Self>> {
        let flags = rustix::fs::fcntl_getfl(&file)?;
        if flags & OFlags::ACCMODE == OFlags::WRONLY {
            return Ok(None);
        }
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Fifo if is_nameless(&file)? => Kind::Pipe,
            FileType::Socket if is_stream(&file)? => Kind::Stream,
            _ => return Ok(None),
        };
        Ok(Some(Self { file, kind }))
    }

    /// What a read of at most `length` bytes would be given, had the first `skipped` been taken.
    pub(crate) fn peek(&self, skipped: usize, length: usize) -> io::Result<Peeked> {
        let ready = self.poll()?;
        // Whoever was the last to write wrote before that look: so what there is now is all there will be.
        let is_complete = match self.kind {
            Kind::Pipe => ready.contains(PollFlags::HUP),
            Kind::Stream => ready.contains(PollFlags::RDHUP),
        };
        // A look at an error takes it.
        if ready.intersects(PollFlags::ERR | PollFlags::NVAL) {
            return Ok(Peeked::Unknown);
        }
        let unread = ioctl_fionread(&self.file)? as usize;
        if unread == skipped && is_complete {
            return Ok(Peeked::End);
        }
        let wanted = unread.saturating_sub(skipped).min(length).min(LENGTH_MAX);
        if wanted == 0 {
            return Ok(Peeked::Unknown);
        }
        let bytes = match self.kind {
            Kind::Pipe => self.peek_at_pipe(skipped + wanted)?,
            Kind::Stream => self.peek_at_stream(skipped + wanted)?,
        };
        Ok(match bytes.get(skipped..) {
            Some(given) if !given.is_empty() => Peeked::Bytes(given.to_vec()),
            _ => Peeked::Unknown,
        })
    }

    /// Takes bytes that were looked at.
    ///
    /// # Errors
    /// `UnexpectedEof` when somebody else has taken them.
    pub(crate) fn take(&self, length: usize) -> io::Result<()> {
        let mut buffer = vec![0; length.min(PIECE)];
        let mut rest = length;
        while rest > 0 {
            // It must not wait: the descriptor is the program's own, in its own mode.
            if !self.poll()?.contains(PollFlags::IN) {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let piece = &mut buffer[..rest.min(PIECE)];
            match rustix::io::read(&self.file, piece) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(taken) => rest -= taken,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    fn poll(&self) -> io::Result<PollFlags> {
        let mut events = [PollFd::new(&self.file, PollFlags::IN | PollFlags::RDHUP)];
        rustix::event::poll(&mut events, Some(&Timespec::default()))?;
        Ok(events[0].revents())
    }

    /// The first bytes of a pipe, at most so many; none if there are packets (O_DIRECT of pipe(2)), of which
    /// a read takes no more than one, and leaves nothing.
    fn peek_at_pipe(&self, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length + 1];
        // This ends with a packet that is not the last.
        let copy = self.copy(length + 1)?;
        let found = read(&copy, &mut bytes)?;
        let mut is_plain = ioctl_fionread(&copy)? == 0;
        if found > length {
            // And this leaves nothing of the last.
            let copy = self.copy(length + 1)?;
            is_plain &= read(&copy, &mut bytes[..length])? == length && ioctl_fionread(&copy)? == 1;
        }
        bytes.truncate(if is_plain { found.min(length) } else { 0 });
        Ok(bytes)
    }

    /// A pipe with the first bytes of this one, at most so many.
    fn copy(&self, length: usize) -> io::Result<OwnedFd> {
        let (reader, writer) = scratch()?;
        let size = fcntl_getpipe_size(&self.file)?;
        if size != fcntl_getpipe_size(&writer)? {
            // As many buffers as that one has, of which each may hold one byte. Where it may not be so
            // large, less is seen.
            let _ = fcntl_setpipe_size(&writer, size);
        }
        tee(&self.file, &writer, length, SpliceFlags::NONBLOCK)?;
        Ok(reader)
    }

    /// The first bytes of a stream, at most so many. There is at least one, so no error is looked at.
    fn peek_at_stream(&self, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let (_, found) = rustix::net::recv(&self.file, &mut bytes[..], flags)?;
        bytes.truncate(found);
        Ok(bytes)
    }
}

fn is_nameless(pipe: &OwnedFd) -> io::Result<bool> {
    /// PIPEFS_MAGIC of statfs(2).
    const PIPES: u64 = 0x5049_5045;
    Ok(rustix::fs::fstatfs(pipe)?.f_type as u64 == PIPES)
}

/// Only where a look at the bytes behind others is known to work.
fn is_stream(file: &OwnedFd) -> io::Result<bool> {
    if sockopt::socket_type(file)? != SocketType::STREAM {
        return Ok(false);
    }
    Ok(match sockopt::socket_domain(file)? {
        AddressFamily::UNIX => true,
        AddressFamily::INET | AddressFamily::INET6 => {
            sockopt::socket_protocol(file)? == Some(ipproto::TCP)
        }
        _ => false,
    })
}

fn scratch() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?)
}

fn read(file: &OwnedFd, buffer: &mut [u8]) -> io::Result<usize> {
    match rustix::io::read(file, buffer) {
        Err(Errno::AGAIN) => Ok(0),
        result => Ok(result?),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use rustix::net::Shutdown;

    use super::*;

    fn source(file: impl AsFd) -> Source {
        let file = file.as_fd().try_clone_to_owned().expect("duplicate");
        let stat = rustix::fs::fstat(&file).expect("stat");
        let found = Source::of(file, &stat).expect("look");
        found.expect("something to look into")
    }

    fn bytes(text: &str) -> Peeked {
        Peeked::Bytes(text.into())
    }

    /// What writes to and reads from each kind of source.
    fn pairs() -> Vec<(Box<dyn Write>, OwnedFd)> {
        let (reader, writer) = io::pipe().expect("a pipe");
        let (one, two) = UnixStream::pair().expect("a pair");
        let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
        let client = TcpStream::connect(listener.local_addr().expect("name")).expect("connect");
        let (server, _) = listener.accept().expect("accept");
        vec![
            (Box::new(writer), reader.into()),
            (Box::new(one), two.into()),
            (Box::new(client), server.into()),
        ]
    }

    /// What comes over loopback is there a moment later.
    fn eventually(source: &Source, (skipped, length): (usize, usize), wanted: &Peeked) {
        for _ in 0..1000 {
            if source.peek(skipped, length).expect("peek") == *wanted {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        panic!("{:?}, not {wanted:?}", source.peek(skipped, length));
    }

    #[test]
    fn what_was_looked_at_is_still_there_until_it_is_taken() {
        for (mut writer, reader) in pairs() {
            let source = source(&reader);
            assert_eq!(source.peek(0, 10).expect("peek"), Peeked::Unknown);
            writer.write_all(b"one two").expect("write");
            eventually(&source, (0, 10), &bytes("one two"));
            assert_eq!(source.peek(0, 3).expect("peek"), bytes("one"));
            assert_eq!(source.peek(4, 2).expect("peek"), bytes("tw"));
            assert_eq!(source.peek(7, 9).expect("peek"), Peeked::Unknown);
            writer.write_all(b" three").expect("write");
            eventually(&source, (7, 99), &bytes(" three"));
            source.take(8).expect("take");
            assert_eq!(source.peek(0, 99).expect("peek"), bytes("three"));
            assert!(source.take(6).is_err(), "there are five");
        }
    }

    #[test]
    fn the_end_comes_after_the_last_byte_and_not_before_the_last_writer_is_gone() {
        for (mut writer, reader) in pairs() {
            let source = source(&reader);
            writer.write_all(b"last").expect("write");
            eventually(&source, (0, 9), &bytes("last"));
            assert_eq!(source.peek(4, 9).expect("peek"), Peeked::Unknown);
            drop(writer);
            eventually(&source, (4, 9), &Peeked::End);
            assert_eq!(source.peek(2, 9).expect("peek"), bytes("st"));
            source.take(4).expect("take");
            assert_eq!(source.peek(0, 9).expect("peek"), Peeked::End);
        }
    }

    #[test]
    fn a_stream_of_which_one_half_is_closed_ends() {
        let (one, two) = UnixStream::pair().expect("a pair");
        rustix::net::shutdown(&one, Shutdown::Write).expect("shut down");
        assert_eq!(source(&two).peek(0, 1).expect("peek"), Peeked::End);
    }

    #[test]
    fn a_byte_at_a_time_of_a_full_pipe_is_foreseen_as_it_is_read() {
        let (mut reader, mut writer) = io::pipe().expect("a pipe");
        let written: Vec<u8> = (0..65536_u32).map(|n| (n % 251) as u8).collect();
        writer.write_all(&written).expect("write");
        let source = source(&reader);
        for skipped in [0, 1, 4095, 4096, 4097, 65535] {
            let Peeked::Bytes(given) = source.peek(skipped, 1).expect("peek") else {
                panic!("nothing at {skipped}");
            };
            assert_eq!(given, written[skipped..=skipped]);
        }
        source.take(65000).expect("take");
        let mut rest = [0; 536];
        reader.read_exact(&mut rest).expect("read");
        assert_eq!(rest, written[65000..]);
    }

    #[test]
    fn a_pipe_of_many_small_buffers_is_seen_whole() {
        let (reader, writer) = io::pipe().expect("a pipe");
        fcntl_setpipe_size(&writer, 1 << 18).expect("a larger pipe");
        let (feed, mut fed) = io::pipe().expect("a pipe");
        // Each byte that was copied there has a buffer of its own.
        for _ in 0..40 {
            fed.write_all(b"x").expect("write");
            tee(&feed, &writer, 1, SpliceFlags::empty()).expect("tee");
            rustix::io::read(&feed, &mut [0; 1]).expect("read");
        }
        assert_eq!(source(&reader).peek(39, 9).expect("peek"), bytes("x"));
    }

    #[test]
    fn packets_are_not_foreseen() {
        let (reader, writer) = pipe_with(PipeFlags::DIRECT).expect("a pipe");
        let source = source(&reader);
        rustix::io::write(&writer, b"abc").expect("write");
        for length in [1, 2] {
            assert_eq!(source.peek(0, length).expect("peek"), Peeked::Unknown);
        }
        rustix::io::write(&writer, b"d").expect("write");
        assert_eq!(source.peek(0, 9).expect("peek"), Peeked::Unknown);
    }

    #[test]
    fn nothing_else_is_looked_into() {
        let none = |file: OwnedFd| {
            let stat = rustix::fs::fstat(&file).expect("stat");
            Source::of(file, &stat).expect("look").is_none()
        };
        let (_reader, writer) = io::pipe().expect("a pipe");
        assert!(none(writer.into()), "it is not for reading");
        assert!(none(std::fs::File::open("/dev/zero").expect("open").into()));
        let directory = tempfile::tempdir().expect("a directory");
        let fifo = directory.path().join("fifo");
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, 0o600.into()).expect("a FIFO");
        let mut options = std::fs::OpenOptions::new();
        let opened = options.read(true).write(true).open(fifo).expect("open");
        assert!(none(opened.into()), "it has a name");
        let (datagrams, _other) = std::os::unix::net::UnixDatagram::pair().expect("a pair");
        assert!(none(datagrams.into()));
    }
}
