//! What the kernel does about processes that lend their memory.

use std::io;

use rustix::process::Pid;
use surmise_checkpoint::Lent;
use surmise_sys::memory;

use super::process::Supervised;
use super::{Machine, unless_out_of_reach};
use crate::call::Call;
use crate::world::{Born, Lends};

impl Lends<Supervised> for Machine {
    fn lend(&mut self, process: &mut Supervised, call: &Call) -> io::Result<Born<Supervised>> {
        Ok(match process.lend(call, &mut self.door)? {
            Lent::Child(child) => Born::Child(child.pid(), Supervised::of(child)),
            Lent::Childless => Born::Childless,
            Lent::Unmade => Born::Unmade,
            Lent::AtSignal(stopped) => {
                self.passed.at_signal.push(stopped);
                Born::Unmade
            }
            Lent::Ended(thread) => {
                self.passed.ended.push(thread);
                Born::Unmade
            }
        })
    }

    fn is_lent(&self, parent: Pid, child: Pid) -> io::Result<bool> {
        // A child that may not be looked into any more has executed a program that nobody may read.
        unless_out_of_reach(memory::is_shared(parent, child), false)
    }
}
