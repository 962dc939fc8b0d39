//! The ends of pipes that tasks have open, by what /proc tells: so nothing is opened, and no file is asked.

use std::io;
use std::os::fd::RawFd;

use rustix::fs::Mode;
use rustix::process::Pid;
use surmise_linux::proc::{self, Entry, Link, Opened};

use super::seen::Seen;
use super::{fifo, task};

/// A side of a pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Side {
    Reading,
    Writing,
}

/// A pipe, by its inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Pipe {
    Nameless(u64),
    /// A FIFO of the view; unless [`is_pipe`] was asked, perhaps any other file of the view.
    Named(u64),
}

/// An end: one side of one pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct End {
    pub(super) pipe: Pipe,
    pub(super) side: Side,
}

impl End {
    /// The other side of the same pipe.
    pub(super) fn opposite(self) -> Self {
        let side = match self.side {
            Side::Reading => Side::Writing,
            Side::Writing => Side::Reading,
        };
        Self { side, ..self }
    }

    /// Whether it is not known what the pipe's ends tell, or who has them.
    pub(super) fn is_odd(self, seen: &Seen) -> bool {
        match self.pipe {
            Pipe::Nameless(_) => seen.has_odd_pipes(),
            Pipe::Named(_) => seen.has_odd_fifos(),
        }
    }
}

/// The ends of pipes that a task has open, with their numbers. Once a FIFO was met, all that it has open of the view is among them.
pub(super) fn ends_of(entry: impl Into<Entry>, seen: &Seen) -> io::Result<Vec<(RawFd, End)>> {
    let entry = entry.into();
    let mut pipes = Vec::new();
    let listed = proc::each_link(entry.clone(), |number, link| {
        if let Link::Pipe(pipe) = link {
            pipes.push((number, pipe));
        }
    });
    unless_gone(listed)?;
    let mut ends = Vec::new();
    for (number, pipe) in pipes {
        let sides = sides(&entry, number)?;
        let pipe = Pipe::Nameless(pipe);
        ends.extend(sides.map(|side| (number, End { pipe, side })));
    }
    if seen.has_fifos() {
        for (number, opened) in unless_gone(proc::opened(entry))? {
            ends.extend(named(&opened, seen).map(|end| (number, end)));
        }
    }
    Ok(ends)
}

/// Likewise those of one descriptor, if it leads to such: both where it was opened for both.
pub(super) fn ends_at(entry: impl Into<Entry>, number: RawFd, seen: &Seen) -> io::Result<Vec<End>> {
    let entry = entry.into();
    let link = unless_gone(Link::of(entry.clone(), number).map(Some))?;
    if let Some(Link::Pipe(pipe)) = link {
        let pipe = Pipe::Nameless(pipe);
        let sides = sides(&entry, number)?;
        return Ok(sides.map(|side| End { pipe, side }).collect());
    }
    if !seen.has_fifos() {
        return Ok(Vec::new());
    }
    let opened = unless_gone(Opened::of(entry, number).map(Some))?;
    Ok(opened.map_or_else(Vec::new, |opened| named(&opened, seen).collect()))
}

/// The sides that a descriptor has open of a file of the view.
fn named(opened: &Opened, seen: &Seen) -> impl Iterator<Item = End> + use<> {
    let inode = opened.inode.filter(|_| seen.names().is_view(opened.mount));
    let sides = [
        (opened.is_for_reading(), Side::Reading),
        (opened.is_for_writing(), Side::Writing),
    ];
    let sides = sides.into_iter().filter(|(is_open, _)| *is_open);
    inode.into_iter().flat_map(move |inode| {
        sides.clone().map(move |(_, side)| End {
            pipe: Pipe::Named(inode),
            side,
        })
    })
}

/// Whether a descriptor leads to a pipe, be it a FIFO of the view, and not to another file there.
pub(super) fn is_pipe(process: Pid, (number, end): (RawFd, End), seen: &Seen) -> io::Result<bool> {
    let Pipe::Named(inode) = end.pipe else {
        return Ok(true);
    };
    let reached = task::reached(process, number.cast_unsigned().into())?;
    Ok(match reached {
        Some(reached) => fifo::inode(&reached, seen)? == Some(inode),
        None => false,
    })
}

/// What a descriptor of a task is open for; nothing where there is none any more.
fn sides(entry: &Entry, number: RawFd) -> io::Result<impl Iterator<Item = Side> + use<>> {
    let path = entry.path("fd").join(number.to_string());
    // The link's own mode says that (proc_pid_fd(5)).
    let stat = unless_gone(rustix::fs::lstat(path).map(Some).map_err(Into::into))?;
    let mode = stat.map_or(Mode::empty(), |stat| Mode::from_raw_mode(stat.st_mode));
    let sides = [(Mode::RUSR, Side::Reading), (Mode::WUSR, Side::Writing)];
    let sides = sides.into_iter();
    let sides = sides.filter(move |(bit, _)| mode.contains(*bit));
    Ok(sides.map(|(_, side)| side))
}

pub(super) fn unless_gone<T: Default>(result: io::Result<T>) -> io::Result<T> {
    match result {
        Err(error) if task::is_gone(&error) => Ok(T::default()),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsRawFd, OwnedFd};

    use rustix::pipe::{PipeFlags, pipe_with};

    use super::*;

    #[test]
    fn an_end_is_one_by_what_it_was_opened_for() {
        let own = rustix::process::getpid();
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
        let sides = |end: &OwnedFd| {
            let ends = ends_at(own, end.as_raw_fd(), &Seen::default()).expect("look");
            ends.iter().map(|end| end.side).collect::<Vec<_>>()
        };
        assert_eq!(sides(&reader), [Side::Reading]);
        assert_eq!(sides(&writer), [Side::Writing]);
        let path = format!("/proc/self/fd/{}", reader.as_raw_fd());
        let both = std::fs::File::options().read(true).write(true).open(path);
        let both = both.expect("open both").into();
        assert_eq!(sides(&both), [Side::Reading, Side::Writing]);
        let file = std::fs::File::open("/dev/null").expect("open").into();
        assert_eq!(sides(&file), []);
    }
}
