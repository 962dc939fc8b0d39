//! The one event loop of a domain: it hears calls, tracees, the view, commits, readers, its master and time.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::process::Signal;
use rustix::time::Timespec;
use surmise_refusals::Observer;
use surmise_sys::ptrace::{self, News, Stop, Stopped};
use surmise_sys::seccomp::Listener;
use surmise_sys::signals::{self, SignalFd};

use crate::core::Core;
use crate::durability::{Durability, Durable};
use crate::error::{SupervisorError, fail};
use crate::machine::{Inside, Machine, task};
use crate::master::{Master, Wish};
use crate::objects::files::Files;
use crate::sources::Guessing;
use crate::stats::Stats;

/// What a domain's supervisor has to do. What is not there costs nothing: no call is heard for it.
#[derive(Debug, Default)]
pub struct Parts {
    /// Where guesses come from.
    pub guessing: Vec<Guessing>,
    /// The undo log of the domain's files, where tasks may be given guesses.
    pub files: Option<Box<dyn Files>>,
    /// A process that looks at files of the view. Without it, a task that depends on something undecided writes to no file.
    pub inside: Option<Box<dyn Inside>>,
    /// What orders durability.
    pub durability: Option<Box<dyn Durability>>,
    /// Answers calls that are refused; without it the filter does.
    pub observer: Option<Observer>,
    /// A socket for diagnostics of the domain's network namespace, by which the two sockets of a connection are found.
    pub diagnostics: Option<OwnedFd>,
    /// Whether no process of the domain reaches a Unix socket of one outside, but by descriptors that the command was given.
    pub sockets_stay_inside: bool,
}

/// The supervisor of a domain: hears each call that is an event, and answers it.
///
/// It has one thread, which is the tracer of all that is traced, and waits for nothing but the next
/// event.
#[derive(Debug)]
pub struct Supervisor {
    core: Core<Machine>,
    /// Tells that something has become of a tracee, where there may be tracees.
    tracees: Option<SignalFd>,
    /// Whether the master waits until nothing is undecided.
    is_settling: bool,
}

/// What was heard.
struct Heard {
    master: bool,
    tracees: bool,
    files: bool,
    commits: bool,
    inputs: bool,
    calls: PollFlags,
}

impl Supervisor {
    /// Begins to listen. The calling process must have no children of its own, and no other thread that takes
    /// `SIGCHLD`, if there are guesses.
    ///
    /// # Errors
    /// As for blocking signals.
    pub fn new(listener: Listener, parts: Parts) -> Result<Self, SupervisorError> {
        let guesses = !parts.guessing.is_empty();
        let tracees = guesses.then(|| {
            signals::block(&[Signal::CHILD]).and_then(|_| SignalFd::new(&[Signal::CHILD]))
        });
        let tracees = tracees.transpose().map_err(fail("watch tracees"))?;
        let asked = (parts.observer, parts.diagnostics);
        let machine = Machine::new(listener, asked, guesses)
            .looking_by(parts.inside)
            .meeting_outside_unless(parts.sockets_stay_inside);
        let sources = parts.guessing.iter().map(Guessing::source).collect();
        let durable = parts.durability.map(Durable::new);
        Ok(Self {
            core: Core::new(machine, parts.files, sources, durable),
            tracees,
            is_settling: false,
        })
    }

    /// Answers calls until the master wishes the end, and then makes durable what was promised.
    ///
    /// # Errors
    /// When an event could not be heard or answered, or a process could not be restored, or a commit has failed.
    pub fn run(&mut self, master: &dyn Master) -> Result<(), SupervisorError> {
        while !self.step(master)? {}
        while self.core.leaving().is_some() {
            self.wait_for_reader()?;
            self.core.woken()?;
        }
        match self.core.durable() {
            Some(durable) => durable.durability().end().map_err(fail(COMMIT)),
            None => Ok(()),
        }
    }

    /// What was done so far.
    pub fn into_stats(self) -> Stats {
        self.core.into_stats()
    }

    /// Waits for the next events and deals with them; true when that was the end.
    fn step(&mut self, master: &dyn Master) -> Result<bool, SupervisorError> {
        let heard = self.wait(master)?;
        if heard.master {
            match master.wish().map_err(fail("hear from control"))? {
                Wish::End => return Ok(true),
                Wish::GoOn => {
                    self.is_settling = false;
                    self.core.resumed();
                    self.core.world.go_on().map_err(fail("trace tasks"))?;
                }
                Wish::Settle => {
                    self.is_settling = true;
                    self.core.settle()?;
                }
            }
        }
        if heard.commits
            && let Some(durable) = self.core.durable()
        {
            if !durable.durability().hear().map_err(fail(COMMIT))? {
                return Ok(true);
            }
            self.core.committed()?;
        }
        if heard.tracees {
            self.hear_tracees()?;
        }
        if heard.files {
            self.core.asked()?;
        }
        if heard.inputs {
            self.core.arrived()?;
        }
        // A thread that is new calls only after its birth was heard of here.
        let call = self.core.world.door().next(heard.calls);
        match call.map_err(fail("hear of a call"))? {
            Some(call) => self.core.called(call)?,
            None => self.core.woken()?,
        }
        let is_settled = self.is_settling && self.core.is_settled();
        if is_settled && self.core.world.rest().map_err(fail("let tracees go"))? {
            self.is_settling = false;
            // If control has died, that is the next event.
            let _ = master.settled();
        }
        Ok(false)
    }

    fn wait(&self, master: &dyn Master) -> Result<Heard, SupervisorError> {
        let master = master.as_fd();
        let watched = [
            (Some(master), PollFlags::IN),
            (self.tracees.as_ref().map(AsFd::as_fd), PollFlags::IN),
            (self.core.files(), PollFlags::IN),
            (self.core.commits(), PollFlags::IN),
            // When the last task has ended, the listener would tell of that for ever.
            (self.core.world.listener(), PollFlags::IN),
            (self.core.leaving().map(AsFd::as_fd), PollFlags::OUT),
        ];
        // Each descriptor costs every call a little, so only those are polled that are there.
        let mut events = Vec::with_capacity(watched.len());
        let places = watched.map(|(source, wanted)| {
            events.push(PollFd::from_borrowed_fd(source?, wanted));
            Some(events.len() - 1)
        });
        let inputs = events.len();
        let sleepers = self.core.inputs();
        events.extend(sleepers.map(|input| PollFd::from_borrowed_fd(input, PollFlags::IN)));
        let due = self.core.next_due();
        let rest = due.map(|due| due.saturating_duration_since(Instant::now()));
        let rest = rest.map(|rest| Timespec::try_from(rest).expect("a short time"));
        match rustix::event::poll(&mut events, rest.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(fail("wait for an event")(errno)),
        }
        let none = PollFlags::empty();
        let told = places.map(|place| place.map_or(none, |place| events[place].revents()));
        let [master, tracees, files, commits, calls, _] = told;
        Ok(Heard {
            master: !master.is_empty(),
            tracees: !tracees.is_empty(),
            files: !files.is_empty(),
            commits: !commits.is_empty(),
            inputs: events[inputs..]
                .iter()
                .any(|event| !event.revents().is_empty()),
            calls,
        })
    }

    /// The domain has ended, and a reader still has to take what its tasks have written.
    fn wait_for_reader(&self) -> Result<(), SupervisorError> {
        let Some(leaving) = self.core.leaving() else {
            return Ok(());
        };
        let mut events = [PollFd::new(leaving, PollFlags::OUT)];
        match rustix::event::poll(&mut events, None) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(fail("wait for a reader")(errno)),
        }
    }

    fn hear_tracees(&mut self) -> Result<(), SupervisorError> {
        if let Some(tracees) = &self.tracees {
            tracees.next().map_err(fail("watch tracees"))?;
        }
        while let Some(news) = ptrace::poll_any().map_err(fail("hear of a tracee"))? {
            match news {
                News::Ended(thread) => {
                    self.core.world.forget(thread);
                    self.core.ended(thread)?;
                }
                News::Stopped(stopped, stop) => self.stopped(stopped, stop)?,
            }
        }
        Ok(())
    }

    fn stopped(&mut self, stopped: Stopped, stop: Stop) -> Result<(), SupervisorError> {
        let thread = stopped.thread();
        if self.core.is_vessel(thread) {
            // It stays so for all its life.
            return Ok(());
        }
        // One that may come to be again what it was may have its handlers again.
        if stop == Stop::Exec && !self.core.may_undo_execution(thread) {
            self.core.world.executed(thread);
        }
        let gone_on = match (stop, self.core.member_of_tracee(thread)?) {
            (Stop::Signal(_), _) => return self.core.signalled(thread, stopped),
            (Stop::Group(_), Some(_)) => stopped.stay_stopped(),
            (Stop::Group(_), None) => self.core.world.leave_stopped(stopped),
            (Stop::Interrupt | Stop::Exec, None) => self.core.world.let_go(stopped),
            _ => stopped.go_on(),
        };
        match gone_on {
            Err(error) if !task::is_gone(&error) => Err(fail("let a tracee go on")(error)),
            _ => Ok(()),
        }
    }
}

/// What a commit is for, in an error's words.
const COMMIT: &str = "make durable what was promised";
