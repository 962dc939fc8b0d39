//! The device loop: threads that read requests from the device, have them answered, and write the
//! replies.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Scope, ScopedJoinHandle};

use rustix::io::Errno;
use rustix::param::page_size;
use thiserror::Error;

use crate::abi::{self, output};
use crate::dispatch::answer;
use crate::handshake::{reply_bytes_max, request_bytes_max};
use crate::postponed::{Queue, send};
use crate::reply::Reply;
use crate::tally::Tally;
use crate::together::{CallersProcesses, Companion, Next, Together};
use crate::{
    Capabilities, Config, DecodeError, FileSystem, Init, Negotiated, Notifier, Operation, Request,
};

/// Why a session ended other than by unmount.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The kernel speaks a protocol from before Linux 5.4, or another one.
    #[error(
        "the kernel speaks FUSE {major}.{minor}, older than {}.{}",
        abi::MAJOR,
        abi::MINOR_MIN
    )]
    Version {
        /// The kernel's major version.
        major: u32,
        /// The kernel's minor version.
        minor: u32,
    },
    /// The first request was not the handshake: somebody already reads this device.
    #[error("the first request on the FUSE device was not the handshake")]
    NoHandshake,
    /// What was read is no request.
    #[error("unreadable FUSE request: {0}")]
    Decode(#[from] DecodeError),
    /// Reading the device failed; `EPERM` if nothing is mounted on it yet.
    #[error("read from the FUSE device: {0}")]
    Read(#[source] io::Error),
    /// Writing a reply failed.
    #[error("write to the FUSE device: {0}")]
    Write(#[source] io::Error),
}

impl From<ServeError> for io::Error {
    fn from(error: ServeError) -> Self {
        match error {
            ServeError::Read(source) | ServeError::Write(source) => source,
            ServeError::Version { .. } => Self::new(io::ErrorKind::Unsupported, error),
            ServeError::NoHandshake | ServeError::Decode(_) => {
                Self::new(io::ErrorKind::InvalidData, error)
            }
        }
    }
}

/// One mounted FUSE device.
#[derive(Debug)]
pub struct Session {
    device: Arc<OwnedFd>,
    config: Config,
    can_expire: Arc<AtomicBool>,
    postponed: Arc<Queue>,
    tally: Tally,
    together: Together,
}

impl Session {
    /// A session on a `/dev/fuse` descriptor that mount(2) was given (`fd=N`). It should be
    /// close-on-exec, and no task may hold both it and a file of its mount: such a task can hang
    /// in exit.
    pub fn new(device: OwnedFd, config: Config) -> Self {
        Self {
            device: Arc::new(device),
            config,
            can_expire: Arc::default(),
            postponed: Arc::default(),
            tally: Tally::default(),
            together: Together::default(),
        }
    }

    /// How many requests the kernel has sent so far, by the kernel's names of what they asked for. One that was
    /// postponed counts once.
    pub fn requests(&self) -> BTreeMap<&'static str, u64> {
        self.tally.counts()
    }

    /// How many of them the thread took that serves callers on their own processors ([`Self::serve_beside`]).
    pub fn served_beside(&self) -> u64 {
        self.together.served_beside()
    }

    /// What tells the kernel unasked. It keeps the device open.
    pub fn notifier(&self) -> Notifier {
        Notifier::new(
            Arc::clone(&self.device),
            Arc::clone(&self.can_expire),
            Arc::clone(&self.postponed),
        )
    }

    /// Shakes hands, then answers requests on [`Config::threads`] threads, the calling one
    /// included, until the file system is unmounted or its connection aborted.
    ///
    /// A worker that meets an error ends; the others go on, and the first error is returned when
    /// the last has ended. A panic in the file system **aborts the process**: a request left
    /// unanswered would put its caller to sleep for ever, whereas the end of the process fails it.
    pub fn serve<F: FileSystem + ?Sized>(&self, fs: &F) -> Result<(), ServeError> {
        self.serve_beside(fs, &|| None)
    }

    /// As [`Self::serve`]. One thread more serves callers on their own processors while that is quicker; `callers` tells where
    /// their processes are found. When other threads begin to want such a processor, requests may wait for some milliseconds.
    ///
    /// # Errors
    /// As there.
    pub fn serve_beside<F: FileSystem + ?Sized>(
        &self,
        fs: &F,
        callers: &CallersProcesses<'_>,
    ) -> Result<(), ServeError> {
        let _guard = AbortOnPanic;
        let mut buffers = Buffers::new(self.config.whole_pages(page_size()));
        let Some(negotiated) = self.shake_hands(&mut buffers)? else {
            return Ok(());
        };
        fs.init(&negotiated, self.notifier());
        let serving = &Serving {
            session: self,
            fs,
            negotiated,
            callers,
        };
        thread::scope(|scope| {
            let others: Vec<_> = (1..self.config.threads)
                .map(|_| scope.spawn(|| serving.work(scope, serving.buffers())))
                .collect();
            let own = serving.work(scope, buffers);
            others.into_iter().fold(own, |result, other| {
                let joined = other.join().expect("a panicking worker aborts the process");
                result.and(joined)
            })
        })
    }

    /// `None` if the file system was unmounted before.
    fn shake_hands(&self, buffers: &mut Buffers) -> Result<Option<Negotiated>, ServeError> {
        loop {
            let Some((bytes, _)) = self.receive(&mut buffers.request)? else {
                return Ok(None);
            };
            // No layout that depends on what is agreed can come before INIT.
            let request = Request::decode(bytes, self.config.wanted)?;
            let Operation::Init(init) = request.operation else {
                return Err(ServeError::NoHandshake);
            };
            let Init { major, minor, .. } = init;
            if major > abi::MAJOR {
                // The kernel then asks again in the version it is told.
                let version = output::InitOut {
                    major: abi::MAJOR,
                    minor: abi::MINOR,
                    ..Default::default()
                };
                self.send(&Reply::fixed(request.unique, &version))?;
                continue;
            }
            if major < abi::MAJOR || minor < abi::MINOR_MIN {
                self.send(&Reply::error(request.unique, &Errno::PROTO.into()))?;
                return Err(ServeError::Version { major, minor });
            }
            let can_expire = init.capabilities.contains(Capabilities::HAS_EXPIRE_ONLY);
            self.can_expire.store(can_expire, Ordering::Relaxed);
            let negotiated = Negotiated::new(&self.config, &init, page_size());
            let reply = negotiated.to_wire(&init, page_size());
            self.send(&Reply::fixed(request.unique, &reply))?;
            return Ok(Some(negotiated));
        }
    }

    /// The next request's bytes, and its thread; `None` at the end of the mount.
    fn receive<'b>(&self, buffer: &'b mut [u8]) -> Result<Option<(&'b [u8], u32)>, ServeError> {
        loop {
            match self.take(&self.device, buffer)? {
                Taken::Request { length, thread } => return Ok(Some((&buffer[..length], thread))),
                Taken::None => {}
                Taken::End => return Ok(None),
            }
        }
    }

    /// Reads a request into the buffer.
    fn take(&self, device: &OwnedFd, buffer: &mut [u8]) -> Result<Taken, ServeError> {
        match rustix::io::read(device.as_fd(), &mut *buffer) {
            Ok(length) => {
                let known = Request::opcode_and_thread(&buffer[..length]);
                let thread = known.map_or(0, |(opcode, thread)| {
                    self.tally.count(opcode);
                    thread
                });
                Ok(Taken::Request { length, thread })
            }
            // ENOENT: the request was interrupted while it was being read.
            Err(Errno::INTR | Errno::AGAIN | Errno::NOENT) => Ok(Taken::None),
            Err(Errno::NODEV | Errno::CONNABORTED) => Ok(Taken::End),
            Err(errno) => Err(ServeError::Read(errno.into())),
        }
    }

    fn send(&self, reply: &Reply<'_>) -> Result<(), ServeError> {
        send(&self.device, reply).map_err(ServeError::Write)
    }
}

/// What came of a read from the device.
enum Taken {
    /// A request of so many bytes, and the thread that asks; 0 where the kernel does by itself.
    Request { length: usize, thread: u32 },
    /// None yet.
    None,
    /// The end of the mount.
    End,
}

/// A session whose handshake is over.
struct Serving<'s, F: ?Sized> {
    session: &'s Session,
    fs: &'s F,
    negotiated: Negotiated,
    callers: &'s CallersProcesses<'s>,
}

impl<F: FileSystem + ?Sized> Serving<'_, F> {
    fn buffers(&self) -> Buffers {
        Buffers::new(self.negotiated.write_bytes_max)
    }

    /// A worker's whole life. The worker that has made the companion also waits for the companion's end.
    fn work<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        mut buffers: Buffers,
    ) -> Result<(), ServeError> {
        let _guard = AbortOnPanic;
        let mut companion: Option<ScopedJoinHandle<'scope, _>> = None;
        let together = &self.session.together;
        let result = loop {
            together.await_turn();
            let (bytes, thread) = match self.session.receive(&mut buffers.request) {
                Ok(Some(request)) => request,
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            };
            if let Err(error) = self.answer(bytes, &self.session.device, &mut buffers.reply) {
                break Err(error);
            }
            match together.after_request(thread) {
                Next::Serve => {}
                Next::Guard => together.guard(&self.session.device),
                Next::MakeCompanion => match (self.callers)() {
                    Some(processes) => {
                        let made = thread::Builder::new()
                            .spawn_scoped(scope, || self.accompany(processes));
                        if made.is_err() {
                            // The command may have taken all threads that its user may have.
                            together.never();
                        }
                        companion = made.ok();
                        together.guard(&self.session.device);
                    }
                    None => together.not_yet(),
                },
            }
        };
        together.end();
        match companion.map(ScopedJoinHandle::join) {
            Some(joined) => result.and(joined.expect("a panicking companion aborts the process")),
            None => result,
        }
    }

    /// The companion's whole life.
    fn accompany(&self, processes: OwnedFd) -> Result<(), ServeError> {
        let _guard = AbortOnPanic;
        let session = self.session;
        let begun = Companion::begin(&session.together, &session.device, processes);
        let Some(mut companion) = begun else {
            return Ok(());
        };
        let mut buffers = self.buffers();
        while companion.await_turn() {
            match session.take(companion.device(), &mut buffers.request)? {
                Taken::Request { length, thread } => {
                    companion.took(thread);
                    let bytes = &buffers.request[..length];
                    self.answer(bytes, companion.device(), &mut buffers.reply)?;
                    companion.answered();
                }
                Taken::None => companion.await_request(),
                Taken::End => break,
            }
        }
        Ok(())
    }

    /// Answers what was read from the device.
    fn answer(
        &self,
        bytes: &[u8],
        device: &Arc<OwnedFd>,
        buffer: &mut [u8],
    ) -> Result<(), ServeError> {
        let sent = match Request::decode(bytes, self.negotiated.capabilities) {
            Ok(request) => match answer(self.fs, request, buffer) {
                Some(reply) if reply.is_postponed() => {
                    let postponed = &self.session.postponed;
                    postponed.add(bytes, device, self.negotiated.capabilities);
                    match self.fs.may_resume() {
                        true => postponed.resume(self.fs, buffer),
                        false => Ok(()),
                    }
                }
                Some(reply) => send(device, &reply),
                None => Ok(()),
            },
            Err(DecodeError::Truncated { unique, .. }) => {
                send(device, &Reply::error(unique, &Errno::IO.into()))
            }
            Err(error @ DecodeError::Length { .. }) => return Err(error.into()),
        };
        sent.map_err(ServeError::Write)
    }
}

/// What one worker reads into and answers from. Fresh zeroed pages come untouched from the
/// kernel, so their size costs nothing until used.
struct Buffers {
    request: Vec<u8>,
    reply: Vec<u8>,
}

impl Buffers {
    fn new(write_bytes_max: usize) -> Self {
        Self {
            request: vec![0; request_bytes_max(write_bytes_max, page_size())],
            reply: vec![0; reply_bytes_max(write_bytes_max, page_size())],
        }
    }
}

struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            process::abort();
        }
    }
}
