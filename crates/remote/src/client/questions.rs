//! What the client asks the server.

use super::{Asked, Client, Effect, Fetching, Token};
use crate::frame::{ToServer, Urgency, Want};
use crate::object::ObjectId;

/// How many objects an answer brings besides those that a program waits for.
const NEAR: u32 = 1024;

impl Client {
    pub(super) fn ask(&mut self, token: Token, wants: Vec<Want>, effects: &mut Vec<Effect>) {
        if self.asked.values().any(|asked| asked.token == Some(token)) || !self.connection.is_up() {
            return;
        }
        // The answer is to come from what the server has then.
        self.cut_group(effects);
        let missed = self.missed(&wants);
        self.send_ask(Some(token), wants, effects);
        if let Some((object, mode)) = missed {
            self.ask_for_siblings(object, mode, effects);
        }
    }

    pub(super) fn send_ask(
        &mut self,
        token: Option<Token>,
        wants: Vec<Want>,
        effects: &mut Vec<Effect>,
    ) {
        let request = self.request();
        let objects = wants.iter().map(|want| want.object).collect();
        let listed = wants.iter().rev().find(|want| want.names);
        let listed = listed.filter(|_| token.is_some());
        let asked = Asked {
            token,
            objects,
            listed: listed.map(|want| want.object),
        };
        self.asked.insert(request, asked);
        let ahead = if token.is_some() { NEAR } else { 0 };
        effects.push(Effect::Send(ToServer::Ask {
            request,
            wants,
            ahead,
        }));
    }

    pub(super) fn fetch(
        &mut self,
        object: ObjectId,
        offset: u64,
        length: u32,
        urgency: Urgency,
        effects: &mut Vec<Effect>,
    ) {
        if self.is_fetching(object, offset) || !self.connection.is_up() {
            return;
        }
        let Some(version) = self.tree.get(object).map(|known| known.versions.content) else {
            return;
        };
        if urgency == Urgency::Awaited {
            self.cut_group(effects);
        }
        let request = self.request();
        if urgency == Urgency::Ahead {
            self.ahead.window.sent(request, length.into(), self.now);
        }
        let fetching = Fetching {
            object,
            offset,
            length,
            version,
        };
        self.fetching.insert(request, fetching);
        effects.push(Effect::Send(ToServer::Fetch {
            request,
            object,
            offset,
            length,
            urgency,
        }));
    }

    /// Whether a byte of a file is on its way.
    pub(super) fn is_fetching(&self, object: ObjectId, offset: u64) -> bool {
        self.fetching_upto(object, offset).is_some()
    }

    /// Up to where bytes of a file are on their way that begin at or before `offset`.
    pub(super) fn fetching_upto(&self, object: ObjectId, offset: u64) -> Option<u64> {
        let ends = self.fetching.values().filter_map(|one| {
            let end = one.offset + u64::from(one.length);
            let range = one.offset..end;
            (one.object == object && range.contains(&offset)).then_some(end)
        });
        ends.max()
    }

    pub(super) fn ask_space(&mut self, token: Token, effects: &mut Vec<Effect>) {
        if self.spaces.values().any(|one| *one == token) || !self.connection.is_up() {
            return;
        }
        self.cut_group(effects);
        let request = self.request();
        self.spaces.insert(request, token);
        effects.push(Effect::Send(ToServer::Space { request }));
    }

    pub(super) fn request(&mut self) -> u64 {
        self.next_request += 1;
        self.next_request
    }
}
