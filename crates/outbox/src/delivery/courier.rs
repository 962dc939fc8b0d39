//! The sending of prepared holds.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::thread;
use std::time::Duration;

use super::connections::Connections;
use super::reach::Reached;
use super::{Cause, Delivered, Delivery, Failure, Limits};
use crate::{End, HoldId, Outbox, Pending, Step, Target};

/// Datagrams that leave without a pause. A receiver's buffer holds a few hundred small ones, and what
/// a program sent over minutes leaves here at once.
const BURST: u64 = 32;

/// The pause between bursts.
const BURST_PAUSE: Duration = Duration::from_millis(1);

/// Where what is shown goes.
pub(super) type Show<'a> = &'a mut dyn FnMut(&Target, &[u8]) -> io::Result<()>;

pub(super) struct Courier<'a> {
    outbox: Outbox,
    limits: Limits,
    reached: Reached,
    show: Show<'a>,
    lines: BTreeMap<HoldId, Line>,
    connections: Connections,
    /// Targets that took nothing within a time limit; nobody waits for them again.
    stalled: BTreeSet<Target>,
    fates: BTreeMap<HoldId, Fate>,
}

/// A hold on its way.
struct Line {
    pending: Pending,
    route: Route,
    /// Bytes that have left, of all that the hold ever held.
    sent: u64,
}

enum Route {
    /// Nothing has left.
    Closed,
    Tcp,
    Udp {
        socket: UdpSocket,
        datagrams: u64,
    },
    Shown,
}

enum Fate {
    Sent {
        target: Target,
        bytes: u64,
        upto: u64,
    },
    Failed(Failure),
}

impl<'a> Courier<'a> {
    pub(super) fn new(delivery: Delivery, show: Show<'a>) -> Self {
        let line = |(hold, pending): (HoldId, Pending)| {
            let line = Line {
                route: Route::Closed,
                sent: pending.sent,
                pending,
            };
            (hold, line)
        };
        let interrupted = delivery.interrupted.into_iter();
        Self {
            outbox: delivery.outbox,
            connections: Connections::new(delivery.limits),
            limits: delivery.limits,
            reached: delivery.reached,
            show,
            lines: delivery.holds.into_iter().map(line).collect(),
            stalled: BTreeSet::new(),
            fates: interrupted
                .map(|failure| (failure.hold, Fate::Failed(failure)))
                .collect(),
        }
    }

    pub(super) fn run(mut self) -> Delivered {
        let mut buffer = Vec::new();
        let pending = self.lines.values().map(|line| &line.pending);
        for step in self.outbox.steps(pending) {
            // A hold that has failed has no line any more.
            let Some(mut line) = self.lines.remove(&step.hold) else {
                continue;
            };
            match self.step(&mut line, &step, &mut buffer) {
                Ok(()) if step.is_last => self.note_sent(line),
                Ok(()) => drop(self.lines.insert(step.hold, line)),
                Err(cause) => self.fail(line, cause),
            }
        }
        let refused = self.connections.settle_all();
        self.take_back(refused);
        self.report()
    }

    fn step(&mut self, line: &mut Line, step: &Step, buffer: &mut Vec<u8>) -> Result<(), Cause> {
        if matches!(line.route, Route::Closed) {
            line.route = self.begin(&line.pending)?;
        }
        if let Some(piece) = &step.piece {
            self.outbox.read(piece, buffer)?;
            self.send(line, buffer)?;
            self.outbox.mark_left(line.pending.hold, line.sent);
        }
        if step.is_last {
            self.finish(line)?;
        }
        Ok(())
    }

    /// Opens the way to a hold's target and notes that bytes of it leave.
    fn begin(&mut self, pending: &Pending) -> Result<Route, Cause> {
        let (hold, target) = (pending.hold, &pending.target);
        if self.stalled.contains(target) {
            let why = "its receiver took too long for an earlier one";
            return Err(io::Error::new(ErrorKind::TimedOut, why).into());
        }
        let route = match target {
            Target::Tcp(..) => {
                let refused = self.connections.settle(target);
                self.take_back(refused);
                let stream = self.reached.connection(target, self.limits.connect)?;
                self.connections.add(hold, target, stream);
                Route::Tcp
            }
            Target::Udp(..) => Route::Udp {
                socket: datagram_socket(self.reached.addresses(target), self.limits.write_idle)?,
                datagrams: 0,
            },
            Target::Output | Target::Error | Target::Terminal => Route::Shown,
        };
        self.outbox.mark_sending(&[hold])?;
        Ok(route)
    }

    fn send(&mut self, line: &mut Line, bytes: &[u8]) -> io::Result<()> {
        let hold = line.pending.hold;
        match &mut line.route {
            Route::Closed => unreachable!("the route was opened before"),
            Route::Tcp => return self.connections.send(hold, bytes, &mut line.sent),
            Route::Udp { socket, datagrams } => {
                *datagrams += 1;
                if datagrams.is_multiple_of(BURST) {
                    thread::sleep(BURST_PAUSE);
                }
                socket.send(bytes)?;
            }
            Route::Shown => (self.show)(&line.pending.target, bytes)?,
        }
        line.sent += bytes.len() as u64;
        Ok(())
    }

    fn finish(&mut self, line: &Line) -> io::Result<()> {
        let hold = line.pending.hold;
        match &line.route {
            Route::Tcp if line.pending.end == Some(End::Reset) => self.connections.reset(hold),
            Route::Tcp => self.connections.finish(hold),
            // What the receiver's host says about the last datagrams.
            Route::Udp { socket, .. } => socket.take_error()?.map_or(Ok(()), Err),
            Route::Closed | Route::Shown => Ok(()),
        }
    }

    fn note_sent(&mut self, line: Line) {
        // A note that cannot be made leaves the hold interrupted: it is not sent again either.
        let _ = self.outbox.mark_sent(line.pending.hold, line.sent);
        let fate = Fate::Sent {
            bytes: line.sent - line.pending.sent,
            upto: line.sent,
            target: line.pending.target,
        };
        self.fates.insert(line.pending.hold, fate);
    }

    fn fail(&mut self, line: Line, source: Cause) {
        let hold = line.pending.hold;
        self.connections.abandon(hold);
        let is_timeout = |error: &io::Error| error.kind() == ErrorKind::TimedOut;
        if matches!(&source, Cause::Io(error) if is_timeout(error)) {
            self.stalled.insert(line.pending.target.clone());
        }
        let has_begun = !matches!(line.route, Route::Closed);
        if has_begun {
            self.note_failed(hold, line.sent, &source);
        }
        let failure = Failure {
            hold,
            sent: line.sent,
            is_held: !has_begun && !matches!(source, Cause::Outbox(_)),
            target: line.pending.target,
            source,
        };
        self.fates.insert(hold, Fate::Failed(failure));
    }

    /// Holds of which all was sent, and whose receivers then refused them.
    fn take_back(&mut self, refused: Vec<(HoldId, io::Error)>) {
        for (hold, error) in refused {
            let Some(Fate::Sent { target, upto, .. }) = self.fates.remove(&hold) else {
                unreachable!("a finished connection belongs to a hold that was sent");
            };
            let source = Cause::Io(error);
            self.note_failed(hold, upto, &source);
            let failure = Failure {
                hold,
                target,
                sent: upto,
                is_held: false,
                source,
            };
            self.fates.insert(hold, Fate::Failed(failure));
        }
    }

    fn note_failed(&self, hold: HoldId, upto: u64, source: &Cause) {
        let error = match source {
            Cause::Io(error) => error,
            Cause::Outbox(_) | Cause::Interrupted => &io::Error::from(ErrorKind::Other),
        };
        // As for a hold that was sent: without the note it counts as interrupted.
        let _ = self.outbox.mark_failed(hold, upto, error);
    }

    fn report(self) -> Delivered {
        let mut delivered = Delivered::default();
        for fate in self.fates.into_values() {
            match fate {
                Fate::Sent { target, bytes, .. } => delivered.sent.push((target, bytes)),
                Fate::Failed(failure) => delivered.failed.push(failure),
            }
        }
        delivered
    }
}

/// A connected socket, so that a host that refuses datagrams is heard of.
fn datagram_socket(addresses: &[SocketAddr], limit: Duration) -> io::Result<UdpSocket> {
    let mut failure = io::Error::other("the name has no address");
    for address in addresses {
        let any = match address {
            SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
            SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
        };
        let connected = UdpSocket::bind(any).and_then(|socket| {
            socket.connect(address)?;
            Ok(socket)
        });
        match connected {
            Ok(socket) => {
                socket.set_write_timeout(Some(limit))?;
                return Ok(socket);
            }
            Err(error) => failure = error,
        }
    }
    Err(failure)
}
