//! A driver for tests of what waits: what is in memory is as durable as anything there.

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;

use crate::driver::{Driver, Guarantee};

/// A driver that covers all files of device 0, and whose commits are calls of a function.
pub struct InMemory<F>(pub F);

impl<F: Fn() -> io::Result<()> + Send + Sync> Driver for InMemory<F> {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn guarantee(&self) -> Guarantee {
        Guarantee::Ordered
    }

    fn device(&self) -> u64 {
        0
    }

    fn superblock(&self) -> u64 {
        0
    }

    fn covers_all(&self) -> bool {
        true
    }

    fn covers(&self, _: BorrowedFd<'_>) -> io::Result<bool> {
        Ok(true)
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        rustix::stdio::stdin()
    }

    fn commit(&self) -> io::Result<()> {
        (self.0)()
    }
}

impl<F> fmt::Debug for InMemory<F> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("InMemory")
    }
}
