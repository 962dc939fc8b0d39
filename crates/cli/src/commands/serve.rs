//! `surmise serve`.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use surmise_linux::service;
use surmise_server::{
    BadUser, ListenError, Listener, Options, Relay, ServeError, serve_also, users,
};
use surmise_sys::process;
use surmise_tls::{Files, Terms, TermsError};

use crate::failure::Failure;
use crate::report;

/// Serve a directory to other machines, as the server of `surmise mount`
///
/// Clients come by ssh, which starts this command, or by TLS (--listen). All clients see one copy: what a client shows is what is in DIR, or will be before anybody else sees it. What
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

    /// Take clients that come to this address by TLS: 0.0.0.0, [::] for all addresses, 192.0.2.1:7459
    ///
    /// The port is 7459 if none is given. Clients and server show each other certificates (TLS 1.3). A client's has to name
    /// the user that this server runs as, by its common name (CN): all clients get the rights of that user. So each user
    /// needs a server.
    #[arg(long, value_name = "ADDRESS[:PORT]", requires_all = ["certificate", "key", "clients"], conflicts_with = "stdio")]
    listen: Vec<String>,

    /// The server's certificate, in PEM, with those of the authorities above it
    #[arg(long, value_name = "FILE", requires = "listen")]
    certificate: Option<PathBuf>,

    /// The key of that certificate
    #[arg(long, value_name = "FILE", requires = "listen")]
    key: Option<PathBuf>,

    /// The certificates of the authorities that sign those of clients
    #[arg(long, value_name = "FILE", requires = "listen")]
    clients: Option<PathBuf>,

    /// Let in certificates of NAME, too, with the rights of USER, who has to be the user that this server runs as
    ///
    /// So several people share what one user serves: --user ann=web --user bob=web. A server of root lets in only certificates
    /// that are named so.
    #[arg(long, value_name = "NAME=USER", requires = "listen", value_parser = pair)]
    user: Vec<(String, String)>,

    /// What clients call the directory by TLS: surmise://HOST/NAME [default: the last part of DIR]
    #[arg(long, value_name = "NAME", requires = "listen")]
    export: Option<String>,

    /// End when no client needs the server
    #[arg(long, hide = true, conflicts_with = "stdio")]
    background: bool,
}

const AFTER_HELP: &str = "\
Examples:
  surmise serve ~/src                   until Ctrl-C; clients come to ~/src/.surmise/socket
  ssh host surmise serve src --stdio    what `surmise mount host:src` starts
  surmise serve ~/src --listen [::] --certificate server.crt --key server.key --clients ca.crt
                                        what `surmise mount surmise://host/src` connects to;
                                        `surmise certificates` makes the files";

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
        let tls = match self.listen.is_empty() {
            true => None,
            false => Some(self.listener()?),
        };
        let addresses = match &tls {
            Some(tls) => tls.addresses().unwrap_or_default(),
            None => Vec::new(),
        };
        let (directory, background) = (self.directory, self.background);
        serve_also(&directory, options, tls, || {
            if !background {
                report::note(format_args!("serving {}", directory.display()));
            }
            for address in addresses {
                report::note(format_args!("listening on {address}"));
            }
            if let Err(error) = service::is_ready() {
                report::note(format_args!("tell the service manager: {error}"));
            }
        })?;
        Ok(ExitCode::SUCCESS)
    }

    /// Where clients come by TLS, and which are let in.
    fn listener(&self) -> Result<Listener, Failure> {
        let users = users(&self.user)?;
        let export = match &self.export {
            Some(export) if export.is_empty() || export.contains('/') => {
                return Err(Failure::new(format_args!(
                    "{export:?} cannot be the name of an export"
                )));
            }
            Some(export) => export.clone(),
            None => last_part(&self.directory)?,
        };
        // clap has seen to it that they are there.
        let file = |file: &Option<PathBuf>| file.clone().unwrap_or_default();
        let files = Files {
            certificate: file(&self.certificate),
            key: file(&self.key),
            clients: file(&self.clients),
        };
        let terms = Terms::new(files, export, users)?;
        Ok(Listener::bind(&self.listen, terms, report::note)?)
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

/// The name that a directory has in the one above, whatever leads there.
fn last_part(directory: &Path) -> Result<String, Failure> {
    let failed = |error| Failure::new(format_args!("{}: {error}", directory.display()));
    let real = directory.canonicalize().map_err(failed)?;
    let name = real.file_name().and_then(|name| name.to_str());
    name.map(ToOwned::to_owned).ok_or_else(|| {
        Failure::new(format_args!(
            "{} has no name that clients could use",
            directory.display()
        ))
        .hint("--export NAME gives it one")
    })
}

fn pair(text: &str) -> Result<(String, String), &'static str> {
    match text.split_once('=') {
        Some((name, user)) if !name.is_empty() && !user.is_empty() => {
            Ok((name.to_owned(), user.to_owned()))
        }
        _ => Err("the name in a certificate, `=`, and a user of this machine are expected"),
    }
}

impl From<ServeError> for Failure {
    fn from(error: ServeError) -> Self {
        Self::new(&error).maybe_hint(error.hint())
    }
}

impl From<ListenError> for Failure {
    fn from(error: ListenError) -> Self {
        Self::new(&error).maybe_hint(error.hint())
    }
}

impl From<BadUser> for Failure {
    fn from(error: BadUser) -> Self {
        Self::new(&error).hint(error.hint())
    }
}

impl From<TermsError> for Failure {
    fn from(error: TermsError) -> Self {
        let hint = match &error {
            TermsError::File(file) => file.hint(),
            TermsError::Tls(_) => None,
        };
        Self::new(&error).maybe_hint(hint)
    }
}
