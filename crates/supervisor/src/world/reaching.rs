//! What calls touch in the view, as far as can be told before they happen.

use std::io;

use rustix::process::Pid;

use crate::call::Call;
use crate::objects::files::{Reach, Touch};

/// Looks at calls that may touch the view.
pub(crate) trait Reaching {
    /// What a call may touch in the view, without a look at its process.
    fn touch(&self, call: &Call) -> Touch;

    /// Whether what a call may do depends on what its paths lead to.
    fn depends_on_ends(&self, call: &Call) -> bool;

    /// What a call of a process touches in the view.
    fn reach(&self, process: Pid, call: &Call) -> io::Result<Reach>;
}
