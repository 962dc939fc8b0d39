//! What the kernel is told: around a commit of a domain that goes on, and when somebody outside changes
//! what it believes for a while.
//!
//! The kernel remembers for ever what only the domain could change. After the commit all of it is
//! lower's, and somebody outside may change it.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd};
use rustix::io::Errno;
use surmise_fuse as fuse;

use crate::view::{Stale, View};
use crate::watch::Watches;

/// A domain that is over by then pays for no watches: it takes the kernel some ten milliseconds to give
/// them up.
const BEFORE_WATCHES: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 500_000_000,
};

/// How long changes outside gather before the kernel is told the next ones.
const GATHER: Duration = Duration::from_millis(5);

/// A view's session on a mounted FUSE device.
#[derive(Debug)]
pub struct Server {
    session: fuse::Session,
}

/// Speaks to the kernel for a [`Server`], from a thread of its own.
#[derive(Debug, Clone)]
pub struct Notifier {
    notifier: fuse::Notifier,
}

impl Server {
    /// A server of `threads` threads on the device, which is mounted.
    pub fn new(device: OwnedFd, threads: usize) -> Self {
        let config = fuse::Config {
            threads,
            ..fuse::Config::default()
        };
        Self {
            session: fuse::Session::new(device, config),
        }
    }

    /// What speaks to the kernel. It keeps the device open.
    pub fn notifier(&self) -> Notifier {
        Notifier {
            notifier: self.session.notifier(),
        }
    }

    /// Serves a view until it is unmounted.
    ///
    /// # Errors
    /// What reading the device or writing a reply failed with.
    pub fn serve(&self, view: &View) -> io::Result<()> {
        let end = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let notifier = self.notifier();
        thread::scope(|scope| {
            scope.spawn(|| {
                if notifier.follow(view, &end).is_err() {
                    view.stop_watching();
                }
            });
            let served = self.session.serve(view);
            // Cannot fail: it is the first.
            let _ = rustix::io::write(&end, &1_u64.to_ne_bytes());
            Ok(served?)
        })
    }
}

impl Notifier {
    /// [`View::prepare_commit`], after the kernel has written back all that tasks changed through
    /// shared mappings. The tasks stand still outside of calls, and the caller is no thread of the
    /// server.
    ///
    /// # Errors
    /// As there, and what the kernel says.
    pub fn prepare_commit(&self, view: &View) -> io::Result<()> {
        for node in view.open_files() {
            self.notifier.drop_data(node.0)?;
        }
        view.prepare_commit()
    }

    /// Has the kernel read again what changed outside of open files. The caller is no thread of the
    /// server, and comes several times a second.
    ///
    /// # Errors
    /// What the kernel says; it may still hold old data then.
    pub fn follow_outside(&self, view: &View) -> io::Result<()> {
        let mut changed = view.changed_outside().into_iter();
        changed.try_for_each(|node| self.notifier.drop_data(node.0))
    }

    /// [`View::go_on`], and the kernel asks again for what it knew for ever. The tasks still stand
    /// still, and the caller is no thread of the server. For use after a rebase and after a commit
    /// that was given up alike.
    ///
    /// # Errors
    /// What the kernel says; then the domain must end.
    pub fn go_on(&self, view: &View) -> io::Result<()> {
        self.expire(view.go_on())
    }

    /// Tells the kernel what somebody outside changes, until the end.
    fn follow(&self, view: &View, end: &OwnedFd) -> io::Result<()> {
        if is_over(&[end], Some(&BEFORE_WATCHES))? || !self.notifier.can_expire() {
            return Ok(());
        }
        let Some(inotify) = Watches::open() else {
            return Ok(());
        };
        view.begin_watching(Arc::clone(&inotify));
        while !is_over(&[end, &inotify], None)? {
            let outside = view.take_changes()?;
            for node in outside.data {
                self.notifier.drop_data(node.0)?;
            }
            self.expire(outside.stale)?;
            // Whoever changes much would be followed step by step otherwise.
            thread::sleep(GATHER);
        }
        Ok(())
    }

    fn expire(&self, stale: Stale) -> io::Result<()> {
        for node in stale.nodes {
            self.notifier.expire_attributes(node.0)?;
        }
        for entry in stale.entries {
            // A directory that somebody works in must stay; it heals when it turns out to be stale.
            if entry.is_directory && !self.notifier.can_expire() {
                continue;
            }
            self.notifier.expire_entry(entry.parent.0, &entry.name)?;
        }
        Ok(())
    }
}

/// Waits for one of `sources`, and tells whether it is the first.
fn is_over(sources: &[&OwnedFd], limit: Option<&Timespec>) -> io::Result<bool> {
    let polled = sources.iter().map(|fd| PollFd::new(*fd, PollFlags::IN));
    let mut events: Vec<_> = polled.collect();
    loop {
        match rustix::event::poll(&mut events, limit) {
            Ok(_) => return Ok(!events[0].revents().is_empty()),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}
