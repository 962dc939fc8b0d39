//! What the kernel does about directories that are removed.

use std::io;

use surmise_checkpoint::PendingCall;

use super::Machine;
use super::meeting::removes_directory;
use super::process::Supervised;
use crate::call::Call;
use crate::world::{Removes, ToTell};

impl Removes<Supervised> for Machine {
    fn removes_directory(&self, call: &Call) -> bool {
        removes_directory(call.name(), call.arguments())
    }

    fn make(
        &mut self,
        process: &mut Supervised,
        call: &Call,
        others: &[PendingCall],
        to_tell: ToTell<'_>,
    ) -> io::Result<bool> {
        process.make(call, others, to_tell, &mut self.door)
    }
}
