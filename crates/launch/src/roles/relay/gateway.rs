//! The network of a domain that has a gate, from the moment that the gate is set up to the end of all connections.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use surmise_kept::Link;
use surmise_linux::mailbox::{self, Mailbox, mailbox};
use surmise_network::Verdict;
use surmise_outbox::{HoldId, Outbox};
use surmise_refusals::Tally;
use surmise_sync::Epochs;

use super::network::{Network, NetworkPlan, Surroundings};
use crate::gate;
use crate::held::HeldPlace;
use crate::message::Failure;

pub(super) struct Gateway {
    /// Until the gate is there.
    plan: Option<NetworkPlan>,
    network: Option<Network>,
    is_finishing: bool,
    /// For the network's thread, to tell of its end.
    ended: mailbox::Sender<()>,
    has_ended: Mailbox<()>,
    control: Arc<Link>,
    epochs: Option<Epochs>,
    tally: Tally,
}

impl Gateway {
    /// Of a domain whose network is to have a gate by `plan`, if any.
    pub(super) fn new(
        plan: Option<NetworkPlan>,
        control: Arc<Link>,
        epochs: Option<Epochs>,
        tally: Tally,
    ) -> io::Result<Self> {
        let (ended, has_ended) = mailbox()?;
        Ok(Self {
            plan,
            network: None,
            is_finishing: false,
            ended,
            has_ended,
            control,
            epochs,
            tally,
        })
    }

    /// Readable when the gate is there, or the process that was to set it up has ended: [`Self::open`].
    pub(super) fn gate(&self) -> Option<BorrowedFd<'_>> {
        self.plan.as_ref().map(|plan| plan.gate.as_fd())
    }

    /// Readable when the network's thread has ended: [`Self::look_for_end`].
    pub(super) fn end(&self) -> BorrowedFd<'_> {
        self.has_ended.as_fd()
    }

    /// Whether there are connections, or may be.
    pub(super) fn is_open(&self) -> bool {
        self.network.is_some()
    }

    pub(super) fn open(&mut self, held: &mut HeldPlace) -> Result<(), Failure> {
        let Some(plan) = self.plan.take() else {
            return Ok(());
        };
        let gate = gate::receive(&plan.gate).map_err(Failure::at("receive the gate"))?;
        let Some(gate) = gate else {
            return Ok(());
        };
        let outbox: Outbox = held
            .outbox()
            .map_err(Failure::told("open the outbox"))?
            .clone();
        let surroundings = Surroundings {
            outbox,
            epochs: self.epochs.clone(),
            control: Arc::clone(&self.control),
            tally: self.tally.clone(),
            ended: self.ended.clone(),
        };
        let network = plan.start(gate, surroundings);
        let network = network.map_err(Failure::at("start the network relay"))?;
        if self.is_finishing {
            network.finish();
        }
        self.network = Some(network);
        Ok(())
    }

    /// Tells why the network's thread has ended, if it has.
    pub(super) fn look_for_end(&mut self) -> Result<(), Failure> {
        if self.has_ended.next().is_none() {
            return Ok(());
        }
        match self.network.take() {
            Some(network) => network.result().map_err(Failure::at("relay the network")),
            None => Ok(()),
        }
    }

    /// Has all that the tasks have sent put into the outbox. False where there is no network: nobody answers then.
    pub(super) fn quiesce(&self) -> bool {
        self.network.as_ref().map(Network::quiesce).is_some()
    }

    /// Has sent what of these holds goes out by it. False where there is no network: nobody answers then.
    pub(super) fn release(&self, holds: Vec<HoldId>) -> bool {
        let network = self.network.as_ref();
        network.map(|network| network.release(holds)).is_some()
    }

    pub(super) fn answer(&self, question: u64, verdict: Verdict) {
        if let Some(network) = &self.network {
            network.answer(question, verdict);
        }
    }

    pub(super) fn decide(&self, hold: u64, verdict: Verdict) {
        if let Some(network) = &self.network {
            network.decide(hold, verdict);
        }
    }

    /// The domain has ended.
    pub(super) fn finish(&mut self) {
        self.is_finishing = true;
        if let Some(network) = &self.network {
            network.finish();
        }
    }
}
