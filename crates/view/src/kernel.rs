//! What the kernel is told: around a commit of a domain that goes on, and when somebody outside changes
//! what it believes for a while.
//!
//! The kernel remembers for ever what only the domain could change. After the commit all of it is
//! lower's, and somebody outside may change it.

use std::collections::BTreeMap;
use std::io;
use std::iter;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd};
use rustix::io::Errno;
use rustix::thread::CapabilitySet;
use surmise_fuse as fuse;
use surmise_fuse::{CallersProcesses, Capabilities};

use crate::types::MarkId;
use crate::view::{Stale, View};

/// How often open files are looked at for changes outside, which are to show within a second.
const LOOKS_EVERY: Duration = Duration::from_millis(400);

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
            wanted: match may_pass_through() {
                true => Capabilities::LOCAL_VIEW | Capabilities::PASSTHROUGH,
                false => Capabilities::LOCAL_VIEW,
            },
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

    /// How many requests the kernel has sent so far, by what they asked for.
    pub fn requests(&self) -> BTreeMap<&'static str, u64> {
        self.session.requests()
    }

    /// How many of them the thread took that follows callers to their processors.
    pub fn served_beside(&self) -> u64 {
        self.session.served_beside()
    }

    /// Serves a view until it is unmounted.
    ///
    /// # Errors
    /// What reading the device or writing a reply failed with.
    pub fn serve(&self, view: &View) -> io::Result<()> {
        self.serve_beside(view, &|| None)
    }

    /// As [`Self::serve`]; on the processors of callers while that is quicker ([`fuse::Session::serve_beside`]).
    ///
    /// # Errors
    /// As there.
    pub fn serve_beside(&self, view: &View, callers: &CallersProcesses<'_>) -> io::Result<()> {
        let end = event()?;
        let notifier = self.notifier();
        thread::scope(|scope| {
            scope.spawn(|| {
                if notifier.follow(view, &end).is_err() {
                    view.stop_watching();
                }
            });
            let served = self.session.serve_beside(view, callers);
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

    /// [`View::go_on`], and the kernel asks again for what it knew for ever. The tasks still stand
    /// still, and the caller is no thread of the server. For use after a rebase and after a commit
    /// that was given up alike.
    ///
    /// # Errors
    /// What the kernel says; then the domain must end.
    pub fn go_on(&self, view: &View) -> io::Result<()> {
        self.expire(view.go_on()?)
    }

    /// [`View::mark`], by its number.
    ///
    /// # Errors
    /// As there; `EOPNOTSUPP` before Linux 6.2.
    pub fn mark(&self, view: &View, process: u32, has_borne: bool) -> io::Result<u64> {
        // A name has to be asked for again although somebody works below it.
        if !self.notifier.can_expire() {
            return Err(Errno::OPNOTSUPP.into());
        }
        Ok(view.mark(process, has_borne)?.0)
    }

    /// [`View::check_writes`].
    pub fn check_writes(&self, view: &View, process: u32) {
        view.check_writes(process);
    }

    /// [`View::settle`]. Calls that wait for that go on.
    ///
    /// # Errors
    /// As there; then the domain must end.
    pub fn settle(&self, view: &View, marks: &[u64]) -> io::Result<()> {
        view.settle(&ids(marks))?;
        self.notifier.resume(view)
    }

    /// [`View::give_up`]: the processes of these marks are about to be stopped and rolled back.
    ///
    /// # Errors
    /// As for writing to the device.
    pub fn give_up(&self, view: &View, marks: &[u64]) -> io::Result<()> {
        view.give_up(&ids(marks));
        self.notifier.resume(view)
    }

    /// [`View::give_way`].
    ///
    /// # Errors
    /// As for writing to the device.
    pub fn give_way(&self, view: &View, marks: &[u64], stops: bool) -> io::Result<()> {
        view.give_way(&ids(marks), stops);
        match stops {
            true => self.notifier.resume(view),
            false => Ok(()),
        }
    }

    /// How many requests have waited for a decision, and how long altogether.
    pub fn waited(&self) -> (u64, Duration) {
        self.notifier.answered_late()
    }

    /// [`View::conceal`]. False if that is not possible now: a request is postponed, and the kernel may hold locks for it that the
    /// thread needs.
    pub fn conceal(&self, view: &View, thread: u32) -> bool {
        !self.notifier.has_postponed() && view.conceal(thread)
    }

    /// [`View::concealed`]. Whether a directory was removed.
    ///
    /// # Errors
    /// What the kernel says; then the domain must end.
    pub fn concealed(&self, view: &View) -> io::Result<bool> {
        let Some(removed) = view.concealed() else {
            return Ok(false);
        };
        // The listing, too.
        self.notifier.drop_data(removed.parent.0)?;
        self.notifier.expire_attributes(removed.node.0)?;
        Ok(true)
    }

    /// [`View::abandon`].
    ///
    /// # Errors
    /// As for writing to the device.
    pub fn abandon(&self, view: &View) -> io::Result<()> {
        view.abandon();
        self.notifier.resume(view)
    }

    /// [`View::undo`], the newest mark first. The processes stand still, outside of calls, and the caller is no thread
    /// of the server. To the kernel an open file stays as long as it was until somebody asks, and a process that appends writes there:
    /// so somebody has to ask before any process goes on.
    ///
    /// # Errors
    /// As there, or what the kernel says; then the domain must end.
    pub fn undo(&self, view: &View, marks: &[u64]) -> io::Result<()> {
        let stale = view.undo(&ids(marks))?;
        for node in &stale.nodes {
            self.notifier.drop_data(node.0)?;
            // A process that has it mapped asks for no attributes: to the kernel a file that was cut would stay
            // as short as it was.
            if let Some((offset, byte)) = view.last_byte(*node) {
                self.notifier.store(node.0, offset, &[byte])?;
            }
        }
        self.expire(stale)?;
        self.notifier.resume(view)
    }

    /// Tells the kernel what somebody outside changes, until the end.
    ///
    /// Watches begin with the first look, or when much was looked at: it takes the kernel some ten
    /// milliseconds to give them up, and a domain that is over before pays for none.
    fn follow(&self, view: &View, end: &OwnedFd) -> io::Result<()> {
        let wanted = Arc::new(event()?);
        view.announce_watching(Arc::clone(&wanted));
        if wait(&[end.as_fd(), wanted.as_fd()], LOOKS_EVERY)? == Some(0) {
            return Ok(());
        }
        let watcher = self.notifier.can_expire().then(|| view.watcher());
        let mut watcher = watcher.flatten();
        if let Some(watcher) = &watcher {
            view.begin_watching(Arc::clone(watcher));
        }
        let mut next_look = Instant::now();
        loop {
            let changes = watcher.as_ref().map(|watcher| watcher.descriptor());
            let sources: Vec<_> = iter::once(end.as_fd()).chain(changes).collect();
            match wait(
                &sources,
                next_look.saturating_duration_since(Instant::now()),
            )? {
                Some(0) => return Ok(()),
                Some(_) => {
                    if self.pass_on(view).is_err() {
                        view.stop_watching();
                        watcher = None;
                    }
                    // Otherwise many changes in a row would be followed step by step.
                    thread::sleep(GATHER);
                }
                None => {}
            }
            if Instant::now() >= next_look {
                self.look(view);
                next_look = Instant::now() + LOOKS_EVERY;
            }
        }
    }

    /// Has the kernel read again what changed outside of open files.
    fn look(&self, view: &View) {
        for node in view.changed_outside() {
            // What the kernel refuses now is old data in a cache, which the next open drops.
            let _ = self.notifier.drop_data(node.0);
        }
    }

    fn pass_on(&self, view: &View) -> io::Result<()> {
        let outside = view.take_changes()?;
        for node in outside.data {
            self.notifier.drop_data(node.0)?;
        }
        self.expire(outside.stale)
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

fn ids(marks: &[u64]) -> Vec<MarkId> {
    marks.iter().copied().map(MarkId).collect()
}

fn event() -> io::Result<OwnedFd> {
    Ok(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)
}

/// Whether the kernel might let this process have files passed through. In a container it may refuse all
/// the same, when the first is registered.
fn may_pass_through() -> bool {
    let own = rustix::thread::capabilities(None);
    own.is_ok_and(|own| own.effective.contains(CapabilitySet::SYS_ADMIN))
}

/// Waits for one of `sources`, and tells which is first.
fn wait(sources: &[BorrowedFd<'_>], limit: Duration) -> io::Result<Option<usize>> {
    let polled = sources.iter().map(|fd| PollFd::new(fd, PollFlags::IN));
    let mut events: Vec<_> = polled.collect();
    let limit = Timespec {
        tv_sec: limit.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: limit.subsec_nanos().into(),
    };
    match rustix::event::poll(&mut events, Some(&limit)) {
        Ok(_) => Ok(events.iter().position(|event| !event.revents().is_empty())),
        // As if the time were over: the caller looks what time it is.
        Err(Errno::INTR) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}
