//! The command's own streams, whose other ends are outside.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{FileType, OFlags, Stat};
use rustix::process::Pid;

use crate::machine::task;
use crate::objects::input::Place;

/// What the command's process has from its caller.
#[derive(Debug, Default)]
pub(crate) struct Channels {
    outputs: Vec<Place>,
    /// All its streams.
    streams: Vec<Place>,
    /// What it has besides its streams: somebody outside may read it, too.
    kept: Vec<Place>,
    /// Whether any of all that is a socket, or may lead to one.
    has_sockets: bool,
}

impl Channels {
    /// Those of the command's process, before it has executed anything.
    pub(crate) fn of(process: Pid) -> io::Result<Self> {
        let mut outputs = Vec::new();
        for number in [1, 2] {
            if let Some((_, stat)) = task::file(process, number)?
                && is_stream(&stat)
            {
                outputs.push(Place::of(&stat));
            }
        }
        let mut streams = Vec::new();
        let mut kept = Vec::new();
        let mut has_sockets = false;
        for entry in std::fs::read_dir(format!("/proc/{}/fd", process.as_raw_nonzero()))? {
            let name = entry?.file_name();
            if let Some(number) = name.to_str().and_then(|name| name.parse().ok())
                && let Some((_, stat)) = task::file(process, number)?
            {
                let places = if number <= 2 { &mut streams } else { &mut kept };
                places.push(Place::of(&stat));
                has_sockets |= may_be_socket(&stat);
            }
        }
        // Until it executes something, the process has its streams by other numbers, too.
        kept.retain(|place| !streams.contains(place));
        Ok(Self {
            outputs,
            streams,
            kept,
            has_sockets,
        })
    }

    /// Whether the command was given a socket, by which processes outside may be met.
    pub(crate) fn has_sockets(&self) -> bool {
        self.has_sockets
    }

    /// Whether what is written by a descriptor comes out by one of them.
    pub(crate) fn leads_to_output(&self, file: &OwnedFd, stat: &Stat) -> bool {
        // A descriptor that may only be read from fails by itself.
        let flags = rustix::fs::fcntl_getfl(file);
        let may_write = flags.is_ok_and(|flags| flags & OFlags::ACCMODE != OFlags::RDONLY);
        may_write && self.outputs.contains(&Place::of(stat))
    }

    /// Whether something was the caller's: somebody outside may have it, too.
    pub(crate) fn is_from_outside(&self, place: Place) -> bool {
        self.is_stream(place) || self.is_kept(place)
    }

    /// Whether something is one of them, which the command's process has, too.
    pub(crate) fn is_stream(&self, place: Place) -> bool {
        self.streams.contains(&place)
    }

    /// Whether something was the caller's, besides the streams.
    pub(crate) fn is_kept(&self, place: Place) -> bool {
        self.kept.contains(&place)
    }
}

/// A socket that a directory has is reached by its name.
fn may_be_socket(stat: &Stat) -> bool {
    let kind = FileType::from_raw_mode(stat.st_mode);
    matches!(
        kind,
        FileType::Socket | FileType::Directory | FileType::Unknown
    )
}

fn is_stream(stat: &Stat) -> bool {
    let kind = FileType::from_raw_mode(stat.st_mode);
    matches!(kind, FileType::Fifo | FileType::CharacterDevice)
}
