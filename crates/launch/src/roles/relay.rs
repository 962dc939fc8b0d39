//! The relay process: everything that crosses the boundary passes through it.
//!
//! It stays outside the domain, in the caller's session and process group, since it uses the caller's
//! terminal. Its first thread obeys control and waits for nothing else. Each channel has a thread of its
//! own, so that a slow reader or writer outside stalls one channel.

mod gateway;
mod handover;
pub(crate) mod network;
mod witness;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::process::Signal;
use rustix::time::Timespec;
use surmise_kept::{Link, Serving};
use surmise_outbox::HoldId;
use surmise_refusals::Tally;
use surmise_stdio::{Channels, Event, Held, Outer, Sink};
use surmise_sync::Epochs;
use surmise_sys::signals;

use crate::held::{self, HeldPlace};
use crate::launch::LostStream;
use crate::message::{Delivery, Failure, RelayOrder, RelayReport};
use crate::refusals::{Telling, in_messages};
use gateway::Gateway;
use handover::Handover;
use network::NetworkPlan;

/// Signals that the caller's terminal may send to its process group, or a program that ends the group. The relay
/// process ignores them: it ends when the domain has, and when control has.
const IGNORED: [Signal; 8] = [
    Signal::HUP,
    Signal::INT,
    Signal::QUIT,
    Signal::PIPE,
    Signal::TERM,
    Signal::TSTP,
    Signal::TTIN,
    Signal::TTOU,
];

/// How long the terminal's thread may take to give the terminal back.
const LEAVING_MAX: Duration = Duration::from_secs(1);

/// What the relay process is given. It keeps these descriptors, the caller's streams, and no other.
pub(crate) struct Relay {
    /// To control; control's end is closed when control dies.
    pub(crate) control: Link,
    /// From pid 1: the domain's terminal, and its listener.
    pub(crate) init: Link,
    pub(crate) outer: Outer,
    /// Whether the terminal's keys go to the domain from the start.
    pub(crate) engage: bool,
    /// Keeps others from the state until this process has ended.
    pub(crate) serving: Serving,
    /// The domain's own state, where what is held is kept.
    pub(crate) state: PathBuf,
    /// Whether standard output and error are held.
    pub(crate) hold_streams: bool,
    /// Whether what appears on the terminal is held.
    pub(crate) hold_terminal: bool,
    /// Where the domain is promised that changes are durable: what leaves it waits for that.
    pub(crate) epochs: Option<Epochs>,
    /// What the network relay needs, where the domain's network has a gate.
    pub(crate) network: Option<NetworkPlan>,
    /// How what is refused is told, if it is.
    pub(crate) telling: Option<Telling>,
    /// From the view: names lead to FIFOs outside.
    pub(crate) fifos: Option<OwnedFd>,
}

/// A link that may have something to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Init,
    /// The process that sets the gate up.
    Gate,
    Control,
}

/// Why the relay process ends.
enum End {
    /// All is passed on.
    Finished,
    /// Control has died, or wants no more.
    Abandoned,
}

impl Relay {
    pub(crate) fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let mut all = self.outer.descriptors();
        all.extend([
            self.control.as_fd(),
            self.init.as_fd(),
            self.serving.as_fd(),
        ]);
        all.extend(self.epochs.iter().map(AsFd::as_fd));
        all.extend(self.fifos.iter().map(AsFd::as_fd));
        all.extend(self.network.iter().flat_map(NetworkPlan::descriptors));
        all
    }

    /// The process' whole life; returns its exit status. Threads that live then end with it.
    pub(crate) fn live(self) -> u8 {
        let Self {
            control,
            init,
            outer,
            engage,
            serving: _serving,
            state,
            hold_streams,
            hold_terminal,
            epochs,
            network,
            telling,
            fifos,
        } = self;
        let tally = Tally::default();
        let control = Arc::new(control);
        let run = || {
            prepare()?;
            let mut place = HeldPlace::new(state, Arc::clone(&control));
            let mut sink = |held: Held| -> io::Result<Option<Box<dyn Sink>>> {
                let is_wanted = match held {
                    Held::Output | Held::Error => hold_streams,
                    Held::Terminal => hold_terminal,
                };
                if !is_wanted {
                    return Ok(None);
                }
                let outbox = place.outbox().map_err(held::io_error)?;
                Ok(Some(held::sink(outbox, held)))
            };
            let channels = Channels::start(outer, engage, epochs.as_ref(), &mut sink)
                .map_err(Failure::at("start the channels"))?;
            let gateway = Gateway::new(network, Arc::clone(&control), epochs, tally.clone())
                .map_err(Failure::at("make a mailbox"))?;
            let witness = telling.map(|telling| witness::Parts::new(telling, tally.clone(), fifos));
            let mut running = Running {
                control: &control,
                handover: Handover::new(init, witness),
                channels,
                gateway,
                held: place,
                agreed: Vec::new(),
                is_finishing: false,
                is_quiescing: false,
                is_detaching: false,
            };
            running.run()
        };
        let end = run();
        // If control is dead, nobody wants to know.
        for part in in_messages(tally.refusals()) {
            let _ = control.send(&RelayReport::RefusedInside(part));
        }
        match end {
            Ok(()) => 0,
            Err(failure) => {
                // Control may be dead; then nobody is left to be told.
                let _ = control.send(&RelayReport::Failed(failure));
                1
            }
        }
    }
}

fn prepare() -> Result<(), Failure> {
    rustix::thread::set_name(c"surmise-relay").map_err(Failure::at("name the relay process"))?;
    for signal in IGNORED {
        signals::ignore(signal).map_err(Failure::at("ignore signals of the terminal"))?;
    }
    surmise_stdio::block_signals().map_err(Failure::at("block signals of the terminal"))?;
    Ok(())
}

struct Running<'a> {
    control: &'a Link,
    handover: Handover,
    channels: Channels,
    gateway: Gateway,
    held: HeldPlace,
    /// What the person has agreed to, as far as control has said it.
    agreed: Vec<HoldId>,
    is_finishing: bool,
    is_quiescing: bool,
    is_detaching: bool,
}

impl Running<'_> {
    fn run(&mut self) -> Result<(), Failure> {
        let end = self.obey_to_the_end();
        if !matches!(end, Ok(End::Finished)) {
            self.leave_terminal();
        }
        end?;
        self.held
            .flush()
            .map_err(Failure::told("keep what is held"))
    }

    fn obey_to_the_end(&mut self) -> Result<End, Failure> {
        loop {
            while let Some(event) = self.channels.next_event() {
                self.tell(event);
            }
            self.gateway.look_for_end()?;
            if self.is_finishing && self.channels.are_ended() && !self.gateway.is_open() {
                return Ok(End::Finished);
            }
            for source in self.wait()? {
                match source {
                    Source::Init => self.take_over()?,
                    Source::Gate => self.gateway.open(&mut self.held)?,
                    Source::Control => {
                        if let Some(end) = self.obey()? {
                            return Ok(end);
                        }
                    }
                }
            }
        }
    }

    /// The links that have something to read. The channels and the network are looked at anyway.
    fn wait(&self) -> Result<Vec<Source>, Failure> {
        let init = self.handover.source().map(|init| (Source::Init, init));
        let gate = self.gateway.gate().map(|gate| (Source::Gate, gate));
        let control = (Source::Control, self.control.as_fd());
        // Control comes last: what the others said before its last order is heard before.
        let sources: Vec<_> = init.into_iter().chain(gate).chain([control]).collect();
        let mut events: Vec<_> = sources
            .iter()
            .map(|(_, source)| PollFd::new(source, PollFlags::IN))
            .collect();
        let network_end = self.gateway.end();
        events.push(PollFd::new(&self.channels, PollFlags::IN));
        events.push(PollFd::new(&network_end, PollFlags::IN));
        match rustix::event::poll(&mut events, None) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(Vec::new()),
            Err(errno) => return Err(Failure::at("wait for an event")(errno)),
        }
        let ready = sources
            .iter()
            .zip(&events)
            .filter(|(_, event)| !event.revents().is_empty());
        Ok(ready.map(|((source, _), _)| *source).collect())
    }

    fn take_over(&mut self) -> Result<(), Failure> {
        if let Some(terminal) = self.handover.next()? {
            self.channels.attach_terminal(terminal);
        }
        Ok(())
    }

    fn obey(&mut self) -> Result<Option<End>, Failure> {
        let order = self
            .control
            .receive()
            .map_err(Failure::at("hear from control"))?;
        match order {
            None | Some(RelayOrder::Abandon) => return Ok(Some(End::Abandoned)),
            Some(RelayOrder::Note(note)) => self.channels.note(note),
            Some(RelayOrder::PauseTerminal) => {
                if !self.channels.pause_terminal() {
                    self.report(&RelayReport::Paused);
                }
            }
            Some(RelayOrder::ResumeTerminal { engage }) => {
                if !self.channels.resume_terminal(engage) {
                    self.report(&RelayReport::Resumed { engaged: false });
                }
            }
            Some(RelayOrder::Detach) => self.detach()?,
            Some(RelayOrder::Quiesce) => {
                self.channels.quiesce();
                self.is_quiescing = true;
                self.go_on_to_quiesce();
            }
            Some(RelayOrder::Release { holds, is_last }) => {
                self.agreed.extend(holds.into_iter().map(HoldId));
                match is_last {
                    true => self.release(),
                    false => self.report(&RelayReport::Noted),
                }
            }
            Some(RelayOrder::Answer { question, verdict }) => {
                self.gateway.answer(question, verdict);
            }
            Some(RelayOrder::Decide { hold, verdict }) => self.gateway.decide(hold, verdict),
            Some(RelayOrder::Finish) => {
                // pid 1 has ended; what it said before comes first.
                while !self.handover.is_over() {
                    self.take_over()?;
                }
                self.is_finishing = true;
                self.channels.finish();
                self.gateway.finish();
            }
        }
        Ok(None)
    }

    /// All stands still: what was agreed to is chosen before anything is sent that was not.
    fn release(&mut self) {
        let holds = std::mem::take(&mut self.agreed);
        self.held.agree(&holds);
        self.channels.release();
        if !self.gateway.release(holds) {
            self.report(&RelayReport::Releasing);
            self.report(&RelayReport::Released(Delivery::default()));
        }
    }

    /// The network after the channels: it answers when all is in the outbox.
    fn go_on_to_quiesce(&mut self) {
        if !self.is_quiescing || !self.channels.is_quiet() {
            return;
        }
        self.is_quiescing = false;
        if !self.gateway.quiesce() {
            let failed = self.held.flush().err().map(|error| error.to_string());
            self.report(&RelayReport::Quiet { failed });
        }
    }

    fn detach(&mut self) -> Result<(), Failure> {
        let outbox = self.held.outbox().map_err(Failure::told("hold output"))?;
        self.channels.detach(&mut |held| held::sink(outbox, held));
        self.is_detaching = true;
        self.tell_if_detached();
        Ok(())
    }

    fn tell_if_detached(&mut self) {
        if self.is_detaching && self.channels.is_detached() {
            self.is_detaching = false;
            // What ends the caller's session or process group is no business of the domain's any
            // more. A leader of a group, which this process is not, could not do it.
            let _ = rustix::process::setsid();
            self.report(&RelayReport::Detached);
        }
    }

    fn tell(&mut self, event: Event) {
        match event {
            Event::Paused => self.report(&RelayReport::Paused),
            Event::Resumed { engaged } => self.report(&RelayReport::Resumed { engaged }),
            Event::Engaged => self.report(&RelayReport::Engaged),
            Event::Quiet => self.go_on_to_quiesce(),
            Event::Detached | Event::Ended => {
                self.tell_if_detached();
                self.go_on_to_quiesce();
            }
            Event::Lost { stream, errno } => self.report(&RelayReport::Lost(LostStream {
                stream: stream.name().into(),
                errno,
            })),
            Event::Left => {}
        }
    }

    fn report(&self, report: &RelayReport) {
        // If control is dead, its closed end is the next event.
        let _ = self.control.send(report);
    }

    fn leave_terminal(&mut self) {
        if !self.channels.leave_terminal() {
            return;
        }
        let deadline = Instant::now() + LEAVING_MAX;
        loop {
            while let Some(event) = self.channels.next_event() {
                if event == Event::Left {
                    return;
                }
            }
            let rest = deadline.saturating_duration_since(Instant::now());
            let mut events = [PollFd::new(&self.channels, PollFlags::IN)];
            let limit = Timespec::try_from(rest).expect("a short wait");
            if rest.is_zero() || rustix::event::poll(&mut events, Some(&limit)) == Ok(0) {
                return;
            }
        }
    }
}
