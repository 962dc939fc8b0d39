//! A visit to a running domain: a request, and what becomes of it.

use std::io;
use std::ops::ControlFlow;
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::time::Timespec;
use surmise_commit::{Activity, CommitError, OnProgress, Progress};

use crate::decide::DecideError;
use crate::doorway::{Done, Reply};
use crate::message::Link;

/// How often the visitor is asked whether it still wants to wait.
const PATIENCE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};

/// Waits for what becomes of a commit. To go away takes it back, unless it has passed the point of no
/// return.
pub(crate) fn commit(
    name: &str,
    link: &Link,
    on_progress: &mut OnProgress<'_>,
) -> Result<Done, DecideError> {
    let mut progress = Progress {
        activity: Activity::Stage,
        done: 0,
        total: 0,
    };
    loop {
        if !has_word(link).map_err(|errno| DecideError::Link(errno.into()))? {
            if let ControlFlow::Break(()) = on_progress(progress) {
                return Err(CommitError::Stopped.into());
            }
            continue;
        }
        match link.receive().map_err(DecideError::Link)? {
            Some(Reply::Progress {
                activity,
                done,
                total,
            }) => {
                progress = Progress {
                    activity: activity_of(&activity),
                    done,
                    total,
                };
                if let ControlFlow::Break(()) = on_progress(progress) {
                    return Err(CommitError::Stopped.into());
                }
            }
            Some(Reply::Done(done)) => return Ok(done),
            Some(Reply::Failed(refusal)) => return Err(DecideError::Refused(refusal)),
            None => return Err(DecideError::Ended { name: name.into() }),
        }
    }
}

/// Waits until the domain has ended and is thrown away, which closes the link.
pub(crate) fn end(link: &Link) -> io::Result<()> {
    while link.receive::<Reply>()?.is_some() {}
    Ok(())
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

fn activity_of(name: &str) -> Activity {
    match name {
        "apply" => Activity::Apply,
        "undo" => Activity::Undo,
        _ => Activity::Stage,
    }
}
