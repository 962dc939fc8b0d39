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
    /// How many hangs there are of each inode.
    hung: Mutex<HashMap<u64, u32>>,
    /// Tells the calls that wait that a hang is over.
    over: Condvar,
    failing: Mutex<Option<Failing>>,
}

#[derive(Debug)]
struct Failing {
    calls: u64,
    errno: Errno,
}

/// Calls that concern one inode wait for as long as this lives.
#[derive(Debug)]
pub struct Hang {
    shared: Arc<Shared>,
    number: u64,
}

impl Faults {
    pub(super) fn hang(shared: &Arc<Shared>, number: u64) -> Hang {
        let mut hung = shared.faults.hung.lock().expect(WHOLE);
        *hung.entry(number).or_default() += 1;
        Hang {
            shared: Arc::clone(shared),
            number,
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
        let is_hung = |hung: &mut HashMap<u64, u32>| hung.contains_key(&number);
        let hung = self.hung.lock().expect(WHOLE);
        drop(self.over.wait_while(hung, is_hung).expect(WHOLE));
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

impl Drop for Hang {
    fn drop(&mut self) {
        let faults = &self.shared.faults;
        let mut hung = faults.hung.lock().expect(WHOLE);
        if let Some(count) = hung.get_mut(&self.number) {
            *count -= 1;
            if *count == 0 {
                hung.remove(&self.number);
            }
        }
        faults.over.notify_all();
    }
}
