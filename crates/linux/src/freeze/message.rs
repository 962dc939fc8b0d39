//! What the tracer says to the process that made it: one packet, of a letter, a number and a text.
//!
//! Both ends are the same program, so there is no version and no byte order.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::time::Timespec;

use super::FreezeError;

/// What came of a freeze.
pub(super) enum Report {
    /// This many tasks are stopped.
    Frozen(usize),
    Failed(FreezeError),
}

/// No name of a task and no error is nearly as long.
const LENGTH_MAX: usize = 512;

/// Every call that the tracer makes and that can fail for all tasks.
const STEPS: [&str; 3] = ["watch the tracees", "find the tasks", "wait for the tasks"];

/// Fails only when nobody listens any longer.
pub(super) fn send(socket: &OwnedFd, report: &Report) {
    let (letter, number, text) = match report {
        Report::Frozen(tasks) => (b'F', *tasks as u64, ""),
        Report::Failed(FreezeError::Traced { pid, name }) => (b'T', *pid as u64, name.as_str()),
        Report::Failed(FreezeError::Busy { pid, name }) => (b'B', *pid as u64, name.as_str()),
        Report::Failed(FreezeError::Denied { pid, name }) => (b'D', *pid as u64, name.as_str()),
        Report::Failed(FreezeError::System { what, source }) => {
            (b'S', source.raw_os_error().unwrap_or(0) as u64, *what)
        }
        // Said by nobody: its sign is that nothing is said.
        Report::Failed(FreezeError::Killed) => return,
    };
    let mut packet = vec![letter];
    packet.extend(number.to_ne_bytes());
    packet.extend(text.bytes());
    let _ = rustix::net::send(socket, &packet, rustix::net::SendFlags::NOSIGNAL);
}

/// The word that lets all tasks go on.
const LET_GO: &[u8] = b"go";

/// Tells the tracer to let all tasks go on. Fails only when it is dead.
pub(super) fn let_go(socket: &OwnedFd) {
    let _ = rustix::net::send(socket, LET_GO, rustix::net::SendFlags::NOSIGNAL);
}

/// Whether what the tracer hears is that word, and not the end of who would say it.
pub(super) fn is_let_go(socket: &OwnedFd) -> bool {
    let mut word = [0; LET_GO.len()];
    let heard = rustix::net::recv(socket, &mut word, rustix::net::RecvFlags::empty());
    heard.is_ok_and(|(length, _)| &word[..length] == LET_GO)
}

/// `None` when the tracer has ended without a word, or says nothing until `deadline`.
pub(super) fn receive(socket: &OwnedFd, deadline: Instant) -> io::Result<Option<Report>> {
    if !is_ready_by(socket, deadline)? {
        return Ok(None);
    }
    let mut packet = [0; LENGTH_MAX];
    let (length, _) = rustix::net::recv(socket, &mut packet, rustix::net::RecvFlags::empty())?;
    Ok(parse(&packet[..length]))
}

fn parse(packet: &[u8]) -> Option<Report> {
    let (letter, rest) = packet.split_first()?;
    let (number, text) = rest.split_first_chunk()?;
    let number = u64::from_ne_bytes(*number);
    let name = String::from_utf8_lossy(text).into_owned();
    let pid = number as i32;
    Some(match letter {
        b'F' => Report::Frozen(number as usize),
        b'T' => Report::Failed(FreezeError::Traced { pid, name }),
        b'B' => Report::Failed(FreezeError::Busy { pid, name }),
        b'D' => Report::Failed(FreezeError::Denied { pid, name }),
        _ => Report::Failed(FreezeError::System {
            what: STEPS.into_iter().find(|step| *step == name)?,
            source: io::Error::from_raw_os_error(pid),
        }),
    })
}

/// Whether a child has ended by then.
pub(super) fn ends_within(child: &impl AsFd, limit: Duration) -> io::Result<bool> {
    is_ready_by(child, Instant::now() + limit)
}

/// Whether a descriptor is readable, or its other end closed, by then.
pub(super) fn is_ready_by(descriptor: &impl AsFd, deadline: Instant) -> io::Result<bool> {
    loop {
        let rest = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(rest).map_err(|_| io::ErrorKind::InvalidInput)?;
        match rustix::event::poll(
            &mut [PollFd::new(descriptor, PollFlags::IN)],
            Some(&timeout),
        ) {
            Ok(ready) => return Ok(ready > 0),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_heard() {
        let name = "a) name".to_owned();
        let said = [
            (Report::Frozen(70_000), "70000".to_owned()),
            (
                Report::Failed(FreezeError::Busy { pid: 7, name }),
                "process 7 (a) name) did not stop in time".to_owned(),
            ),
        ];
        let steps = STEPS.map(|what| {
            let source = io::Error::from_raw_os_error(libc::EMFILE);
            let error = FreezeError::System { what, source };
            (error.to_string(), Report::Failed(error))
        });
        let steps = steps.into_iter().map(|(text, report)| (report, text));
        let flags = rustix::net::SocketFlags::CLOEXEC;
        let (ours, theirs) = rustix::net::socketpair(
            rustix::net::AddressFamily::UNIX,
            rustix::net::SocketType::SEQPACKET,
            flags,
            None,
        )
        .expect("a socket pair");
        let soon = || Instant::now() + Duration::from_secs(5);
        for (report, text) in said.into_iter().chain(steps) {
            send(&theirs, &report);
            let heard = match receive(&ours, soon()).expect("receive") {
                Some(Report::Frozen(tasks)) => tasks.to_string(),
                Some(Report::Failed(error)) => error.to_string(),
                None => "nothing".to_owned(),
            };
            assert_eq!(heard, text);
        }
        drop(theirs);
        assert!(receive(&ours, soon()).expect("receive").is_none());
    }
}
