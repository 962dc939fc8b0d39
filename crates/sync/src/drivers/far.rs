//! A directory of another machine (`surmise mount`): the client sends its changes in groups, in the order in which they were
//! made, and the server's log has them in that order, each group as a whole. So what the server has, whatever is
//! cut or killed, is all that was done up to some moment.
//!
//! fsync(2) of any of its directories returns when the server has made durable all that this machine changed before. It fails
//! if any change was lost since the directory was opened.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::fstat;
use surmise_linux::proc::Mount;

use crate::driver::{Driver, Guarantee};

#[derive(Debug)]
struct Far {
    directory: File,
    device: u64,
}

pub(crate) fn far(mount: &Mount, directory: File) -> Box<dyn Driver> {
    Box::new(Far {
        directory,
        device: mount.device,
    })
}

impl Driver for Far {
    fn name(&self) -> &'static str {
        "surmise mount"
    }

    fn guarantee(&self) -> Guarantee {
        Guarantee::Ordered
    }

    fn device(&self) -> u64 {
        self.device
    }

    fn superblock(&self) -> u64 {
        self.device
    }

    fn covers_all(&self) -> bool {
        true
    }

    fn covers(&self, file: BorrowedFd<'_>) -> io::Result<bool> {
        Ok(fstat(file)?.st_dev == self.device)
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    fn commit(&self) -> io::Result<()> {
        self.directory.sync_all()
    }
}
