//! Requests that are answered later.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::dispatch::answer;
use crate::reply::Reply;
use crate::{Capabilities, FileSystem, Request};

/// What a [`FileSystem`]'s method fails with that cannot answer yet: nothing of it has happened, and it
/// is called again by [`Notifier::resume`](crate::Notifier::resume). Its caller sleeps until then, deaf
/// even to `SIGKILL`, and the kernel holds the locks of its call; no worker waits.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the request is postponed")]
pub struct Postponed;

impl From<Postponed> for io::Error {
    fn from(postponed: Postponed) -> Self {
        Self::other(postponed)
    }
}

impl Postponed {
    /// Whether an error is this one.
    pub fn is(error: &io::Error) -> bool {
        error.get_ref().is_some_and(|inner| inner.is::<Self>())
    }
}

/// The requests that wait for an answer.
///
/// One thread at a time has them answered, so that they are in the order in which they came; who comes
/// meanwhile leaves word and need not wait.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// As they came.
    waiting: Vec<Waiting>,
    is_resuming: bool,
    /// Whoever resumes has to begin again: what was postponed once more may have been so before somebody
    /// else came to say that it could be answered.
    is_due_again: bool,
    /// How many were answered, and how long they had waited altogether.
    answered: (u64, Duration),
}

#[derive(Debug)]
struct Waiting {
    bytes: Vec<u8>,
    /// From which it was read, and on which alone the kernel takes its answer.
    device: Arc<OwnedFd>,
    capabilities: Capabilities,
    since: Instant,
}

impl Queue {
    pub(crate) fn add(&self, request: &[u8], device: &Arc<OwnedFd>, capabilities: Capabilities) {
        self.state().waiting.push(Waiting {
            bytes: request.to_vec(),
            device: Arc::clone(device),
            capabilities,
            since: Instant::now(),
        });
    }

    /// Has them answered, by this thread or by the one that already does. Those that are postponed again
    /// wait again. An error keeps nobody else from an answer; the first one is told.
    pub(crate) fn resume<F: FileSystem + ?Sized>(
        &self,
        fs: &F,
        buffer: &mut [u8],
    ) -> io::Result<()> {
        let mut result = Ok(());
        let mut state = self.state();
        state.is_due_again = true;
        if state.is_resuming {
            return result;
        }
        state.is_resuming = true;
        while std::mem::take(&mut state.is_due_again) {
            let due = std::mem::take(&mut state.waiting);
            drop(state);
            let mut still = Vec::new();
            let mut answered = (0, Duration::ZERO);
            for request in due {
                match request.answer(fs, buffer) {
                    Ok(Answered::Yes) => {
                        answered.0 += 1;
                        answered.1 += request.since.elapsed();
                    }
                    Ok(Answered::Later) => still.push(request),
                    Err(error) => result = result.and(Err(error)),
                }
            }
            let is_any_left = !still.is_empty();
            state = self.state();
            state.answered.0 += answered.0;
            state.answered.1 += answered.1;
            // Before those that have come since.
            still.append(&mut state.waiting);
            state.waiting = still;
            drop(state);
            // What they wait for may have come since they asked for it, and who waits has to be known.
            let is_due_again = is_any_left && fs.may_resume();
            state = self.state();
            state.is_due_again |= is_due_again;
        }
        state.is_resuming = false;
        result
    }

    /// How many were answered, and how long they had waited altogether.
    pub(crate) fn answered(&self) -> (u64, Duration) {
        self.state().answered
    }

    pub(crate) fn has_any(&self) -> bool {
        let state = self.state();
        state.is_resuming || !state.waiting.is_empty()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum Answered {
    Yes,
    Later,
}

impl Waiting {
    fn answer<F: FileSystem + ?Sized>(&self, fs: &F, buffer: &mut [u8]) -> io::Result<Answered> {
        let request = Request::decode(&self.bytes, self.capabilities).map_err(io::Error::other)?;
        match answer(fs, request, buffer) {
            Some(reply) if reply.is_postponed() => return Ok(Answered::Later),
            Some(reply) => send(&self.device, &reply)?,
            None => {}
        }
        Ok(Answered::Yes)
    }
}

/// Writes a reply to the device.
pub(crate) fn send(device: &OwnedFd, reply: &Reply<'_>) -> io::Result<()> {
    match rustix::io::writev(device.as_fd(), &reply.segments()) {
        // ENOENT: nobody waits any more. EINVAL: the reply is larger than what was asked for,
        // and the kernel has told the caller EIO. ENODEV: the next read ends the worker.
        Ok(_) | Err(Errno::NOENT | Errno::INVAL | Errno::NODEV) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::fs::File;
    use std::io::Read;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::net::UnixStream;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::thread;

    use super::*;
    use crate::{Caller, KnownAttributes, Lookup};

    type Meanwhile<'t> = Box<dyn FnOnce(&Slow<'t>) + Send + 't>;

    /// Answers once it is told to.
    struct Slow<'t> {
        asked: Mutex<Vec<u8>>,
        may_answer: AtomicBool,
        may_resume_calls: AtomicUsize,
        /// What happens during the first request, after it was found too early.
        meanwhile: Mutex<Option<Meanwhile<'t>>>,
    }

    impl<'t> Slow<'t> {
        fn new(meanwhile: impl FnOnce(&Self) + Send + 't) -> Self {
            Self {
                asked: Mutex::default(),
                may_answer: AtomicBool::new(false),
                may_resume_calls: AtomicUsize::new(0),
                meanwhile: Mutex::new(Some(Box::new(meanwhile))),
            }
        }

        fn allow(&self) {
            self.may_answer.store(true, Ordering::SeqCst);
        }
    }

    impl FileSystem for Slow<'_> {
        fn lookup(&self, _: Caller, _: u64, _: &OsStr) -> io::Result<Lookup> {
            unreachable!("nobody looks")
        }

        fn getattr(&self, _: Caller, _: u64, _: Option<u64>) -> io::Result<KnownAttributes> {
            unreachable!("nobody looks")
        }

        fn may_resume(&self) -> bool {
            self.may_resume_calls.fetch_add(1, Ordering::SeqCst);
            self.may_answer.load(Ordering::SeqCst)
        }

        fn unlink(&self, _: Caller, _: u64, name: &OsStr) -> io::Result<()> {
            self.asked.lock().unwrap().push(name.as_bytes()[0]);
            let may_answer = self.may_answer.load(Ordering::SeqCst);
            let meanwhile = self.meanwhile.lock().unwrap().take();
            if let Some(meanwhile) = meanwhile {
                meanwhile(self);
            }
            match may_answer {
                true => Ok(()),
                false => Err(Postponed.into()),
            }
        }
    }

    fn resume(queue: &Queue, fs: &Slow<'_>) -> io::Result<()> {
        queue.resume(fs, &mut [0; 64])
    }

    /// A queue of unlink requests, one a name, which is the request's number, too.
    fn queue(names: &[u8], device: &Arc<OwnedFd>) -> Queue {
        let queue = Queue::default();
        for name in names {
            add(&queue, device, *name);
        }
        queue
    }

    fn add(queue: &Queue, device: &Arc<OwnedFd>, name: u8) {
        let mut bytes = Vec::new();
        // Length and opcode, number, node, caller.
        bytes.extend([42_u32, 10].map(u32::to_ne_bytes).concat());
        bytes.extend([u64::from(name), 1].map(u64::to_ne_bytes).concat());
        bytes.extend([0; 16]);
        bytes.extend([name, 0]);
        queue.add(&bytes, device, Capabilities::LOCAL_VIEW);
    }

    fn device() -> (Arc<OwnedFd>, UnixStream) {
        let (own, other) = UnixStream::pair().unwrap();
        (Arc::new(own.into()), other)
    }

    /// The numbers of the requests that were answered, in order. Closes the device, which no request waits for.
    fn answered(device: Arc<OwnedFd>, mut other: UnixStream) -> Vec<u8> {
        drop(Arc::into_inner(device).expect("nobody else has it"));
        let mut replies = Vec::new();
        other.read_to_end(&mut replies).unwrap();
        replies.chunks(16).map(|reply| reply[8]).collect()
    }

    #[test]
    fn what_is_postponed_again_is_answered_if_it_might_have_been_meanwhile() {
        let (device, other) = device();
        let queue = queue(b"ab", &device);
        let fs = Slow::new(Slow::allow);
        resume(&queue, &fs).unwrap();
        assert_eq!(*fs.asked.lock().unwrap(), b"aba");
        assert_eq!(answered(device, other), b"ba");
    }

    #[test]
    fn whoever_resumes_meanwhile_leaves_word_and_later_requests_stay_later() {
        let (device, other) = device();
        let queue = queue(b"ab", &device);
        let fs = Slow::new(|fs| {
            thread::scope(|scope| {
                let another = scope.spawn(|| {
                    add(&queue, &device, b'c');
                    resume(&queue, fs).unwrap();
                    assert_eq!(*fs.asked.lock().unwrap(), b"a");
                });
                another.join().unwrap();
            });
        });
        resume(&queue, &fs).unwrap();
        assert_eq!(*fs.asked.lock().unwrap(), b"ababc");
        // Too early for all of them: then who decides is asked, and nobody asks without end.
        assert_ne!(fs.may_resume_calls.load(Ordering::SeqCst), 0);
        fs.allow();
        resume(&queue, &fs).unwrap();
        drop(fs);
        assert_eq!(answered(device, other), b"abc");
    }

    #[test]
    fn an_error_keeps_nobody_else_from_an_answer() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let (device, other) = device();
        let queue = queue(b"a", &Arc::new(full.into()));
        add(&queue, &device, b'b');
        add(&queue, &device, b'c');
        // All but the first are too early.
        let fs = Slow::new(|fs: &Slow<'_>| fs.may_answer.store(false, Ordering::SeqCst));
        fs.allow();
        let failed = resume(&queue, &fs).unwrap_err();
        assert_eq!(failed.raw_os_error(), Some(Errno::NOSPC.raw_os_error()));
        assert_eq!(*fs.asked.lock().unwrap(), b"abc");
        fs.allow();
        resume(&queue, &fs).unwrap();
        assert_eq!(answered(device, other), b"bc");
    }
}
