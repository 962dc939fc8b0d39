//! What the supervisor does about processes that lend their memory.

use std::io;

use rustix::process::Pid;

use super::Born;
use crate::call::Call;

/// Memory that a process lends to a child until the child executes a program or ends. `P` is what it takes to stop a
/// process.
pub(crate) trait Lends<P> {
    /// Has the call of a process happen that bears a child with the same memory. The calling thread cannot be stopped until
    /// the child gives the memory back.
    fn lend(&mut self, process: &mut P, call: &Call) -> io::Result<Born<P>>;

    /// Whether a child still has its parent's memory.
    fn is_lent(&self, parent: Pid, child: Pid) -> io::Result<bool>;
}
