//! Positions in open files.

use std::io;

use rustix::process::Pid;

use crate::call::Call;

/// What a world does about positions that several processes may have. `D` is an open file description (open(2)), which has one.
pub(crate) trait Positions<D> {
    /// The descriptors by which a call may move positions.
    fn moves(&self, call: &Call) -> [Option<u64>; 2];

    /// What a descriptor leads to, if that has a position which a rollback can give back.
    fn description(&self, process: Pid, descriptor: u64) -> io::Result<Option<D>>;

    /// Whether a descriptor leads to this; `None` in doubt.
    fn leads_to(&self, process: Pid, descriptor: u64, description: &D) -> Option<bool>;

    fn position(&self, description: &D) -> io::Result<u64>;

    /// No thread is in a call that moves it.
    fn set_position(&mut self, description: &D, position: u64) -> io::Result<()>;

    /// The number of the view's inode that this is open to write, if any.
    fn written(&self, description: &D) -> io::Result<Option<u64>>;
}
