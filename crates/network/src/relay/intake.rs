//! What comes out of the TUN, and what goes on when promises were kept.

use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::Relay;
use super::epochs::Piece;
use crate::packet::{self, Packet};

/// How many packets one wakeup takes: the connections want their turn.
const PACKETS_MAX: usize = 256;

/// How long what was sent may take through the kernel inside, between two looks that find nothing.
const IN_FLIGHT: Duration = Duration::from_millis(2);

impl Relay {
    /// As [`Self::drain`], with what waits for promises: it may be for the outbox.
    pub(super) fn quiesce(&mut self) -> Result<(), surmise_outbox::OutboxError> {
        loop {
            self.drain()?;
            if !self.core.waiting.has_pieces() {
                return Ok(());
            }
            // On the spot: the programs stand still, and control waits for the answer anyway.
            self.core.waiting.await_event();
            self.promises_kept();
        }
    }

    /// Takes in everything that was sent, until nothing more comes, and has it written.
    pub(super) fn drain(&mut self) -> Result<(), surmise_outbox::OutboxError> {
        let mut quiet = 0;
        // What a program sent is in the kernel's hands: some of it on its way from one queue to the
        // next, which takes no longer than a moment. Two looks in a row that find nothing have seen all.
        while quiet < 2 {
            self.core.now = Instant::now();
            let packets = self.read_packets();
            let accepted = self.accept();
            let came = self.held.drain(&mut self.core);
            if packets || accepted || came {
                quiet = 0;
            } else {
                quiet += 1;
                std::thread::sleep(IN_FLIGHT);
            }
        }
        self.core.outbox.flush()
    }

    /// Takes packets out of the TUN; says whether there were any.
    pub(super) fn read_packets(&mut self) -> bool {
        let mut buffer = std::mem::take(&mut self.packet);
        let mut count = 0;
        while count < PACKETS_MAX {
            match rustix::io::read(&self.core.tun, &mut buffer[..]) {
                Ok(length) => self.take_packet(&buffer[..length]),
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => break,
                Err(_) => {
                    // The device is gone, and with it the domain.
                    self.stopped = true;
                    break;
                }
            }
            count += 1;
        }
        self.packet = buffer;
        count > 0
    }

    /// The epochs have their event: what has waited goes on, or is given up.
    pub(super) fn promises_kept(&mut self) {
        for key in self.core.waiting.take_event() {
            if let Some(pump) = self.pumps.get_mut(key) {
                let result = pump.promises_kept(&mut self.core.scratch);
                self.pumped(key, result);
            }
        }
        while let Some((piece, seen)) = self.core.waiting.next() {
            match piece {
                Piece::Packet(bytes) => self.pass_packet(packet::parse(&bytes), &bytes, seen),
                Piece::Query(asker, message) => self.dns.ask(&mut self.core, asker, &message),
            }
        }
    }

    fn take_packet(&mut self, bytes: &[u8]) {
        let packet = packet::parse(bytes);
        let piece = || Piece::Packet(bytes.to_vec());
        if !matches!(packet, Packet::Other) && !self.core.waiting.takes(piece) {
            self.pass_packet(packet, bytes, self.core.now);
        }
    }

    /// Does what a packet asks for that was read at `seen`.
    fn pass_packet(&mut self, packet: Packet<'_>, bytes: &[u8], seen: Instant) {
        let core = &mut self.core;
        match packet {
            Packet::Syn(syn) => self.gate.take(core, syn, bytes, seen),
            Packet::Datagram(datagram) if core.is_nameserver(datagram.destination) => {
                self.dns.take(core, &datagram);
            }
            Packet::Datagram(datagram) => self.datagrams.take(core, &datagram, bytes),
            Packet::Ping(ping) => self.pings.take(core, &ping, bytes),
            Packet::Other => {}
        }
    }
}
