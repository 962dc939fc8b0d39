//! The listener, for a supervisor that now and then waits for one particular call.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, RawFd};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::process::Pid;
use rustix::time::Timespec;
use surmise_checkpoint::{Gate, PendingCall};
use surmise_sys::ptrace::call::CLONE_VESSEL;
use surmise_sys::seccomp::{Answer, Listener, Notification};
use surmise_syscalls::{Disposition, Kind, row_named, row_numbered};

/// How long a wait for a call may take before it is looked what its thread is doing.
const SHORT: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 5_000_000,
};

/// The listener, and the calls that came while another one was waited for.
#[derive(Debug)]
pub(crate) struct Door {
    listener: Listener,
    backlog: VecDeque<Notification>,
    /// Whether the end of all threads was told.
    is_closed: bool,
}

impl Door {
    pub(crate) fn new(listener: Listener) -> Self {
        Self {
            listener,
            backlog: VecDeque::new(),
            is_closed: false,
        }
    }

    /// What to poll; nothing once no thread can call any more.
    pub(crate) fn source(&self) -> Option<BorrowedFd<'_>> {
        (!self.is_closed).then(|| self.listener.as_fd())
    }

    /// Whether a call waits here that was received already.
    pub(crate) fn has_backlog(&self) -> bool {
        !self.backlog.is_empty()
    }

    /// The next call, `ready` being what polling the listener told.
    pub(crate) fn next(&mut self, ready: PollFlags) -> io::Result<Option<Notification>> {
        if let Some(call) = self.backlog.pop_front() {
            return Ok(Some(call));
        }
        if ready.contains(PollFlags::IN) {
            return self.listener.receive();
        }
        self.is_closed |= !ready.is_empty();
        Ok(None)
    }

    /// False for a call that was answered before, or has gone.
    pub(crate) fn respond(&self, call: PendingCall, answer: Answer) -> io::Result<bool> {
        match self.listener.answer(call.id, answer) {
            Err(error) if error.raw_os_error() == Some(Errno::INPROGRESS.raw_os_error()) => {
                Ok(false)
            }
            result => result,
        }
    }

    /// Takes the calls of some threads that were received and not answered.
    pub(crate) fn take_pending(
        &mut self,
        mut is_meant: impl FnMut(Pid) -> bool,
    ) -> Vec<Notification> {
        let backlog = std::mem::take(&mut self.backlog).into_iter();
        let (taken, left) = backlog.partition(|call| is_meant(call.thread));
        self.backlog = left;
        Vec::from_iter::<VecDeque<_>>(taken)
    }

    /// Receives all calls that wait.
    pub(crate) fn gather(&mut self) -> io::Result<()> {
        loop {
            let mut events = [PollFd::new(&self.listener, PollFlags::IN)];
            match rustix::event::poll(&mut events, Some(&Timespec::default())) {
                Err(Errno::INTR) => continue,
                polled => polled?,
            };
            if !events[0].revents().contains(PollFlags::IN) {
                return Ok(());
            }
            self.backlog.extend(self.listener.receive()?);
        }
    }

    /// Whether a call of a thread was received and not answered.
    pub(crate) fn has_waiting(&self, thread: Pid) -> bool {
        self.backlog.iter().any(|call| call.thread == thread)
    }

    /// Has calls come up again that were taken.
    pub(crate) fn put_back(&mut self, calls: Vec<Notification>) {
        self.backlog.extend(calls);
    }
}

/// A call as those see it who only answer.
pub(crate) fn pending(call: &Notification) -> PendingCall {
    PendingCall {
        thread: call.thread,
        id: call.id,
    }
}

impl Gate for Door {
    fn notifies(&self, number: i64, arguments: &[u64; 6]) -> bool {
        let row = u32::try_from(number).ok().and_then(row_numbered);
        let is_vessel =
            row.is_some_and(|row| row.name() == "clone" && arguments[0] == CLONE_VESSEL);
        let disposition = row.map(|row| row.disposition_with(Kind::Prediction, arguments));
        !is_vessel && disposition != Some(Disposition::Allow)
    }

    fn notifying_call(&self) -> i64 {
        // It has no effect, whatever becomes of its answer.
        let row = row_named("getpgid").expect("a call of the table");
        row.number().into()
    }

    fn await_call(&mut self, thread: Pid) -> io::Result<Option<PendingCall>> {
        loop {
            let mut events = [PollFd::new(&self.listener, PollFlags::IN)];
            match rustix::event::poll(&mut events, Some(&SHORT)) {
                Ok(0) | Err(Errno::INTR) => return Ok(None),
                Ok(_) => {}
                Err(errno) => return Err(errno.into()),
            }
            if !events[0].revents().contains(PollFlags::IN) {
                return Err(Errno::SRCH.into());
            }
            match self.listener.receive()? {
                Some(call) if call.thread == thread => return Ok(Some(pending(&call))),
                Some(call) => self.backlog.push_back(call),
                None => {}
            }
        }
    }

    fn add_descriptor(
        &mut self,
        call: PendingCall,
        descriptor: BorrowedFd<'_>,
        at: RawFd,
        close_on_exec: bool,
    ) -> io::Result<()> {
        let added = self
            .listener
            .add_descriptor(call.id, descriptor, Some(at), close_on_exec)?;
        added.map(drop).ok_or_else(|| Errno::SRCH.into())
    }

    fn answer(&mut self, call: PendingCall, result: i64) -> io::Result<bool> {
        self.respond(call, Answer::Value(result))
    }

    fn let_pass(&mut self, call: PendingCall) -> io::Result<bool> {
        self.respond(call, Answer::Continue)
    }
}
