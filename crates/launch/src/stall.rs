//! What the tasks of a domain wait for, sampled.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::time::Duration;

use rustix::process::Pid;
use surmise_linux::proc::{self, Link, Task};
use surmise_linux::waiting::{self, Activity, Waiting};

use crate::consent::Wait;

/// How much a task that waits may execute between two samples: one that polls wakes now and then, only
/// to wait again.
const IDLE_MAX: Duration = Duration::from_millis(2);

/// Who outside could end a wait.
#[derive(Debug, Default)]
pub(crate) struct Outside {
    /// The inodes of what the command has as standard streams.
    pub(crate) streams: BTreeSet<u64>,
    /// Whether a socket may lead outside without being held.
    pub(crate) network: bool,
}

/// Remembers what the tasks had done when it looked last.
#[derive(Debug)]
pub(crate) struct Sampler {
    outside: Outside,
    before: HashMap<u64, Activity>,
}

impl Sampler {
    pub(crate) fn new(outside: Outside) -> Self {
        Self {
            outside,
            before: HashMap::new(),
        }
    }

    /// What the tasks had done counts no more, for something else has happened since.
    pub(crate) fn forget(&mut self) {
        self.before.clear();
    }

    /// What each task below `init` waits for now, and has waited for since the last look; `held`: the
    /// sockets whose output is held.
    ///
    /// # Errors
    /// When the processes cannot be listed.
    pub(crate) fn look(
        &mut self,
        init: Pid,
        held: &BTreeSet<u64>,
    ) -> io::Result<BTreeMap<u64, Wait>> {
        let mut waits = BTreeMap::new();
        let mut activities = HashMap::new();
        for task in proc::tasks(init)? {
            // One that ends while we look waits for nothing.
            let (Ok(activity), Ok(state)) = (waiting::activity(task), waiting::state(task)) else {
                continue;
            };
            if state == Waiting::Ended {
                continue;
            }
            let id = number(task);
            let idle = self
                .before
                .get(&id)
                .is_some_and(|before| activity.time.saturating_sub(before.time) <= IDLE_MAX);
            activities.insert(id, activity);
            let wait = match idle {
                true => self.classify(&state, held),
                false => Wait::Nothing,
            };
            waits.insert(id, wait);
        }
        self.before = activities;
        Ok(waits)
    }

    fn classify(&self, state: &Waiting, held: &BTreeSet<u64>) -> Wait {
        match state {
            Waiting::Running => Wait::Nothing,
            Waiting::Time => Wait::Time,
            Waiting::Descriptor(Link::Socket(inode)) if held.contains(inode) => Wait::HeldReply,
            Waiting::Many(sockets) if sockets.iter().any(|inode| held.contains(inode)) => {
                Wait::HeldReply
            }
            Waiting::Descriptor(Link::Pipe(inode) | Link::Socket(inode))
                if self.outside.streams.contains(inode) =>
            {
                Wait::Outside
            }
            Waiting::Descriptor(Link::Socket(_)) | Waiting::Many(_) => match self.outside.network {
                true => Wait::Outside,
                false => Wait::Inside,
            },
            Waiting::Descriptor(Link::Pipe(_))
            | Waiting::Child
            | Waiting::Futex
            | Waiting::Lock
            | Waiting::Ipc
            | Waiting::Signal
            | Waiting::Open => Wait::Inside,
            // A device or a file: who knows what it waits for. A stopped job is the person's.
            Waiting::Descriptor(Link::Other(_))
            | Waiting::Terminal
            | Waiting::Stopped
            | Waiting::Call(_) => Wait::Outside,
            Waiting::Ended => Wait::Nothing,
        }
    }
}

fn number(task: Task) -> u64 {
    u64::try_from(task.thread.as_raw_nonzero().get()).unwrap_or_default()
}
