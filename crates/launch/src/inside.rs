//! How the supervisor has pid 1 look at files of the view. The kernel tells nothing of them to processes outside the domain's user
//! namespace, and the supervisor is one.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::thread;

use rustix::fs::{AtFlags, StatxFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use surmise_kept::Link;
use surmise_supervisor::Inside;

/// The answer to a file that was sent: the number of the error, if there was one.
#[derive(Debug, Serialize, Deserialize)]
struct Looked(Option<i32>);

/// The supervisor's end.
#[derive(Debug)]
pub(crate) struct Insider(pub(crate) Link);

impl Inside for Insider {
    fn look_at(&self, file: BorrowedFd<'_>) -> io::Result<()> {
        self.0.send_descriptor(file)?;
        match self.0.receive()? {
            Some(Looked(None)) => Ok(()),
            Some(Looked(Some(errno))) => Err(io::Error::from_raw_os_error(errno)),
            None => Err(io::Error::other("pid 1 has ended")),
        }
    }
}

/// Has a thread of pid 1 look at files until the supervisor ends. Its other thread may be waiting for the view, which may wait for a
/// decision, which waits for a look.
pub(crate) fn serve(supervisor: BorrowedFd<'_>) -> io::Result<()> {
    let link = Link::of(supervisor.try_clone_to_owned()?);
    let serve = move || {
        while let Ok(Some(file)) = link.receive_descriptor() {
            let looked = Looked(look_at(file.as_fd()).err());
            // If the supervisor has died, its closed end is the next event.
            let _ = link.send(&looked);
        }
    };
    thread::Builder::new().spawn(serve).map(drop)
}

/// Whatever the kernel has of the file's attributes, it asks the view.
fn look_at(file: BorrowedFd<'_>) -> Result<(), i32> {
    let asking = AtFlags::EMPTY_PATH | AtFlags::STATX_FORCE_SYNC;
    match rustix::fs::statx(file, c"", asking, StatxFlags::BASIC_STATS) {
        // There is no such file any more: that it was made is undone, too.
        Ok(_) | Err(Errno::STALE) => Ok(()),
        Err(errno) => Err(errno.raw_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn each_file_that_is_sent_is_looked_at() {
        let (link, served) = Link::pair().expect("a pair");
        serve(served.as_fd()).expect("a thread");
        let insider = Insider(link);
        let file = File::open("/dev/null").expect("open");
        for _ in 0..3 {
            insider.look_at(file.as_fd()).expect("look");
        }
    }

    #[test]
    fn nobody_looks_once_pid_1_has_ended() {
        let (link, served) = Link::pair().expect("a pair");
        drop(served);
        let file = File::open("/dev/null").expect("open");
        assert!(Insider(link).look_at(file.as_fd()).is_err());
    }
}
