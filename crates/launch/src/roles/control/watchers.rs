//! Other commands of the user that watch a running domain.

use surmise_kept::doorway::Reply;
use surmise_kept::{Link, Notice};

/// How many may watch at a time. The one that watched longest makes room for a further one.
const WATCHERS_MAX: usize = 16;

/// Who is told what happens, until the domain has ended: then their links are closed.
#[derive(Default)]
pub(super) struct Watchers(Vec<Link>);

impl Watchers {
    pub(super) fn add(&mut self, watcher: Link) {
        let Self(links) = self;
        if links.len() == WATCHERS_MAX {
            links.remove(0);
        }
        links.push(watcher);
    }

    /// A watcher that has gone, or does not read, is told no more: control waits for nobody.
    pub(super) fn tell(&mut self, notice: &Notice) {
        let reply = Reply::Noticed(notice.clone());
        self.0.retain(|watcher| watcher.try_send(&reply).is_ok());
    }
}
