//! The relay process: everything that crosses the boundary passes through it.
//!
//! It stays outside the domain, in the caller's session and process group, for it uses the caller's
//! terminal. Its first thread obeys control and waits for nothing else; each channel has a thread of its
//! own, so that whoever is slow outside stalls one channel.

pub(crate) mod network;
mod witness;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::process::Signal;
use rustix::time::Timespec;
use surmise_kept::{Link, Serving};
use surmise_outbox::Outbox;
use surmise_refusals::Tally;
use surmise_stdio::{Channels, Event, Held, MailSender, Mailbox, Outer, Sink, mailbox};
use surmise_sync::Epochs;
use surmise_sys::signals;

use crate::gate;
use crate::held;
use crate::launch::LostStream;
use crate::message::{Delivery, Failure, Handed, RelayOrder, RelayReport};
use crate::refusals::{Telling, in_messages};
use network::{Network, NetworkPlan, Surroundings};

/// What the caller's terminal may send to its process group, or whoever ends that: the relay process
/// ends when the domain has, and when control has.
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

/// Who has something to say.
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
            let mut outbox = None;
            let mut sink = |held: Held| -> io::Result<Option<Box<dyn Sink>>> {
                let wanted = match held {
                    Held::Output | Held::Error => hold_streams,
                    Held::Terminal => hold_terminal,
                };
                if !wanted {
                    return Ok(None);
                }
                Ok(Some(held::sink(opened(&mut outbox, &state)?, held)))
            };
            let channels = Channels::start(outer, engage, epochs.as_ref(), &mut sink)
                .map_err(Failure::at("start the channels"))?;
            let (ended, network_ended) = mailbox().map_err(Failure::at("make a mailbox"))?;
            let mut running = Running {
                control: &control,
                init: Some(init),
                _listener: None,
                channels,
                epochs,
                plan: network,
                network: None,
                witness: telling.map(|telling| witness::Parts::new(telling, tally.clone(), fifos)),
                tally: tally.clone(),
                ended,
                network_ended,
                finishing: false,
                quiescing: false,
                detaching: false,
                state,
                outbox,
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

/// The outbox, opened when something is to be held.
fn opened<'a>(outbox: &'a mut Option<Outbox>, state: &Path) -> io::Result<&'a Outbox> {
    if outbox.is_none() {
        *outbox = Some(Outbox::open(state).map_err(io::Error::other)?);
    }
    Ok(outbox.as_ref().expect("opened above"))
}

struct Running<'a> {
    control: &'a Arc<Link>,
    /// `None` when pid 1 has ended.
    init: Option<Link>,
    /// Held only: no call goes unheard while there is anybody to show what comes after it.
    _listener: Option<OwnedFd>,
    channels: Channels,
    epochs: Option<Epochs>,
    /// Until the gate is there.
    plan: Option<NetworkPlan>,
    network: Option<Network>,
    /// Until all is handed over that it takes.
    witness: Option<witness::Parts>,
    /// What was refused.
    tally: Tally,
    /// For the network's thread, to tell of its end.
    ended: MailSender<()>,
    network_ended: Mailbox<()>,
    finishing: bool,
    quiescing: bool,
    detaching: bool,
    state: PathBuf,
    outbox: Option<Outbox>,
}

impl Running<'_> {
    fn run(&mut self) -> Result<(), Failure> {
        let end = self.obey_to_the_end();
        if !matches!(end, Ok(End::Finished)) {
            self.leave_terminal();
        }
        end?;
        match &self.outbox {
            Some(outbox) => outbox
                .flush()
                .map_err(io::Error::other)
                .map_err(Failure::at("keep what is held")),
            None => Ok(()),
        }
    }

    fn obey_to_the_end(&mut self) -> Result<End, Failure> {
        loop {
            while let Some(event) = self.channels.next_event() {
                self.tell(event);
            }
            if self.network_ended.next().is_some() {
                self.network_is_over()?;
            }
            if self.finishing && self.channels.are_ended() && self.network.is_none() {
                return Ok(End::Finished);
            }
            for source in self.wait()? {
                match source {
                    Source::Init => self.hear_init()?,
                    Source::Gate => self.open_network()?,
                    Source::Control => {
                        if let Some(end) = self.obey()? {
                            return Ok(end);
                        }
                    }
                }
            }
        }
    }

    /// Who has something to say. What the channels and the network have, is looked for anyway.
    fn wait(&self) -> Result<Vec<Source>, Failure> {
        let init = self.init.as_ref().map(|init| (Source::Init, init.as_fd()));
        let plan = self.plan.as_ref();
        let gate = plan.map(|plan| (Source::Gate, plan.gate.as_fd()));
        let control = (Source::Control, self.control.as_fd());
        // Control comes last: what the others said before its last order is heard before.
        let sources: Vec<_> = init.into_iter().chain(gate).chain([control]).collect();
        let mut events: Vec<_> = sources
            .iter()
            .map(|(_, source)| PollFd::new(source, PollFlags::IN))
            .collect();
        events.push(PollFd::new(&self.channels, PollFlags::IN));
        events.push(PollFd::new(&self.network_ended, PollFlags::IN));
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

    /// The gate is there, or the process that was to set it up has ended.
    fn open_network(&mut self) -> Result<(), Failure> {
        let Some(plan) = self.plan.take() else {
            return Ok(());
        };
        let gate = gate::receive(&plan.gate).map_err(Failure::at("receive the gate"))?;
        let Some(gate) = gate else {
            return Ok(());
        };
        let outbox = opened(&mut self.outbox, &self.state)
            .map_err(Failure::at("open the outbox"))?
            .clone();
        let network = plan
            .start(
                gate,
                Surroundings {
                    outbox,
                    epochs: self.epochs.clone(),
                    control: Arc::clone(self.control),
                    tally: self.tally.clone(),
                    ended: self.ended.clone(),
                },
            )
            .map_err(Failure::at("start the network relay"))?;
        if self.finishing {
            network.finish();
        }
        self.network = Some(network);
        Ok(())
    }

    fn network_is_over(&mut self) -> Result<(), Failure> {
        match self.network.take() {
            Some(network) => network.result().map_err(Failure::at("relay the network")),
            None => Ok(()),
        }
    }

    fn hear_init(&mut self) -> Result<(), Failure> {
        let Some(init) = &self.init else {
            return Ok(());
        };
        let failed = Failure::at("receive what pid 1 hands over");
        let handed = init.receive().and_then(|handed| match handed {
            Some(handed) => Ok(init.receive_descriptor()?.map(|fd| (handed, fd))),
            None => Ok(None),
        });
        match handed.map_err(failed)? {
            Some((Handed::Terminal, outer)) => self.channels.attach_terminal(outer),
            Some((Handed::Nameserver, socket)) => {
                if let Some(witness) = &mut self.witness {
                    witness.nameserver(socket);
                }
            }
            Some((Handed::Diagnostics, socket)) => {
                if let Some(witness) = &mut self.witness {
                    witness.diagnostics(socket);
                }
            }
            Some((Handed::Listener(listened), listener)) => {
                self._listener = match self.witness.take() {
                    Some(witness) => witness.start(listened, listener)?,
                    None => Some(listener),
                };
            }
            None => self.init = None,
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
                self.quiescing = true;
                self.go_on_to_quiesce();
            }
            Some(RelayOrder::Release) => {
                self.channels.release();
                match &self.network {
                    Some(network) => network.release(),
                    None => {
                        self.report(&RelayReport::Releasing);
                        self.report(&RelayReport::Released(Delivery::default()));
                    }
                }
            }
            Some(RelayOrder::Answer { question, verdict }) => {
                if let Some(network) = &self.network {
                    network.answer(question, verdict);
                }
            }
            Some(RelayOrder::Decide { hold, verdict }) => {
                if let Some(network) = &self.network {
                    network.decide(hold, verdict);
                }
            }
            Some(RelayOrder::Finish) => {
                // pid 1 has ended; what it said before comes first.
                while self.init.is_some() {
                    self.hear_init()?;
                }
                self.finishing = true;
                self.channels.finish();
                if let Some(network) = &self.network {
                    network.finish();
                }
            }
        }
        Ok(None)
    }

    /// The network after the channels: it answers when all is in the outbox.
    fn go_on_to_quiesce(&mut self) {
        if !self.quiescing || !self.channels.is_quiet() {
            return;
        }
        self.quiescing = false;
        if let Some(network) = &self.network {
            return network.quiesce();
        }
        let flushed = self.outbox.as_ref().map_or(Ok(()), Outbox::flush);
        let failed = flushed.err().map(|error| error.to_string());
        self.report(&RelayReport::Quiet { failed });
    }

    fn detach(&mut self) -> Result<(), Failure> {
        let outbox = opened(&mut self.outbox, &self.state).map_err(Failure::at("hold output"))?;
        self.channels.detach(&mut |held| held::sink(outbox, held));
        self.detaching = true;
        self.tell_if_detached();
        Ok(())
    }

    fn tell_if_detached(&mut self) {
        if self.detaching && self.channels.is_detached() {
            self.detaching = false;
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
