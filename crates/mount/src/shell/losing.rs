//! Changes and locks that are lost: what people are told of them. Another thread keeps the changes in a file, since the shell must not wait
//! for a disk.

use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use surmise_remote::client::{self, Event};
use surmise_remote::lost::LostChanges;

use super::Shell;
use crate::lost::KeepError;
use crate::status::Kept;

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
    /// Whether the server may have made the first of them.
    pub may_be_made: bool,
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
        let may_be_made = matches!(why, Reason::Ended | Reason::Lost(client::Lost::Expired));
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
            let _ = keeper.send(ToKeep {
                line,
                changes,
                why,
                may_be_made,
            });
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

/// Why changes are in a file that the server may still make, or has made.
pub const GIVEN_UP: &str = "given up before the server had answered";

fn told_kept(line: String, file: &Path) -> String {
    format!("{line}; kept in {}", file.display())
}

fn counted(count: usize, of_what: &str, why: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {of_what}{plural}: {why}")
}

/// Without a connection for so long, the server of a mount that is told to end by `SIGTERM` is taken for gone.
const APART_MAX: Duration = Duration::from_secs(5);

/// How long the server may take for the rest of the changes of such a mount, once no program uses that any more. What sends
/// the signal kills next: systemd after 90 seconds, and sooner on some distributions.
const REST_MAX: Duration = Duration::from_secs(30);

impl Shell {
    /// Has the client end without the server, once `keep` has made durable what that has not decided. The client does nothing
    /// meanwhile, so no change comes later than those in the file. `None` if there are none; what is in the file already, if the client
    /// has ended so before.
    ///
    /// # Errors
    /// That of `keep`. All goes on as before then.
    pub fn give_up_server(
        &self,
        keep: impl FnOnce(LostChanges) -> Result<PathBuf, KeepError>,
    ) -> Result<Option<Kept>, KeepError> {
        let mut state = self.lock();
        if state.has_left {
            // The connection may take its time to end.
            state.break_connection();
            return Ok(state.kept.clone());
        }
        let changes = state.client.without_verdict();
        let count = changes.changes.len();
        let mut kept = None;
        if count > 0 {
            let file = keep(changes)?;
            let line = told_kept(counted(count, "change", GIVEN_UP), &file);
            state.lost.tell(line.clone());
            kept = Some(Kept {
                changes: count,
                file,
                line,
            });
        }
        state.ending_since.get_or_insert_with(Instant::now);
        state.is_given_up = true;
        state.kept.clone_from(&kept);
        self.tell(&mut state, Event::GiveUp, None);
        state.break_connection();
        Ok(kept)
    }

    /// Whether the client has ended without the server.
    pub fn is_given_up(&self) -> bool {
        self.lock().is_given_up
    }

    /// Whether a mount that was told to end at this moment is to wait for the server no longer.
    pub fn waits_in_vain(&self, since: Instant) -> bool {
        let state = self.lock();
        let link = &state.link;
        let apart = (!link.is_up).then(|| link.since.max(since).elapsed());
        let alone = state.ending_since.map(|ending| ending.max(since).elapsed());
        apart >= Some(APART_MAX) || alone >= Some(REST_MAX)
    }

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
            Ok(path) => told_kept(String::new(), &path),
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
