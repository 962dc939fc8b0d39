//! `surmise api`.

use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::ExitCode;

use surmise_api::Surmise;
use surmise_api::server::{self, Listener};

use crate::failure::Failure;
use crate::report;

/// Let programs use Surmise, by JSON-RPC 2.0
///
/// A program in any language starts domains, looks at what they did and decides, without reading text back. A
/// message is a line; docs/api.md has all methods, and an example in Python.
///
/// Each client has a process of its own. When a client goes, its commands hear SIGHUP, as if their terminal had
/// gone, and their domains are kept.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
#[group(required = true, multiple = false)]
pub struct Arguments {
    /// Listen at a Unix socket, for programs of this user and of root
    ///
    /// Its mode is 0600. It is removed when a signal ends the server.
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,

    /// Serve the one program that is at the other end of standard input and output
    #[arg(long)]
    stdio: bool,
}

const AFTER_HELP: &str = "\
Examples:
  surmise api --socket $XDG_RUNTIME_DIR/surmise.sock
  printf '%s\\n' '{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"hello\",\"params\":{\"versions\":[1]}}' \\
      '{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"list\"}' | surmise api --stdio";

impl Arguments {
    /// Serves until a signal asks to stop, or until the one program has gone.
    pub fn execute(self) -> Result<ExitCode, Failure> {
        let surmise = Surmise::locate()?;
        match self.socket {
            Some(path) => {
                let listener = Listener::open(&path)?;
                report::note(format_args!("listening at {}", path.display()));
                listener.serve(&surmise)?;
            }
            None => {
                let copy = |stream: std::os::fd::BorrowedFd<'_>| stream.try_clone_to_owned();
                let streams = copy(std::io::stdin().as_fd())
                    .and_then(|input| Ok((input, copy(std::io::stdout().as_fd())?)));
                let (input, output) = streams.map_err(Failure::new)?;
                server::serve(surmise, input, output)
                    .map_err(|error| Failure::new(format_args!("serve a program: {error}")))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
