//! How long the kernel takes files of the view to be.
//!
//! The kernel keeps the size of an open file, and learns of an undone change only when somebody asks. Until then a process that
//! appends writes behind what was undone, and leaves a hole.

use std::io;

use rustix::process::Pid;

/// What a world does about the sizes of files.
pub(crate) trait Sizes {
    /// Whether another thread may put another file in the place of one that a process writes to.
    fn may_exchange(&self, process: Pid) -> bool;

    /// Holds the file of the view that a descriptor leads to, so that the kernel can be made to ask for its size whatever its
    /// openers do. Returns the number by which it is held; `None` if it cannot be, or if too many are held.
    fn hold(&mut self, process: Pid, descriptor: u64) -> io::Result<Option<u64>>;

    /// Makes the kernel ask how long a held file is.
    fn renew(&mut self, file: u64) -> io::Result<()>;

    /// Holds a file no longer.
    fn let_go_of(&mut self, file: u64);
}
