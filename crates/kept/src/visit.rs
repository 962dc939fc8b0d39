//! A visit to a running domain: a request, and what becomes of it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::Shutdown;
use rustix::process::{Pid, Signal};
use rustix::time::Timespec;
use surmise_commit::{Activity, CommitError, OnProgress, Progress};

use crate::domain::Domain;
use crate::doorway::{Done, Reply};
use crate::error::DecideError;
use crate::link::Link;
use crate::lock::Lock;
use crate::notice::Notice;
use crate::stopped::is_stopped;

/// How often the visitor is asked whether it still wants to wait.
const PATIENCE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};

/// Waits for what becomes of a commit. When `on_progress` wants it stopped, it is taken back unless it
/// has passed the point of no return, and the domain tells which; the second time this does not wait for
/// that. Held output that goes out when all else is done is not waited for either.
pub(crate) fn commit(
    domain: &Domain,
    link: &Link,
    on_progress: &mut OnProgress<'_>,
) -> Result<Done, DecideError> {
    let name = domain.name();
    let mut stopping = false;
    let mut applied: Option<Done> = None;
    let mut progress = Progress {
        activity: Activity::Stage,
        done: 0,
        total: 0,
    };
    loop {
        if has_word(link).map_err(|errno| DecideError::Link(errno.into()))? {
            match link.receive().map_err(DecideError::Link)? {
                Some(Reply::Progress {
                    activity,
                    done,
                    total,
                }) => {
                    progress = Progress {
                        // A word of another version; the numbers are right.
                        activity: Activity::named(&activity).unwrap_or(Activity::Stage),
                        done,
                        total,
                    };
                }
                Some(Reply::Applied(mut done)) => {
                    progress = Progress {
                        activity: Activity::Send,
                        done: 0,
                        total: 0,
                    };
                    done.is_sending = true;
                    applied = Some(done);
                }
                Some(Reply::Done(done)) => return Ok(done),
                Some(Reply::Failed(refusal)) => return Err(DecideError::Refused(refusal)),
                // Of another request.
                Some(Reply::Noticed(_)) => {}
                // What it did after the commit nobody has agreed to.
                None => return applied.ok_or_else(|| DecideError::Ended { name: name.into() }),
            }
        } else if let Some(pid) = stopped(domain) {
            let pid = pid.as_raw_pid();
            let name = name.into();
            return applied.ok_or(DecideError::Stopped { name, pid });
        }
        if on_progress(progress).is_break() {
            if let Some(done) = applied {
                return Ok(done);
            }
            if stopping {
                return Err(CommitError::Stopped.into());
            }
            stopping = true;
            // Fails only if the domain has ended.
            let _ = rustix::net::shutdown(link, Shutdown::Write);
        }
    }
}

/// Waits for the answer to a decision. A domain that is stopped is not waited for.
pub(crate) fn decide(domain: &Domain, link: &Link) -> Result<(), DecideError> {
    let name = || domain.name().to_owned();
    loop {
        if has_word(link).map_err(|errno| DecideError::Link(errno.into()))? {
            return match link.receive().map_err(DecideError::Link)? {
                Some(Reply::Failed(refusal)) => Err(DecideError::Refused(refusal)),
                Some(_) => Ok(()),
                None => Err(DecideError::Ended { name: name() }),
            };
        } else if let Some(pid) = stopped(domain) {
            return Err(DecideError::Stopped {
                name: name(),
                pid: pid.as_raw_pid(),
            });
        }
    }
}

/// A running domain that is watched.
#[derive(Debug)]
pub struct Watched(Link);

impl Watched {
    pub(crate) fn new(link: Link) -> Self {
        Self(link)
    }

    /// What happens next; waits for it. `None` when the domain has ended, or tells this watcher no more, since the
    /// watcher did not read or others came: then it still [answers](Domain::answers).
    ///
    /// # Errors
    /// When the link fails, and when the running domain is one of another version of Surmise.
    pub fn heard(&self) -> Result<Option<Notice>, DecideError> {
        match self.0.receive().map_err(DecideError::Link)? {
            Some(Reply::Noticed(notice)) => Ok(Some(notice)),
            Some(Reply::Failed(refusal)) => Err(DecideError::Refused(refusal)),
            Some(_) | None => Ok(None),
        }
    }
}

/// Readable when there is something new.
impl AsFd for Watched {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Waits until the domain has ended, which closes the link. One that is stopped goes on for that.
pub(crate) fn end(domain: &Domain, link: &Link) -> io::Result<()> {
    loop {
        if has_word(link)? {
            if link.receive::<Reply>()?.is_none() {
                return Ok(());
            }
        } else {
            wake(domain);
        }
    }
}

/// Control, if it is stopped, as a job of a shell is by Ctrl-Z: it hears nobody then.
pub(crate) fn stopped(domain: &Domain) -> Option<Pid> {
    let control = Pid::from_raw(Lock::holder(domain.directory())?)?;
    is_stopped(control).then_some(control)
}

/// Lets control go on if it is stopped: the domain is to end.
pub(crate) fn wake(domain: &Domain) {
    if let Some(control) = stopped(domain) {
        // Fails only if it has ended.
        let _ = rustix::process::kill_process(control, Signal::CONT);
    }
}

fn has_word(link: &Link) -> Result<bool, Errno> {
    let link = link.as_fd();
    let mut events = [PollFd::new(&link, PollFlags::IN)];
    match rustix::event::poll(&mut events, Some(&PATIENCE)) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(errno) => Err(errno),
    }
}
