//! What the client asks the server.

use std::ops::Range;

use super::fetches::Fetching;
use super::{Client, Effect, Token};
use crate::frame::{ToServer, Urgency, Want};
use crate::object::ObjectId;

/// How many objects an answer brings besides those that a program waits for.
const NEAR: u32 = 1024;

/// A question for leases.
#[derive(Debug)]
pub(super) struct Asked {
    /// The call that needs the answer, if any does.
    pub(super) token: Option<Token>,
    pub(super) objects: Vec<ObjectId>,
    /// One of them of which it asks for the names.
    pub(super) listed: Option<ObjectId>,
}

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

    /// Fetches bytes of a file from the first of these on, and returns up to where. A piece that was kept is fetched as a whole.
    pub(super) fn fetch(
        &mut self,
        object: ObjectId,
        bytes: Range<u64>,
        urgency: Urgency,
        effects: &mut Vec<Effect>,
    ) -> u64 {
        if self.fetching.upto(object, bytes.start).is_some() || !self.connection.is_up() {
            return bytes.end;
        }
        let Some(known) = self.tree.get(object) else {
            return bytes.end;
        };
        let (version, size) = (known.versions.content, known.attributes.size);
        // What is on its way is not sent twice.
        let next = self.fetching.next(object, bytes.start);
        let bytes = bytes.start..next.map_or(bytes.end, |next| next.min(bytes.end));
        let (bytes, kept) = self.kept.at(object, bytes, size);
        // Otherwise the server would answer without what this client has changed in them.
        self.cut_group(effects);
        let request = self.request();
        let (offset, end) = (bytes.start, bytes.end);
        if urgency == Urgency::Ahead {
            let expected = self.kept.expected_bytes(&bytes, kept.is_some());
            self.ahead.window.sent(request, expected, self.now);
        }
        let length = u32::try_from(end - offset).unwrap_or(u32::MAX);
        let fetching = Fetching {
            object,
            offset,
            length,
            version,
            kept,
        };
        self.fetching.insert(request, fetching);
        effects.push(Effect::Send(ToServer::Fetch {
            request,
            object,
            offset,
            length,
            urgency,
            kept: kept.map(|piece| piece.digest),
        }));
        end
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
