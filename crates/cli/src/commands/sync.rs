//! `surmise sync`.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

use surmise_api::{
    Boundary, Files, Guarantee, Launch, LaunchError, Policy, PrivateVolume, Promise, Surmise,
    Synchrony, SynchronyError, Verdict,
};

use crate::failure::Failure;
use crate::json::Json;
use crate::launch;
use crate::person::AtTerminal;
use crate::refused::Telling;
use crate::report;
use crate::synchrony;

/// Run a command whose fsyncs cost nothing, and show nothing before it is durable
///
/// The command's fsync, fdatasync, sync and syncfs return at once. What it then puts out, on its streams, its
/// terminal or over the network, and its exit status, wait until all is on disk that it asked for before: so
/// whoever looks at it from outside cannot tell the difference, not even after a loss of power. Everything
/// that waits shares one commit.
///
/// That takes a file system that keeps the order of changes: a volume (`surmise volume`), ext4 mounted with
/// data=journal, ext4 with nodelalloc and the attribute j on the directory, or a directory of another machine (`surmise
/// mount`). On any other one, and while
/// the command has files of the volume mapped for writing (other than the -shm files of SQLite), files elsewhere
/// open for writing, or a connection to a Unix socket outside, its fsyncs are real ones: --stats tells why.
#[derive(clap::Args)]
#[command(override_usage = "surmise sync [OPTIONS] [--] <CMD>...", after_help = AFTER_HELP)]
pub struct Arguments {
    /// A directory on the file system whose fsyncs are put off; without it, the current directory
    #[arg(long, value_name = "PATH")]
    on: Option<PathBuf>,

    /// Mount the volume in FILE on DIR for the command alone, and put its fsyncs off (root)
    ///
    /// Nobody outside sees its files, so nobody reads there what is not durable. It is unmounted when the
    /// command has ended.
    #[arg(long, value_name = "FILE:DIR", conflicts_with = "on", value_parser = private_volume)]
    volume: Option<PrivateVolume>,

    /// With --volume, what becomes of changes that are not on it
    ///
    /// Where nothing else can be changed, calls that make, open, rename and remove files need not be looked
    /// at, so they cost what they cost outside. Programs get EACCES for what they try elsewhere; files of their
    /// own in /tmp go to the volume by TMPDIR.
    #[arg(
        long,
        value_name = "WHAT",
        default_value = "watched",
        hide_default_value = true,
        requires_if("read-only", "volume")
    )]
    elsewhere: Elsewhere,

    /// What whoever sees output may rely on
    #[arg(
        long,
        value_name = "WHAT",
        default_value = "fsync",
        hide_default_value = true
    )]
    promise: Relied,

    /// How long a change may stay in memory when nobody waits for it: 5s, 500ms
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = synchrony::parse_time)]
    interval: Duration,

    /// Commit at once after each fsync, though the command does not wait for that
    #[arg(long)]
    eager: bool,

    /// Print why fsyncs were real, what triggered commits, and how long output was held on standard error afterwards
    #[arg(long)]
    stats: bool,

    /// With --stats, print them as a JSON object, the last line of standard error
    #[arg(long, requires = "stats")]
    json: bool,

    /// Whether the command reaches hosts over the network; `deny` where there can be no gate
    #[arg(long, value_name = "POLICY")]
    net: Option<Net>,

    /// A port of a server inside that is reached from outside, on this machine's loopback address
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    publish: Vec<u16>,

    /// Wait for processes that outlive the command; without it, they are ended
    #[arg(long)]
    wait: bool,

    #[command(flatten)]
    telling: Telling,

    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    command: Vec<OsString>,
}

fn private_volume(text: &str) -> Result<PrivateVolume, &'static str> {
    let parts = text.rsplit_once(':');
    let (file, directory) = parts
        .filter(|(file, directory)| !file.is_empty() && !directory.is_empty())
        .ok_or("a file and a directory with a colon in between: base.img:/mnt")?;
    Ok(PrivateVolume {
        file: file.into(),
        directory: directory.into(),
    })
}

/// What becomes of changes that are not on the volume.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Elsewhere {
    /// They are made, after what was promised is durable
    Watched,
    /// They fail
    ReadOnly,
}

impl From<Elsewhere> for surmise_api::Elsewhere {
    fn from(elsewhere: Elsewhere) -> Self {
        match elsewhere {
            Elsewhere::Watched => Self::Watched,
            Elsewhere::ReadOnly => Self::ReadOnly,
        }
    }
}

/// What output may rely on.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Relied {
    /// What the command asked to be durable before is durable, and what it changed until it was shown
    Fsync,
    /// Whatever it wrote before is durable; other file systems can't be written meanwhile
    Write,
}

/// What becomes of connections.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Net {
    /// They are refused
    Deny,
    /// They are made, and what is sent waits as other output does
    Allow,
}

impl Net {
    /// Who may not have a gate can do without a network still.
    fn usual() -> Self {
        if surmise_api::can_gate() {
            return Self::Allow;
        }
        report::note("the command reaches no network: /dev/net/tun can't be used here");
        Self::Deny
    }
}

impl From<Net> for Verdict {
    fn from(net: Net) -> Self {
        match net {
            Net::Deny => Self::Deny,
            Net::Allow => Self::Allow,
        }
    }
}

const AFTER_HELP: &str = "\
Examples:
  surmise sync -- sqlite3 shop.db < orders.sql
  surmise sync --on /mnt --stats -- chroot /mnt apt-get install -y hello
  sudo surmise sync --volume base.img:/mnt -- make -C /mnt/project
  sudo surmise sync --volume base.img:/mnt --elsewhere read-only -- sqlite3 /mnt/shop.db
  surmise sync --promise write -- ./build.sh

Exit status:
  that of the command; 128+N if signal N ended it, 126 if it cannot be executed,
  127 if there is no such command; 125 if Surmise itself failed, or if a commit did:
  then nothing was shown of what came after the last commit that succeeded";

impl Arguments {
    /// Where it prints JSON, if it was asked to.
    pub fn json(&self) -> Option<Json> {
        self.json.then_some(Json::Err)
    }

    /// Runs the command.
    pub fn execute(self) -> Result<ExitCode, Failure> {
        let directory = launch::directory()?;
        let synchronous = match self.synchrony().prepare(&directory) {
            Ok(synchronous) => synchronous,
            Err(SynchronyError::NoDriver {
                source,
                is_named: false,
            }) => {
                report::note(format_args!("every fsync is a real one: {source}"));
                return Err(self.replace_process());
            }
            Err(error) => return Err(error.into()),
        };
        if synchronous.guarantee() == Guarantee::Weaker {
            report::note(format_args!(
                "{} keeps the order of changes less surely than ext4 data=journal",
                synchronous.name()
            ));
        }
        let launch = Launch {
            command: self.command,
            directory,
            boundary: Boundary {
                net: Policy {
                    default: self.net.unwrap_or_else(Net::usual).into(),
                    rules: Vec::new(),
                },
                publish: self.publish,
                ..Boundary::default()
            },
            wait: self.wait,
            tells_refusals: self.telling.hears(self.json),
            files: Files::Real,
            sync: Some(synchronous),
            ..Launch::default()
        };
        let outcome = launch::supervise(self.telling, || Surmise::sync(&launch, &AtTerminal))?;
        if let Some(stats) = outcome.sync.as_ref().filter(|_| self.stats) {
            synchrony::show(stats, &outcome.refusals, self.json)?;
        }
        Ok(ExitCode::from(outcome.exit.code()))
    }

    fn synchrony(&self) -> Synchrony {
        Synchrony {
            on: self.on.clone(),
            volume: self.volume.clone(),
            elsewhere: self.elsewhere.into(),
            promise: match self.promise {
                Relied::Fsync => Promise::Fsync,
                Relied::Write => Promise::Write,
            },
            interval: self.interval,
            eager: self.eager,
        }
    }

    /// Becomes the command: there is nothing to do for it. Returns only if that fails.
    fn replace_process(self) -> Failure {
        // Where that fails, the command may open more files than its caller; it does no harm.
        let _ = surmise_linux::limits::give_back_descriptors();
        let program = &self.command[0];
        let source = Command::new(program).args(&self.command[1..]).exec();
        let command = program.clone();
        Failure::from(match source.kind() {
            std::io::ErrorKind::NotFound => LaunchError::NotFound { command },
            _ => LaunchError::NotExecutable { command, source },
        })
    }
}
