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

/// The answer to a file that was sent: the number of the error (errno(3)), if there was one.
#[derive(Debug, Serialize, Deserialize)]
struct Looked(Option<i32>);

/// The supervisor's end.
#[derive(Debug)]
pub(crate) struct Insider(pub(crate) Link);

impl Inside for Insider {
    fn look_at(&self, file: BorrowedFd<'_>) -> io::Result<()> {
        // All processes of the domain end with pid 1, and were killed before it ends: nobody appends to a file any more.
        let is_over = |error: &io::Error| {
            let errno = Errno::from_io_error(error);
            matches!(errno, Some(Errno::PIPE | Errno::CONNRESET))
        };
        let looked = self.0.send_descriptor(file);
        match looked.and_then(|()| self.0.receive()) {
            Ok(None | Some(Looked(None))) => Ok(()),
            Ok(Some(Looked(Some(errno)))) => Err(io::Error::from_raw_os_error(errno)),
            Err(error) if is_over(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Has a thread of pid 1 look at files until the supervisor ends. Its other thread may be waiting for the view, which may wait for a
/// decision, which waits for a look.
pub(crate) fn serve(supervisor: BorrowedFd<'_>) -> io::Result<()> {
    let link = Link::of(supervisor.try_clone_to_owned()?);
    let serve = move || {
        loop {
            let looked = match link.receive_descriptor() {
                Ok(Some(file)) => look_at(file.as_fd()),
                // The descriptor was lost on its way, or the supervisor has ended.
                Ok(None) => Err(Errno::MFILE),
                Err(error) => Err(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
            };
            let looked = Looked(looked.err().map(Errno::raw_os_error));
            if link.send(&looked).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().spawn(serve).map(drop)
}

/// Whatever the kernel has of the file's attributes, it asks the view.
///
/// The kernel drops an answer while a write to the file is under way, or where it has a later one. Neither is so here. A process that
/// has written to the file since the change depends on it, and stands still. And what was asked before the change was undone was
/// answered before the kernel dropped the data.
fn look_at(file: BorrowedFd<'_>) -> Result<(), Errno> {
    let asking = AtFlags::EMPTY_PATH | AtFlags::STATX_FORCE_SYNC;
    let looked = rustix::io::retry_on_intr(|| {
        rustix::fs::statx(file, c"", asking, StatxFlags::BASIC_STATS).map(drop)
    });
    match looked {
        // There is no such file any more: that it was made is undone, too, or somebody outside has removed it or put something
        // else in its place. The view lets nobody write to a file of which it cannot tell the attributes.
        Err(Errno::STALE | Errno::NOENT | Errno::NOTDIR | Errno::ACCESS | Errno::IO) => Ok(()),
        looked => looked,
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
    fn nobody_need_look_once_pid_1_has_ended() {
        let file = File::open("/dev/null").expect("open");
        let (link, served) = Link::pair().expect("a pair");
        drop(served);
        Insider(link).look_at(file.as_fd()).expect("no error");
        let (link, served) = Link::pair().expect("a pair");
        served
            .send(&Looked(Some(Errno::MFILE.raw_os_error())))
            .expect("send");
        let failed = Insider(link).look_at(file.as_fd());
        assert_eq!(failed.expect_err("an error").raw_os_error(), Some(24));
    }
}
