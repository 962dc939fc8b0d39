//! What descriptors of tasks lead to, found with few steps: each sync is waited for.

use std::io;
use std::os::fd::{OwnedFd, RawFd};

use rustix::fs::{AtFlags, Mode, OFlags, Stat};
use rustix::io::Errno;
use rustix::process::Pid;

use crate::target::{Access, Target, descriptor_path};

/// The directory of the descriptors of the thread that was looked at last: calls of one mostly follow one
/// another. It leads to that very thread, never to a later one of the same number.
#[derive(Debug, Default)]
pub(crate) struct Descriptors {
    last: Option<(Pid, OwnedFd)>,
}

impl Descriptors {
    /// How a descriptor was opened, and what it leads to; `None` where it is not open.
    pub(crate) fn look(
        &mut self,
        thread: Pid,
        descriptor: RawFd,
    ) -> io::Result<Option<(Access, Target)>> {
        if let Some((last, directory)) = &self.last
            && *last == thread
            && let Some((link, found)) = look_in(directory, descriptor)?
        {
            return Ok(Some(what(thread, descriptor, link, found)));
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let path = format!("/proc/{}/fd", thread.as_raw_nonzero());
        let directory = rustix::fs::open(path, flags, Mode::empty())?;
        let found = look_in(&directory, descriptor)?;
        self.last = Some((thread, directory));
        Ok(found.map(|(link, found)| what(thread, descriptor, link, found)))
    }
}

fn what(thread: Pid, descriptor: RawFd, link: Stat, found: Stat) -> (Access, Target) {
    let path = descriptor_path(thread, descriptor);
    (Access::of_link(&link), Target::new(path, found))
}

/// The link in /proc, and what it leads to.
fn look_in(directory: &OwnedFd, descriptor: RawFd) -> io::Result<Option<(Stat, Stat)>> {
    let name = descriptor.to_string();
    let look = |flags| match rustix::fs::statat(directory, &name, flags) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT | Errno::SRCH) => Ok(None),
        Err(errno) => Err(io::Error::from(errno)),
    };
    let Some(link) = look(AtFlags::SYMLINK_NOFOLLOW)? else {
        return Ok(None);
    };
    Ok(look(AtFlags::empty())?.map(|found| (link, found)))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn descriptors_of_one_thread_after_the_other_are_found() {
        let mut descriptors = Descriptors::default();
        let own = rustix::thread::gettid();
        let file = tempfile::NamedTempFile::new().expect("a file");
        let number = file.as_file().as_raw_fd();
        for _ in 0..2 {
            let (access, target) = descriptors.look(own, number).expect("look").expect("open");
            assert!(access.reads && access.writes && target.is_file());
            assert!(descriptors.look(own, 9999).expect("look").is_none());
        }
        let child = Command::new("cat").stdin(Stdio::piped()).spawn();
        let mut child = child.expect("a child");
        let pid = Pid::from_child(&child);
        let (_, target) = descriptors.look(pid, 0).expect("look").expect("open");
        assert!(!target.is_file());
        drop(child.stdin.take());
        child.wait().expect("its end");
        let gone = descriptors.look(pid, 0);
        assert!(!matches!(gone, Ok(Some(_))), "{gone:?}");
        assert!(descriptors.look(own, number).expect("look").is_some());
    }
}
