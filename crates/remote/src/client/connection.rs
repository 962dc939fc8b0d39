//! The client's side of the connection: groups that are sent until they are decided, and for how long the client
//! may rely on its leases.

use super::ahead::Ahead;
use super::groups::Sent;
use super::{Client, Effect, Lost, Parked, Request, Response, Token};
use crate::errno::Errno;
use crate::frame::{MESSAGE_BYTES_MAX, PROTOCOL, ToClient, ToServer, Welcome};
use crate::lease::Mode;
use crate::lost::{LostChanges, Undecided};
use crate::operation::Operation;
use crate::server::Moment;

/// How long a change waits for others to go with it, in milliseconds.
const GATHER_MS: u64 = 2;

/// The shortest silence of a server that ends a connection, in milliseconds: it may be making what its log says, or have
/// to start first.
const SILENCE_MS_MIN: u64 = 60_000;

/// A group that has as much is sent at once.
const GROUP_BYTES: usize = 256 << 10;

/// Whether there is a connection, and until when the server surely keeps the client's leases.
#[derive(Debug, Default)]
pub(super) struct Connection {
    state: State,
    /// When the newest message left that the server is known to have received.
    heard: Option<Moment>,
    /// When anything came last, or when the connection began.
    came: Moment,
    /// When the last ping left.
    pinged: Option<Moment>,
    /// All that was undecided has been sent again; the server is to hear of that when the kernel relies on nothing.
    resends: bool,
    /// Whether the client relied on its leases when it last looked.
    relies: bool,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Cut,
    /// The client has introduced itself at this moment.
    Introduced(Moment),
    Up,
    /// The client has said that it ends, and says nothing more.
    Leaving,
    /// The client has ended.
    Left,
}

impl Connection {
    pub(super) fn is_up(&self) -> bool {
        self.state == State::Up
    }

    /// Something came at this moment.
    pub(super) fn came(&mut self, now: Moment) {
        self.came = now;
    }

    /// Whether this message counts. What came over a connection that the client has given up does not.
    pub(super) fn takes(&self, message: &ToClient) -> bool {
        match self.state {
            State::Up => true,
            State::Introduced(_) => matches!(message, ToClient::Welcome(_) | ToClient::Farewell(_)),
            State::Leaving => matches!(message, ToClient::Farewell(_)),
            State::Cut | State::Left => false,
        }
    }

    pub(super) fn has_left(&self) -> bool {
        self.state == State::Left
    }

    /// The server answers the ping of this moment, if there was one.
    pub(super) fn answered(&mut self, pinged: Moment) {
        if Some(pinged) <= self.pinged {
            self.heard(pinged);
        }
    }

    /// The server had a message that left at this moment.
    fn heard(&mut self, sent: Moment) {
        self.heard = self.heard.max(Some(sent));
    }
}

fn bytes_of(made: &[Undecided]) -> usize {
    made.iter().map(|one| one.operation.bytes()).sum()
}

impl Client {
    /// When time alone makes a difference next.
    pub fn wakes_at(&self) -> Option<Moment> {
        let gathered = self.groups.since.map(|since| Moment(since.0 + GATHER_MS));
        let gathered = gathered.filter(|_| self.connection.is_up());
        let ping = self.connection.is_up().then(|| self.pings_at());
        let relied = self
            .connection
            .relies
            .then(|| self.relies_until())
            .flatten();
        let dead = self.dead_at();
        gathered
            .into_iter()
            .chain(ping)
            .chain(relied)
            .chain(dead)
            .min()
    }

    /// Whether the server surely still keeps for this client what it has leases on.
    pub(super) fn may_rely(&self) -> bool {
        self.relies_until().is_some_and(|until| self.now < until)
    }

    fn relies_until(&self) -> Option<Moment> {
        let heard = self.connection.heard?;
        // Less by a quarter, since two clocks do not run alike, and the kernel has to forget by then.
        let for_ms = self.welcome.as_ref()?.lease_ms / 4 * 3;
        Some(Moment(heard.0.saturating_add(for_ms)))
    }

    fn pings_at(&self) -> Moment {
        let lease_ms = self.welcome.as_ref().map_or(0, |welcome| welcome.lease_ms);
        let last = self.connection.pinged.max(self.connection.heard);
        Moment(last.map_or(0, |last| {
            last.0.saturating_add(lease_ms / 4).saturating_add(1)
        }))
    }

    /// When a connection over which nothing came is taken for dead. The server answers each ping, and four of them go in
    /// the time of a lease.
    fn dead_at(&self) -> Option<Moment> {
        let lease_ms = self.welcome.as_ref().map(|welcome| welcome.lease_ms);
        let silence_ms = lease_ms.unwrap_or(0).saturating_mul(2).max(SILENCE_MS_MIN);
        let is_there = !matches!(self.connection.state, State::Cut | State::Left);
        is_there.then(|| Moment(self.connection.came.0.saturating_add(silence_ms)))
    }

    pub(super) fn tick(&mut self, effects: &mut Vec<Effect>) {
        if self.dead_at().is_some_and(|at| self.now >= at) {
            self.cut();
            effects.push(Effect::Reconnect);
        }
        let relies = self.may_rely();
        if std::mem::replace(&mut self.connection.relies, relies) && !relies {
            effects.push(Effect::Suspend);
        }
        self.answer_ended(effects);
        if !self.connection.is_up() {
            return;
        }
        if self.connection.resends && self.invalidating.is_empty() {
            self.connection.resends = false;
            effects.push(Effect::Send(ToServer::Resent));
        }
        let is_idle = self.parked.is_empty() && self.undecided() == 0;
        if self.leaves && is_idle {
            self.connection.state = State::Leaving;
            effects.push(Effect::Send(ToServer::Bye));
            return;
        }
        let is_due = |since: Moment| self.now.0 >= since.0 + GATHER_MS;
        if self.groups.since.is_some_and(is_due) || self.groups.open_bytes >= GROUP_BYTES {
            self.cut_group(effects);
        }
        self.forget_candidates(effects);
        self.go_ahead(effects);
        if self.now >= self.pings_at() {
            self.connection.pinged = Some(self.now);
            effects.push(Effect::Send(ToServer::Ping {
                number: self.now.0,
                decided: self.groups.decided,
            }));
        }
    }

    /// The client's tree has this change; the server is to have it, too.
    pub(super) fn changed(&mut self, made: Undecided, effects: &mut Vec<Effect>) {
        self.trail.changed(&made.operation.change);
        let bytes = made.operation.bytes();
        if self.groups.open_bytes + bytes > MESSAGE_BYTES_MAX / 2 {
            self.cut_group(effects);
        }
        self.groups.open.push(made);
        self.groups.open_bytes += bytes;
        self.groups.since.get_or_insert(self.now);
    }

    /// Closes the group of what was changed so far, and sends it.
    pub(super) fn cut_group(&mut self, effects: &mut Vec<Effect>) {
        if self.groups.open.is_empty() {
            return;
        }
        let made = std::mem::take(&mut self.groups.open);
        self.groups.sent_bytes += std::mem::take(&mut self.groups.open_bytes);
        self.groups.since = None;
        self.send_later(Sent::Made(made), effects);
    }

    /// Has the server perform a change, and returns the number of the verdict.
    pub(super) fn perform(
        &mut self,
        token: Token,
        operation: Operation,
        effects: &mut Vec<Effect>,
    ) -> u64 {
        self.cut_group(effects);
        self.groups.sent_bytes += operation.bytes();
        let asked = Sent::Asked {
            token,
            operation,
            is_tree_forgotten: false,
        };
        self.send_later(asked, effects)
    }

    fn send_later(&mut self, sent: Sent, effects: &mut Vec<Effect>) -> u64 {
        self.groups.sequence += 1;
        let sequence = self.groups.sequence;
        if self.connection.is_up() {
            effects.push(Effect::Send(sent.message(sequence)));
        }
        self.groups.sent.push_back((sequence, sent));
        sequence
    }

    pub(super) fn connected(&mut self, effects: &mut Vec<Effect>) {
        if self.connection.has_left() {
            return;
        }
        self.connection.state = State::Introduced(self.now);
        self.connection.came = self.now;

        effects.push(Effect::Send(ToServer::Hello {
            protocol: PROTOCOL,
            client: self.key,
            prefix: self.welcome.as_ref().map(|welcome| welcome.prefix),
            decided: self.groups.decided,
        }));
    }

    /// The server has all changes in the directory, and knows this client no more.
    pub(super) fn left(&mut self, effects: &mut Vec<Effect>) {
        self.connection.state = State::Left;
        self.connection.heard = None;
        effects.push(Effect::Left);
    }

    pub(super) fn cut(&mut self) {
        if !self.connection.has_left() {
            self.connection.state = State::Cut;
        }
        // The calls that still need the answers ask again.
        self.asked.clear();
        self.spaces.clear();
        self.fetching.clear();
        self.ahead.cut();
        self.coming.clear();
        self.locks.cut();
    }

    pub(super) fn welcomed(&mut self, welcome: Welcome, effects: &mut Vec<Effect>) {
        let State::Introduced(since) = self.connection.state else {
            return;
        };
        self.connection.state = State::Up;
        self.connection.heard(since);
        let was_known = self.welcome.is_some();
        let Welcome {
            is_known,
            has_leases,
            received,
            ..
        } = welcome;
        self.tree.set_limits(welcome.limits.clone());
        self.welcome = Some(welcome);
        if was_known && !is_known {
            self.begin_anew(effects);
        } else if was_known {
            self.state_locks(effects);
            for (sequence, sent) in &self.groups.sent {
                if *sequence > received {
                    effects.push(Effect::Send(sent.message(*sequence)));
                }
            }
            if !has_leases {
                self.cut_group(effects);
                self.forget_leases(effects);
            }
            self.connection.resends = true;
        }
        self.go_on_all(effects);
    }

    /// The server has forgotten this client: nothing is undecided any more, and nothing is known.
    fn begin_anew(&mut self, effects: &mut Vec<Effect>) {
        let lost = self.abandon();
        if !lost.changes.is_empty() {
            self.lose(lost, Lost::Expired, effects);
        }
        self.lose_locks(effects);
        // The verdicts that these wait for do not come.
        let waits = |(token, parked): (&Token, &Parked)| parked.until.map(|_| *token);
        let waiting: Vec<_> = self.parked.iter().filter_map(waits).collect();
        for token in waiting {
            match self.parked.get_mut(&token) {
                // Nothing that it waits for was lost.
                Some(parked) if matches!(parked.request, Request::Sync(_)) => parked.until = None,
                _ => {
                    self.parked.remove(&token);
                    effects.push(Effect::Answer(token, Err(Errno::IO)));
                }
            }
        }
        self.next_object = 1;
        self.forget_leases(effects);
    }

    /// Calls that wait for changes to be durable learn that some never will be.
    pub(super) fn lose(&mut self, changes: LostChanges, why: Lost, effects: &mut Vec<Effect>) {
        effects.push(Effect::Lost(changes, why));
        self.fail_syncs(effects);
    }

    /// What was lost tells of itself by the sync of each file that was open then.
    pub(super) fn fail_syncs(&mut self, effects: &mut Vec<Effect>) {
        self.losses += 1;
        let syncs = |(token, parked): (&Token, &Parked)| {
            matches!(parked.request, Request::Sync(_)).then_some(*token)
        };
        let syncs: Vec<_> = self.parked.iter().filter_map(syncs).collect();
        for token in syncs {
            self.parked.remove(&token);
            effects.push(Effect::Answer(token, Err(Errno::IO)));
        }
    }

    /// Nothing that is known may be relied on any more.
    fn forget_leases(&mut self, effects: &mut Vec<Effect>) {
        // The server recalls again what it still needs.
        for (_, answer) in self.invalidating.values_mut() {
            *answer = None;
        }
        self.recalled.clear();
        self.fetching.clear();
        self.ahead = Ahead::default();
        for (_, sent) in &mut self.groups.sent {
            if let Sent::Asked {
                is_tree_forgotten, ..
            } = sent
            {
                *is_tree_forgotten = true;
            }
        }
        let mut known: Vec<_> = self.tree.ids().collect();
        known.sort();
        for object in known {
            self.tree.forget(object);
            if self.stored.remove(&object).is_some() {
                effects.push(Effect::Discard(object));
            }
            if self.leases.remove(&object) >= Some(Mode::Read) {
                let number = self.request();
                self.invalidating.insert(number, (object, None));
                effects.push(Effect::Invalidate(number, object));
            }
        }
    }

    pub(super) fn decided(&mut self, upto: u64, effects: &mut Vec<Effect>) {
        let is_decided = |(sequence, _): &(u64, Sent)| *sequence <= upto;
        while self.groups.sent.front().is_some_and(is_decided) {
            if let Some((_, sent)) = self.groups.sent.pop_front() {
                self.verdict(sent, None, effects);
            }
        }
        self.groups.decided = self.groups.decided.max(upto);
        let decided = self.groups.decided;
        let waits = |(token, parked): (&Token, &Parked)| {
            let is_decided = parked.until.is_some_and(|until| until <= decided);
            is_decided.then_some(*token)
        };
        let done: Vec<_> = self.parked.iter().filter_map(waits).collect();
        for token in done {
            self.parked.remove(&token);
            effects.push(Effect::Answer(token, Ok(Response::Done)));
        }
        self.give_back(effects);
        self.go_on_all(effects);
    }

    pub(super) fn refused(&mut self, sequence: u64, errno: Errno, effects: &mut Vec<Effect>) {
        let at = self
            .groups
            .sent
            .iter()
            .position(|(sent, _)| *sent == sequence);
        if let Some((_, sent)) = at.and_then(|at| self.groups.sent.remove(at)) {
            self.verdict(sent, Some(errno), effects);
        }
    }

    fn verdict(&mut self, sent: Sent, refused: Option<Errno>, effects: &mut Vec<Effect>) {
        match (sent, refused) {
            (Sent::Made(made), None) => self.groups.sent_bytes -= bytes_of(&made),
            (Sent::Made(made), Some(errno)) => {
                self.groups.sent_bytes -= bytes_of(&made);
                // Of the other groups, only later ones are undecided.
                let later: Vec<_> = self.groups.undecided().cloned().collect();
                let lost = self.with_places(made, &later);
                self.lose(lost, Lost::Refused(errno), effects);
                // The tree holds the refused changes. What the server has already sent rests on them or not; over another
                // connection the client learns everything anew.
                self.forget_leases(effects);
                self.cut();
                effects.push(Effect::Reconnect);
            }
            (
                Sent::Asked {
                    token,
                    operation,
                    is_tree_forgotten,
                },
                refused,
            ) => {
                self.groups.sent_bytes -= operation.bytes();
                let answer = match refused {
                    Some(errno) => Err(errno),
                    None if is_tree_forgotten => Ok(Response::Done),
                    None => self.made_by_server(&operation),
                };
                if self.parked.remove(&token).is_some() {
                    effects.push(Effect::Answer(token, answer));
                }
            }
        }
    }

    /// The server has performed what this client then does, too.
    fn made_by_server(&mut self, operation: &Operation) -> Result<Response, Errno> {
        match self.tree.apply(operation) {
            Ok(()) => {
                self.trail.changed(&operation.change);
                self.candidates.extend(operation.change.touches());
                Ok(Response::Done)
            }
            // It holds the leases on all that is changed, so nobody else came between.
            Err(_) => Err(Errno::IO),
        }
    }
}
