//! What requests do, each in a process of its own.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use surmise_commit::{Choice, Terms, Winner};
use surmise_diff::forms::{Shown, patch};
use surmise_kept::Resend;

use super::request::{Prepared, path};
use crate::child::Channel;
use crate::domain::Domain;
use crate::error::Explained;
use crate::event::Event;
use crate::interrupt::Interrupts;
use crate::launch::RunError;
use crate::protocol::{Call, Commit, Decide, Diff, DiffResult, LeftOutRow, Named, Run, Unsent};
use crate::results::{AbortedDomain, CommitResult, Failed, Undone};
use crate::running::{PIECE_MAX, Redirect, Running, Streams};
use crate::supervised::{Progressing, Supervised, no_signals, show};
use crate::surmise::Surmise;
use crate::text::Text;
use crate::through::pass_through;

/// The exit status of a command that fails at anything but a run.
const FAILED: u8 = 1;

/// What a request comes to.
type Done = Result<Box<RawValue>, Box<Failed>>;

/// Why a request is not even begun.
#[derive(Debug)]
pub(super) enum NotBegun {
    /// The values of its parameters make no sense.
    BadParams(String),
    /// There are no processes left, say.
    Failed(Box<Failed>),
}

/// Begins a request that takes a process of its own.
pub(super) fn begin(surmise: &Surmise, call: Call) -> Result<Running, NotBegun> {
    match call {
        Call::Run(params) => run(surmise.clone(), *params),
        Call::Shell(params) => shell(surmise.clone(), *params),
        Call::Diff(params) => {
            let paths = paths("paths", &params.paths)?;
            let base = params
                .patch_base
                .as_ref()
                .map(|base| path("patch_base", base));
            let base = base.transpose().map_err(NotBegun::BadParams)?;
            work(surmise, |surmise, channel| {
                diff(surmise, channel, &params, (&paths, base))
            })
        }
        Call::Commit(params) => {
            let choices = choices(&params)?;
            work(surmise, |surmise, channel| {
                commit(surmise, channel, &params, &choices)
            })
        }
        call => work(surmise, |surmise, channel| other(surmise, channel, call)),
    }
}

/// Begins what needs no streams.
fn work(
    surmise: &Surmise,
    work: impl FnOnce(&Surmise, &Channel) -> Done,
) -> Result<Running, NotBegun> {
    let streams = Streams {
        stdin: Redirect::Null,
        stdout: Redirect::Null,
        stderr: Redirect::Inherit,
    };
    started(Running::start(streams, |channel| work(surmise, channel)))
}

fn started(running: Result<Running, RunError>) -> Result<Running, NotBegun> {
    running.map_err(|error| NotBegun::Failed(Failed::of(&error, FAILED)))
}

fn run(surmise: Surmise, params: Run) -> Result<Running, NotBegun> {
    let Prepared {
        mut launch,
        through,
        sync,
        streams,
        ..
    } = Prepared::of(&params).map_err(NotBegun::BadParams)?;
    started(Running::start(streams, move |channel| {
        if let Some(sync) = sync {
            let prepared = sync.prepare(&launch.directory);
            launch.sync = Some(prepared.map_err(|error| Failed::of(&error, 125))?);
        }
        if let Some(through) = through {
            let passed = pass_through(&through, surmise.path());
            let (passed, _) = passed.map_err(|error| Failed::of(&error, 125))?;
            launch.through = Some(passed);
        }
        let asks = params.asks;
        Supervised { channel, asks }.run(&surmise, &launch, params.then)
    }))
}

fn shell(surmise: Surmise, params: Run) -> Result<Running, NotBegun> {
    let prepared = Prepared::of(&params).map_err(NotBegun::BadParams)?;
    let Some(name) = params.name else {
        return Err(NotBegun::BadParams("name: which domain".into()));
    };
    if params.then != crate::settle::Then::Keep {
        return Err(NotBegun::BadParams(
            "then: a domain that is entered is kept".into(),
        ));
    }
    if prepared.sync.is_some() || prepared.through.is_some() {
        let error = "sync, through: not in a kept domain yet";
        return Err(NotBegun::BadParams(error.into()));
    }
    let (mut launch, has_boundary) = (prepared.launch, prepared.has_boundary);
    started(Running::start(prepared.streams, move |channel| {
        let domain = surmise
            .domain(&name)
            .map_err(|error| Failed::of(&error, 125))?;
        if !has_boundary {
            launch.boundary = domain.record().boundary.clone();
        }
        let asks = params.asks;
        Supervised { channel, asks }.shell(&domain, &launch)
    }))
}

fn paths(what: &str, texts: &[Text]) -> Result<Vec<PathBuf>, NotBegun> {
    let paths = texts.iter().map(|text| path(what, text));
    paths.collect::<Result<_, _>>().map_err(NotBegun::BadParams)
}

fn choices(params: &Commit) -> Result<Vec<Choice>, NotBegun> {
    let of = |what, texts: &[Text], winner| -> Result<Vec<Choice>, NotBegun> {
        let paths = paths(what, texts)?.into_iter();
        Ok(paths.map(|path| Choice { path, winner }).collect())
    };
    let ours = of("ours", &params.ours, Winner::Ours)?;
    let theirs = of("theirs", &params.theirs, Winner::Theirs)?;
    let is_both = |ours: &&Choice| theirs.iter().any(|theirs| theirs.path == ours.path);
    if let Some(both) = ours.iter().find(is_both) {
        let error = format!("{} is given to both sides", both.path.display());
        return Err(NotBegun::BadParams(error));
    }
    Ok([ours, theirs].concat())
}

fn other(surmise: &Surmise, channel: &Channel, call: Call) -> Done {
    match call {
        Call::List => {
            let domains = surmise.domains().map_err(|error| failed(&error))?;
            let rows: Vec<_> = domains.iter().map(Domain::summary).collect();
            done(&rows)
        }
        Call::Status(Named { name }) => done(&opened(surmise, &name)?.summary()),
        Call::UndoCommit(Named { name }) => {
            let domain = opened(surmise, &name)?;
            let interrupts = Interrupts::hold().map_err(|error| no_signals(&error))?;
            let mut progress = Progressing::new(channel, &interrupts);
            let undone = domain.undo_commit(&mut |at| progress.tell(at));
            undone.map_err(|error| failed(&error))?;
            done(&Undone { name })
        }
        Call::Abort(Named { name }) => {
            let domain = opened(surmise, &name)?;
            let changes = domain.changes().ok().map(|changes| changes.len());
            // Once begun, it comes to its end.
            let _interrupts = Interrupts::hold().map_err(|error| no_signals(&error))?;
            let aborted = domain.abort().map_err(|error| failed(&error))?;
            done(&AbortedDomain {
                name,
                changes,
                outcome: aborted.into(),
            })
        }
        Call::Decide(Decide { name, answer }) => {
            let decided = opened(surmise, &name)?.decide(answer);
            decided.map_err(|error| failed(&error))?;
            done(&Named { name })
        }
        Call::Watch(Named { name }) => watch(surmise, channel, &name),
        call => unreachable!("{} is done by the connection", call.method()),
    }
}

fn done(value: &impl Serialize) -> Done {
    Ok(to_raw_value(value).expect("a result is plain data"))
}

fn failed(error: &impl Explained) -> Box<Failed> {
    Failed::of(error, FAILED)
}

fn opened(surmise: &Surmise, name: &str) -> Result<Domain, Box<Failed>> {
    surmise.domain(name).map_err(|error| failed(&error))
}

/// Until the domain has ended. The result is what has become of it then: null where it is no more.
///
/// # Errors
/// Among others when the domain runs on and tells this watcher no more.
fn watch(surmise: &Surmise, channel: &Channel, name: &str) -> Done {
    let domain = opened(surmise, name)?;
    let watched = domain.watch();
    let watched = watched.map_err(|error| failed(&error))?;
    let gone = |error: io::Error| Failed::plain("client_gone", error.to_string(), FAILED);
    channel.tell(&Event::Watching).map_err(gone)?;
    while let Some(notice) = watched.heard().map_err(|error| failed(&error))? {
        channel.tell(&Event::of(notice)).map_err(gone)?;
    }
    if domain.0.answers() {
        let error = format!("domain `{name}` runs on, and has dropped this watch");
        let mut failed = Failed::plain("watch_lost", error, FAILED);
        let hint =
            "watch it again; a domain drops a watch that is not read, and the oldest of too many";
        failed.hint = Some(hint.into());
        return Err(failed);
    }
    domain.0.wait_ended();
    done(&surmise.domain(name).ok().map(|domain| domain.summary()))
}

fn diff(
    surmise: &Surmise,
    channel: &Channel,
    params: &Diff,
    (paths, base): (&[PathBuf], Option<PathBuf>),
) -> Done {
    let domain = opened(surmise, &params.name)?;
    let changes = domain.noted_changes().map_err(|error| failed(&error))?;
    let changes = changes.below(paths);
    // Output is below no path.
    let held = match paths.is_empty() {
        true => domain.held().map_err(|error| failed(&error))?,
        false => Vec::new(),
    };
    let mut left_out = Vec::new();
    if let Some(base) = base {
        let contents = domain.contents().map_err(|error| failed(&error))?;
        let mut out = io::BufWriter::with_capacity(PIECE_MAX, Patch(channel));
        let shown = Shown {
            diff: &changes,
            held: &[],
            base: &base,
        };
        let left = patch::write(&shown, &contents.of_form(), &mut out);
        let left = left.and_then(|left| Ok(out.flush().map(|()| left)?));
        let left = left
            .map_err(|error| Failed::plain("patch", format!("write the patch: {error}"), FAILED))?;
        left_out.extend(left.iter().map(|left| LeftOutRow {
            path: left.path.to_string_lossy().into_owned(),
            reason: left.reason.to_string(),
        }));
    }
    done(&DiffResult {
        name: params.name.clone(),
        changes: changes.iter().map(Into::into).collect(),
        held,
        left_out,
    })
}

/// Tells what is written as pieces of a patch.
struct Patch<'c>(&'c Channel);

impl Write for Patch<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = &bytes[..bytes.len().min(PIECE_MAX)];
        let data = Text(piece.to_vec());
        self.0.tell(&Event::Patch { data })?;
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn commit(surmise: &Surmise, channel: &Channel, params: &Commit, choices: &[Choice]) -> Done {
    let domain = opened(surmise, &params.name)?;
    if params.forget_reads {
        let is_forgotten = domain.forget_damaged_reads();
        if !is_forgotten.map_err(|error| failed(&error))? {
            let error = "the record of what the command read is not damaged".into();
            return Err(Failed::plain("reads_not_damaged", error, FAILED));
        }
    }
    if let Some(part) = params.unsent {
        let what = match part {
            Unsent::Rest => Resend::Rest,
            Unsent::Whole => Resend::Whole,
        };
        if domain.send_again(what).map_err(|error| failed(&error))? == 0 {
            let error = format!("nothing of domain `{}` is unsent", params.name);
            return Err(Failed::plain("nothing_unsent", error, FAILED));
        }
    }
    let interrupts = Interrupts::hold().map_err(|error| no_signals(&error))?;
    let mut progress = Progressing::new(channel, &interrupts);
    let terms = Terms {
        choices,
        is_strict: params.strict,
    };
    let mut on_progress = |at| -> ControlFlow<()> { progress.tell(at) };
    let committed = domain.commit(terms, &mut on_progress, &mut |target, bytes| {
        show(channel, target, bytes)
    });
    let committed = committed.map_err(|error| failed(&error))?;
    done(&CommitResult::of(&params.name, &committed))
}
