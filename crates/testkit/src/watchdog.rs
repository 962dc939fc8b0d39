//! Bounded waits: what takes too long fails the test instead of hanging it.

use std::io::Read;
use std::process::{Child, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::time::Timespec;

use crate::standing;

/// How long a test waits for anything unless it says otherwise.
pub const LIMIT: Duration = Duration::from_secs(30);

/// How long the output of an ended child may stay open in processes that outlived it.
const OUTPUT_LIMIT: Duration = Duration::from_secs(3);

/// What is left of a child that has ended.
#[derive(Debug)]
pub struct Finished {
    /// How it ended.
    pub status: ExitStatus,
    /// What it wrote to standard output, where that was piped.
    pub stdout: Vec<u8>,
    /// What it wrote to standard error, where that was piped.
    pub stderr: Vec<u8>,
}

/// Waits until `child` ends, collecting its piped output.
///
/// After `limit` the child is killed, it alone, by its id, and the test fails with what the child
/// had written. The test also fails when a process that outlived the child keeps its output open.
/// `what` names the child in the message.
#[track_caller]
pub fn wait(mut child: Child, what: &str, limit: Duration) -> Finished {
    let stdout = child.stdout.take().map(Collector::start);
    let stderr = child.stderr.take().map(Collector::start);
    if !ends_within(&child, limit) {
        let standing = standing::below(child.id());
        discard(child);
        let read = |collector: Option<Collector>| {
            String::from_utf8_lossy(&collector.map(Collector::so_far).unwrap_or_default())
                .into_owned()
        };
        panic!(
            "{what} was still running after {limit:?} and was killed\nstdout: {}\nstderr: {}\n{standing}",
            read(stdout),
            read(stderr)
        );
    }
    let status = child.wait().expect("reap the child");
    let finish = |collector: Option<Collector>| {
        collector.map_or_else(Vec::new, |collector| collector.finish(what))
    };
    Finished {
        status,
        stdout: finish(stdout),
        stderr: finish(stderr),
    }
}

/// Runs `work` on a thread of its own and fails the test when it takes longer than `limit`. The
/// thread is then left behind, which is harmless in a test program that is about to end.
#[track_caller]
pub fn within<T: Send + 'static>(limit: Duration, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = channel();
    let worker = thread::spawn(move || {
        // The receiver is gone only after the limit, when nobody wants the result.
        let _ = sender.send(work());
    });
    match receiver.recv_timeout(limit) {
        Ok(result) => result,
        Err(RecvTimeoutError::Timeout) => panic!("still at work after {limit:?}"),
        Err(RecvTimeoutError::Disconnected) => match worker.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(()) => unreachable!("the worker sends before it ends"),
        },
    }
}

/// Waits, by polling, until `condition` holds; fails the test after `limit`.
#[track_caller]
pub fn until(what: &str, limit: Duration, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + limit;
    while !condition() {
        assert!(Instant::now() < deadline, "not within {limit:?}: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Kills `child`, it alone, and reaps it. It was not reaped before, so the id is still its own.
pub(crate) fn discard(mut child: Child) {
    child.kill().expect("kill the child");
    child.wait().expect("reap the child");
}

fn ends_within(child: &Child, limit: Duration) -> bool {
    let pidfd = pidfd_open(Pid::from_child(child), PidfdFlags::empty()).expect("open a pidfd");
    let deadline = Instant::now() + limit;
    loop {
        let rest = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(rest).expect("a wait of seconds");
        match poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&timeout)) {
            Ok(ready) => return ready > 0,
            Err(Errno::INTR) => {}
            Err(error) => panic!("poll: {error}"),
        }
    }
}

/// Reads a pipe on a thread of its own, so that neither of two pipes blocks the child.
struct Collector {
    bytes: Arc<Mutex<Vec<u8>>>,
    done: Receiver<()>,
}

impl Collector {
    fn start(mut pipe: impl Read + Send + 'static) -> Self {
        let (sender, done): (Sender<()>, _) = channel();
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&bytes);
        thread::spawn(move || {
            let _sender = sender;
            let mut buffer = vec![0; 1 << 16];
            while let Ok(length @ 1..) = pipe.read(&mut buffer) {
                let mut bytes = shared.lock().unwrap_or_else(PoisonError::into_inner);
                bytes.extend_from_slice(&buffer[..length]);
            }
        });
        Self { bytes, done }
    }

    fn so_far(self) -> Vec<u8> {
        self.bytes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    #[track_caller]
    fn finish(self, what: &str) -> Vec<u8> {
        // The reader sends nothing; it drops its end when the pipe is closed.
        if self.done.recv_timeout(OUTPUT_LIMIT) == Err(RecvTimeoutError::Timeout) {
            panic!("{what} ended, but a process that outlived it holds its output open");
        }
        self.so_far()
    }
}
