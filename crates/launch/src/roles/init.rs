//! pid 1 of a domain: mounts everything, starts the command, reaps, and ends what lingers.
//!
//! The kernel kills all processes of a domain when this one ends, so it ends whenever the domain
//! should: when the command has ended, and when control or the view has died.

mod running;

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::process::{DumpableBehavior, Signal};
use rustix::time::Timespec;
use surmise_kept::Link;
use surmise_linux::host_name;
use surmise_linux::id_map::IdMap;
use surmise_linux::network::{self, nameservers};
use surmise_stdio::{Inner, InnerTerminal, TerminalSetup};
use surmise_sys::process::{self, Child};
use surmise_sys::seccomp::Listener;
use surmise_sys::signals::{self, SavedMask, SignalFd};

use crate::capabilities;
use crate::command::{Execution, Hearing};
use crate::dial::Switchboard;
use crate::gate;
use crate::inside;
use crate::message::{Failure, Handed, Listened, Listening, Order, Report};
use crate::mounts;
use crate::native::Trees;
use crate::proc::Superuser;
use crate::processes::Processes;
use running::Running;

/// How long the command's process may take to make its listener before pid 1 looks again.
const LOOK_AGAIN: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000,
};

/// What pid 1 is given. It keeps these descriptors and no other.
pub(crate) struct Init<'a> {
    /// Control's end is closed when control dies.
    pub(crate) control: Link,
    pub(crate) root: Root,
    /// To the relay process: the domain's terminal.
    pub(crate) relay: Link,
    /// To the supervisor: the listener. From there: files to look at.
    pub(crate) supervisor: Option<Link>,
    /// The processes that the domain cannot do without, as pidfds: the view, the relay process
    /// and the supervisor.
    pub(crate) outside: Vec<OwnedFd>,
    /// What becomes the command's standard streams.
    pub(crate) streams: Inner,
    /// What the domain's terminal is like, if it has one.
    pub(crate) terminal: Option<TerminalSetup>,
    pub(crate) mount_point: &'a Path,
    pub(crate) id_map: &'a IdMap,
    /// What the gate of the domain's network shall be like, if it has one.
    pub(crate) gate: Option<InitGate>,
    /// Where the network has no gate: the nameservers that the relay process answers for.
    pub(crate) nameservers: Vec<SocketAddr>,
    /// Unix sockets and FIFOs outside that are reached inside, too.
    pub(crate) sockets: &'a [PathBuf],
    /// A directory outside that is itself inside, too.
    pub(crate) through: Option<&'a Path>,
    /// Directories of the host's that are themselves inside, read-only.
    pub(crate) native: &'a Trees,
    pub(crate) wait: bool,
    /// Whether the command leads a process group of its own, apart from that of pid 1, as a job of a
    /// shell does: only then can the terminal stop it. It may then not lead a session without a fork.
    pub(crate) job: bool,
    pub(crate) execution: Execution<'a>,
}

/// What the domain's root is.
pub(crate) enum Root {
    /// A view, which gets its device by this link, and then the domain's /proc.
    View(Link),
    /// What it is outside.
    Real,
}

/// What pid 1 and the process that makes the network are given for one with a gate.
pub(crate) struct InitGate {
    pub(crate) plan: gate::Plan,
    /// To the relay process: the open gate.
    pub(crate) relay: Link,
    pub(crate) switchboard: Switchboard,
}

impl InitGate {
    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let mut all = self.plan.descriptors();
        all.extend([self.relay.as_fd(), self.switchboard.as_fd()]);
        all
    }
}

/// Why pid 1 ends before the command has.
enum Cut {
    /// Control or the view has died: the other roles know by themselves.
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
        all.extend([&self.control, &self.relay].map(AsFd::as_fd));
        if let Root::View(device) = &self.root {
            all.push(device.as_fd());
        }
        all.extend(self.supervisor.iter().map(AsFd::as_fd));
        all.extend(self.outside.iter().map(AsFd::as_fd));
        all.extend(self.gate.iter().flat_map(InitGate::descriptors));
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
        // A process has the controlling terminal of its session only if it is made after the session
        // got it, so a command with a terminal is made later, and another process makes the network.
        let first = match self.terminal {
            None => self.fork(Part::NetworkAndCommand, &mask)?,
            Some(_) => self.fork(Part::Network, &mask)?,
        };
        self.build(&first)?;
        let (command, terminal) = match &self.terminal {
            None => (first, None),
            Some(setup) => {
                first.end().map_err(Failure::at("end a process"))?;
                let (command, terminal) = self.open_terminal(setup, &mask)?;
                (command, Some(terminal))
            }
        };
        surmise_stdio::let_go().map_err(Failure::at("let go of the caller's streams"))?;
        let processes = Processes::open().map_err(Failure::at("open /proc"))?;
        if let Root::View(view) = &self.root {
            // If the view has died, its end is the first event.
            let _ = view.send_descriptor(processes.as_fd());
        }
        self.control
            .send(&Report::Started)
            .map_err(Failure::at("tell control"))?;
        command.go();
        self.take_listener(&command, &processes)?;
        capabilities::confine().map_err(Failure::at("drop capabilities"))?;
        if let Some(supervisor) = &self.supervisor {
            inside::serve(supervisor.as_fd()).map_err(Failure::at("start a thread"))?;
        }
        Ok(Running {
            init: self,
            processes,
            children,
            command: command.process,
            terminal,
            switchboard: self.gate.as_ref().map(|gate| &gate.switchboard),
            stopped: false,
            exit: None,
            lingering: Vec::new(),
            kill_at: None,
        })
    }

    fn fork(&self, part: Part, mask: &SavedMask) -> Result<Prepared, Failure> {
        let (link, init) = Link::pair().map_err(Failure::at("make a socket pair"))?;
        let mut keep = self.streams.descriptors();
        keep.extend(self.execution.kept.descriptors());
        keep.extend([self.control.as_fd(), init.as_fd()]);
        if part != Part::Command {
            keep.extend(self.gate.iter().flat_map(InitGate::descriptors));
        }
        let process = process::fork(&keep, || self.live_as(part, &init, mask))
            .map_err(Failure::at("start the command's process"))?;
        if self.job && part != Part::Network {
            let group = Some(process.pid());
            rustix::process::setpgid(group, group).map_err(Failure::at("make a process group"))?;
        }
        Ok(Prepared { process, link })
    }

    /// Makes the domain's file systems, and joins the network that `first` makes.
    fn build(&self, first: &Prepared) -> Result<(), Cut> {
        mounts::make_private()?;
        await_go(&self.control)?;
        // This process keeps the rights to mount for as long as it starts the domain, and is a
        // copy of control: no process of the domain may look into it or use its descriptors.
        rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
            .map_err(Failure::at("shield pid 1"))?;
        self.mount_root()?;
        mounts::enter(
            self.mount_point,
            self.superuser(),
            self.native,
            (self.sockets, self.through),
        )?;
        await_go(&first.link)?;
        // What this process shows in /proc is of its own network.
        network::join(first.process.as_fd()).map_err(Failure::at("join the network"))?;
        self.serve_names();
        Ok(())
    }

    /// Gives the relay process what it takes to answer for nameservers, as far as it can be had: without it
    /// programs are told that there is no way to them.
    fn serve_names(&self) {
        for &address in &self.nameservers {
            if let Ok(socket) = nameservers::serve(address) {
                // If the relay process has died, its end is the first event.
                let _ = self.hand(&Handed::Nameserver, socket.as_fd());
            }
        }
    }

    fn mount_root(&self) -> Result<(), Failure> {
        let Root::View(link) = &self.root else {
            return mounts::mount_real(self.mount_point);
        };
        let set_uid = self.superuser() == Superuser::OfMachine;
        let device = mounts::mount_view(self.mount_point, set_uid)?;
        link.send_descriptor(device.as_fd())
            .map_err(Failure::at("hand over the FUSE device"))?;
        // A process that holds both the device and a file on its mount can hang in exit, so it is dropped here.
        Ok(())
    }

    fn superuser(&self) -> Superuser {
        match self.id_map.keeps_user(0) {
            true => Superuser::OfMachine,
            false => Superuser::OfDomain,
        }
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
        let command = self.fork(Part::Command, mask)?;
        if setup.foreground {
            terminal
                .set_foreground(command.process.pid().as_raw_pid())
                .map_err(Failure::at("put the command in the foreground"))?;
        }
        // If the relay process has died, its end is the first event.
        let _ = self.hand(&Handed::Terminal, outer.as_fd());
        Ok((command, terminal))
    }

    /// Gives the relay process a descriptor.
    fn hand(&self, what: &Handed, descriptor: BorrowedFd<'_>) -> io::Result<()> {
        self.relay.send(what)?;
        self.relay.send_descriptor(descriptor)
    }

    /// Takes the listener from the command's process, which waits for that, and gives it to who hears;
    /// nothing is to be done where nobody does, or where the process has failed, which its own report tells.
    ///
    /// Without a listener a call that is to be heard fails, and a program may take that for success: sync(2)
    /// has no errors. So a call must never find none while anybody is left who shows what comes after it.
    /// That is the relay process: it has a copy before the command begins. When who hears is killed, calls
    /// wait for the end of their domain, whoever notices first and in whatever order the others die.
    /// Where nobody else hears, the relay process does.
    fn take_listener(&self, command: &Prepared, processes: &Processes) -> Result<(), Failure> {
        if self.execution.hearing == Hearing::Nobody {
            return Ok(());
        }
        let failed = Failure::at("take the listener");
        let heard = command.link.receive();
        let Some(Listening { descriptor }) = heard.map_err(Failure::at("hear of the listener"))?
        else {
            return Ok(());
        };
        if let Some(listener) = command.listener(descriptor).map_err(failed)? {
            let network = processes.own_network();
            let listened = Listened {
                network: network.map_err(Failure::at("look at the network"))?,
            };
            // One each: what the kernel answers goes to the first reader.
            let diagnostics =
                || network::diagnostics().map_err(Failure::at("open a socket for sock_diag"));
            // If either has died, its end is the first event.
            if let Some(hearer) = &self.supervisor {
                let _ = hearer.send(&listened);
                let _ = hearer.send_descriptor(listener.as_fd());
                let _ = hearer.send_descriptor(diagnostics()?.as_fd());
            }
            let _ = self.hand(&Handed::Diagnostics, diagnostics()?.as_fd());
            let _ = self.hand(&Handed::Listener(listened), listener.as_fd());
            command.go();
        }
        Ok(())
    }

    /// The life of a process that this one makes, the command's until its exec; returns the exit status.
    fn live_as(&self, part: Part, init: &Link, mask: &SavedMask) -> u8 {
        let failure = match self.prepare(part, init) {
            Ok(()) if part == Part::Network => return 0,
            Ok(()) => self.execution.replace_process(mask, &self.streams, init),
            Err(Cut::Failed(failure)) => failure,
            Err(Cut::Orphaned) => return 1,
        };
        // Control learns of it from the report; this status only has to be no success.
        let _ = self.control.send(&Report::Failed(failure));
        1
    }

    fn prepare(&self, part: Part, init: &Link) -> Result<(), Cut> {
        if part != Part::Command {
            self.make_network()?;
            // If pid 1 has died, so will this process.
            let _ = init.send(&Order::Go);
        }
        await_go(init)?;
        // By now this process' numbers mean something in the domain's user namespace, and until its exec nobody is
        // there who could trace it.
        if part != Part::Network && self.superuser() == Superuser::OfMachine {
            host_name::enter_own().map_err(Failure::at("make a host name of its own"))?;
        }
        Ok(())
    }

    fn make_network(&self) -> Result<(), Failure> {
        network::enter_new().map_err(Failure::at("make a network of its own"))?;
        let addresses: Vec<_> = self.nameservers.iter().map(SocketAddr::ip).collect();
        nameservers::make_own(&addresses);
        if let Some(gate) = &self.gate {
            let open = gate.plan.set_up();
            let open = open.map_err(Failure::at("set up the network's gate"))?;
            // If the relay process has died, so will this one.
            let _ = gate::send(&gate.relay, &open);
        }
        Ok(())
    }
}

/// What a process that pid 1 makes is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// To make the domain's network.
    Network,
    /// To become the command.
    Command,
    /// Both.
    NetworkAndCommand,
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

    /// Its listener, which it is about to make; `None` if it ends first.
    fn listener(&self, descriptor: RawFd) -> io::Result<Option<Listener>> {
        loop {
            match Listener::of(self.process.as_fd(), descriptor) {
                Ok(None) if self.ends_within(LOOK_AGAIN)? => return Ok(None),
                Ok(None) => {}
                Err(error) if error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) => {
                    return Ok(None);
                }
                found => return found,
            }
        }
    }

    fn ends_within(&self, limit: Timespec) -> io::Result<bool> {
        let mut events = [PollFd::new(&self.process, PollFlags::IN)];
        match rustix::event::poll(&mut events, Some(&limit)) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::INTR) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
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
