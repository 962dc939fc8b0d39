//! What the relay is told, and what it tells.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use surmise_linux::mailbox;
use surmise_outbox::{HoldId, Sender, Target};
use surmise_refusals::Kind;

use super::deliver::Delivered;
use super::jobs::Asker;
use super::slab::Key;
use crate::policy::Verdict;

/// Reaches servers inside the domain. Asked on a thread of its own.
pub trait Dial: Send {
    /// A socket connected to a port of the domain's loopback address.
    ///
    /// # Errors
    /// As `connect`: nobody listens there; or the domain is about to end.
    fn dial(&self, port: u16) -> io::Result<OwnedFd>;
}

/// What the relay tells.
#[derive(Debug)]
pub enum Event {
    /// A peer that the policy has no answer for; the program that wants it waits. Once a peer.
    Asked {
        /// For [`RelayHandle::answer`].
        question: u64,
        /// Host and port, as a person would write them.
        peer: String,
        /// Who wants it, where that could be found out.
        sender: Option<Sender>,
    },
    /// A program has sent something that is held, sends nothing more, and has not closed its side: it
    /// probably waits for a reply. Once, and again after it has sent more.
    Waiting {
        /// Its number in the outbox.
        hold: HoldId,
        /// What it is for.
        target: Target,
        /// Who sends it.
        sender: Option<Sender>,
        /// How much it has sent.
        bytes: u64,
        /// Of the program's socket; 0 where it could not be found out.
        inode: u64,
    },
    /// The program that a [`Event::Waiting`] was about waits no more: it has closed its side, its
    /// connection has ended, or what it sent was released.
    Settled {
        /// Its number in the outbox.
        hold: HoldId,
    },
    /// The policy denied a peer. Each time, for names once a look-up.
    Refused {
        /// What was tried.
        kind: Kind,
        /// Host and port.
        peer: String,
        /// Who wanted it.
        sender: Option<Sender>,
        /// The option that allows it; `None` where none does.
        allow: Option<String>,
    },
    /// A receiver outside has taken nothing for long of what a program that has ended had sent; the rest
    /// is lost.
    Cut {
        /// Its address and port.
        peer: String,
    },
    /// The order to quiesce has been carried out.
    Quiesced {
        /// Why what was sent is not all in the outbox, if so.
        failed: Option<String>,
    },
    /// The order to release is being carried out: what is sent from now on waits for the next one.
    Releasing,
    /// The order to release has been carried out.
    Released(Released),
    /// Something that is held could not be kept; its connection was reset.
    Lost {
        /// Its number in the outbox.
        hold: HoldId,
        /// What it was for.
        target: Target,
        /// Why.
        error: String,
    },
}

/// What became of held output that was to be sent.
#[derive(Debug, Default)]
pub struct Released {
    /// What was sent, with its size in bytes.
    pub sent: Vec<(Target, u64)>,
    /// What was not, how much of it was, and why.
    pub failed: Vec<(Target, u64, String)>,
}

/// What the relay is told.
#[derive(Debug)]
pub(crate) enum Order {
    Answer {
        question: u64,
        verdict: Verdict,
    },
    Decide {
        hold: HoldId,
        verdict: Verdict,
    },
    Quiesce,
    /// In this order.
    Release(Vec<HoldId>),
    Finish {
        patience: Duration,
    },
    Stop,
}

/// What comes to the relay's loop from other threads.
#[derive(Debug)]
pub(crate) enum Message {
    Order(Order),
    /// The server inside was dialed for a published port's connection.
    Dialed {
        key: Key,
        result: io::Result<OwnedFd>,
    },
    /// A nameserver answered over TCP.
    Answered {
        key: Key,
        result: io::Result<Vec<u8>>,
    },
    /// A name was resolved.
    Resolved {
        asker: Asker,
        result: io::Result<Vec<std::net::IpAddr>>,
    },
    /// One hold was sent, or could not be.
    Delivered(Delivered),
    /// All were.
    Released(Released),
}

/// Gives orders to a relay. They are carried out by the relay's thread, in their order.
#[derive(Clone, Debug)]
pub struct RelayHandle {
    pub(crate) mailer: mailbox::Sender<Message>,
}

impl RelayHandle {
    /// Answers [`Event::Asked`]: the verdict becomes a rule of the policy, and who waited goes on.
    pub fn answer(&self, question: u64, verdict: Verdict) {
        self.order(Order::Answer { question, verdict });
    }

    /// Decides about the host of a hold: `Allow` sends what is held for it and relays from now on,
    /// `Deny` resets its connections, `Hold` leaves them as they are. The verdict becomes a rule.
    pub fn decide(&self, hold: HoldId, verdict: Verdict) {
        self.order(Order::Decide { hold, verdict });
    }

    /// Takes in everything that the programs, which are stopped, have sent, and has it written. Told by
    /// [`Event::Quiesced`].
    pub fn quiesce(&self) {
        self.order(Order::Quiesce);
    }

    /// Sends what a person has agreed to, by [`Outbox::agree`](surmise_outbox::Outbox::agree): piece by piece in causal
    /// order, where what a hold sends first comes behind what those before it send first. Told by
    /// [`Event::Releasing`] and [`Event::Released`].
    pub fn release(&self, holds: Vec<HoldId>) {
        self.order(Order::Release(holds));
    }

    /// Ends the relay once everything is delivered that the programs, which have ended, have sent, but
    /// for receivers that take nothing for as long as `patience` ([`Event::Cut`]). What comes for the
    /// programs is thrown away.
    pub fn finish(&self, patience: Duration) {
        self.order(Order::Finish { patience });
    }

    /// Ends the relay at once; all connections are closed.
    pub fn stop(&self) {
        self.order(Order::Stop);
    }

    fn order(&self, order: Order) {
        // A relay that has ended carries out nothing, and its process, which watches it, knows.
        self.mailer.send(Message::Order(order));
    }
}
