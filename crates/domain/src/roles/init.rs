//! pid 1 of a domain: mounts everything, starts the command, reaps, and ends what lingers.
//!
//! The kernel kills all processes of a domain when this one ends, so it ends whenever the domain
//! should: when the command has ended, and when control or the view has died.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::process::{DumpableBehavior, Pid, Signal, WaitOptions};
use rustix::time::Timespec;
use surmise_channels::{Inner, InnerTerminal, TerminalSetup};
use surmise_sys::process::{self, Child};
use surmise_sys::signals::{self, SavedMask, SignalFd};
use surmise_sys::{id_map::IdMap, network};

use crate::capabilities;
use crate::command::Execution;
use crate::exit::Exit;
use crate::launch::{Lingering, NetPolicy};
use crate::message::{Ended, Failure, Link, Order, Report};
use crate::mounts;
use crate::processes::Processes;
use crate::signals::{is_end, is_for_group};

/// How long processes have between being asked to end and being killed.
const GRACE: Duration = Duration::from_secs(2);

/// What pid 1 is given. It keeps these descriptors and no other.
pub(crate) struct Init<'a> {
    /// Control's end is closed when control dies.
    pub(crate) control: Link,
    /// To the view: the device.
    pub(crate) device: Link,
    /// To the relay process: the domain's terminal.
    pub(crate) relay: Link,
    /// The processes that the domain cannot do without, as pidfds: the view and the relay process.
    pub(crate) outside: [OwnedFd; 2],
    /// What becomes the command's standard streams.
    pub(crate) streams: Inner,
    /// What the domain's terminal is like, if it has one.
    pub(crate) terminal: Option<TerminalSetup>,
    pub(crate) mount_point: &'a Path,
    pub(crate) id_map: &'a IdMap,
    pub(crate) net: NetPolicy,
    pub(crate) wait: bool,
    /// Whether the command leads a process group of its own, apart from that of pid 1, as a job of a
    /// shell does: only then can the terminal stop it. It may then not lead a session without a fork.
    pub(crate) job: bool,
    pub(crate) execution: Execution<'a>,
}

/// Why pid 1 ends before the command has.
enum Cut {
    /// Control or the view has died: whoever is left knows by itself.
    Orphaned,
    Failed(Failure),
}

impl From<Failure> for Cut {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl Init<'_> {
    pub(crate) fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let mut all = self.streams.descriptors();
        all.extend(self.execution.kept.descriptors());
        all.extend([&self.control, &self.device, &self.relay].map(AsFd::as_fd));
        all.extend(self.outside.iter().map(AsFd::as_fd));
        all
    }

    /// The process' whole life; returns its exit status.
    pub(crate) fn live(self) -> u8 {
        let report = match self.start().and_then(|mut domain| domain.supervise()) {
            Ok(ended) => Report::Ended(ended),
            Err(Cut::Failed(failure)) => Report::Failed(failure),
            Err(Cut::Orphaned) => return 1,
        };
        // If control is dead by now, nobody wants to know.
        u8::from(self.control.send(&report).is_err())
    }

    fn start(&self) -> Result<Running<'_>, Cut> {
        rustix::thread::set_name(c"surmise-init").map_err(Failure::at("name pid 1"))?;
        // Away from the caller's terminal and group: what is sent to a group inside stays inside.
        rustix::process::setsid().map_err(Failure::at("make a session"))?;
        // Quicker than seeing the link close, and also while this process waits in a mount.
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
            .map_err(Failure::at("watch control"))?;
        // TTOU: this process is in the background of its own terminal, and sets who is not.
        let blocked = [Signal::CHILD, Signal::TTOU];
        let (mask, children) = signals::block(&blocked)
            .and_then(|mask| Ok((mask, SignalFd::new(&blocked[..1])?)))
            .map_err(Failure::at("watch processes"))?;
        // Before the mounts, so that both make their part of the domain at the same time.
        let first = self.first_part();
        let first = first.map(|part| self.fork(part, &mask)).transpose()?;
        self.build(first.as_ref())?;
        let (command, terminal) = match (&self.terminal, first) {
            (None, Some(command)) => (command, None),
            (None, None) => (self.fork(Part::Command { network: false }, &mask)?, None),
            (Some(setup), network) => {
                if let Some(network) = network {
                    network.end().map_err(Failure::at("end a process"))?;
                }
                let (command, terminal) = self.open_terminal(setup, &mask)?;
                (command, Some(terminal))
            }
        };
        surmise_channels::let_go().map_err(Failure::at("let go of the caller's streams"))?;
        let processes = Processes::open().map_err(Failure::at("open /proc"))?;
        self.control
            .send(&Report::Started)
            .map_err(Failure::at("tell control"))?;
        command.go();
        capabilities::confine().map_err(Failure::at("drop capabilities"))?;
        Ok(Running {
            init: self,
            processes,
            children,
            command: command.process,
            terminal,
            stopped: false,
            exit: None,
            lingering: Vec::new(),
            kill_at: None,
        })
    }

    /// What a process of its own does while this one mounts. A process has the controlling terminal of
    /// its session only if it is made after the session got it, so a command with a terminal is made
    /// later.
    fn first_part(&self) -> Option<Part> {
        let network = self.net == NetPolicy::Deny;
        match self.terminal {
            None => Some(Part::Command { network }),
            Some(_) => network.then_some(Part::Network),
        }
    }

    fn fork(&self, part: Part, mask: &SavedMask) -> Result<Prepared, Failure> {
        let (link, init) = Link::pair().map_err(Failure::at("make a socket pair"))?;
        let mut keep = self.streams.descriptors();
        keep.extend(self.execution.kept.descriptors());
        keep.extend([self.control.as_fd(), init.as_fd()]);
        let process = process::fork(&keep, || self.live_as(part, &init, mask))
            .map_err(Failure::at("start the command's process"))?;
        if self.job && part != Part::Network {
            let group = Some(process.pid());
            rustix::process::setpgid(group, group).map_err(Failure::at("make a process group"))?;
        }
        Ok(Prepared { process, link })
    }

    /// Makes the domain's file systems, and joins the network that `first` makes.
    fn build(&self, first: Option<&Prepared>) -> Result<(), Cut> {
        mounts::make_private()?;
        await_go(&self.control)?;
        // This process keeps the rights to mount for as long as it starts the domain, and is a
        // copy of control: no process of the domain may look into it or use its descriptors.
        rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
            .map_err(Failure::at("shield pid 1"))?;
        let set_uid = self.id_map.keeps_user(0);
        let device = mounts::mount_view(self.mount_point, set_uid)?;
        self.device
            .send_descriptor(device.as_fd())
            .map_err(Failure::at("hand over the FUSE device"))?;
        // Whoever holds both the device and a file on its mount can hang in exit.
        drop(device);
        mounts::enter_view(self.mount_point)?;
        if let Some(first) = first.filter(|_| self.net == NetPolicy::Deny) {
            await_go(&first.link)?;
            // What this process shows in /proc is of its own network.
            network::join(first.process.as_fd()).map_err(Failure::at("join the network"))?;
        }
        Ok(())
    }

    /// Opens the domain's terminal, hands its outer side to the relay process, and makes the command's
    /// process.
    fn open_terminal(
        &self,
        setup: &TerminalSetup,
        mask: &SavedMask,
    ) -> Result<(Prepared, InnerTerminal), Failure> {
        let (terminal, outer) =
            InnerTerminal::open(setup).map_err(Failure::at("open the domain's terminal"))?;
        let command = self.fork(Part::Command { network: false }, mask)?;
        if setup.foreground {
            terminal
                .set_foreground(command.process.pid().as_raw_pid())
                .map_err(Failure::at("put the command in the foreground"))?;
        }
        // If the relay process has died, its end is the first event.
        let _ = self.relay.send_descriptor(outer.as_fd());
        Ok((command, terminal))
    }

    /// The life of a process that this one makes, the command's until its exec; returns the exit status.
    fn live_as(&self, part: Part, init: &Link, mask: &SavedMask) -> u8 {
        let failure = match self.prepare(part, init) {
            Ok(()) if part == Part::Network => return 0,
            Ok(()) => self.execution.replace_process(mask, &self.streams),
            Err(Cut::Failed(failure)) => failure,
            Err(Cut::Orphaned) => return 1,
        };
        // Control learns of it from the report; this status only has to be no success.
        let _ = self.control.send(&Report::Failed(failure));
        1
    }

    fn prepare(&self, part: Part, init: &Link) -> Result<(), Cut> {
        if matches!(part, Part::Network | Part::Command { network: true }) {
            network::enter_new().map_err(Failure::at("make a network of its own"))?;
            // If pid 1 has died, so will this process.
            let _ = init.send(&Order::Go);
        }
        await_go(init)
    }
}

/// What a process that pid 1 makes is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// To make the domain's network.
    Network,
    /// To become the command, and perhaps to make the network before.
    Command { network: bool },
}

/// A process that waits for its word to go on.
struct Prepared {
    process: Child,
    link: Link,
}

impl Prepared {
    fn go(&self) {
        // If it has died, its end is the first event.
        let _ = self.link.send(&Order::Go);
    }

    fn end(&self) -> io::Result<()> {
        self.go();
        self.process.wait()?;
        Ok(())
    }
}

/// Waits for the other end to say that it is ready.
fn await_go(other: &Link) -> Result<(), Cut> {
    match other
        .receive()
        .map_err(Failure::at("hear from another process"))?
    {
        Some(Order::Go) => Ok(()),
        Some(_) | None => Err(Cut::Orphaned),
    }
}

/// A domain whose command was started.
struct Running<'a> {
    init: &'a Init<'a>,
    processes: Processes,
    children: SignalFd,
    command: Child,
    terminal: Option<InnerTerminal>,
    /// Whether control was told that the command was stopped.
    stopped: bool,
    exit: Option<Exit>,
    lingering: Vec<Lingering>,
    kill_at: Option<Instant>,
}

impl Running<'_> {
    /// Until no process is left, or those left have had their grace.
    fn supervise(&mut self) -> Result<Ended, Cut> {
        loop {
            let empty = self.reap().map_err(Failure::at("reap processes"))?;
            if let Some(exit) = self.exit {
                let over = self.kill_at.is_some_and(|at| at <= Instant::now());
                if empty || over {
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
        let [view, relay] = &self.init.outside;
        let mut events = [
            PollFd::new(&self.children, PollFlags::IN),
            PollFd::new(&self.init.control, PollFlags::IN),
            PollFd::new(view, PollFlags::IN),
            PollFd::new(relay, PollFlags::IN),
        ];
        match rustix::event::poll(&mut events, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(Failure::at("wait for an event")(errno).into()),
        }
        let [child, control, view, relay] = events.map(|event| !event.revents().is_empty());
        if child {
            // Several ends may be one signal, so the signal only says to look.
            self.children
                .next()
                .map_err(Failure::at("watch processes"))?;
        }
        if view || relay {
            return Err(Cut::Orphaned);
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
            Some(Order::Go) | None => Err(Cut::Orphaned),
        }
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
