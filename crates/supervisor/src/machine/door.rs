//! The listener, for a supervisor that now and then waits for one particular call.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, RawFd};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::process::Pid;
use rustix::time::Timespec;
use surmise_checkpoint::{Gate, PendingCall};
use surmise_linux::proc::Status;
use surmise_sys::ptrace::call::CLONE_VESSEL;
use surmise_sys::ptrace::{Interruption, Registers};
use surmise_sys::seccomp::{Answer, Listener, Notification};
use surmise_syscalls::{Disposition, Kind, Syscall, row_numbered, row_of};

use crate::call::Call;
use crate::map::Map;

/// How long a wait for a call may take before it is looked what its thread is doing.
const SHORT: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 5_000_000,
};

/// Of how many threads the last call is remembered.
const HEARD_MAX: usize = 4096;

/// The listener, and the calls that came while another one was waited for.
#[derive(Debug)]
pub(crate) struct Door {
    listener: Listener,
    backlog: Vec<Notification>,
    /// The last call of each thread that was received; nothing if that call was answered without having happened.
    heard: Map<Pid, Option<(u32, [u64; 6])>>,
    /// Whether the end of all threads was told.
    is_closed: bool,
}

impl Door {
    pub(crate) fn new(listener: Listener) -> Self {
        Self {
            listener,
            backlog: Vec::new(),
            heard: Map::default(),
            is_closed: false,
        }
    }

    /// What to poll; nothing once no thread can call any more.
    pub(crate) fn source(&self) -> Option<BorrowedFd<'_>> {
        (!self.is_closed).then(|| self.listener.as_fd())
    }

    /// The next call, `ready` being what polling the listener told.
    pub(crate) fn next(&mut self, ready: PollFlags) -> io::Result<Option<Call>> {
        if ready.contains(PollFlags::IN) {
            return Ok(self.receive()?.and_then(Call::new));
        }
        self.is_closed |= !ready.is_empty();
        Ok(None)
    }

    fn receive(&mut self) -> io::Result<Option<Notification>> {
        let received = self.listener.receive()?;
        if let Some(call) = &received {
            if self.heard.len() >= HEARD_MAX {
                // Of threads that have ended, too.
                self.heard.clear();
            }
            self.heard
                .insert(call.thread, Some((call.number, call.arguments)));
        }
        Ok(received)
    }

    /// Whether the call that a stopped thread comes from may have begun: it was received then, and let pass.
    fn may_have_heard(&self, thread: Pid, registers: &Registers) -> bool {
        let arguments = registers.arguments();
        let Some(number) = registers.call() else {
            return true;
        };
        match self.heard.get(&thread) {
            Some(last) if self.notifies(number, &arguments) => {
                *last == Some((number as u32, arguments))
            }
            _ => true,
        }
    }

    /// False for a call that was answered before, or has gone.
    pub(crate) fn respond(&mut self, call: PendingCall, answer: Answer) -> io::Result<bool> {
        if answer != Answer::Continue {
            self.heard.insert(call.thread, None);
        }
        match self.listener.answer(call.id, answer) {
            Err(error) if error.raw_os_error() == Some(Errno::INPROGRESS.raw_os_error()) => {
                Ok(false)
            }
            result => result,
        }
    }

    /// Interrupts a call for a signal that its thread is about to take. False for a call that was answered before, or has gone.
    pub(crate) fn interrupt(&mut self, call: PendingCall, how: Interruption) -> io::Result<bool> {
        let last = self.heard.get(&call.thread).copied();
        let is_interrupted = self.respond(call, Answer::Value(how.result()))?;
        // It is as if the call had begun.
        if let (Some(last), Interruption::Asleep | Interruption::Always) = (last, how) {
            self.heard.insert(call.thread, last);
        }
        Ok(is_interrupted)
    }

    /// Takes the calls that came while another one was waited for.
    pub(crate) fn take_backlog(&mut self) -> Vec<Call> {
        let backlog = std::mem::take(&mut self.backlog).into_iter();
        backlog.filter_map(Call::new).collect()
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
            let received = self.receive()?;
            self.backlog.extend(received);
        }
    }

    /// Whether a call of a thread was received and not answered.
    pub(crate) fn has_waiting(&self, thread: Pid) -> bool {
        self.backlog.iter().any(|call| call.thread == thread)
    }

    /// Whether a call that was received still waits for its answer.
    pub(crate) fn still_waits(&self, id: u64) -> io::Result<bool> {
        self.listener.is_valid(id)
    }
}

fn pending(call: &Notification) -> PendingCall {
    PendingCall {
        thread: call.thread,
        id: call.id,
    }
}

impl Gate for Door {
    fn notifies(&self, number: i64, arguments: &[u64; 6]) -> bool {
        let row = u32::try_from(number).ok().and_then(row_numbered);
        let is_vessel =
            row.is_some_and(|row| row.name() == Syscall::Clone && arguments[0] == CLONE_VESSEL);
        let disposition = row.map(|row| row.disposition_with(Kind::Prediction, arguments));
        !is_vessel && disposition != Some(Disposition::Allow)
    }

    fn has_stopped(&mut self, thread: Pid, registers: &Registers) -> bool {
        let may_have_begun = self.may_have_heard(thread, registers);
        // It may stop once more in the same call, for a signal that waits.
        let stops_again = || Status::of(thread).is_ok_and(|status| status.has_any_waiting());
        if !(may_have_begun && registers.was_interrupted() && stops_again()) {
            self.heard.insert(thread, None);
        }
        may_have_begun
    }

    fn notifying_call(&self) -> i64 {
        // It has no effect, whatever becomes of its answer.
        let row = row_of(Syscall::Getpgid);
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
            match self.receive()? {
                Some(call) if call.thread == thread => return Ok(Some(pending(&call))),
                Some(call) => self.backlog.push(call),
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI32, Ordering};
    use std::thread;
    use std::time::{Duration, Instant};

    use rustix::process::PidfdFlags;
    use surmise_sys::seccomp::{Listening, Privilege, Program, install_with_listener};

    use super::*;

    /// The next call that comes.
    fn hear(door: &mut Door) -> Notification {
        let begun = Instant::now();
        loop {
            door.gather().expect("gather");
            if let Some(call) = door.take_backlog().pop() {
                return call.notification;
            }
            assert!(begun.elapsed() < Duration::from_secs(10), "no call comes");
            thread::yield_now();
        }
    }

    /// Its thread waits in another by then.
    #[test]
    fn a_call_that_was_answered_does_not_wait_any_more() {
        static NUMBER: AtomicI32 = AtomicI32::new(-1);
        let caller = thread::spawn(|| {
            let filter = Program::new(Listening::PREDICTIONS);
            let number = install_with_listener(&filter, Privilege::NoNewPrivileges);
            NUMBER.store(number.expect("install"), Ordering::SeqCst);
            [(); 2].map(|()| rustix::process::getpgid(None).map(Pid::as_raw_nonzero))
        });
        let begun = Instant::now();
        while NUMBER.load(Ordering::SeqCst) == -1 {
            assert!(begun.elapsed() < Duration::from_secs(10), "no listener");
            thread::yield_now();
        }
        let own = rustix::process::pidfd_open(rustix::process::getpid(), PidfdFlags::empty());
        let own = own.expect("open this process");
        let listener = Listener::of(own.as_fd(), NUMBER.load(Ordering::SeqCst));
        let mut door = Door::new(listener.expect("take").expect("a listener"));

        let first = hear(&mut door);
        assert!(door.answer(pending(&first), 42).expect("answer"));
        let second = hear(&mut door);
        assert_eq!(first.thread, second.thread);
        assert!(!door.still_waits(first.id).expect("ask"));
        assert!(door.still_waits(second.id).expect("ask"));
        assert!(door.answer(pending(&second), 43).expect("answer"));
        let thread = format!("/proc/self/task/{}", first.thread.as_raw_nonzero());
        while std::fs::exists(&thread).expect("look") {
            // Whatever else the end of a thread takes.
            door.gather().expect("gather");
            for call in door.take_backlog() {
                door.let_pass(call.pending()).expect("answer");
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "it does not end");
            thread::yield_now();
        }
        let told = caller.join().expect("its results");
        assert_eq!(told.map(|result| result.map(i32::from)), [Ok(42), Ok(43)]);
    }
}
