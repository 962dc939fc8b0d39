//! The listener of a supervised program, as checkpoint and rollback need it.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, Signal, kill_process};
use rustix::time::Timespec;
use surmise_checkpoint::{Gate, PendingCall};
use surmise_sys::ptrace::call;
use surmise_sys::seccomp::{Answer, Listener, Notification};
use surmise_syscalls::{Disposition, Kind, Syscall, row_numbered, row_of};

pub struct Listening {
    listener: Listener,
    /// Calls of other processes that came while one was waited for.
    others: VecDeque<Notification>,
    /// Kills that process when so many calls more are waited for.
    pub kill: Option<(usize, Pid)>,
}

impl Listening {
    pub fn new(listener: Listener) -> Self {
        Self {
            listener,
            others: VecDeque::new(),
            kill: None,
        }
    }

    /// The next call, if one comes soon.
    pub fn next(&mut self) -> Option<Notification> {
        if let Some(call) = self.others.pop_front() {
            return Some(call);
        }
        let soon = Timespec::try_from(Duration::from_millis(1)).expect("a short time");
        let mut events = [PollFd::new(&self.listener, PollFlags::IN)];
        rustix::event::poll(&mut events, Some(&soon)).expect("poll");
        let is_there = events[0].revents().contains(PollFlags::IN);
        is_there
            .then(|| self.listener.receive().expect("receive"))
            .flatten()
    }
}

impl Gate for Listening {
    fn notifies(&self, number: i64, arguments: &[u64; 6]) -> bool {
        let row = row_numbered(number as u32).expect("a call of the table");
        let is_vessel = row.name() == Syscall::Clone && arguments[0] == call::CLONE_VESSEL;
        let allowed = row.disposition_with(Kind::Prediction, arguments) == Disposition::Allow;
        !is_vessel && !allowed
    }

    fn notifying_call(&self) -> i64 {
        row_of(Syscall::Getpgid).number().into()
    }

    fn await_call(&mut self, thread: Pid) -> io::Result<Option<PendingCall>> {
        self.kill = match self.kill.take() {
            Some((0, process)) => {
                kill_process(process, Signal::KILL)?;
                None
            }
            Some((calls, process)) => Some((calls - 1, process)),
            None => None,
        };
        let soon = Timespec::try_from(Duration::from_millis(5)).expect("a short time");
        loop {
            let mut events = [PollFd::new(&self.listener, PollFlags::IN)];
            rustix::event::poll(&mut events, Some(&soon))?;
            if !events[0].revents().contains(PollFlags::IN) {
                return Ok(None);
            }
            match self.listener.receive()? {
                Some(call) if call.thread == thread => {
                    return Ok(Some(PendingCall {
                        thread,
                        id: call.id,
                    }));
                }
                Some(call) => self.others.push_back(call),
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
        added.map(drop).ok_or(io::ErrorKind::NotFound.into())
    }

    fn answer(&mut self, call: PendingCall, result: i64) -> io::Result<bool> {
        self.listener.answer(call.id, Answer::Value(result))
    }

    fn let_pass(&mut self, call: PendingCall) -> io::Result<bool> {
        self.listener.answer(call.id, Answer::Continue)
    }
}
