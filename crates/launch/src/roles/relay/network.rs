//! The network relay, as a thread of the relay process.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::panic::resume_unwind;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::io::Errno;
use surmise_kept::Link;
use surmise_linux::mailbox;
use surmise_linux::network::gate::Gate;
use surmise_network::{Config, Event, Policy, Relay, RelayHandle, Released, Resolver, Verdict};
use surmise_outbox::{HoldId, Outbox, Target};
use surmise_refusals::Tally;
use surmise_sync::Epochs;

use crate::dial::Dialer;
use crate::launch::LostStream;
use crate::message::{Delivery, RelayReport};

/// How long a receiver outside may take nothing of what tasks that have ended have sent.
const PATIENCE: Duration = Duration::from_secs(30);

/// What the relay process is given of a network that has a gate.
pub(crate) struct NetworkPlan {
    /// From the command's process: the gate.
    pub(crate) gate: Link,
    /// To servers inside.
    pub(crate) dialer: Dialer,
    pub(crate) policy: Policy,
    pub(crate) publish: Vec<u16>,
    pub(crate) resolver: Resolver,
}

/// Whom the network relay has to do with.
pub(super) struct Surroundings {
    pub(super) outbox: Outbox,
    /// What leaves waits for them.
    pub(super) epochs: Option<Epochs>,
    /// What it tells goes there.
    pub(super) control: Arc<Link>,
    /// What it refuses.
    pub(super) tally: Tally,
    /// For its end.
    pub(super) ended: mailbox::Sender<()>,
}

impl NetworkPlan {
    pub(crate) fn descriptors(&self) -> [BorrowedFd<'_>; 2] {
        [self.gate.as_fd(), self.dialer.as_fd()]
    }

    /// Starts the relay on the open gate.
    pub(super) fn start(self, gate: Gate, surroundings: Surroundings) -> io::Result<Network> {
        let Surroundings {
            outbox,
            epochs,
            control,
            tally,
            ended,
        } = surroundings;
        let config = Config {
            gate,
            policy: self.policy,
            outbox,
            publish: self.publish,
            resolver: self.resolver,
            dial: Box::new(self.dialer),
            epochs,
            events: Box::new(move |event| {
                if let Some(report) = report(event, &tally) {
                    // If control is dead, so is this process in a moment. Control, if it is there,
                    // reads.
                    let _ = control.send(&report);
                }
            }),
        };
        // A relay stays on the thread that made it.
        let (made, handle) = mpsc::channel();
        let thread = thread::Builder::new()
            .name("network".into())
            .spawn(move || {
                let result = match Relay::new(config) {
                    Ok((relay, handle)) => {
                        let _ = made.send(Ok(handle));
                        relay.run()
                    }
                    Err(error) => {
                        let _ = made.send(Err(error));
                        Ok(())
                    }
                };
                ended.send(());
                result
            })?;
        match handle.recv() {
            Ok(handle) => Ok(Network {
                handle: handle?,
                thread,
            }),
            Err(_) => {
                joined(thread)?;
                unreachable!("a relay tells of its start before it ends")
            }
        }
    }
}

/// The running network relay.
pub(super) struct Network {
    handle: RelayHandle,
    thread: JoinHandle<io::Result<()>>,
}

impl Network {
    pub(super) fn quiesce(&self) {
        self.handle.quiesce();
    }

    pub(super) fn release(&self, holds: Vec<HoldId>) {
        self.handle.release(holds);
    }

    pub(super) fn answer(&self, question: u64, verdict: Verdict) {
        self.handle.answer(question, verdict);
    }

    pub(super) fn decide(&self, hold: u64, verdict: Verdict) {
        self.handle.decide(HoldId(hold), verdict);
    }

    /// The domain has ended: what its tasks have sent is passed on or held, and the relay ends.
    pub(super) fn finish(&self) {
        self.handle.finish(PATIENCE);
    }

    /// Why it ended. Waits for its end, which was told.
    pub(super) fn result(self) -> io::Result<()> {
        joined(self.thread)
    }
}

/// A panic of the thread is one of the process.
fn joined<T>(thread: JoinHandle<T>) -> T {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}

/// What control is told at once. Refusals are told at the end.
fn report(event: Event, tally: &Tally) -> Option<RelayReport> {
    Some(match event {
        Event::Asked {
            question,
            peer,
            sender,
        } => RelayReport::Asked {
            question,
            peer,
            sender: sender.map(Into::into),
        },
        Event::Waiting {
            hold,
            target,
            sender,
            bytes,
            inode,
        } => RelayReport::Waiting {
            hold: hold.0,
            peer: target.to_string(),
            sender: sender.map(Into::into),
            bytes,
            inode,
        },
        Event::Settled { hold } => RelayReport::Settled { hold: hold.0 },
        Event::Refused {
            kind,
            peer,
            sender,
            allow,
        } => {
            let program = sender.as_ref().map(|sender| sender.name.as_str());
            tally.record(kind, &peer, program, allow);
            return None;
        }
        Event::Lost { target, error, .. } => RelayReport::NotKept {
            peer: target.to_string(),
            error,
        },
        Event::Cut { peer } => RelayReport::Lost(LostStream {
            stream: format!("the connection to {peer}"),
            errno: Errno::TIMEDOUT.raw_os_error(),
        }),
        Event::Quiesced { failed } => RelayReport::Quiet { failed },
        Event::Releasing => RelayReport::Releasing,
        Event::Released(released) => RelayReport::Released(delivery(released)),
    })
}

/// Longest list that a report carries: it must fit one message.
const TOLD_MAX: usize = 100;

fn delivery(released: Released) -> Delivery {
    let peer = |target: &Target| target.to_string().chars().take(100).collect();
    let sent = released.sent.iter().take(TOLD_MAX);
    let failed = released.failed.iter().take(TOLD_MAX);
    Delivery {
        sent: sent.map(|(target, bytes)| (peer(target), *bytes)).collect(),
        unsent: failed
            .map(|(target, bytes, why)| (peer(target), *bytes, why.chars().take(100).collect()))
            .collect(),
    }
}
