//! The event loop of a domain's speculation.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use rustix::time::Timespec;
use surmise_checkpoint::is_vessel;
use surmise_engine::{ChannelId, Engine, EngineError, Kinds};
use surmise_refusals::Observer;
use surmise_sys::ptrace::{self, News, Stop, Stopped};
use surmise_sys::seccomp::{Answer, Listener, Notification};
use surmise_sys::signals::{self, SignalFd};
use surmise_syscalls::row_numbered;

use crate::changing::Marks;
use crate::channels::Channels;
use crate::deciding::Occasion;
use crate::door::{Door, pending};
use crate::files::Files;
use crate::input::{Inputs, Readers};
use crate::member::Member;
use crate::obstacles::Seen;
use crate::options::Options;
use crate::outbox::Outbox;
use crate::reapers::Reapers;
use crate::records::Records;
use crate::stats::Stats;
use crate::task;
use crate::torture::Torture;

/// Why a speculator could not go on. Its tasks wait, so the domain has to end.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {source}")]
pub struct SpeculatorError {
    /// What was tried.
    pub what: &'static str,
    /// Why it failed.
    pub source: io::Error,
}

/// What a speculator is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// To decide all that is undecided, and to say so ([`Master::settled`]): somebody is about to stop all
    /// tasks, which nobody may trace then.
    Settle,
    /// To end.
    End,
}

/// Whoever a speculator works for; its descriptor is readable when there is a wish.
pub trait Master: AsFd {
    /// The wish.
    ///
    /// # Errors
    /// As for reading.
    fn wish(&self) -> io::Result<Wish>;

    /// Nothing is undecided, and will not be for a second or more.
    ///
    /// # Errors
    /// As for writing.
    fn settled(&self) -> io::Result<()>;
}

/// All held output is one channel: what the command writes to its streams stays in order.
pub(crate) const STREAMS: ChannelId = ChannelId(1);

/// The supervisor of a domain's speculation: hears each call that is an event, and answers it.
///
/// It has one thread, which is the tracer of all that is traced, and waits for nothing but the next
/// event; save that it waits for a reader of output that was held.
#[derive(Debug)]
pub struct Speculator {
    pub(crate) door: Door,
    /// Tells that something has become of a tracee.
    tracees: SignalFd,
    pub(crate) engine: Engine,
    /// The processes that depend on something undecided.
    pub(crate) members: HashMap<Pid, Member>,
    /// The command's streams, once its process was met.
    pub(crate) channels: Option<Channels>,
    pub(crate) outbox: Outbox,
    pub(crate) records: Records,
    pub(crate) inputs: Inputs,
    pub(crate) readers: Readers,
    pub(crate) files: Box<dyn Files>,
    pub(crate) marks: Marks,
    pub(crate) torture: Option<Torture>,
    pub(crate) seen: Seen,
    /// How many checkpoints there have been.
    pub(crate) checkpoints: u64,
    pub(crate) stats: Stats,
    /// Who counts what is refused, if that is to be told.
    observer: Option<Observer>,
}

impl Speculator {
    /// Begins to listen. The calling process must have one thread, and no children of its own. `observer`:
    /// answers calls that are refused; without it the filter does.
    ///
    /// # Errors
    /// As for blocking signals.
    pub fn new(
        listener: Listener,
        files: Box<dyn Files>,
        options: &Options,
        observer: Option<Observer>,
    ) -> Result<Self, SpeculatorError> {
        let tracees = signals::block(&[Signal::CHILD])
            .and_then(|_| SignalFd::new(&[Signal::CHILD]))
            .map_err(fail("watch tracees"))?;
        let mut engine = Engine::new();
        let opened = engine.open(STREAMS, Kinds::ALL_BUT_CONSENT);
        opened.map_err(refused("open a channel"))?;
        Ok(Self {
            door: Door::new(listener),
            tracees,
            engine,
            members: HashMap::new(),
            channels: None,
            outbox: Outbox::default(),
            records: Records::default(),
            inputs: Inputs::default(),
            readers: Readers::default(),
            files,
            marks: Marks::default(),
            torture: options.torture.as_ref().map(Torture::new),
            seen: Seen::default(),
            checkpoints: 0,
            stats: Stats::default(),
            observer,
        })
    }

    /// Answers calls until the master wishes the end.
    ///
    /// # Errors
    /// When an event could not be heard or answered, or a process could not be restored.
    pub fn run(&mut self, master: &dyn Master) -> Result<(), SpeculatorError> {
        while !self.step(master)? {}
        Ok(())
    }

    /// What was done so far.
    pub fn into_stats(self) -> Stats {
        self.stats
    }

    /// Waits for the next events and deals with them; true when that was the end.
    fn step(&mut self, master: &dyn Master) -> Result<bool, SpeculatorError> {
        let [wished, tracee, asked, called] = self.wait(master)?;
        if !wished.is_empty() {
            match master.wish().map_err(fail("hear from control"))? {
                Wish::End => return Ok(true),
                Wish::Settle => self.settle_all(master)?,
            }
        }
        if !tracee.is_empty() {
            self.tracees.next().map_err(fail("watch tracees"))?;
            self.hear_tracees()?;
        }
        if !asked.is_empty() {
            self.decide_for_files()?;
        }
        // A thread that is new calls only after its birth was heard of here.
        if let Some(call) = self.door.next(called).map_err(fail("hear of a call"))? {
            self.called(&call)?;
        }
        self.decide_due(&mut Occasion::default())?;
        Ok(false)
    }

    fn wait(&self, master: &dyn Master) -> Result<[PollFlags; 4], SpeculatorError> {
        let tracees = self.tracees.as_fd();
        // When the last task has ended, the listener would tell of that for ever.
        let listener = self.door.source().unwrap_or(tracees);
        let files = self.files.as_fd();
        let mut events = [master.as_fd(), tracees, files, listener].map(|source| {
            let source: BorrowedFd<'_> = source;
            PollFd::from_borrowed_fd(source, PollFlags::IN)
        });
        let patience = match self.door.has_backlog() {
            true => Some(Timespec::default()),
            false => self
                .torture
                .as_ref()
                .and_then(Torture::patience)
                .map(|patience| Timespec::try_from(patience).expect("a short time")),
        };
        match rustix::event::poll(&mut events, patience.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(fail("wait for an event")(errno)),
        }
        let mut told = events.map(|event| event.revents());
        if self.door.source().is_none() {
            told[3] = PollFlags::empty();
        }
        Ok(told)
    }

    /// Decides everything, and guesses nothing for a moment.
    fn settle_all(&mut self, master: &dyn Master) -> Result<(), SpeculatorError> {
        self.decide_all_members(&mut Occasion::default())?;
        if let Some(torture) = &mut self.torture {
            torture.rest();
        }
        // If control has died, that is the next event.
        let _ = master.settled();
        Ok(())
    }

    fn decide_all_members(&mut self, occasion: &mut Occasion) -> Result<(), SpeculatorError> {
        for process in self.members.keys().copied().collect::<Vec<_>>() {
            self.decide_all(process, occasion)?;
        }
        Ok(())
    }

    /// A thread waits in a call.
    fn called(&mut self, call: &Notification) -> Result<(), SpeculatorError> {
        // The filter tells of no call without a row.
        let name = row_numbered(call.number).map_or("unknown", |row| row.name().as_str());
        self.stats.call(name).events += 1;
        if self.channels.is_none() {
            let found = Channels::of(call.thread).map_err(fail("look at the command's streams"))?;
            self.channels = Some(found);
            let begun = self.seen.begin(call.thread);
            begun.map_err(fail("look at the command's filters"))?;
        }
        self.seen.look(name, &call.arguments);
        self.readers
            .heard(call.thread, (call.number, name), &call.arguments);
        let torture = self.torture.as_mut();
        let is_chosen = torture.is_some_and(|torture| torture.event(call.thread));
        let mut occasion = Occasion::of_call(pending(call));
        self.decide_due(&mut occasion)?;
        self.make_way(call, name, &mut occasion)?;
        self.decide_for_others(call, &mut occasion)?;
        if Reapers::are_made_by(name, &call.arguments) {
            self.decide_all_members(&mut occasion)?;
        }
        if occasion.call.is_none() {
            // Its process was stopped on the way: it makes the call again.
            return Ok(());
        }
        if is_chosen && self.guess(call, name)? {
            return Ok(());
        }
        match self.member_of(call.thread) {
            Some(process) => self.tracked(process, call, &mut occasion),
            None => self.let_pass(call),
        }
    }

    pub(crate) fn let_pass(&mut self, call: &Notification) -> Result<(), SpeculatorError> {
        let name = row_numbered(call.number).map_or("unknown", |row| row.name().as_str());
        let noted = self.seen.note(call.thread, name, &call.arguments);
        noted.map_err(fail("look at a call"))?;
        // Nothing is undecided that this rests on, or nothing is refused here: what is counted has happened.
        let answer = match &self.observer {
            Some(observer) => observer.answer(call),
            None => Answer::Continue,
        };
        // One that has gone needs no answer.
        let answered = self.door.respond(pending(call), answer);
        answered.map(drop).map_err(fail("answer a call"))
    }

    /// The process of a thread, if it depends on something undecided.
    pub(crate) fn member_of(&self, thread: Pid) -> Option<Pid> {
        if self.members.contains_key(&thread) {
            return Some(thread);
        }
        let mut members = self.members.iter();
        members
            .find(|(_, member)| member.process.traces(thread))
            .map(|(&process, _)| process)
    }

    /// The process of a tracee, if it depends on something undecided. One that was born by a thread of such
    /// a process is one of its threads from the start, for it was born a tracee.
    fn member_of_tracee(&mut self, thread: Pid) -> Result<Option<Pid>, SpeculatorError> {
        if let Some(process) = self.member_of(thread) {
            return Ok(Some(process));
        }
        let process = task::process_of(thread).map_err(fail("look at a task"))?;
        let member = process.and_then(|process| self.members.get_mut(&process));
        Ok(member.map(|member| {
            member.process.born(thread);
            member.process.pid()
        }))
    }

    fn hear_tracees(&mut self) -> Result<(), SpeculatorError> {
        while let Some(news) = ptrace::poll_any().map_err(fail("hear of a tracee"))? {
            match news {
                News::Ended(thread) => self.ended(thread)?,
                News::Stopped(stopped, stop) => self.stopped(stopped, stop)?,
            }
        }
        Ok(())
    }

    fn stopped(&mut self, stopped: Stopped, stop: Stop) -> Result<(), SpeculatorError> {
        let thread = stopped.thread();
        if self
            .members
            .values()
            .any(|member| member.has_vessel(thread))
        {
            // It stays so for all its life.
            return Ok(());
        }
        let member = self.member_of_tracee(thread)?;
        let gone_on = match (stop, member) {
            (Stop::Signal(_), Some(process)) => {
                let mut occasion = Occasion::of_signal(stopped);
                self.decide_all(process, &mut occasion)?;
                // Nobody had to stop the process: the thread takes its signal.
                match occasion.signal {
                    Some(stopped) => take_signal(stopped),
                    None => Ok(()),
                }
            }
            (Stop::Signal(_), None) => take_signal(stopped),
            (Stop::Group(_), _) => stopped.stay_stopped(),
            (Stop::Interrupt, None) => let_go(stopped),
            _ => stopped.go_on(),
        };
        match gone_on {
            Err(error) if !task::is_gone(&error) => Err(fail("let a tracee go on")(error)),
            _ => Ok(()),
        }
    }

    /// A tracee is no more.
    fn ended(&mut self, thread: Pid) -> Result<(), SpeculatorError> {
        if self.members.contains_key(&thread) {
            return self.perished(thread);
        }
        if let Some(process) = self.member_of(thread)
            && let Some(member) = self.members.get_mut(&process)
        {
            member.process.ended(thread);
        }
        Ok(())
    }
}

/// Lets a tracee go that is no member's: it was stopped for one that has been decided since. Or it is the vessel
/// of a process that was killed while it made it.
fn let_go(stopped: Stopped) -> io::Result<()> {
    if is_vessel(&stopped)? {
        return Ok(kill_process(stopped.thread(), Signal::KILL)?);
    }
    stopped.detach()
}

/// Lets a tracee go on untraced, with the signal that it has stopped for.
fn take_signal(stopped: Stopped) -> io::Result<()> {
    let signal = stopped.signal()?;
    stopped.detach_with(&signal)
}

/// What turns the engine's refusal, a fault of the shell's, into an error.
pub(crate) fn refused(what: &'static str) -> impl FnOnce(EngineError) -> SpeculatorError {
    move |error| fail(what)(io::Error::other(error))
}

pub(crate) fn fail<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> SpeculatorError {
    move |error| SpeculatorError {
        what,
        source: error.into(),
    }
}
