//! `surmise serve`.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use surmise_server::{Options, Relay, ServeError, serve};
use surmise_sys::process;

use crate::failure::Failure;
use crate::report;

/// Serve a directory to other machines, as the server of `surmise mount`
///
/// All clients see one copy: what a client shows is what is in DIR, or will be before anybody else sees it. What
/// a client has synced is on this disk. The server changes DIR with the rights of the user that it runs as.
/// Nobody else is to change what is in DIR meanwhile; clients would not see it, or the server would stop.
///
/// The server keeps its own state in DIR/.surmise, which no client sees. It may be killed at any moment: the next one
/// makes what is missing, and clients go on. Without clients, the state can be removed.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    /// The directory
    #[arg(value_name = "DIR")]
    directory: PathBuf,

    /// Serve the one client at the other end of standard input and output, as ssh starts it
    ///
    /// It is brought to the server of DIR. If none runs, one is started in the background: that ends when no client
    /// has been known for a minute, or none connected for ten, and puts errors into DIR/.surmise/errors.
    #[arg(long)]
    stdio: bool,

    /// For how many seconds a client that is not heard of keeps what others wait for
    ///
    /// Then it is given up: changes of it that are not on this disk are lost. A server that runs already keeps its own
    /// number.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    lease: u32,

    /// End when no client needs the server
    #[arg(long, hide = true, conflicts_with = "stdio")]
    background: bool,
}

const AFTER_HELP: &str = "\
Examples:
  surmise serve ~/src                   until Ctrl-C; clients come to ~/src/.surmise/socket
  ssh host surmise serve src --stdio    what `surmise mount host:src` starts";

impl Arguments {
    /// Serves until a signal asks to stop, or until the one client has gone.
    pub fn execute(self) -> Result<ExitCode, Failure> {
        if self.stdio {
            let relay = Relay::connect(&self.directory, |errors| self.start(errors))?;
            relay
                .copy(io::stdin(), io::stdout())
                .map_err(|error| Failure::new(format_args!("serve a client: {error}")))?;
            return Ok(ExitCode::SUCCESS);
        }
        let options = Options {
            lease: Duration::from_secs(self.lease.into()),
            ends_alone: self.background,
        };
        let (directory, background) = (self.directory, self.background);
        serve(&directory, options, || {
            if !background {
                report::note(format_args!("serving {}", directory.display()));
            }
        })?;
        Ok(ExitCode::SUCCESS)
    }

    /// Starts a server that outlives this process; the function tells whether it has ended.
    fn start(&self, errors: File) -> io::Result<impl FnMut() -> bool + use<>> {
        let directory = absolute(&self.directory)?;
        let lease = self.lease.to_string();
        let server = process::fork(&[errors.as_fd()], || {
            // It fails for the leader of a session, which a copy is not.
            let _ = rustix::process::setsid();
            let Ok(errors) = errors.try_clone() else {
                return 1;
            };
            let mut command = Command::new("/proc/self/exe");
            command
                .arg0("surmise")
                .args(["serve", "--background", "--lease", &lease, "--"])
                .arg(&directory)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(errors);
            // It comes back with an error alone.
            let _ = command.exec();
            1
        })?;
        Ok(move || {
            let mut events = [PollFd::new(&server, PollFlags::IN)];
            let at_once = Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            };
            rustix::event::poll(&mut events, Some(&at_once)).is_ok_and(|ready| ready > 0)
        })
    }
}

/// For a process in another directory.
fn absolute(path: &Path) -> io::Result<PathBuf> {
    std::path::absolute(path)
}

impl From<ServeError> for Failure {
    fn from(error: ServeError) -> Self {
        let failure = Self::new(&error);
        match error.hint() {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}
