//! The disk as a file: a FUSE file system of two files, `disk` and `control`.
//!
//! A loop device on `disk` is the disk. The loop driver hands every write of the file system above to us
//! as a write, and every flush as an fsync, in the order in which they reach the device. A write to
//! `control` is one command, and reading it tells what was recorded.

use std::ffi::OsStr;
use std::io;
use std::sync::{Mutex, MutexGuard};

use rustix::io::Errno;
use surmise_fuse::{Caller, FileSystem, KnownAttributes, Lookup, Open, OpenReply, ROOT, Write};

use crate::disk::{self, DISK_NAME};

use super::recording::{PowerLoss, Recording};

const DISK: u64 = 2;
const CONTROL: u64 = 3;

/// The file that commands are written to.
pub const CONTROL_NAME: &str = "control";

/// What to do with the disk; written to `control` as its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// From here on, note every write and flush.
    Record,
    /// Note nothing more.
    Stop,
    /// The disk becomes what a loss of power within the recording leaves.
    Become(PowerLoss),
    /// Every write and flush fails.
    Break,
}

impl Command {
    pub fn to_text(self) -> String {
        match self {
            Self::Record => "record".into(),
            Self::Stop => "stop".into(),
            Self::Break => "break".into(),
            Self::Become(PowerLoss { flushes, seed }) => match seed {
                None => format!("become {flushes}"),
                Some(seed) => format!("become {flushes} {seed}"),
            },
        }
    }

    fn of_text(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        Some(match words.next()? {
            "record" => Self::Record,
            "stop" => Self::Stop,
            "break" => Self::Break,
            "become" => Self::Become(PowerLoss {
                flushes: words.next()?.parse().ok()?,
                seed: words.next().map(str::parse).transpose().ok()?,
            }),
            _ => return None,
        })
    }
}

/// A disk in memory.
pub struct Disk {
    state: Mutex<State>,
    bytes: u64,
}

struct State {
    content: Vec<u8>,
    recording: Recording,
    is_recording: bool,
    is_broken: bool,
}

impl Disk {
    pub fn new(bytes: usize) -> Self {
        let state = State {
            content: vec![0; bytes],
            recording: Recording::default(),
            is_recording: false,
            is_broken: false,
        };
        Self {
            state: Mutex::new(state),
            bytes: bytes as u64,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }

    fn known(&self, node: u64) -> io::Result<KnownAttributes> {
        Ok(match node {
            ROOT => disk::root(),
            DISK => disk::file(DISK, self.bytes),
            CONTROL => disk::file(CONTROL, 0),
            _ => return Err(Errno::NOENT.into()),
        })
    }
}

impl State {
    fn obey(&mut self, command: Command) -> io::Result<()> {
        match command {
            Command::Record => {
                self.recording = Recording::of(self.content.clone());
                self.is_recording = true;
            }
            Command::Stop => self.is_recording = false,
            Command::Break => self.is_broken = true,
            Command::Become(loss) => {
                if loss.flushes >= self.recording.blocks().len() {
                    return Err(Errno::INVAL.into());
                }
                self.is_recording = false;
                self.content = self.recording.image(loss);
            }
        }
        Ok(())
    }

    /// # Errors
    /// `EIO` when the disk is broken.
    fn check(&self) -> io::Result<()> {
        match self.is_broken {
            true => Err(Errno::IO.into()),
            false => Ok(()),
        }
    }

    fn told(&self) -> Vec<u8> {
        let blocks = self.recording.blocks();
        let blocks: Vec<_> = blocks.iter().map(usize::to_string).collect();
        blocks.join(" ").into_bytes()
    }
}

impl FileSystem for Disk {
    fn lookup(&self, _: Caller, _: u64, name: &OsStr) -> io::Result<Lookup> {
        let node = match name.to_str() {
            Some(DISK_NAME) => DISK,
            Some(CONTROL_NAME) => CONTROL,
            _ => return Err(Errno::NOENT.into()),
        };
        Ok(Lookup::Found(disk::entry(self.known(node)?)))
    }

    fn getattr(&self, _: Caller, node: u64, _: Option<u64>) -> io::Result<KnownAttributes> {
        self.known(node)
    }

    fn open(&self, _: Caller, _: u64, _: Open) -> io::Result<OpenReply> {
        // The disk must not be cached: it changes when the power fails.
        Ok(OpenReply {
            direct_io: true,
            ..OpenReply::default()
        })
    }

    fn read(
        &self,
        _: Caller,
        node: u64,
        _: u64,
        offset: u64,
        buffer: &mut [u8],
    ) -> io::Result<usize> {
        let state = self.state();
        let told;
        let content = match node {
            CONTROL => {
                told = state.told();
                &told
            }
            _ => &state.content,
        };
        let rest = content.get(offset as usize..).unwrap_or_default();
        let length = rest.len().min(buffer.len());
        buffer[..length].copy_from_slice(&rest[..length]);
        Ok(length)
    }

    fn write(&self, _: Caller, node: u64, _: u64, write: Write<'_>) -> io::Result<usize> {
        let mut state = self.state();
        if node == CONTROL {
            let text = std::str::from_utf8(write.data).ok();
            let command = text.and_then(Command::of_text).ok_or(Errno::INVAL)?;
            state.obey(command)?;
        } else {
            state.check()?;
            let at = write.offset as usize;
            let place = state.content.get_mut(at..at + write.data.len());
            place.ok_or(Errno::NOSPC)?.copy_from_slice(write.data);
            if state.is_recording {
                state.recording.write(at, write.data);
            }
        }
        Ok(write.data.len())
    }

    fn fsync(&self, _: Caller, _: u64, _: u64, _: bool) -> io::Result<()> {
        let mut state = self.state();
        state.check()?;
        if state.is_recording {
            state.recording.flush();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_read_as_it_was_written() {
        let loss = |seed| Command::Become(PowerLoss { flushes: 17, seed });
        for command in [Command::Record, Command::Stop, loss(None), loss(Some(3))] {
            assert_eq!(Command::of_text(&command.to_text()), Some(command));
        }
        assert_eq!(Command::of_text("become"), None);
    }
}
