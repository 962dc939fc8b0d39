//! The connections of a delivery: bytes go out, replies are discarded.
//!
//! Whenever one connection makes us wait, the replies of all are read: a receiver that serves several
//! of them one after the other, and cannot get rid of a reply, would otherwise never come to the one
//! that we wait for.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::time::Timespec;

use super::Limits;
use super::acknowledged::is_acknowledged;
use crate::{HoldId, Target};

/// Finished connections whose replies are waited for, at most; each is a descriptor.
const FINISHED_MAX: usize = 256;

/// How often it is looked whether everything was acknowledged.
const PAUSE: Duration = Duration::from_millis(5);

/// All connections that are open.
#[derive(Debug)]
pub(super) struct Connections {
    open: BTreeMap<HoldId, Connection>,
    limits: Limits,
    /// Targets that did not end a reply in time: nobody waits for them again.
    never_close: BTreeSet<Target>,
    scratch: Vec<u8>,
}

#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    target: Target,
    /// Bytes of the reply.
    received: u64,
    /// Those that came before all was sent.
    earlier: u64,
    /// Whether more of the reply may come, and is wanted.
    is_reading: bool,
    /// Whether all is sent.
    is_finished: bool,
    refusal: Option<io::Error>,
}

/// A connection that the receiver reset without an answer, after all had been sent.
pub(super) type Refused = (HoldId, io::Error);

impl Connections {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            open: BTreeMap::new(),
            limits,
            never_close: BTreeSet::new(),
            scratch: vec![0; 1 << 16],
        }
    }

    /// Takes a new connection, non-blocking, for `hold`.
    pub(super) fn add(&mut self, hold: HoldId, target: &Target, stream: TcpStream) {
        let connection = Connection {
            stream,
            target: target.clone(),
            received: 0,
            earlier: 0,
            is_reading: true,
            is_finished: false,
            refusal: None,
        };
        self.open.insert(hold, connection);
    }

    /// Sends all of `bytes`; `sent` counts what has left, also before a failure.
    pub(super) fn send(&mut self, hold: HoldId, bytes: &[u8], sent: &mut u64) -> io::Result<()> {
        let mut rest = bytes;
        let mut deadline = Instant::now() + self.limits.write_idle;
        while !rest.is_empty() {
            let connection = self.connection(hold);
            if let Some(refusal) = connection.refusal.take() {
                return Err(refusal);
            }
            match connection.stream.write(rest) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(length) => {
                    rest = &rest[length..];
                    *sent += length as u64;
                    deadline = Instant::now() + self.limits.write_idle;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.wait(Some(hold), deadline)?;
                    if Instant::now() >= deadline {
                        return Err(ErrorKind::TimedOut.into());
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Half-closes the connection of `hold`; from now on only its reply is waited for, and whether
    /// the receiver refuses it is told by `settle`.
    pub(super) fn finish(&mut self, hold: HoldId) -> io::Result<()> {
        let connection = self.connection(hold);
        match connection.stream.shutdown(Shutdown::Write) {
            Err(error) if error.kind() == ErrorKind::NotConnected => {
                // It was reset already; reading tells, behind what came of a reply.
            }
            other => other?,
        }
        connection.is_finished = true;
        connection.earlier = connection.received;
        Ok(())
    }

    /// Resets the connection of `hold` once its receiver has all of it, or does not take it.
    pub(super) fn reset(&mut self, hold: HoldId) -> io::Result<()> {
        let deadline = Instant::now() + self.limits.write_idle;
        while !is_acknowledged(&self.connection(hold).stream)? {
            if Instant::now() >= deadline {
                return Err(ErrorKind::TimedOut.into());
            }
            self.wait(None, Instant::now() + PAUSE)?;
            if let Some(refusal) = self.connection(hold).refusal.take() {
                return Err(refusal);
            }
        }
        self.abandon(hold);
        Ok(())
    }

    /// Closes the connection of `hold` so that its receiver sees that the stream is not whole.
    pub(super) fn abandon(&mut self, hold: HoldId) {
        if let Some(connection) = self.open.remove(&hold) {
            // Without a reset at its disposal, the close that follows must do.
            let _ =
                rustix::net::sockopt::set_socket_linger(&connection.stream, Some(Duration::ZERO));
        }
    }

    /// Waits for the replies to everything that was sent to `target`; a target that once did not end
    /// them in time is not waited for again.
    pub(super) fn settle(&mut self, target: &Target) -> Vec<Refused> {
        let total = match self.never_close.contains(target) {
            true => Duration::ZERO,
            false => self.limits.reply_total,
        };
        let mut refused = self.settle_those(|each| each == target, total);
        let finished: Vec<_> = self.finished().collect();
        let too_many = finished.len().saturating_sub(FINISHED_MAX);
        for hold in &finished[..too_many] {
            refused.extend(self.take_refusal(*hold));
        }
        refused
    }

    /// Waits for the replies to everything that was sent.
    pub(super) fn settle_all(&mut self) -> Vec<Refused> {
        self.settle_those(|_| true, self.limits.reply_total)
    }

    fn settle_those(&mut self, chosen: impl Fn(&Target) -> bool, total: Duration) -> Vec<Refused> {
        let end = Instant::now() + total;
        let mut limit = end.min(Instant::now() + self.limits.reply_idle);
        let mut refused = Vec::new();
        loop {
            let finished = self.finished();
            let (waiting, done): (Vec<_>, Vec<_>) = finished
                .filter(|hold| chosen(&self.open[hold].target))
                .partition(|hold| self.open[hold].is_reading);
            refused.extend(done.into_iter().filter_map(|hold| self.take_refusal(hold)));
            if waiting.is_empty() {
                return refused;
            }
            let is_last = Instant::now() >= limit;
            let before = self.received(&waiting);
            let waited = self.wait(None, limit);
            if self.received(&waiting) != before {
                limit = end.min(Instant::now() + self.limits.reply_idle);
            }
            if is_last || waited.is_err() {
                let targets = waiting.iter().map(|hold| self.open[hold].target.clone());
                self.never_close.extend(targets.collect::<Vec<_>>());
                return refused;
            }
        }
    }

    /// Closes a finished connection; its refusal, if it counts: a server that answered has not refused.
    fn take_refusal(&mut self, hold: HoldId) -> Option<Refused> {
        let connection = self.open.remove(&hold)?;
        let refusal = connection.refusal.filter(|_| connection.received == 0);
        refusal.map(|refusal| (hold, refusal))
    }

    fn received(&self, holds: &[HoldId]) -> u64 {
        holds.iter().map(|hold| self.open[hold].received).sum()
    }

    fn finished(&self) -> impl Iterator<Item = HoldId> {
        let finished = self.open.iter().filter(|(_, each)| each.is_finished);
        finished.map(|(hold, _)| *hold)
    }

    fn connection(&mut self, hold: HoldId) -> &mut Connection {
        self.open.get_mut(&hold).expect("the hold has a connection")
    }

    /// Waits until the connection of `writer` takes bytes, a reply comes, or `deadline` is over; and
    /// discards all replies that have come.
    fn wait(&mut self, writer: Option<HoldId>, deadline: Instant) -> io::Result<()> {
        let (mut holds, mut polled) = (Vec::new(), Vec::new());
        for (hold, connection) in &self.open {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, connection.is_reading);
            flags.set(PollFlags::OUT, writer == Some(*hold));
            if !flags.is_empty() {
                holds.push(*hold);
                polled.push(PollFd::new(&connection.stream, flags));
            }
        }
        let rest = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(rest).map_err(io::Error::other)?;
        match poll(&mut polled, Some(&timeout)) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        let ready = polled.iter().map(|each| !each.revents().is_empty());
        let ready: Vec<_> = ready.collect();
        for (hold, _) in holds.iter().zip(ready).filter(|(_, is_ready)| *is_ready) {
            let connection = self.open.get_mut(hold).expect("it was polled");
            connection.discard(&mut self.scratch, self.limits.reply_bytes_max);
        }
        Ok(())
    }
}

impl Connection {
    /// Reads what has come of the reply.
    fn discard(&mut self, scratch: &mut [u8], bytes_max: u64) {
        while self.is_reading {
            match self.stream.read(scratch) {
                Ok(0) => self.is_reading = false,
                Ok(length) => {
                    self.received += length as u64;
                    // A receiver that cannot get rid of its reply may not take what is still to come.
                    self.is_reading = !self.is_finished || self.received - self.earlier < bytes_max;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    self.is_reading = false;
                    self.refusal = Some(error);
                }
            }
        }
    }
}
