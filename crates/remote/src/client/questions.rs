//! What the client asks the server.

use super::{Asked, Client, Effect, Fetching, Token};
use crate::frame::{ToServer, Want};
use crate::object::ObjectId;

impl Client {
    pub(super) fn ask(&mut self, token: Token, wants: Vec<Want>, effects: &mut Vec<Effect>) {
        if self.asked.values().any(|asked| asked.token == token) || !self.connection.is_up() {
            return;
        }
        // The answer is to come from what the server has then.
        self.cut_group(effects);
        let request = self.request();
        let objects = wants.iter().map(|want| want.object).collect();
        self.asked.insert(request, Asked { token, objects });
        let ahead = self.connection.ahead();
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
        effects: &mut Vec<Effect>,
    ) {
        if self.is_fetching(object, offset) || !self.connection.is_up() {
            return;
        }
        let Some(version) = self.tree.get(object).map(|known| known.versions.content) else {
            return;
        };
        self.cut_group(effects);
        let request = self.request();
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
        }));
    }

    /// Whether a byte of a file is on its way.
    pub(super) fn is_fetching(&self, object: ObjectId, offset: u64) -> bool {
        let mut fetching = self.fetching.values();
        fetching.any(|one| {
            let range = one.offset..one.offset + u64::from(one.length);
            one.object == object && range.contains(&offset)
        })
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
