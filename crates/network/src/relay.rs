//! The relay: everything that crosses a domain's network boundary goes through this one loop.
//!
//! A connection begins as a SYN that the kernel inside sends to the gate ([`surmise_linux::network::gate`])
//! and that the relay reads. The policy decides about it. What is allowed is first connected outside;
//! when that has succeeded the SYN goes back to the kernel, which lets the relay's listener accept the
//! connection in the place of its destination, and the two sockets are relayed to each other (`pump`).
//! So a program inside sees exactly the success or failure that it would see without Surmise. What is
//! held is accepted at once, and what comes goes to the outbox (`held`); it is sent when a person
//! agrees (`release`). Datagrams, pings and queries for names come as packets, and go through sockets
//! of the host.
//!
//! The loop never waits for anything but its events. What may take time (names, deliveries, servers
//! inside that are dialed) is done by helper threads, whose results are events, too. A slow reader
//! slows only its own connection: each direction keeps at most one read's bytes. Where the domain has
//! epochs, output that depends on a promise waits until that is kept (`epochs`); that stops the loop only
//! for what is rare.
//!
//! A descriptor that cannot be had is no error: new connections then wait, inside as SYNs that are
//! sent again, outside in the queues of listeners, until descriptors come back.

mod attribution;
mod core;
mod deliver;
mod dns;
mod dns_streams;
mod epochs;
mod finish;
mod flow;
mod gate;
mod held;
mod held_datagrams;
mod intake;
mod interface;
mod jobs;
mod ping;
mod poller;
mod publish;
mod pump;
mod questions;
mod refused;
mod release;
mod slab;
mod sockets;
mod sources;
mod udp;

pub(crate) use attribution::Attribution;
pub use interface::{Dial, Event, RelayHandle, Released};

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use surmise_linux::mailbox::{Mailbox, mailbox};
use surmise_linux::network::gate::{Gate, PACKET_SIZE};
use surmise_outbox::{HoldId, Outbox};
use surmise_sync::Epochs;

use self::core::Core;
use self::dns::Dns;
use self::epochs::Waiting;
use self::finish::Finishing;
use self::flow::Scratch;
use self::gate::{Admission, SynGate};
use self::held::HeldConnections;
use self::interface::{Message, Order};
use self::jobs::{Asker, Jobs};
use self::ping::Pings;
use self::poller::{Kind, Poller, Registration, Timers, Token};
use self::publish::Publish;
use self::pump::{End, Life, Pump};
use self::questions::{Questions, Scope};
use self::refused::Refused;
use self::release::{Releases, Selection};
use self::slab::{Key, Slab};
use self::udp::Datagrams;
use crate::lookups::Lookups;
use crate::names::Names;
use crate::policy::{Policy, Verdict};
use crate::resolver::Resolver;

/// What a relay needs.
pub struct Config {
    /// The open gate of the domain's network.
    pub gate: Gate,
    /// What may pass. Answers are added to it.
    pub policy: Policy,
    /// Where held output goes.
    pub outbox: Outbox,
    /// Ports of servers inside that the host may reach on its loopback addresses.
    pub publish: Vec<u16>,
    /// How names are resolved outside; its nameservers are those that the programs are answered for.
    pub resolver: Resolver,
    /// Reaches the servers of published ports.
    pub dial: Box<dyn Dial>,
    /// Where programs are promised that changes are durable: output waits for that.
    pub epochs: Option<Epochs>,
    /// Takes what the relay tells, on the relay's thread. Must not block.
    pub events: Box<dyn Fn(Event) + Send>,
}

/// The relay of one domain's network.
pub struct Relay {
    core: Core,
    inbox: Mailbox<Message>,
    listener: OwnedFd,
    listening: Registration,
    gate: SynGate,
    pumps: Slab<Pump>,
    held: HeldConnections,
    datagrams: Datagrams,
    pings: Pings,
    dns: Dns,
    publish: Publish,
    releases: Releases,
    packet: Vec<u8>,
    finishing: Option<Finishing>,
    stopped: bool,
}

impl Relay {
    /// A relay that has its ports, and the way to give it orders. Its connections are made from the
    /// network namespace of the thread that runs it.
    ///
    /// # Errors
    /// A port cannot be published: the error names it. Otherwise, as `epoll_ctl` and `eventfd`.
    pub fn new(config: Config) -> io::Result<(Self, RelayHandle)> {
        let (mailer, inbox) = mailbox()?;
        let mut publish = Publish::bind(&config.publish)?;
        let poller = Poller::new()?;
        let Gate {
            tun,
            listener,
            diagnostics,
            names,
            loopback,
        } = config.gate;
        poller.add(&tun, Token::only(Kind::Tun), EventFlags::IN)?;
        poller.add(inbox.as_fd(), Token::only(Kind::Inbox), EventFlags::IN)?;
        publish.start(&poller, config.dial, mailer.clone())?;
        let waiting = Waiting::new(&poller, config.epochs)?;
        let servers = config.resolver.nameservers().to_vec();
        let core = Core {
            poller,
            timers: Timers::default(),
            now: Instant::now(),
            policy: config.policy,
            names: Names::default(),
            hosts: config.resolver.hosts().clone(),
            outbox: config.outbox,
            attribution: Attribution::new(diagnostics),
            questions: Questions::default(),
            jobs: Jobs::new(mailer.clone(), config.resolver),
            scratch: Scratch::new(),
            waiting,
            released_descriptors: false,
            tun,
            loopback,
            nameservers: servers.clone(),
            published: config.publish,
            refused: Refused::default(),
            lookups: Lookups::default(),
            events: config.events,
        };
        let mut dns = Dns::new(servers);
        if let Some(names) = names {
            dns.serve(&core, names)?;
        }
        let mut relay = Self {
            core,
            inbox,
            listener,
            listening: Registration::default(),
            gate: SynGate::new(),
            pumps: Slab::new(),
            held: HeldConnections::new(),
            datagrams: Datagrams::new(),
            pings: Pings::new(),
            dns,
            publish,
            releases: Releases::default(),
            packet: vec![0; PACKET_SIZE],
            finishing: None,
            stopped: false,
        };
        relay.listen()?;
        Ok((relay, RelayHandle { mailer }))
    }

    /// Relays until it is told to stop, or has finished, or the gate is gone. Then everything that was sent
    /// to held channels is in the outbox, and all connections are closed.
    ///
    /// # Errors
    /// As `epoll_wait` and `epoll_ctl`: the kernel has no memory left.
    pub fn run(mut self) -> io::Result<()> {
        let mut events = Vec::new();
        while !self.stopped && !self.is_finished() {
            let timeout = self.core.timers.next_in(Instant::now());
            self.core.poller.wait(timeout, &mut events)?;
            self.core.now = Instant::now();
            for (token, flags) in events.drain(..) {
                self.dispatch(token, flags)?;
            }
            while let Some(token) = self.core.timers.due(self.core.now) {
                self.look(token);
            }
            if std::mem::take(&mut self.core.released_descriptors) {
                self.listen()?;
                self.publish.resume(&self.core.poller)?;
                self.dns.streams.resume(&self.core)?;
            }
        }
        // What failed of it was told, or will show in the outbox.
        let _ = self.drain();
        Ok(())
    }

    fn dispatch(&mut self, token: Token, flags: EventFlags) -> io::Result<()> {
        let (core, key) = (&mut self.core, token.key);
        match token.kind {
            Kind::Inbox => {
                for message in self.inbox.take().collect::<Vec<_>>() {
                    self.message(message);
                }
            }
            Kind::Room => self.held.resume(core),
            Kind::Epochs => self.promises_kept(),
            Kind::Tun => _ = self.read_packets(),
            Kind::Listener => _ = self.accept(),
            Kind::Gated => self.gate.ready(core, key),
            Kind::PumpInside => self.pump(key, End::Inside, flags),
            Kind::PumpOutside => self.pump(key, End::Outside, flags),
            Kind::HeldInside => self.held.ready_inside(core, key, flags),
            Kind::HeldOutside => self.held.ready_outside(core, key, flags),
            Kind::Datagrams => self.datagrams.ready(core, key, flags),
            Kind::HeldDatagrams => {}
            Kind::Ping => self.pings.ready(core, key, flags),
            Kind::NamesDatagrams => self.dns.ready(core),
            Kind::NamesListener => self.dns.streams.accept(core),
            Kind::NamesStream => self.dns.stream_ready(core, key, flags),
            Kind::Query => self.dns.answered(core, key),
            Kind::Published => self.publish.accept(&core.poller, key)?,
        }
        Ok(())
    }

    /// A timer is due.
    fn look(&mut self, token: Token) {
        let (core, key) = (&mut self.core, token.key);
        match token.kind {
            Kind::Gated => self.gate.sweep(core),
            Kind::HeldInside => self.held.look(core, key),
            Kind::HeldDatagrams => self.datagrams.held.look(core, key),
            Kind::Datagrams => self.datagrams.sweep(core),
            Kind::PumpOutside => self.see_off(),
            Kind::Ping => self.pings.sweep(core),
            Kind::NamesStream => self.dns.streams.sweep(core),
            Kind::Query => self.dns.look(core, key),
            _ => {}
        }
    }

    fn message(&mut self, message: Message) {
        let core = &mut self.core;
        match message {
            Message::Order(order) => self.carry_out(order),
            Message::Dialed { key, result } => {
                if result.is_err() {
                    // That nobody serves the port is output, too. Where that may never leave, the
                    // connection is reset all the same: the end of the domain would do so.
                    let _ = epochs::release(core.waiting.epochs());
                }
                if let Some((inside, outside)) = self.publish.dialed(key, result) {
                    self.relay(Pump::new(inside, outside));
                }
                self.core.released_descriptors = true;
            }
            Message::Answered { key, result } => self.dns.answered_over_tcp(core, key, result),
            Message::Resolved { asker, result } => match asker {
                Asker::Connection(key) => self.gate.resolved(core, key, result),
                Asker::Datagrams(name) => self.datagrams.resolved(core, name, result),
            },
            Message::Delivered(delivered) => {
                self.datagrams.delivered(core, &delivered);
                if let Some(pump) = self.held.delivered(core, delivered) {
                    self.relay(pump);
                }
            }
            Message::Released(released) => {
                if let Some(next) = self.releases.done(core, released) {
                    self.release(next);
                }
            }
        }
    }

    fn carry_out(&mut self, order: Order) {
        match order {
            Order::Answer { question, verdict } => {
                if let Some(scope) = self.core.questions.close(question) {
                    self.core.policy.rules.push(scope.rule(verdict));
                    self.reconsider();
                }
            }
            Order::Decide { hold, verdict } => self.decide(hold, verdict),
            Order::Quiesce => {
                let failed = self.quiesce().err().map(|error| error.to_string());
                self.core.tell(Event::Quiesced { failed });
            }
            Order::Release(holds) => {
                for pump in self.held.pass_ends(&mut self.core) {
                    self.relay(pump);
                }
                self.release(Selection::Agreed(holds));
            }
            Order::Finish { patience } => self.finish(patience),
            Order::Stop => self.stopped = true,
        }
    }

    /// A person has decided about the host of something that is held.
    fn decide(&mut self, hold: HoldId, verdict: Verdict) {
        let target = self.held.target(hold);
        let Some(target) = target.or_else(|| self.datagrams.held.target(hold)) else {
            return;
        };
        let Some((host, port)) = release::peer(&target) else {
            return;
        };
        let scope = Scope::of_host(host.clone(), port);
        let rules = [scope.rule(verdict), scope.rule_for(port, verdict)];
        self.core.policy.rules.extend(rules);
        match verdict {
            Verdict::Allow => self.release(Selection::Covered(scope)),
            Verdict::Deny => {
                for key in self.held.covered(&scope) {
                    self.held.refuse(&mut self.core, key);
                }
                self.datagrams.held.refuse(&mut self.core, &scope);
            }
            Verdict::Hold | Verdict::Ask => {}
        }
        self.reconsider();
    }

    fn release(&mut self, selection: Selection) {
        let (held, datagrams) = (&mut self.held, &mut self.datagrams);
        self.releases
            .begin(&mut self.core, held, datagrams, selection);
    }

    fn reconsider(&mut self) {
        self.gate.reconsider(&mut self.core);
        self.dns.reconsider(&mut self.core);
        self.datagrams.reconsider(&mut self.core);
        self.pings.reconsider(&mut self.core);
    }

    /// Takes the connections that the kernel has accepted; says whether there were any.
    fn accept(&mut self) -> bool {
        let mut came = false;
        loop {
            match sockets::accept(&self.listener) {
                Ok((socket, ends)) => {
                    came = true;
                    self.accepted(socket, ends);
                }
                Err(Errno::AGAIN) => return came,
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(_) => {
                    // Out of descriptors: until some come back.
                    self.listening.remove(&self.core.poller, &self.listener);
                    return came;
                }
            }
        }
    }

    fn accepted(&mut self, socket: OwnedFd, (source, destination): (SocketAddr, SocketAddr)) {
        let core = &mut self.core;
        match self.gate.accepted(core, source, destination) {
            Some(Admission::Relay(outside)) => {
                // A connection without it is slow, not wrong.
                let _ = rustix::net::sockopt::set_tcp_nodelay(&socket, true);
                self.relay(Pump::new(socket, outside));
            }
            Some(Admission::Hold(sender, inode)) => {
                let ends = (source, destination);
                self.held.add(core, socket, ends, (sender, inode));
            }
            Some(Admission::Names) => self.dns.streams.add(core, socket, (source, destination)),
            None => sockets::reset(socket),
        }
    }

    fn relay(&mut self, mut pump: Pump) {
        pump.hold_back(self.core.waiting.latch());
        if self.finishing.is_some() {
            pump.finish(self.core.now, &mut self.core.scratch);
        }
        let key = self.pumps.insert(pump);
        self.register(key);
    }

    fn pump(&mut self, key: Key, end: End, flags: EventFlags) {
        let Some(pump) = self.pumps.get_mut(key) else {
            return;
        };
        let result = pump.ready(end, flags, &mut self.core.scratch);
        self.pumped(key, result);
    }

    fn pumped(&mut self, key: Key, result: io::Result<Life>) {
        match result {
            Ok(Life::GoesOn) => self.register(key),
            Ok(Life::Over) => {
                if let Some(pump) = self.pumps.remove(key) {
                    pump.close(&mut self.core.scratch);
                    self.core.released_descriptors = true;
                }
            }
            Err(_) => self.break_off(key),
        }
    }

    fn register(&mut self, key: Key) {
        let registered = match self.pumps.get_mut(key) {
            Some(pump) => {
                if pump.waits() {
                    self.core.waiting.add(key);
                }
                pump.register(&self.core.poller, key)
            }
            None => Ok(()),
        };
        if registered.is_err() {
            self.break_off(key);
        }
    }

    fn break_off(&mut self, key: Key) {
        if let Some(pump) = self.pumps.remove(key) {
            pump.reset(&mut self.core.scratch);
            self.core.released_descriptors = true;
        }
    }

    fn listen(&mut self) -> io::Result<()> {
        let token = Token::only(Kind::Listener);
        self.listening
            .set(&self.core.poller, &self.listener, token, EventFlags::IN)
    }
}
