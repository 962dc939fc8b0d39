//! Children that have ended, of which a process is told before it reaps them.

use std::io;

use surmise_checkpoint::PendingCall;

use super::door::Door;
use super::process::{Supervised, fill, unless_numbered};
use crate::call::Call;
use crate::objects::wait::{ChildWait, Ended};

impl Supervised {
    /// Answers a call that waits for a child by one that has ended. False if it was not answered.
    pub(super) fn tell_of_zombie(
        &mut self,
        (call, wait): (&Call, ChildWait),
        child: u64,
        others: &[PendingCall],
        door: &mut Door,
    ) -> io::Result<bool> {
        self.answer_by(call, others, door, |halted, _, door| {
            let looked = unless_numbered(halted.look_at_ended(child, door))?.flatten();
            let ended = looked.and_then(|(signal, usage)| {
                let (user, code, status) = signal.end()?;
                Some(Ended {
                    number: child,
                    user,
                    code,
                    status,
                    usage,
                })
            });
            let told = ended.map(|ended| wait.told(&ended));
            let told = told.filter(|told| fill(halted.pid(), told));
            Ok(told.map(|told| told.result))
        })
    }

    /// Has the process, which stands still, reap a child that has ended.
    pub(super) fn reap_zombie(&mut self, child: u64, door: &mut Door) -> io::Result<()> {
        let reaped = self.with_halted(|halted| halted.reap_child(child as i32, door));
        reaped.map(drop)
    }
}
