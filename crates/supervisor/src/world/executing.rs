//! What the supervisor does about processes that execute programs.

use std::io;

use surmise_checkpoint::PendingCall;

use crate::call::Call;

/// Programs that are executed though that may have to be undone. `P` is what it takes to stop a process, and `S` a thread that has
/// stopped to take a signal.
pub(crate) trait Executes<P, S> {
    /// Whether a process could execute its present program again after it has executed the one that its only thread waits to
    /// execute. `None` if the thread does not stop for a look. Else it makes the call again. `others`: calls of the process' other
    /// threads that wait.
    fn can_come_back(
        &mut self,
        process: &mut P,
        call: &Call,
        others: &[PendingCall],
    ) -> io::Result<Option<bool>>;

    /// A process, all of which this one thread is, is about to execute a program.
    fn executes(&self, process: &mut P);

    /// Whether a signal tells a process of the end of what has held an image of it: so the kernel does to one that has executed a
    /// program since.
    fn is_of_vessel(&self, process: &P, signal: &S) -> io::Result<bool>;

    /// Has a process, which stands still, not take such a signal.
    fn forget_vessels(&mut self, process: &mut P) -> io::Result<()>;
}
