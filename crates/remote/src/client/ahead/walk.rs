//! Objects that come behind a directory that a program has listed. They are asked for little by little, so that what is awaited
//! comes between.

use super::super::{Client, Effect};
use crate::frame::ToServer;
use crate::object::ObjectId;

/// How many objects are asked for from one directory on.
const MOST: u32 = 1 << 14;

/// How many at once, at least and at most.
const AT_ONCE_MIN: u32 = 256;
const AT_ONCE_MAX: u32 = 8192;

/// About how long an object is in a message, in bytes.
const OBJECT_BYTES: u64 = 100;

/// How many walks are remembered that are not at their end.
const WALKS_MAX: usize = 8;

/// The walks that are not at their end. The newest one goes on first.
#[derive(Debug, Default)]
pub(in crate::client) struct Walks {
    walks: Vec<Walk>,
    /// The question that is not answered, and where its walk began.
    asked: Option<(u64, ObjectId)>,
}

#[derive(Debug)]
struct Walk {
    from: ObjectId,
    /// How many objects may still be asked for.
    left: u32,
}

impl Walks {
    /// A program has got the names of a directory. That is where it is now.
    pub(in crate::client) fn begin(&mut self, from: ObjectId) {
        self.walks.retain(|walk| walk.from != from);
        if self.walks.len() == WALKS_MAX {
            self.walks.remove(0);
        }
        self.walks.push(Walk { from, left: MOST });
    }

    pub(super) fn came(&mut self, request: u64, has_more: bool) {
        let asked = self.asked.take_if(|(asked, _)| *asked == request);
        if let Some((_, from)) = asked.filter(|_| !has_more) {
            self.walks.retain(|walk| walk.from != from);
        }
    }

    /// What to ask for next: where it begins, and how many objects it brings at most.
    fn next(&mut self, room: u32) -> Option<(ObjectId, u32)> {
        if self.asked.is_some() || room < AT_ONCE_MIN {
            return None;
        }
        let walk = self.walks.last_mut()?;
        let (from, most) = (walk.from, walk.left.min(room).min(AT_ONCE_MAX));
        walk.left -= most;
        if walk.left < AT_ONCE_MIN {
            self.walks.pop();
        }
        Some((from, most))
    }
}

impl Client {
    /// Asks for the next objects.
    pub(super) fn explore(&mut self, effects: &mut Vec<Effect>) {
        let room = self.ahead.window.room() / OBJECT_BYTES;
        let room = u32::try_from(room).unwrap_or(u32::MAX);
        let Some((directory, most)) = self.ahead.walks.next(room) else {
            return;
        };
        let request = self.request();
        self.ahead.walks.asked = Some((request, directory));
        let bytes = u64::from(most) * OBJECT_BYTES;
        self.ahead.window.sent(request, bytes, self.now);
        effects.push(Effect::Send(ToServer::Explore {
            request,
            directory,
            most,
        }));
    }
}
