//! A commit as the user sees it.

use std::io::{self, Write};
use std::ops::ControlFlow;

use surmise_api::{Committed, Domain, OnOutput, OnProgress, ReadChanged, Target, Terms};

use crate::failure::Failure;
use crate::kept::Kept;
use crate::progress::Display;
use crate::report;
use crate::summary::count;
use surmise_api::Interrupts;

/// Makes the changes of `domain` real. A domain whose commit fails, or that could not send all, is kept, and the
/// failure says so.
///
/// On a terminal, one that takes long shows how far it is. A signal that asks to stop stops it
/// between two steps.
pub fn commit_or_keep(domain: Domain) -> Result<Committed, Failure> {
    let kept = |failure: Failure| match domain.exists() {
        true => failure.kept_in(Kept::of(&domain)),
        // The changes are committed, but for what the failure tells.
        false => failure,
    };
    let committed = shown(Display::on_terminal(), |on_progress, on_output| {
        domain.clone().commit_or_keep(on_progress, on_output)
    });
    let committed = committed?.map_err(Failure::from).map_err(kept)?;
    tell(domain.name(), &committed).map_err(kept)?;
    Ok(committed)
}

/// Makes them real on somebody's terms, or finishes what an earlier commit began, and says nothing of the result.
pub fn commit_quietly(
    domain: Domain,
    terms: Terms<'_>,
    display: Display,
) -> Result<Committed, Failure> {
    let committed = shown(display, |on_progress, on_output| {
        domain.commit(terms, on_progress, on_output)
    });
    Ok(committed??)
}

/// Commits by `commit`, and shows how far that is and what was held for the terminal and the streams.
fn shown<T>(
    mut display: Display,
    commit: impl FnOnce(&mut OnProgress<'_>, &mut OnOutput<'_>) -> T,
) -> Result<T, Failure> {
    let interrupts = Interrupts::hold().map_err(Failure::new)?;
    let mut lines = TerminalLines::default();
    let out = display.leaves_standard_output();
    let committed = commit(
        &mut |progress| {
            display.show(progress);
            if interrupts.arrived() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        },
        &mut |target, bytes| match target {
            Target::Terminal => show_output(target, &lines.taken(bytes), out),
            _ => show_output(target, bytes, out),
        },
    );
    display.clear();
    Ok(committed)
}

/// Says what was sent and what was read and has changed, and fails with what was left.
pub fn tell(name: &str, committed: &Committed) -> Result<(), Failure> {
    tell_sent(committed);
    tell_read_changed(&committed.done.read_changed);
    tell_left(name, committed)
}

/// Takes back a commit of `domain` that was cut short. A signal that asks to stop stops it between two
/// steps; the next undo goes on.
pub fn undo(domain: &Domain, mut display: Display) -> Result<(), Failure> {
    let interrupts = Interrupts::hold().map_err(Failure::new)?;
    let undone = domain.undo_commit(&mut |progress| {
        display.show(progress);
        if interrupts.arrived() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    display.clear();
    Ok(undone?)
}

/// What the command would have shown; on standard error where standard output is not to be had.
fn show_output(target: &Target, bytes: &[u8], may_use_stdout: bool) -> io::Result<()> {
    match target {
        _ if !may_use_stdout => io::stderr().lock().write_all(bytes),
        Target::Error => io::stderr().lock().write_all(bytes),
        _ => {
            let mut out = io::stdout().lock();
            out.write_all(bytes)?;
            out.flush()
        }
    }
}

/// What the domain's terminal has made of line ends, taken back: where it is shown on a terminal, that
/// makes them again, and a file has none.
#[derive(Default)]
struct TerminalLines {
    /// A carriage return that may belong to a line end.
    returned: bool,
}

impl TerminalLines {
    fn taken(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut taken = Vec::with_capacity(bytes.len() + 1);
        for &byte in bytes {
            if std::mem::take(&mut self.returned) && byte != b'\n' {
                taken.push(b'\r');
            }
            match byte {
                b'\r' => self.returned = true,
                _ => taken.push(byte),
            }
        }
        taken
    }
}

fn tell_sent(committed: &Committed) {
    for (to, bytes) in &committed.done.sent {
        let bytes = usize::try_from(*bytes).unwrap_or(usize::MAX);
        report::note(format_args!("sent {} to {to}", count(bytes, "byte")));
    }
    if committed.done.is_sending {
        report::note("the changes are committed; what was held still goes out");
    }
}

/// No conflict, but what the command made of it may be out of date.
fn tell_read_changed(changed: &ReadChanged) {
    let ReadChanged { count: all, first } = changed;
    if *all == 0 {
        return;
    }
    let (paths, have) = (count(*all, "path"), if *all == 1 { "has" } else { "have" });
    report::note(format_args!(
        "{paths} that the command read {have} changed outside since; --strict makes that a conflict:"
    ));
    report::details(first, all - first.len());
}

/// What someone outside was faster with, and what could not be sent, is not lost in silence.
fn tell_left(name: &str, committed: &Committed) -> Result<(), Failure> {
    let done = &committed.done;
    if !done.left.is_empty() {
        return Err(Failure::new(format_args!(
            "committed, but for {} that changed while the commit ran",
            count(done.left.len(), "path")
        ))
        .details(&done.left)
        .hint(
            "nothing of yours or theirs was overwritten; compare the paths and settle them by hand",
        ));
    }
    if done.unsent.is_empty() {
        return Ok(());
    }
    let lines = done.unsent.iter().map(|(to, sent, why)| {
        let sent = usize::try_from(*sent).unwrap_or(usize::MAX);
        format!("{to}: {why} ({} sent)", count(sent, "byte"))
    });
    Err(Failure::new(format_args!(
        "committed, but {} could not be sent whole",
        count(done.unsent.len(), "held output")
    ))
    .details(lines)
    .hint(format_args!(
        "the files are as the command left them, and what was not sent is kept: `surmise commit --unsent rest \
         {name}` sends the rest, `--unsent whole` all of it once more, `surmise abort {name}` drops it"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_ends_of_a_terminal_become_those_of_files() {
        let mut lines = TerminalLines::default();
        let pieces: [&[u8]; 5] = [b"one\r\ntwo\r", b"\n10%\r", b"20%\r", b"\r\n", b"x"];
        let taken: Vec<u8> = pieces.iter().flat_map(|bytes| lines.taken(bytes)).collect();
        assert_eq!(taken, b"one\ntwo\n10%\r20%\r\nx");
    }
}
