//! Stopping all tasks of a domain at a call boundary, and letting them go on.
//!
//! The tracer is a process of its own, of one thread, made for one freeze. So control's waits never
//! meet a tracee. And the kernel lets all tracees go when their tracer ends, however it ends: also
//! a parent in vfork, which can be neither stopped nor detached before its child's exec.

mod freezer;
mod message;
mod restart;
mod tracee;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::process::{Pid, Signal};
use surmise_sys::process::{self, Child};

use message::Report;

/// How much longer than its limit the tracer may take to say what came of it.
const GRACE: Duration = Duration::from_secs(1);

/// Why the tasks of a domain were not frozen. All were let go on.
#[derive(Debug, thiserror::Error)]
pub enum FreezeError {
    /// A task is traced already, by strace or gdb say.
    #[error("process {pid} ({name}) is traced by another process")]
    Traced {
        /// The thread, as this process sees it.
        pid: i32,
        /// Its name.
        name: String,
    },
    /// A task did not come to a call boundary in time.
    #[error("process {pid} ({name}) did not stop in time")]
    Busy {
        /// The thread, as this process sees it.
        pid: i32,
        /// Its name.
        name: String,
    },
    /// The kernel does not let this user trace a task.
    #[error("process {pid} ({name}) must not be traced")]
    Denied {
        /// The thread, as this process sees it.
        pid: i32,
        /// Its name.
        name: String,
    },
    /// The tracer was killed.
    #[error("the process that stops the others was killed")]
    Killed,
    /// A call failed that is about no task.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        source: io::Error,
    },
}

/// All tasks below a domain's pid 1, stopped: none of them executes an instruction of its own.
///
/// Dropping it lets them go on. When this process ends without that, the domain does, too.
#[derive(Debug)]
pub struct Frozen {
    /// The tracer's other end.
    socket: Option<OwnedFd>,
    tracer: Child,
    tasks: usize,
}

impl Frozen {
    /// Stops every task below `init`, a domain's pid 1 in the caller's numbering, but not `init`.
    ///
    /// Calls that wait are interrupted and go on when the tasks do, with nothing to see in the task but
    /// that a wait with a timeout may begin it anew. Signals that arrive meanwhile are delivered then,
    /// and a job that was stopped (Ctrl-Z) stays stopped. A parent in vfork counts as stopped when its
    /// child is. Blocks for at most `limit` and one second.
    ///
    /// # Errors
    /// [`FreezeError`]; all tasks go on.
    ///
    /// # Panics
    /// When this process has several threads, as [`process::fork`].
    pub fn freeze(init: Pid, limit: Duration) -> Result<Self, FreezeError> {
        let flags = SocketFlags::CLOEXEC;
        let (socket, other) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
                .map_err(system("make a socket pair"))?;
        let tracer = process::fork(&[other.as_fd()], || freezer::live(init, limit, &other))
            .map_err(system("start the tracer"))?;
        drop(other);
        let mut frozen = Self {
            socket: Some(socket),
            tracer,
            tasks: 0,
        };
        frozen.tasks = frozen.hear(Instant::now() + limit + GRACE)?;
        Ok(frozen)
    }

    /// Lets all tasks go on, and returns when they do.
    ///
    /// # Errors
    /// The tracer was killed, so that the tasks have gone on before: what was read of them meanwhile
    /// may be of several moments.
    pub fn thaw(mut self) -> io::Result<()> {
        match self.end()? {
            true => Ok(()),
            false => Err(io::Error::other("the tasks were let go on too early")),
        }
    }

    /// How many tasks are stopped.
    pub fn len(&self) -> usize {
        self.tasks
    }

    /// Whether there was no task to stop.
    pub fn is_empty(&self) -> bool {
        self.tasks == 0
    }

    fn hear(&self, deadline: Instant) -> Result<usize, FreezeError> {
        let socket = self.socket.as_ref().expect("taken only at the end");
        match message::receive(socket, deadline).map_err(system("hear from the tracer"))? {
            Some(Report::Frozen(tasks)) => Ok(tasks),
            Some(Report::Failed(error)) => Err(error),
            None => Err(FreezeError::Killed),
        }
    }

    /// Whether the tracer held on until it was told to end. Does nothing the second time.
    fn end(&mut self) -> io::Result<bool> {
        let Some(socket) = self.socket.take() else {
            return Ok(true);
        };
        message::let_go(&socket);
        drop(socket);
        if !message::ends_within(&self.tracer, GRACE)? {
            // It is stuck or stopped; by its end the kernel lets all tracees go.
            self.tracer.signal(Signal::KILL)?;
        }
        Ok(self.tracer.wait()?.exit_status() == Some(0))
    }
}

/// The tracer's end, which lets all tasks go on: readable once it was killed.
impl AsFd for Frozen {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.tracer.as_fd()
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        // Whoever wants to know calls `thaw`.
        let _ = self.end();
    }
}

/// What turns the error of a call into a [`FreezeError`].
fn system<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> FreezeError {
    move |error| FreezeError::System {
        what,
        source: error.into(),
    }
}
