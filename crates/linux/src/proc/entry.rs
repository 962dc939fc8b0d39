//! Directories of /proc, and reading what is in them.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rustix::buffer::spare_capacity;
use rustix::io::{Errno, retry_on_intr};
use rustix::process::Pid;

use super::Task;

/// How long a file of /proc is at most, usually, in bytes: then it is read in one piece, of one moment.
const LENGTH_USUAL: usize = 8 << 10;

/// How long one is that tells of many things: the kernel tells a page of it at once, and begins anew for each read.
const LENGTH_LONG: usize = 64 << 10;

/// Files that the kernel makes in one piece, however long that is, and gives as much of at each read as there is room for. So a
/// read that leaves room has come to the end. Of those below `fdinfo` the same holds.
const IN_ONE_PIECE: [&str; 9] = [
    "comm",
    "limits",
    "personality",
    "schedstat",
    "stat",
    "statm",
    "status",
    "syscall",
    "wchan",
];

/// The directory of /proc that tells of a process or a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry(PathBuf);

impl Entry {
    /// That of the calling thread.
    pub fn own() -> Self {
        Self("/proc/thread-self".into())
    }

    /// Where a file of it is.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.join(name)
    }

    /// Whether there is such a process or thread.
    pub fn exists(&self) -> bool {
        self.0.exists()
    }

    /// All that a file of it says.
    ///
    /// # Errors
    /// As for reading files. [`is_gone`] tells that the process or thread has ended.
    pub fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        self.read_sized(name, LENGTH_USUAL)
    }

    /// As [`Self::read`], of what is long.
    ///
    /// # Errors
    /// As there.
    pub fn read_long(&self, name: &str) -> io::Result<Vec<u8>> {
        self.read_sized(name, LENGTH_LONG)
    }

    fn read_sized(&self, name: &str, usual: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(usual);
        // The kernel tells no size, for want of which the standard library begins with reads of a few bytes.
        let file = File::open(self.path(name))?;
        if is_in_one_piece(name) {
            retry_on_intr(|| rustix::io::read(&file, spare_capacity(&mut bytes)))?;
            if bytes.len() < bytes.capacity() {
                return Ok(bytes);
            }
        }
        file.take(u64::MAX).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// As [`Self::read`]; a name in it may be any bytes.
    pub(crate) fn text(&self, name: &str) -> io::Result<String> {
        Ok(String::from_utf8_lossy(&self.read(name)?).into_owned())
    }
}

/// A process, or any thread by its own number.
impl From<Pid> for Entry {
    fn from(number: Pid) -> Self {
        Self(format!("/proc/{}", number.as_raw_nonzero()).into())
    }
}

/// A thread as one of its process: nothing is told of a number that another process has by now.
impl From<Task> for Entry {
    fn from(task: Task) -> Self {
        let (process, thread) = (task.process.as_raw_nonzero(), task.thread.as_raw_nonzero());
        Self(format!("/proc/{process}/task/{thread}").into())
    }
}

fn is_in_one_piece(name: &str) -> bool {
    IN_ONE_PIECE.contains(&name) || name.starts_with("fdinfo/")
}

/// The names in a directory that are numbers, in the kernel's order.
pub(super) fn numbers(directory: &Path) -> io::Result<Vec<Pid>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name();
        numbers.extend(name.to_str().and_then(number));
    }
    Ok(numbers)
}

/// The number of a process or thread.
pub(super) fn number(digits: &str) -> Option<Pid> {
    Pid::from_raw(digits.parse().ok()?)
}

/// Whether an error says that a process or thread has ended: a call on it finds none, a wait for it finds that an earlier
/// wait was told of the end, or /proc has no directory of it.
///
/// Of other calls the same error numbers may mean something else. So where the end matters, look at the process as well.
pub fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
        || matches!(
            Errno::from_io_error(error),
            Some(Errno::SRCH | Errno::CHILD)
        )
}

/// Nothing, if the task has ended meanwhile.
pub(crate) fn or_gone<T: Default>(result: io::Result<T>) -> io::Result<T> {
    match result {
        Err(error) if is_gone(&error) => Ok(T::default()),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::{Signal, WaitOptions};

    use super::*;

    #[test]
    fn a_file_is_read_to_its_end() {
        let own = Entry::own();
        assert!(own.exists());
        // Longer than is usual, of most programs.
        let maps = own.read("smaps").expect("read");
        assert!(maps.ends_with(b"\n") && maps.len() > LENGTH_USUAL);
    }

    #[test]
    fn what_is_made_in_one_piece_is_read_whole_whatever_room_there_is() {
        for name in IN_ONE_PIECE.iter().copied().chain(["fdinfo/0"]) {
            let at_once = Entry::own().read(name).expect("read");
            let bit_by_bit = Entry::own().read_sized(name, 7).expect("read");
            assert!(at_once.len() < LENGTH_USUAL, "{name}");
            // What it tells of a thread that runs may change: of how many things it tells does not.
            let lines = |text: &[u8]| text.split(|byte| *byte == b'\n').count();
            assert_eq!(lines(&at_once), lines(&bit_by_bit), "{name}");
            let is_whole = |text: &[u8]| text.ends_with(b"\n") || name == "wchan";
            assert!(is_whole(&at_once) && is_whole(&bit_by_bit), "{name}");
        }
    }

    #[test]
    fn what_has_ended_is_gone() {
        let nobody = Pid::from_raw(i32::MAX).expect("a number");
        assert!(!Entry::from(nobody).exists());
        let error = Entry::from(nobody).read("status").expect_err("nobody");
        assert!(is_gone(&error));
        assert!(or_gone::<Vec<u8>>(Err(error)).expect("nothing").is_empty());
        assert!(!is_gone(&io::ErrorKind::PermissionDenied.into()));
        assert!(is_gone(
            &rustix::process::kill_process(nobody, Signal::KILL)
                .expect_err("nobody")
                .into()
        ));
        let waited = rustix::process::waitpid(Some(nobody), WaitOptions::NOHANG);
        assert!(is_gone(&waited.expect_err("nobody").into()));
    }
}
