//! Files of lost changes: whatever their frames are, a replay of them ends, and takes no other file of the directory away.

use std::collections::HashMap;

use surmise_lower::{FileKind, Timestamp};

use super::{changes, root};
use crate::errno::Errno;
use crate::frame::MESSAGE_BYTES_MAX;
use crate::lost::{Begins, Entry, LostChanges, Reader, Replays, Undecided};
use crate::object::{Name, ObjectId, Prefix};
use crate::operation::{NewKind, Place, SetAttributes};
use crate::replay::{Found, Moves, Progress, Replay, Step, Target, lines};

/// A directory in which everything is there, as files that others have written, but for what is made.
#[derive(Default)]
struct Full(HashMap<Vec<Name>, FileKind>);

impl Target for Full {
    fn look(&mut self, path: &[Name]) -> Result<Option<Found>, Errno> {
        let is_conflict = |name: &Name| {
            let mut parts = name.as_bytes().windows(10);
            parts.any(|part| part == b".conflict-")
        };
        let kind = match path {
            [] => FileKind::Directory,
            [.., last] if is_conflict(last) => match self.0.get(path) {
                Some(kind) => *kind,
                None => return Ok(None),
            },
            [..] => FileKind::Regular,
        };
        Ok(Some(Found {
            kind,
            number: 1,
            size: u64::MAX,
            modified: Timestamp::default(),
            target: None,
        }))
    }

    fn make(&mut self, path: &[Name], kind: &NewKind) -> Result<(), Errno> {
        self.0.insert(path.to_vec(), kind.kind());
        Ok(())
    }

    fn copy(&mut self, _: &[Name], to: &[Name], _: bool) -> Result<(), Errno> {
        self.0.insert(to.to_vec(), FileKind::Regular);
        Ok(())
    }

    fn same(&mut self, _: &[Name], _: u64, data: &[u8]) -> Result<u64, Errno> {
        Ok(data.len() as u64 / 2)
    }

    fn write(&mut self, path: &[Name], _: u64, _: &[u8]) -> Result<(), Errno> {
        self.must_be_own(path)
    }

    fn resize(&mut self, path: &[Name], _: u64) -> Result<(), Errno> {
        self.must_be_own(path)
    }

    fn set_attributes(&mut self, _: &[Name], _: &SetAttributes) -> Result<(), Errno> {
        Ok(())
    }

    fn set_extended(&mut self, _: &[Name], _: &Name, _: Option<&[u8]>) -> Result<(), Errno> {
        Ok(())
    }

    fn link(&mut self, _: &[Name], _: &[Name]) -> Result<(), Errno> {
        Err(Errno::EXIST)
    }

    fn remove(&mut self, _: &[Name], _: bool) -> Result<(), Errno> {
        Err(Errno::NOTEMPTY)
    }

    fn rename(&mut self, _: &[Name], _: &[Name], _: Moves) -> Result<(), Errno> {
        Err(Errno::NOTDIR)
    }
}

impl Full {
    fn must_be_own(&self, path: &[Name]) -> Result<(), Errno> {
        match self.0.contains_key(path) {
            true => Ok(()),
            false => Err(Errno::ISDIR),
        }
    }
}

/// Frames, each behind its length in two bytes: what they hold is shown, and replayed to its end. Whether they are a file.
///
/// # Panics
/// When that does not come to its end.
pub fn lost_file(bytes: &[u8]) -> bool {
    let mut reader = Reader::new(Vec::new());
    let mut rest = bytes;
    while let Some((length, behind)) = rest.split_first_chunk::<2>() {
        let length = usize::from(u16::from_le_bytes(*length));
        let Some(frame) = behind.get(..length) else {
            return false;
        };
        if reader.take(frame).is_err() {
            return false;
        }
        rest = &behind[length..];
    }
    let Ok(file) = reader.end() else {
        return false;
    };
    assert!(lines(file.begins.root, &file.lost).len() <= file.lost.changes.len());
    let mut replay = Replay::new(file.begins.root, &file.lost);
    for progress in file.progress {
        replay.note(progress);
    }
    let mut full = Full::default();
    let already = replay.already(&mut full).unwrap_or(0);
    assert!(already <= file.lost.changes.len());
    let mut begun = replay.take_up(&mut full).map_or(None, |(begun, _)| begun);
    // A change takes at most some tries, before each of which directories may be made anew.
    for _ in 0..MESSAGE_BYTES_MAX {
        let again = begun.is_some();
        let step = match begun.take() {
            Some(step) => Ok(Some(step)),
            None => replay.decide(&mut full),
        };
        match step {
            Ok(Some(step)) => {
                let carried = replay.carry_out(&mut full, step, again);
                if carried.is_err() || replay.stamp(&mut full).is_err() {
                    return true;
                }
            }
            Ok(None) => {
                let _ = replay.finish(&mut full);
                return true;
            }
            Err(_) => return true,
        }
    }
    panic!("the replay does not end");
}

/// Files as a client writes them, and a replay.
pub fn lost_file_seeds() -> Vec<Vec<u8>> {
    let made = ObjectId::made(Prefix(1), 1).expect("a small prefix");
    let directory = ObjectId::found(4).expect("a small number");
    let place = Place {
        parent: root(),
        name: Name::try_from(&b"b"[..]).expect("a name"),
    };
    let each = changes(made).into_iter();
    let lost = LostChanges {
        places: vec![(directory, place.clone())],
        changes: each
            .map(|operation| Undecided {
                operation,
                before: None,
            })
            .collect(),
    };
    let begins = Begins {
        source: "host:src".to_owned(),
        mount_point: b"/mnt".to_vec(),
        root: root(),
        at: Timestamp::default(),
        why: "a reason".to_owned(),
    };
    let mut frames: Vec<_> = lost.frames(begins).collect();
    let fresh = joined(&frames);
    let replays = Replays {
        onto: b"/mnt".to_vec(),
        boot: Vec::new(),
    };
    let step = Step::Anew {
        object: directory,
        place,
        directory: true,
    };
    frames.extend([
        Entry::Replays(replays).encode(),
        Entry::Progress(Progress::Begins(step)).encode(),
        Entry::Progress(Progress::Failed(Errno::EXIST)).encode(),
        Entry::Synced.encode(),
    ]);
    vec![fresh, joined(&frames)]
}

fn joined(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for frame in frames {
        let length = u16::try_from(frame.len()).expect("a short frame");
        bytes.extend(length.to_le_bytes());
        bytes.extend(frame);
    }
    bytes
}
