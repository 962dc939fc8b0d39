//! The tasks of a domain stand still for a commit: the tracer that holds them, the committer, and the client of the commit.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::process::Pid;
use rustix::time::Timespec;
use surmise_kept::doorway::{Refusal, Reply};
use surmise_kept::{Link, is_stopped};
use surmise_linux::freeze::Frozen;
use surmise_sync::Epochs;
use surmise_sys::process::{self, Child};

use super::Job;
use super::course::Unstarted;
use super::stopped::StoppedRole;
use crate::message::Order;
use crate::roles::committer::Committer;

/// How long tasks may take to come to a call boundary: one may wait for a disk.
const FREEZE_MAX: Duration = Duration::from_secs(5);

pub(super) struct Standstill {
    /// Who asked.
    client: Link,
    /// Until the tasks go on.
    frozen: Option<Frozen>,
    committer: Option<(Child, Link)>,
}

impl Standstill {
    /// Stops the tasks below `init`. If that fails, the client has been told and the tasks go on.
    pub(super) fn begin(client: Link, init: Pid) -> Option<Self> {
        if client.is_over() {
            // It asked while this process was stopped, and did not wait.
            return None;
        }
        match Frozen::freeze(init, FREEZE_MAX) {
            Ok(frozen) => Some(Self {
                client,
                frozen: Some(frozen),
                committer: None,
            }),
            Err(error) => {
                let hint = "nothing has changed; try again, or wait until the command has ended";
                refuse(&client, Refusal::new(error.to_string(), hint));
                None
            }
        }
    }

    /// The committer's link, while there is one.
    pub(super) fn committer(&self) -> Option<&Link> {
        self.committer.as_ref().map(|(_, link)| link)
    }

    /// The committer, if it is stopped.
    pub(super) fn stopped_committer(&self) -> Option<StoppedRole> {
        let (committer, _) = self.committer.as_ref()?;
        let pid = committer.pid();
        let name = "the committer";
        is_stopped(pid).then_some(StoppedRole { name, pid })
    }

    pub(super) fn start_committer(
        &mut self,
        job: &Job<'_>,
        is_strict: bool,
        epochs: Option<&Epochs>,
    ) -> Result<(), Unstarted> {
        if !self.has_lasted() {
            return Err(Unstarted::TooEarly);
        }
        let started = self.fork_committer(job, is_strict, epochs);
        self.committer = Some(started.map_err(|error| Unstarted::Failed(error.to_string()))?);
        Ok(())
    }

    /// Whether the tasks have stood still until now. From here on the view does, whatever becomes of
    /// the one that holds them: no call of a task gets through before it is told to go on.
    fn has_lasted(&self) -> bool {
        let Some(frozen) = &self.frozen else {
            return false;
        };
        let tracer = frozen.as_fd();
        let mut events = [PollFd::new(&tracer, PollFlags::IN)];
        rustix::event::poll(&mut events, Some(&Timespec::default())) == Ok(0)
    }

    fn fork_committer(
        &self,
        job: &Job<'_>,
        is_strict: bool,
        epochs: Option<&Epochs>,
    ) -> io::Result<(Child, Link)> {
        let (ours, theirs) = Link::pair()?;
        let committer = Committer {
            name: job.name,
            root: job.root,
            state: job.state,
            control: &theirs,
            client: &self.client,
            is_strict,
            epochs,
        };
        // It keeps the lock as long as it works: nobody else shall finish its commit meanwhile.
        let keep = [theirs.as_fd(), self.client.as_fd(), job.lock.as_fd()];
        let child = process::fork(&keep, || committer.live())?;
        Ok((child, ours))
    }

    /// What is heard next of the committer, if it has died, is that.
    pub(super) fn forget_journal(&self) {
        if let Some(committer) = self.committer() {
            let _ = committer.send(&Order::Go);
        }
    }

    /// The committer has said its last word, so this waits for no disk.
    pub(super) fn reap(&mut self) {
        if let Some((child, link)) = self.committer.take() {
            drop(link);
            let _ = child.wait();
        }
    }

    /// Lets the tasks go on.
    pub(super) fn thaw(&mut self) {
        if let Some(frozen) = self.frozen.take() {
            // Whether they went on too early makes no difference any more: the view stood still.
            let _ = frozen.thaw();
        }
    }

    /// A client that has gone needs no answer; one that does not read gets none.
    pub(super) fn tell(&self, reply: &Reply) {
        let _ = self.client.try_send(reply);
    }
}

/// Tells a client that its request is not granted.
pub(super) fn refuse(client: &Link, refusal: Refusal) {
    let _ = client.try_send(&Reply::Failed(refusal));
}
