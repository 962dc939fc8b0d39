//! What kind of file the descriptor of a call leads to, asked once for each call.

use std::cell::Cell;
use std::io;

use rustix::fs::FileType;
use rustix::process::Pid;

use super::task;

/// The kind that was asked for last: of which call, and of which descriptor. No call gets the number of an earlier one.
#[derive(Debug, Default)]
pub(crate) struct Kinds(Cell<Option<(u64, u64, Option<FileType>)>>);

impl Kinds {
    /// As [`task::file_type`], for a call of this number. Of a thread that is not its process' first it is an error.
    pub(super) fn ask(&self, thread: Pid, call: u64, number: u64) -> io::Result<Option<FileType>> {
        let kind = task::file_type(thread, number)?;
        self.0.set(Some((call, number, kind)));
        Ok(kind)
    }

    /// What was told, if that was asked for last. It still holds if nobody but the caller can put another file in the descriptor's
    /// place.
    pub(super) fn told(&self, call: u64, number: u64) -> Option<Option<FileType>> {
        let last = self
            .0
            .get()
            .filter(|&(of, by, _)| (of, by) == (call, number));
        last.map(|(.., kind)| kind)
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn what_was_told_is_of_one_call_and_one_descriptor() {
        let (reader, _writer) = rustix::pipe::pipe().expect("a pipe");
        let number = reader.as_raw_fd() as u64;
        let kinds = Kinds::default();
        assert_eq!(kinds.told(7, number), None);
        let kind = kinds.ask(rustix::process::getpid(), 7, number);
        assert_eq!(kind.expect("look"), Some(FileType::Fifo));
        assert_eq!(kinds.told(7, number), Some(Some(FileType::Fifo)));
        assert_eq!(kinds.told(8, number), None);
        assert_eq!(kinds.told(7, number + 1), None);
    }
}
