//! What an outbox holds, for `list` and `diff`.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use surmise_journal::OpenError;

use crate::history::{History, Hold};
use crate::record::{FORMAT, Record};
use crate::{End, HoldId, OutboxError, Sender, Target, path_in};

/// Characters of the longest first line that is shown.
const LINE_MAX: usize = 80;

/// Everything in an outbox, in the order in which the channels were opened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Held {
    /// All channels, also those that were sent or dropped.
    pub channels: Vec<HeldChannel>,
}

/// One held channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldChannel {
    /// Its id.
    pub id: HoldId,
    /// Where its output goes.
    pub target: Target,
    /// Who opened it, where that is known.
    pub sender: Option<Sender>,
    /// Bytes that have not left.
    pub bytes: u64,
    /// Bytes that have.
    pub sent: u64,
    /// The first line of what has not left, when it is printable; at most 80 characters, the last
    /// of them `…` when it was shortened.
    pub first_line: Option<String>,
    /// What has become of it.
    pub state: HeldState,
}

/// What has become of a held channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeldState {
    /// Held; the program may append.
    Open,
    /// Held; the program has ended the channel, and it waits for a decision.
    Finished(End),
    /// Being sent. When nobody is at it, that was interrupted: it may have been sent in part, and
    /// is not sent again.
    Sending,
    /// All of it has left.
    Sent,
    /// Sending failed with this error number; the rest is not sent.
    Failed {
        /// As in errno(3).
        errno: i32,
    },
    /// Thrown away by a decision.
    Dropped,
}

impl Held {
    /// The channels that wait for a decision.
    pub fn pending(&self) -> impl Iterator<Item = &HeldChannel> {
        let waits = |channel: &&HeldChannel| {
            matches!(channel.state, HeldState::Open | HeldState::Finished(_))
        };
        self.channels.iter().filter(waits)
    }
}

/// Reads the outbox in the state directory `directory`, also while a domain writes it: every frame
/// that is whole by now. Nothing is held where there is no outbox.
///
/// # Errors
/// When the file cannot be read or is no outbox of this version.
pub fn load(directory: &Path) -> Result<Held, OutboxError> {
    let path = path_in(directory);
    let mut fold = Fold::default();
    match surmise_journal::read_at(&path, FORMAT, |sequence, payload| {
        fold.take(sequence, payload);
    }) {
        Ok(_) => {}
        // A kill inside the first write, or somebody is at it: nothing is held yet.
        Err(error) if error.is_cut_short() => return Ok(Held::default()),
        Err(OpenError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(Held::default());
        }
        Err(error) => return Err(error.into()),
    }
    let history = fold.finish()?;
    let file = File::open(&path)?;
    let channels = history.holds.iter();
    let channels = channels.map(|(id, hold)| channel(&file, *id, hold));
    Ok(Held {
        channels: channels.collect::<io::Result<_>>()?,
    })
}

/// Takes frames in until one is malformed.
#[derive(Default)]
pub(crate) struct Fold {
    history: History,
    malformed: Option<u64>,
}

impl Fold {
    pub(crate) fn take(&mut self, sequence: u64, payload: &[u8]) {
        if self.malformed.is_some() {
            return;
        }
        let taken =
            Record::decode(payload).and_then(|record| self.history.apply(&record, payload.len()));
        if taken.is_err() {
            self.malformed = Some(sequence);
        }
    }

    pub(crate) fn finish(self) -> Result<History, OutboxError> {
        match self.malformed {
            None => Ok(self.history),
            Some(sequence) => Err(OutboxError::Malformed(sequence)),
        }
    }
}

fn channel(file: &File, id: HoldId, hold: &Hold) -> io::Result<HeldChannel> {
    Ok(HeldChannel {
        id,
        target: hold.target.clone(),
        sender: hold.sender.clone(),
        bytes: hold.bytes - hold.sent,
        sent: hold.sent,
        first_line: first_line(&head(file, id, hold)?),
        state: hold.state(),
    })
}

/// The first bytes that have not left: enough for the longest line that is shown, and one character
/// more.
fn head(file: &File, id: HoldId, hold: &Hold) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    let wanted = (LINE_MAX + 1) * 4;
    for piece in hold.pieces(id) {
        let had = head.len();
        head.resize((had + piece.length).min(wanted), 0);
        file.read_exact_at(&mut head[had..], piece.position)?;
        if head.len() == wanted {
            break;
        }
    }
    Ok(head)
}

fn first_line(head: &[u8]) -> Option<String> {
    let line = head.split(|byte| *byte == b'\n').next()?;
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let text = match str::from_utf8(line) {
        Ok(text) => text,
        // `head` may end within a character; what comes before it is then too long anyway.
        Err(error) => str::from_utf8(&line[..error.valid_up_to()])
            .ok()
            .filter(|text| text.chars().count() > LINE_MAX)?,
    };
    if text.is_empty() || text.chars().take(LINE_MAX + 1).any(is_unprintable) {
        return None;
    }
    if text.chars().nth(LINE_MAX).is_none() {
        return Some(text.to_owned());
    }
    Some(text.chars().take(LINE_MAX - 1).chain(['…']).collect())
}

/// Control characters, and those that change how a terminal orders or breaks what follows.
fn is_unprintable(character: char) -> bool {
    let reorders = matches!(character, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    character.is_control() || reorders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_is_shown_when_it_is_printable() {
        let shown = |bytes: &[u8]| first_line(bytes);
        assert_eq!(
            shown(b"GET / HTTP/1.1\r\nHost: x\r\n").as_deref(),
            Some("GET / HTTP/1.1")
        );
        assert_eq!(shown("grüße\n\x07".as_bytes()).as_deref(), Some("grüße"));
        for unprintable in [&b"\x1b[31m"[..], b"a\0b", b"\xff\xfe", b"", b"\nx", b"a\tb"] {
            assert_eq!(shown(unprintable), None, "{unprintable:?}");
        }
        assert_eq!(shown("a\u{202e}b".as_bytes()), None);
    }

    #[test]
    fn a_long_first_line_is_shortened_to_eighty_characters() {
        for wide in ["x", "ü", "€", "🦀"] {
            let exact = wide.repeat(80);
            assert_eq!(first_line(exact.as_bytes()), Some(exact.clone()));
            let bytes = wide.repeat(200).into_bytes();
            let head = &bytes[..bytes.len().min((LINE_MAX + 1) * 4)];
            let line = first_line(head).expect("printable");
            assert_eq!(line, format!("{}…", wide.repeat(79)));
        }
    }
}
