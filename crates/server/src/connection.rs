//! A connection: a thread that reads messages, and one that writes them.

use std::io::Read;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use surmise_remote::frame::{ToClient, encode};
use surmise_remote::server::Link;
use surmise_wire::{Line, Reader, Writer};

use crate::budget::{Backlog, Budget};
use crate::clock::now;
use crate::input::Input;
use crate::serve::BUDGET;

/// How many bytes may wait for a client that has read nothing for a while. Then its connection is cut.
const UNREAD_BYTES_MAX: usize = 64 << 20;
const UNREAD_MS_MAX: u64 = 10_000;

/// How many may wait for one that reads slowly.
const SLOW_BYTES_MAX: usize = 1 << 30;

/// How long a client may let what it was sent last wait, after its connection has ended.
const LINGER: Duration = Duration::from_secs(10);

const CHUNK: usize = 256 << 10;

/// How much memory a message takes at least, whatever its length on the wire.
const MESSAGE_BYTES_MIN: usize = 1 << 10;

/// One of a server's connections.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: UnixStream,
    outgoing: Sender<Vec<u8>>,
    /// What is to go to the writer next.
    pending: Vec<u8>,
    unread: Arc<Unread>,
}

/// What was sent and not written.
#[derive(Debug, Default)]
struct Unread {
    bytes: Backlog,
    /// When some of it was written last, or all had been.
    written_ms: AtomicU64,
}

impl Unread {
    fn more(&self, bytes: usize) {
        if self.bytes.bytes() == 0 {
            self.written_ms.store(now().0, Ordering::Relaxed);
        }
        self.bytes.more(bytes);
    }

    fn less(&self, bytes: usize) {
        self.written_ms.store(now().0, Ordering::Relaxed);
        self.bytes.less(bytes);
    }

    /// Whether it is too much.
    fn is_over(&self) -> bool {
        let bytes = self.bytes.bytes();
        let last = self.written_ms.load(Ordering::Relaxed);
        let is_stopped = || now().0.saturating_sub(last) > UNREAD_MS_MAX;
        bytes > SLOW_BYTES_MAX || (bytes > UNREAD_BYTES_MAX && is_stopped())
    }
}

impl Connection {
    /// Starts both threads.
    ///
    /// # Errors
    /// When there are too many threads or open files.
    pub(crate) fn start(
        link: Link,
        stream: UnixStream,
        inputs: Sender<Input>,
        budget: Arc<Budget>,
    ) -> std::io::Result<Self> {
        let (outgoing, queue) = channel();
        let unread = Arc::new(Unread::default());
        let (reading, writing) = (stream.try_clone()?, stream.try_clone()?);
        let waiting = unread.clone();
        let line = Arc::new(Line::default());
        let (reader, writer) = (Reader::new(line.clone()), Writer::new(line));
        std::thread::Builder::new()
            .name("write".into())
            .spawn(move || write_all((writing, writer), &queue, &waiting))?;
        std::thread::Builder::new()
            .name("read".into())
            .spawn(move || read_all(link, (reading, reader), &inputs, &budget))?;
        Ok(Self {
            stream,
            outgoing,
            pending: Vec::new(),
            unread,
        })
    }

    /// Sends a message, with the next [`Self::flush`] at the latest; false if the connection has to be cut.
    pub(crate) fn send(&mut self, message: &ToClient) -> bool {
        let before = self.pending.len();
        let encoded = encode(message, &mut self.pending);
        if encoded.is_err() || self.unread.is_over() {
            return false;
        }
        self.unread.more(self.pending.len() - before);
        if self.pending.len() >= CHUNK {
            self.flush();
        }
        true
    }

    /// Gives what was sent to the writer.
    pub(crate) fn flush(&mut self) {
        if !self.pending.is_empty() {
            // Without a writer the reader will tell that the connection has ended.
            let _ = self.outgoing.send(std::mem::take(&mut self.pending));
        }
    }

    /// Ends the connection when all that was sent has left.
    pub(crate) fn finish(mut self) {
        self.flush();
        // The writer ends with the channel.
        let _ = self.stream.set_write_timeout(Some(LINGER));
        let _ = self.stream.shutdown(Shutdown::Read);
    }

    /// Ends the connection at once.
    pub(crate) fn cut(self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

fn write_all(
    (mut stream, mut writer): (UnixStream, Writer),
    queue: &Receiver<Vec<u8>>,
    unread: &Unread,
) {
    while let Ok(mut bytes) = queue.recv() {
        while bytes.len() < CHUNK
            && let Ok(more) = queue.try_recv()
        {
            bytes.extend(more);
        }
        let written = writer.write(&bytes, &mut stream, |more| unread.less(more));
        if written.is_err() {
            break;
        }
    }
    let _ = stream.shutdown(Shutdown::Both);
}

fn read_all(
    link: Link,
    (mut stream, mut reader): (UnixStream, Reader),
    inputs: &Sender<Input>,
    budget: &Budget,
) {
    let mut chunk = vec![0; CHUNK];
    loop {
        let length = match stream.read(&mut chunk) {
            Ok(0) => break,
            Ok(length) => length,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        let mut came = &chunk[..length];
        loop {
            let input = match reader.message(&mut came) {
                Ok(Some(message)) => Input::message(link, message),
                Ok(None) => break,
                Err(_) => {
                    let _ = inputs.send(Input::Garbled(link));
                    return;
                }
            };
            budget.take(input.bytes());
            if inputs.send(input).is_err() {
                return;
            }
        }
    }
    let _ = inputs.send(Input::Closed(link));
}

impl Input {
    fn message(link: Link, message: surmise_remote::frame::ToServer) -> Self {
        let bytes = message.bytes().clamp(MESSAGE_BYTES_MIN, BUDGET);
        Self::Message(link, message, bytes)
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Message(_, _, bytes) => *bytes,
            _ => 0,
        }
    }
}
