//! pid 1 of a domain: mounts everything, starts the command, reaps, and ends what lingers.
//!
//! The kernel kills all processes of a domain when this one ends, so it ends whenever the domain
//! should: when the command has ended, and when control or the view has died.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{DumpableBehavior, Pid, Signal, WaitOptions};
use rustix::time::Timespec;
use surmise_channels::{Inner, InnerTerminal, TerminalSetup};
use surmise_sys::process::{self, Child};
use surmise_sys::signals::{self, SavedMask, SignalFd};
use surmise_sys::{id_map::IdMap, network};

use crate::capabilities;
use crate::command::Execution;
use crate::dial::Switchboard;
use crate::exit::Exit;
use crate::gate;
use crate::launch::Lingering;
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
    /// What the gate of the domain's network shall be like, if it has one.
    pub(crate) gate: Option<InitGate>,
    /// Unix sockets and FIFOs outside that are reached inside, too.
    pub(crate) sockets: &'a [PathBuf],
    pub(crate) wait: bool,
    /// Whether the command leads a process group of its own, apart from that of pid 1, as a job of a
    /// shell does: only then can the terminal stop it. It may then not lead a session without a fork.
    pub(crate) job: bool,
    pub(crate) execution: Execution<'a>,
}

/// What pid 1 and the command's process are given for a network with a gate.
pub(crate) struct InitGate {
    pub(crate) plan: gate::Plan,
    /// To the relay process: the open gate.
    pub(crate) relay: Link,
    pub(crate) switchboard: Switchboard,
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
        if let Some(gate) = &self.gate {
            all.extend(gate.plan.descriptors());
            all.extend([gate.relay.as_fd(), gate.switchboard.as_fd()]);
        }
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
        let (to_command, from_init) = Link::pair().map_err(Failure::at("make a socket pair"))?;
        let mut keep = self.streams.descriptors();
        keep.extend(self.execution.kept.descriptors());
        keep.extend([self.control.as_fd(), from_init.as_fd()]);
        if let Some(gate) = &self.gate {
            keep.extend(gate.plan.descriptors());
            keep.push(gate.relay.as_fd());
        }
        let command = process::fork(&keep, || self.become_command(&from_init, &mask))
            .map_err(Failure::at("start the command's process"))?;
        drop(from_init);
        if self.job {
            let group = Some(command.pid());
            rustix::process::setpgid(group, group).map_err(Failure::at("make a process group"))?;
        }
        surmise_channels::let_go().map_err(Failure::at("let go of the caller's streams"))?;
        let terminal = self.build(&command, &to_command)?;
        let processes = Processes::open().map_err(Failure::at("open /proc"))?;
        self.control
            .send(&Report::Started)
            .map_err(Failure::at("tell control"))?;
        // If it has died, its end is the first event.
        let _ = to_command.send(&Order::Go);
        capabilities::confine().map_err(Failure::at("drop capabilities"))?;
        Ok(Running {
            init: self,
            processes,
            children,
            command,
            terminal,
            switchboard: self.gate.as_ref().map(|gate| &gate.switchboard),
            stopped: false,
            exit: None,
            lingering: Vec::new(),
            kill_at: None,
        })
    }

    /// Makes the domain's file systems, and joins the network that the command's process makes.
    fn build(&self, command: &Child, to_command: &Link) -> Result<Option<InnerTerminal>, Cut> {
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
        mounts::enter_view(self.mount_point, self.sockets)?;
        let terminal = self.open_terminal(command)?;
        await_go(to_command)?;
        // What this process shows in /proc is of its own network.
        network::join(command.as_fd()).map_err(Failure::at("join the network"))?;
        Ok(terminal)
    }

    /// Opens the domain's terminal and hands its outer side to the relay process.
    fn open_terminal(&self, command: &Child) -> Result<Option<InnerTerminal>, Failure> {
        let Some(setup) = &self.terminal else {
            return Ok(None);
        };
        let (terminal, outer) =
            InnerTerminal::open(setup).map_err(Failure::at("open the domain's terminal"))?;
        if setup.foreground {
            terminal
                .set_foreground(command.pid().as_raw_pid())
                .map_err(Failure::at("put the command in the foreground"))?;
        }
        // If the relay process has died, its end is the first event.
        let _ = self.relay.send_descriptor(outer.as_fd());
        Ok(Some(terminal))
    }

    /// The command's process until its exec; returns the exit status if that fails.
    fn become_command(&self, init: &Link, mask: &SavedMask) -> u8 {
        let failure = match self.prepare_network(init) {
            Ok(()) => self.execution.replace_process(mask, &self.streams),
            Err(Cut::Failed(failure)) => failure,
            Err(Cut::Orphaned) => return 1,
        };
        // Control learns of it from the report; this status only has to be no success.
        let _ = self.control.send(&Report::Failed(failure));
        1
    }

    fn prepare_network(&self, init: &Link) -> Result<(), Cut> {
        network::enter_new().map_err(Failure::at("make a network of its own"))?;
        if let Some(gate) = &self.gate {
            let open = gate
                .plan
                .set_up()
                .map_err(Failure::at("set up the network's gate"))?;
            // If the relay process has died, so will this one.
            let _ = gate::send(&gate.relay, &open);
        }
        // If pid 1 has died, so will this process.
        let _ = init.send(&Order::Go);
        await_go(init)
    }
}

/// Has the kernel give the view all pages that were written through shared mappings.
fn flush() -> Result<(), Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::syncfs(rustix::fs::openat(CWD, "/", flags, Mode::empty())?)
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
    /// Until the relay process asks no more.
    switchboard: Option<&'a Switchboard>,
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
        // Whoever has no switchboard watches its children twice.
        let children = self.children.as_fd();
        let switchboard = self.switchboard.map_or(children, AsFd::as_fd);
        let mut events = [
            PollFd::new(&self.children, PollFlags::IN),
            PollFd::new(&self.init.control, PollFlags::IN),
            PollFd::new(view, PollFlags::IN),
            PollFd::new(relay, PollFlags::IN),
            PollFd::new(&switchboard, PollFlags::IN),
        ];
        match rustix::event::poll(&mut events, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(Failure::at("wait for an event")(errno).into()),
        }
        let [child, control, view, relay, dialed] =
            events.map(|event| !event.revents().is_empty());
        if child {
            // Several ends may be one signal, so the signal only says to look.
            self.children
                .next()
                .map_err(Failure::at("watch processes"))?;
        }
        if view || relay {
            return Err(Cut::Orphaned);
        }
        if dialed && let Some(switchboard) = self.switchboard {
            let more = switchboard
                .serve()
                .map_err(Failure::at("reach a published server"))?;
            if !more {
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
                let flushed = flush().map_err(|errno| format!("flush the view: {errno}"));
                self.answer(flushed)
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
