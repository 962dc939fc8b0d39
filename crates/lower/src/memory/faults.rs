//! Calls that wait, and calls that fail.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Condvar, Mutex};

use rustix::io::Errno;

use super::Shared;

const WHOLE: &str = "nothing panics with it";

/// What goes wrong.
#[derive(Debug, Default)]
pub(super) struct Faults {
    hung: Mutex<Hung>,
    /// Tells the calls that wait that a hang is over.
    over: Condvar,
    failing: Mutex<Option<Failing>>,
}

/// The hangs that there are, each under a number of its own.
#[derive(Debug, Default)]
struct Hung {
    by_hang: HashMap<u64, Of>,
    last: u64,
}

/// What one hang stops.
#[derive(Debug)]
struct Of {
    inode: u64,
    /// How many more calls go through first.
    spared: u64,
    /// Whether the hang has stopped a call.
    is_met: bool,
}

#[derive(Debug)]
struct Failing {
    calls: u64,
    errno: Errno,
}

/// Calls that concern one inode wait for as long as this lives, once as many as were to go through first have done so.
#[derive(Debug)]
pub struct Hang {
    shared: Arc<Shared>,
    hang: u64,
}

impl Faults {
    pub(super) fn hang(shared: &Arc<Shared>, inode: u64, spared: u64) -> Hang {
        let mut hung = shared.faults.hung.lock().expect(WHOLE);
        hung.last += 1;
        let hang = hung.last;
        let of = Of {
            inode,
            spared,
            is_met: false,
        };
        hung.by_hang.insert(hang, of);
        Hang {
            shared: Arc::clone(shared),
            hang,
        }
    }

    pub(super) fn fail_after(&self, calls: u64, errno: Errno) {
        *self.failing.lock().expect(WHOLE) = Some(Failing { calls, errno });
    }

    pub(super) fn fail_no_more(&self) -> bool {
        self.failing.lock().expect(WHOLE).take().is_some()
    }

    /// A call concerns an inode: it waits while that hangs, and may fail.
    pub(super) fn meet(&self, number: u64) -> io::Result<()> {
        let mut hung = self.hung.lock().expect(WHOLE);
        let stopping = hung.meet(number);
        let is_stopped = |hung: &mut Hung| {
            let mut stopping = stopping.iter();
            stopping.any(|hang| hung.by_hang.contains_key(hang))
        };
        drop(self.over.wait_while(hung, is_stopped).expect(WHOLE));
        let mut failing = self.failing.lock().expect(WHOLE);
        match failing.as_mut() {
            Some(Failing { calls: 0, errno }) => {
                let errno = *errno;
                *failing = None;
                Err(errno.into())
            }
            Some(failing) => {
                failing.calls -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

impl Hang {
    /// Whether a call waits for the end of this.
    pub fn is_met(&self) -> bool {
        let hung = self.shared.faults.hung.lock().expect(WHOLE);
        hung.by_hang[&self.hang].is_met
    }
}

impl Drop for Hang {
    fn drop(&mut self) {
        let faults = &self.shared.faults;
        faults.hung.lock().expect(WHOLE).by_hang.remove(&self.hang);
        faults.over.notify_all();
    }
}

impl Hung {
    /// A call begins that concerns an inode. Each hang of the inode spares the call or stops it; returns those that
    /// stop it.
    fn meet(&mut self, inode: u64) -> Vec<u64> {
        let mut stopping = Vec::new();
        for (hang, of) in &mut self.by_hang {
            if of.inode != inode {
                continue;
            }
            match of.spared.checked_sub(1) {
                Some(spared) => of.spared = spared,
                None => {
                    of.is_met = true;
                    stopping.push(*hang);
                }
            }
        }
        stopping
    }
}
