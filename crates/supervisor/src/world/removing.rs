//! What the supervisor does about directories that are removed.

use std::io;

use surmise_checkpoint::PendingCall;

use crate::call::Call;

/// What a caller is told whose call was made and gave this result; nothing if it is to make the call again.
pub(crate) type ToTell<'a> = &'a mut dyn FnMut(i64) -> io::Result<Option<i64>>;

/// Directories that are removed while that may have to be undone. `P` is what it takes to stop a process.
pub(crate) trait Removes<P> {
    /// Whether a call removes a directory, if it does what its arguments ask for.
    fn removes_directory(&self, call: &Call) -> bool;

    /// Has the thread make the call that it waits in, and gives it the result that it is to be told. False if it was given none.
    /// `others`: calls of the process' other threads that wait.
    fn make(
        &mut self,
        process: &mut P,
        call: &Call,
        others: &[PendingCall],
        to_tell: ToTell<'_>,
    ) -> io::Result<bool>;
}
