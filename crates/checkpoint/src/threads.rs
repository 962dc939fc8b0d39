//! Which threads a process has.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags, RawDir, SeekFrom};
use rustix::process::Pid;

/// The links that a directory has beside those of the directories in it.
const OWN_LINKS: usize = 2;
/// Room for some two hundred entries; more take another call.
const BATCH: usize = 8192;

/// Where the kernel lists the threads of a process. It stays open, since most often all that is asked is
/// how many there are.
#[derive(Debug)]
pub(crate) struct Threads {
    process: Pid,
    directory: Option<OwnedFd>,
}

impl Threads {
    pub(crate) fn of(process: Pid) -> Self {
        Self {
            process,
            directory: None,
        }
    }

    /// All threads of the process; none if there are just `known`.
    ///
    /// # Errors
    /// As for reading /proc; `ENOENT` or `ESRCH` once it has ended.
    pub(crate) fn beside(&mut self, known: usize) -> io::Result<Vec<Pid>> {
        let directory = match self.directory.take() {
            Some(directory) => directory,
            None => open(self.process)?,
        };
        let directory = self.directory.insert(directory);
        // The kernel counts a thread as a link (proc_task_getattr): a call instead of three.
        let links = usize::try_from(rustix::fs::fstat(&*directory)?.st_nlink);
        match links.unwrap_or(0).checked_sub(OWN_LINKS) {
            Some(count) if count == known => Ok(Vec::new()),
            // The first is the last to go, and who executes a program becomes the first.
            Some(1) => Ok(vec![self.process]),
            _ => list(directory),
        }
    }
}

fn open(process: Pid) -> io::Result<OwnedFd> {
    let path = format!("/proc/{}/task", process.as_raw_nonzero());
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

fn list(directory: &OwnedFd) -> io::Result<Vec<Pid>> {
    rustix::fs::seek(directory, SeekFrom::Start(0))?;
    let numbers = numbers(directory)?;
    Ok(numbers.into_iter().filter_map(Pid::from_raw).collect())
}

/// The names in a directory that are numbers, from where it was read to.
pub(crate) fn numbers(directory: &OwnedFd) -> io::Result<Vec<i32>> {
    let mut batch = [MaybeUninit::uninit(); BATCH];
    let mut entries = RawDir::new(directory, &mut batch);
    let mut numbers = Vec::new();
    while let Some(entry) = entries.next() {
        let name = entry?;
        // All but `.` and `..`.
        let number = name.file_name().to_str().ok();
        numbers.extend(number.and_then(|name| name.parse::<i32>().ok()));
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn threads_are_listed_until_all_are_known() {
        let own = rustix::process::getpid();
        let mut threads = Threads::of(own);
        let (tell, told) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        let another = std::thread::spawn(move || {
            tell.send(rustix::thread::gettid()).expect("tell");
            // Until nobody can send any more.
            assert!(ended.recv().is_err());
        });
        let another_number = told.recv().expect("hear");
        // Other tests' threads come and go meanwhile.
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            let listed = threads.beside(0).expect("list");
            assert!(listed.contains(&another_number));
            assert!(listed.contains(&rustix::thread::gettid()));
            if threads.beside(listed.len()).expect("count").is_empty() {
                break;
            }
            assert!(Instant::now() < deadline, "{listed:?} are never all");
        }
        drop(end);
        another.join().expect("end");
    }
}
