//! `surmise run`.

use std::ffi::OsString;
use std::process::ExitCode;

use surmise_api::results::{Fate, RunResult};
use surmise_api::{Launch, Native, Surmise};

use crate::after::{self, Choice, Settled};
use crate::boundary;
use crate::failure::Failure;
use crate::json::Json;
use crate::kept::Kept;
use crate::launch;
use crate::messages;
use crate::person::AtTerminal;
use crate::refused::Telling;
use crate::report;
use crate::speculation;
use crate::synchrony;
use crate::terminal;
use crate::through;
use surmise_api::Interrupts;

/// Run a command whose changes wait for your consent
///
/// The command sees the whole file system and changes it as it likes; outside, nothing changes.
/// Afterwards, on a terminal, Surmise shows what changed and asks; otherwise it keeps the changes
/// for `surmise diff`, `surmise commit` and `surmise abort`. A command that changed nothing leaves
/// nothing behind.
///
/// Standard output is the command's alone. Surmise writes to standard error.
#[derive(clap::Args)]
#[command(override_usage = "surmise run [OPTIONS] [--] <CMD>...", after_help = AFTER_HELP)]
pub struct Arguments {
    /// Call the domain NAME; without it, it is named after the command
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Do not ask: commit if the command exits with 0, abort otherwise
    #[arg(long, conflicts_with = "dry_run")]
    commit: bool,

    /// Do not ask: show what would change, and abort
    #[arg(long)]
    dry_run: bool,

    /// Wait for processes that outlive the command; without it, they are ended
    #[arg(long)]
    wait: bool,

    /// Have the system's programs, libraries and headers read-only as root, too: what only uses them runs faster
    ///
    /// /usr/bin, /usr/lib, /usr/include and their like, /etc/ld.so.cache and /etc/locale.alias are those outside then, and nothing
    /// in the domain can change them: package managers fail. Root can change /usr/local.
    #[arg(long, conflicts_with = "no_native")]
    native: bool,

    /// Have the view serve the system's programs and libraries, too, so that it is known which of them were read
    ///
    /// Without this option, /usr/bin, /usr/lib and their like are those outside, read-only, where the user cannot change them.
    /// That spares messages to the view, and `surmise commit --strict` does not know what was read there.
    #[arg(long)]
    no_native: bool,

    /// Do not ask; print the result as a JSON object, the last line of standard error
    #[arg(long)]
    json: bool,

    /// Print on standard error afterwards what the run took: messages to the view, predictions, rollbacks, waits, commits
    #[arg(long)]
    stats: bool,

    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    command: Vec<OsString>,

    #[command(flatten)]
    telling: Telling,

    #[command(flatten)]
    boundary: boundary::Options,

    #[command(flatten)]
    passing: through::Passing,

    #[command(flatten)]
    speculation: speculation::Speculating,
}

const AFTER_HELP: &str = "\
Examples:
  surmise run -- make install
  surmise run --dry-run -- ./cleanup.sh
  surmise run --commit -- sed -i s/old/new/ *.c
  surmise run --name pip --allow-net pypi.org --allow-net files.pythonhosted.org -- \
      pip install requests
  surmise run --net hold -- ./notify.sh

Exit status:
  that of the command; 128+N if signal N ended it, 126 if it cannot be executed,
  127 if there is no such command; 125 if Surmise itself failed, or if everything in the
  domain waits for the commit and nobody is there to decide: it goes on running then

JSON:
  {\"name\", \"exit\", \"state\", \"changes\", \"held\", \"lingering\", \"refused\", \"refused_more\"}
  exit         the exit status
  state        committed, aborted, kept, or unchanged: nothing is left of the domain
  changes      {\"kind\", \"path\"} each, kind as in `surmise diff`; \"from\" is the old path, \"notes\"
               what `surmise diff` says after the tab, one string each
  held         {\"to\", \"bytes\", \"first_line\", \"process\"} of each held output
  lingering    {\"pid\", \"name\"} of each process that was ended
  missing      a line for each thing that could not be kept, for want of space say
  refused      {\"kind\", \"target\", \"program\", \"count\", \"allow\"} of each sort of attempt that the
               boundary refused; kind is connection, datagram, name, socket, fifo, process or
               call, program null if unknown, allow the option that allows it, or null
  refused_more how many more attempts there were, beyond 200 sorts
  messages     how often the kernel asked the view, by the kernel's names: {\"LOOKUP\": 20, …}
  messages_beside
               how many of them were answered by the thread that follows callers to their processors
  speculation  with --stats: what it tells, \"calls\" with the most frequent first
  synchrony    with --stats, and --through where syncs are put off: as of `surmise sync --json`
  If Surmise fails, it is {\"failed\": {\"error\", \"details\", \"hint\", \"domain\", \"status\"}}: domain
  is the one that is left, if one is, and status the exit status";

impl Arguments {
    /// Where it prints JSON, if it was asked to.
    pub fn json(&self) -> Option<Json> {
        self.json.then_some(Json::Err)
    }

    fn native(&self) -> Native {
        match (self.native, self.no_native) {
            (true, _) => Native::All,
            (false, true) => Native::None,
            (false, false) => Native::Unchangeable,
        }
    }

    /// Runs the command and settles what becomes of its changes.
    pub fn execute(self) -> Result<ExitCode, Failure> {
        let choice = self.choice();
        let native = self.native();
        let surmise = Surmise::locate()?;
        let directory = launch::directory()?;
        let launch = Launch {
            through: self.passing.through(&surmise)?,
            name: self.name,
            command: self.command,
            boundary: self.boundary.boundary(&directory),
            directory,
            wait: self.wait,
            guessing: self.speculation.guessing(),
            tells_refusals: self.telling.hears(self.json),
            native,
            ..Launch::default()
        };
        let outcome = launch::supervise(self.telling, || surmise.run(&launch, &AtTerminal))?;
        // The reader of the result gets one: a signal that comes now is too late.
        let _interrupts = self
            .json
            .then(Interrupts::hold)
            .transpose()
            .map_err(Failure::new)?;
        let domain = outcome.domain.clone().expect("its files are undone");
        let name = domain.name().to_owned();
        let pending = domain.pending().map_err(Failure::from);
        let pending = pending.map_err(|failure| failure.kept_in(Kept::of(&domain)))?;
        let Settled {
            fate,
            mut missing,
            commit,
        } = after::settle(domain, outcome.exit, &pending, (choice, self.telling))?;
        if let (Fate::Kept, Some(error)) = (fate, &outcome.unrecorded) {
            let text = format!("how the command ended is not written down: {error}");
            report::note(&text);
            missing.push(text);
        }
        let stats = self.stats;
        if self.json {
            let result = RunResult {
                commit,
                ..outcome.result(&name, Some(&pending), fate, missing, stats)
            };
            // As all remarks: what can't be written must not change what a run does.
            let _ = Json::Err.print(&result);
        } else if stats {
            messages::show(&outcome.messages);
            outcome.supervision.iter().for_each(speculation::show);
            outcome.sync.iter().for_each(synchrony::tell);
        }
        Ok(ExitCode::from(outcome.exit.code()))
    }

    fn choice(&self) -> Choice {
        if self.commit {
            Choice::CommitIfZero
        } else if self.dry_run {
            Choice::ShowAndAbort
        } else if !self.json && terminal::can_ask() {
            Choice::Ask
        } else {
            Choice::Keep
        }
    }
}
