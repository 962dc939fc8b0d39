//! The asker of the person: a copy of this process, so that control goes on with everything else. The asker's exit
//! status is the answer.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::process::Signal;
use surmise_kept::Answer;
use surmise_sys::process::{self, Child};

use crate::person::{Person, Question};

pub(super) struct Asker {
    /// `None` once it was waited for.
    process: Option<Child>,
}

impl Asker {
    pub(super) fn ask(person: &dyn Person, question: &Question) -> io::Result<Self> {
        let process = process::fork(&person.descriptors(), || code(person.ask(question)))?;
        Ok(Self {
            process: Some(process),
        })
    }

    /// Readable when there is an answer.
    pub(super) fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.process.as_ref().map(AsFd::as_fd)
    }

    /// Waits for the answer.
    pub(super) fn answer(mut self) -> io::Result<Answer> {
        let process = self.process.take().expect("waited for once");
        Ok(answer(process.wait()?.exit_status()))
    }
}

/// A person is not asked about a domain that has ended.
impl Drop for Asker {
    fn drop(&mut self) {
        if let Some(process) = &self.process {
            // Fails only if it has ended.
            let _ = process.signal(Signal::KILL);
            let _ = process.wait();
        }
    }
}

fn code(answer: Answer) -> u8 {
    match answer {
        Answer::Allow => 1,
        Answer::Hold => 2,
        Answer::Refuse => 3,
    }
}

/// An asker that was killed has heard no consent.
fn answer(status: Option<i32>) -> Answer {
    match status {
        Some(1) => Answer::Allow,
        Some(2) => Answer::Hold,
        _ => Answer::Refuse,
    }
}
