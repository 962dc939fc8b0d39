//! Changes and locks that are lost: what people are told of them. Another thread keeps the changes in a file, since the shell must not wait
//! for a disk.

use std::path::PathBuf;
use std::sync::mpsc::Sender;

use surmise_remote::client;
use surmise_remote::lost::LostChanges;

use super::Shell;
use crate::lost::KeepError;

/// How many losses are told one by one.
const LINES_MAX: usize = 1000;

/// What was lost so far.
#[derive(Default)]
pub(super) struct Lost {
    /// A line each.
    lines: Vec<String>,
    keeper: Option<Sender<ToKeep>>,
}

/// Changes that are to be kept.
#[derive(Debug)]
pub struct ToKeep {
    /// Which line tells of them, if one does.
    pub line: Option<usize>,
    /// The changes.
    pub changes: LostChanges,
    /// Why they were lost, for people.
    pub why: String,
}

/// Why something was lost.
pub(super) enum Reason {
    Lost(client::Lost),
    /// The mount has ended, and the server took no more.
    Ended,
}

impl Lost {
    pub(super) fn lines(&self) -> &[String] {
        &self.lines
    }

    pub(super) fn changes(&mut self, changes: LostChanges, why: Reason) {
        let why = match why {
            Reason::Lost(client::Lost::Expired) => EXPIRED.to_owned(),
            Reason::Lost(client::Lost::Refused(errno)) => {
                let why = rustix::io::Errno::from_raw_os_error(errno.0);
                format!("the server refused them: {why}")
            }
            Reason::Lost(client::Lost::Overtaken) => {
                "programs of the server have changed the same, \
                and it has kept both: see .surmise/errors there"
                    .to_owned()
            }
            Reason::Ended => "the server took no more".to_owned(),
        };
        let count = changes.changes.len();
        let line = self.tell(match count {
            0 => why.clone(),
            _ => counted(count, "change", &why),
        });
        if let Some(keeper) = self.keeper.as_ref().filter(|_| count > 0) {
            // The receiver lives until the end of all losses.
            let _ = keeper.send(ToKeep { line, changes, why });
        }
    }

    pub(super) fn locks(&mut self, count: usize) {
        self.tell(counted(count, "lock", EXPIRED));
    }

    fn tell(&mut self, line: String) -> Option<usize> {
        if self.lines.len() >= LINES_MAX {
            return None;
        }
        self.lines.push(line);
        Some(self.lines.len() - 1)
    }
}

const EXPIRED: &str = "this machine was not heard of for too long while others waited";

fn counted(count: usize, of_what: &str, why: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {of_what}{plural}: {why}")
}

impl Shell {
    /// Whom changes that are lost are sent to.
    pub fn keep_by(&self, keeper: Sender<ToKeep>) {
        self.lock().lost.keeper = Some(keeper);
    }

    /// What became of changes that were to be kept.
    pub fn kept(&self, line: Option<usize>, kept: Result<PathBuf, KeepError>) {
        let mut state = self.lock();
        let Some(line) = line.and_then(|line| state.lost.lines.get_mut(line)) else {
            return;
        };
        line.push_str(&match kept {
            Ok(path) => format!("; kept in {}", path.display()),
            Err(error) => format!("; not kept: {error}"),
        });
    }

    /// The mount has ended: what the server has not taken by now is lost, and nothing more.
    pub fn end_of_losses(&self) {
        let mut state = self.lock();
        let changes = state.client.abandon();
        if !changes.changes.is_empty() {
            state.lost.changes(changes, Reason::Ended);
        }
        state.lost.keeper = None;
    }
}
