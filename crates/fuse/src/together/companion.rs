//! The thread that serves alone, on the processor of the caller.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::event::{PollFd, PollFlags};
use rustix::time::Timespec;
use surmise_sys::scheduling;

use super::processors::{self, Allowed, Callers};
use super::{Presence, Together};

/// How long the companion waits for a request before it asks whether it is still to serve.
const PATIENCE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 8_000_000,
};

/// After so many requests of one caller the companion looks where the caller runs now.
const FOLLOWS_EVERY: u64 = 16;

/// The thread that serves alone, from time to time.
#[derive(Debug)]
pub(crate) struct Companion<'t> {
    together: &'t Together,
    device: Arc<OwnedFd>,
    callers: Callers,
    /// The processors that it may use.
    allowed: Allowed,
    /// Whom it served last, and how often in a row.
    last: Option<(u32, u64)>,
    processor: Option<usize>,
}

impl<'t> Companion<'t> {
    /// Makes the calling thread the companion; `None` where there can be none, and then the workers go on by themselves.
    ///
    /// `processes`: a mount of procfs in the namespace of callers.
    pub(crate) fn begin(
        together: &'t Together,
        device: &OwnedFd,
        processes: OwnedFd,
    ) -> Option<Self> {
        let own = Self::new(together, device, processes);
        match own {
            Some(_) => together.state().companion = Presence::Is(rustix::thread::gettid()),
            None => together.never(),
        }
        own
    }

    fn new(together: &'t Together, device: &OwnedFd, processes: OwnedFd) -> Option<Self> {
        let device = surmise_sys::fuse_device::clone_device(device).ok()?;
        let allowed = Allowed::here().ok()?;
        if allowed.count() == 1 {
            // Callers and workers share it.
            return None;
        }
        scheduling::run_when_idle().ok()?;
        Some(Self {
            together,
            device: Arc::new(device),
            callers: Callers::new(processes),
            allowed,
            last: None,
            processor: None,
        })
    }

    /// From where requests are taken, and to where their answers go.
    pub(crate) fn device(&self) -> &Arc<OwnedFd> {
        &self.device
    }

    /// Returns when there may be a request, or after some time.
    pub(crate) fn await_request(&self) {
        let mut events = [PollFd::new(&self.device, PollFlags::IN)];
        // Whatever it says, the next read says more.
        let _ = rustix::event::poll(&mut events, Some(&PATIENCE));
    }

    /// Returns when the companion is to serve; `false` when it is needed no more.
    pub(crate) fn await_turn(&mut self) -> bool {
        if self.together.is_alone.load(Ordering::SeqCst) {
            return true;
        }
        self.let_go();
        let mut state = self.together.state();
        while !self.together.is_alone.load(Ordering::SeqCst) {
            if !state.may_serve_alone() {
                return false;
            }
            state = self.together.wait(state);
        }
        drop(state);
        // The guard may have ended that. Where it fails by now, the guard sees what comes of it.
        let _ = scheduling::run_when_idle();
        true
    }

    /// A request was taken, of this thread, or of none (0). Follows the thread to its processor.
    pub(crate) fn took(&mut self, thread: u32) {
        self.together.by_companion.fetch_add(1, Ordering::SeqCst);
        // What the kernel asks by itself is nobody's.
        if thread == 0 {
            return;
        }
        if self.together.is_moved.swap(false, Ordering::SeqCst) {
            (self.processor, self.last) = (None, None);
        }
        let count = match self.last {
            Some((last, count)) if last == thread => count + 1,
            _ => {
                self.together.of_others.fetch_add(1, Ordering::Relaxed);
                0
            }
        };
        self.last = Some((thread, count));
        if !count.is_multiple_of(FOLLOWS_EVERY) {
            return;
        }
        let found = self.callers.processor(thread);
        if let Some(processor) = found
            && self.processor != found
            && processors::bind(None, processor).is_ok()
        {
            self.processor = found;
            if !self.together.is_alone.load(Ordering::SeqCst) {
                // The guard has let it go already.
                self.let_go();
            }
        }
    }

    /// Has it run on any of its processors, and forget its caller.
    fn let_go(&mut self) {
        (self.processor, self.last) = (None, None);
        self.allowed.give_to(rustix::thread::gettid());
    }

    /// It was answered.
    pub(crate) fn answered(&self) {
        self.together.done.fetch_add(1, Ordering::SeqCst);
    }
}

impl Drop for Companion<'_> {
    fn drop(&mut self) {
        self.together.never();
    }
}
