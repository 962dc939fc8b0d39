//! pid 1 while the command runs: it reaps, passes on signals, and ends what lingers.

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions};
use rustix::time::Timespec;
use surmise_kept::Exit;
use surmise_stdio::InnerTerminal;
use surmise_sys::process::Child;
use surmise_sys::signals::SignalFd;

use super::{Cut, Init};
use crate::dial::Switchboard;
use crate::launch::Lingering;
use crate::message::{Ended, Failure, Order, Report};
use crate::processes::Processes;
use crate::signals::{is_end, is_for_group};

/// How long processes have between being asked to end and being killed.
const GRACE: Duration = Duration::from_secs(2);

/// A domain whose command was started.
pub(super) struct Running<'a> {
    pub(super) init: &'a Init<'a>,
    pub(super) processes: Processes,
    pub(super) children: SignalFd,
    pub(super) command: Child,
    pub(super) terminal: Option<InnerTerminal>,
    /// Until the relay process asks no more.
    pub(super) switchboard: Option<&'a Switchboard>,
    /// Whether control was told that the command was stopped.
    pub(super) stopped: bool,
    pub(super) exit: Option<Exit>,
    pub(super) lingering: Vec<Lingering>,
    pub(super) kill_at: Option<Instant>,
}

impl Running<'_> {
    /// Until no process is left, or those left have had their grace.
    pub(super) fn supervise(&mut self) -> Result<Ended, Cut> {
        loop {
            let empty = self.reap().map_err(Failure::at("reap processes"))?;
            if let Some(exit) = self.exit {
                let over = self.kill_at.is_some_and(|at| at <= Instant::now());
                if empty || over {
                    // Nobody is to go on between the end of this process and theirs.
                    self.signal_all(Signal::KILL)
                        .map_err(Failure::at("end processes"))?;
                    let lingering = std::mem::take(&mut self.lingering);
                    return Ok(Ended { exit, lingering });
                }
                if !self.init.wait && self.lingering.is_empty() {
                    self.end_lingering().map_err(Failure::at("end processes"))?;
                }
            } else if self.kill_at.is_some_and(|at| at <= Instant::now()) {
                self.signal_all(Signal::KILL)
                    .map_err(Failure::at("end the command"))?;
                self.kill_at = None;
            }
            self.wait_for_event()?;
        }
    }

    /// Reaps all that have ended; true when no process is left. Every process of the domain is a
    /// descendant of this one, and orphans become its children, so no child means no process.
    fn reap(&mut self) -> io::Result<bool> {
        loop {
            match rustix::process::wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
                Ok(Some((pid, status))) if pid == self.command.pid() => {
                    match status.stopping_signal() {
                        Some(signal) => self.tell_stop(signal),
                        None => self.exit = Exit::of(status),
                    }
                }
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => return Ok(false),
                Err(Errno::CHILD) => return Ok(true),
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    fn tell_stop(&mut self, signal: i32) {
        self.stopped = true;
        // If control has died, its end is the next event.
        let _ = self.init.control.send(&Report::Stopped(signal));
    }

    fn end_lingering(&mut self) -> io::Result<()> {
        self.lingering = self.processes.living()?;
        if self.lingering.is_empty() {
            // All dead, though not all reaped: their end is an event to come.
            return Ok(());
        }
        self.signal_all(Signal::TERM)?;
        // A stopped process would sleep through its grace.
        self.signal_all(Signal::CONT)?;
        self.kill_at = Some(Instant::now() + GRACE);
        Ok(())
    }

    /// Signals every process of the domain but this one.
    fn signal_all(&self, signal: Signal) -> io::Result<()> {
        match rustix::process::kill_process_group(Pid::INIT, signal) {
            Err(Errno::SRCH) => Ok(()),
            result => Ok(result?),
        }
    }

    fn wait_for_event(&mut self) -> Result<(), Cut> {
        let rest = self
            .kill_at
            .map(|at| at.saturating_duration_since(Instant::now()));
        // Both are far below the limits of a Timespec.
        let timeout = rest.map(|rest| Timespec::try_from(rest).expect("a short wait"));
        let children = self.children.as_fd();
        // Without a switchboard the children are watched twice.
        let switchboard = self.switchboard.map_or(children, AsFd::as_fd);
        let mut events = vec![
            PollFd::new(&children, PollFlags::IN),
            PollFd::new(&self.init.control, PollFlags::IN),
            PollFd::new(&switchboard, PollFlags::IN),
        ];
        let outside = self.init.outside.iter();
        events.extend(outside.map(|role| PollFd::new(role, PollFlags::IN)));
        match rustix::event::poll(&mut events, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(Failure::at("wait for an event")(errno).into()),
        }
        let mut happened = events.iter().map(|event| !event.revents().is_empty());
        let [child, control, dialed] = [(); 3].map(|()| happened.next() == Some(true));
        let role_ended = happened.any(|ended| ended);
        if child {
            // Several ends may be one signal, so the signal only says to look.
            self.children
                .next()
                .map_err(Failure::at("watch processes"))?;
        }
        if role_ended {
            return Err(Cut::Orphaned);
        }
        if dialed && let Some(switchboard) = self.switchboard {
            let more = switchboard.serve();
            if !more.map_err(Failure::at("reach a published server"))? {
                self.switchboard = None;
            }
        }
        if control {
            self.obey()?;
        }
        Ok(())
    }

    fn obey(&mut self) -> Result<(), Cut> {
        let order = self
            .init
            .control
            .receive()
            .map_err(Failure::at("hear from control"))?;
        match order {
            Some(Order::Signal(number)) => match Signal::from_named_raw(number) {
                Some(signal) => self.pass_on(signal),
                None => Ok(()),
            },
            Some(Order::Continue { foreground }) => self.let_go_on(foreground),
            Some(Order::Flush) => {
                self.answer(flush().map_err(|errno| format!("flush the view: {errno}")))
            }
            Some(Order::Adopt) => {
                // Its link still tells of control's death.
                let adopted = rustix::process::set_parent_process_death_signal(None);
                self.answer(adopted.map_err(|errno| format!("leave the caller: {errno}")))
            }
            Some(Order::Go) | None => Err(Cut::Orphaned),
        }
    }

    fn answer(&self, done: Result<(), String>) -> Result<(), Cut> {
        let report = match done {
            Ok(()) => Report::Done,
            Err(error) => Report::NotDone(error),
        };
        let sent = self.init.control.send(&report);
        Ok(sent.map_err(Failure::at("tell control"))?)
    }

    fn pass_on(&mut self, signal: Signal) -> Result<(), Cut> {
        if self.exit.is_some() {
            self.signal_all(signal)
                .map_err(Failure::at("signal processes"))?;
        } else if self.init.job && is_for_group(signal) {
            self.signal_group(signal)
                .map_err(Failure::at("signal the command's group"))?;
        } else {
            self.command
                .signal(signal)
                .map_err(Failure::at("signal the command"))?;
        }
        if is_end(signal) {
            self.kill_at.get_or_insert(Instant::now() + GRACE);
        }
        Ok(())
    }

    /// Lets a command that was stopped go on, in the foreground of the domain's terminal or not.
    fn let_go_on(&mut self, foreground: bool) -> Result<(), Cut> {
        if self.exit.is_some() {
            return Ok(());
        }
        if let Some(terminal) = &self.terminal {
            let group = match foreground {
                true => self.command.pid(),
                false => Pid::INIT,
            };
            // Fails only for a group that has left the session.
            let _ = terminal.set_foreground(group.as_raw_pid());
        }
        if std::mem::take(&mut self.stopped) {
            let sent = match self.init.job {
                true => self.signal_group(Signal::CONT),
                false => self.command.signal(Signal::CONT),
            };
            sent.map_err(Failure::at("let the command go on"))?;
        }
        Ok(())
    }

    /// Signals the group that the command's process was made the leader of.
    fn signal_group(&self, signal: Signal) -> io::Result<()> {
        match rustix::process::kill_process_group(self.command.pid(), signal) {
            // It has moved to another group, as a shell's job may: it alone is meant then.
            Err(Errno::SRCH) => self.command.signal(signal),
            result => Ok(result?),
        }
    }
}

/// Has the kernel give the view all pages that were written through shared mappings.
fn flush() -> Result<(), Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::syncfs(rustix::fs::openat(CWD, "/", flags, Mode::empty())?)
}
