//! Files that the kernel keeps for those who execute or write them.

use std::io;

use rustix::process::Pid;

use super::Still;
use crate::call::Call;
use crate::objects::files::Target;

/// What a call wants a file for. While it is open for writing somewhere the file cannot be executed, and while it is executed
/// somewhere it cannot be opened for writing (`ETXTBSY` of execve(2) and open(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    Executes,
    Writes,
}

/// What a supervisor learns of claims to files.
pub(crate) trait Claims {
    /// The claim that a call makes, if any.
    fn claim(&self, call: &Call) -> Option<Claim>;

    /// The files of the view that processes which execute nothing keep from such a claim, `still` being all of those processes.
    fn denied(&mut self, claim: Claim, still: &[Still]) -> io::Result<Vec<(Pid, Target)>>;
}
