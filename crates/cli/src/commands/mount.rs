//! `surmise mount`.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use rustix::io::Errno;
use surmise_api::Interrupts;
use surmise_linux::users::user_and_group_of;
use surmise_mount::connection::{NoConnection, Told, Transport};
use surmise_mount::device::{MountError, MountOptions};
use surmise_mount::run::{RunError, Wanted, run};
use surmise_mount::source::{Source, Way};
use surmise_mount::status;
use surmise_tls::{ConnectError, Target};

use super::LAUNCH_FAILED;
use crate::credentials;
use crate::failure::Failure;
use crate::size::Size;
use crate::synchrony;

/// Mount a directory of another machine, at nearly local speed
///
/// Programs see at every moment what one copy of the directory would show them, also while other machines have it mounted. Yet
/// they seldom wait for the network: what nobody else uses is read and changed here, and goes to the server in groups.
/// fsync returns when the changes are on the server's disk; what is not synced can be lost with this machine, as on a
/// disk of its own.
///
/// The other machine needs nothing but this program: ssh starts `surmise serve` there. Where a server listens by itself
/// (`surmise serve --listen`), surmise://HOST/EXPORT is mounted by TLS.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    /// The directory: HOST:DIRECTORY or USER@HOST:DIRECTORY by ssh, where a relative one begins at the home directory; or
    /// surmise://HOST[:PORT]/EXPORT by TLS
    #[arg(value_name = "HOST:DIR")]
    source: Source,

    /// Where to mount it: a directory
    #[arg(value_name = "DIR")]
    directory: PathBuf,

    /// What connects, with its options; the host and the command to run there follow
    #[arg(long, value_name = "COMMAND", default_value = SSH, hide_default_value = true)]
    ssh: String,

    /// What the other machine calls this program, if `surmise` is not found there
    #[arg(long, value_name = "PROGRAM", default_value = "surmise")]
    server_command: String,

    /// By TLS: the certificate that names the user at the server [default: client.crt in ~/.config/surmise or /etc/surmise]
    #[arg(long, value_name = "FILE", requires = "key")]
    certificate: Option<PathBuf>,

    /// By TLS: the key of that certificate [default: client.key there]
    #[arg(long, value_name = "FILE", requires = "certificate")]
    key: Option<PathBuf>,

    /// By TLS: the certificates of the authorities that sign those of servers [default: ca.crt there]
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,

    /// Fail calls with EIO that have waited so long for a broken connection; without it, they wait until it is back
    #[arg(long, value_name = "TIME", value_parser = synchrony::parse_time)]
    soft: Option<Duration>,

    /// How much of the files that were read is kept on disk for the next mount of the same directory, in ~/.cache/surmise; 0 is
    /// nothing
    #[arg(long, value_name = "SIZE", default_value = "1G")]
    cache: Size,

    /// How much memory small files may take that were read: 256M, 1G
    #[arg(long, value_name = "SIZE", default_value = "256M")]
    memory: Size,

    /// Let other users in, too, as the permissions of the files allow (root always does; others where
    /// /etc/fuse.conf has user_allow_other)
    #[arg(long)]
    allow_other: bool,

    /// Show what belongs to the user at the server as this user's, not as the mounting user's; for root
    ///
    /// It counts where the server runs as an ordinary user. One of root keeps all numbers of users and groups.
    #[arg(long, value_name = "USER", value_parser = owner)]
    owner: Option<(u32, u32)>,

    /// Let nothing be changed by this mount
    #[arg(long)]
    read_only: bool,

    /// Let no program be executed from this mount
    #[arg(long)]
    no_exec: bool,

    /// Stay in the foreground
    #[arg(long, conflicts_with = "command")]
    foreground: bool,

    /// The caller waits for a line on standard output; then all goes on in the background
    #[arg(long, hide = true, conflicts_with = "foreground")]
    background: bool,

    /// A command and its arguments, for which alone it is mounted: its fsyncs cost nothing, and nothing that it puts out is seen
    /// before what it had changed is on the server's disk (as by `surmise sync --on DIR`)
    #[arg(trailing_var_arg = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// A peer that does not answer for half a minute is taken for gone.
const SSH: &str = "ssh -T -x -o ServerAliveInterval=10 -o ServerAliveCountMax=3";

const AFTER_HELP: &str = "\
Examples:
  surmise mount host:src ~/src        what was in src on host is in ~/src here
  surmise mounts                      what is mounted, and whether anything waits
  surmise umount ~/src                when it returns, all changes are in src on host
  surmise mount --ssh 'ssh -p 2222' me@host:/srv/data /mnt
  surmise mount surmise://host/src ~/src   by TLS, from `surmise serve --listen` on host
  surmise mount host:src ~/src -- make -C ~/src

Exit status:
  with a command, as of `surmise sync`; 125 also if it could not be mounted or unmounted, or changes were lost";

impl Arguments {
    /// Whether it is mounted for a command alone.
    pub fn has_command(&self) -> bool {
        !self.command.is_empty()
    }

    /// Mounts, and returns when the mount can be used.
    pub fn execute(self) -> Result<ExitCode, Failure> {
        let mount_point = mount_point(&self.directory)?;
        if !self.foreground && !self.background {
            let mounted = start_in_background()?;
            return match (self.has_command(), mounted == ExitCode::SUCCESS) {
                (false, _) => Ok(mounted),
                (true, false) => Ok(ExitCode::from(LAUNCH_FAILED)),
                (true, true) => run_on(&mount_point, &self.command),
            };
        }
        if self.owner.is_some() && !rustix::process::geteuid().is_root() {
            return Err(
                Failure::new("--owner is for root, whose mounts are everybody's")
                    .hint("without it, the files at the server are yours"),
            );
        }
        let wanted = Wanted {
            owner: self.owner,
            transport: self.transport()?,
            source: self.source.to_string(),
            mount_point,
            how: MountOptions {
                allow_other: self.allow_other,
                read_only: self.read_only,
                no_exec: self.no_exec,
            },
            soft: self.soft,
            memory_bytes: self.memory.bytes(),
            temporary: std::env::temp_dir(),
            cache_bytes: self.cache.bytes(),
        };
        let is_background = self.background;
        let ready = || match is_background {
            true => go_to_background(),
            false => Ok(()),
        };
        let host = self.source.host().to_owned();
        let tell = move |told| {
            let text = match told {
                Told::Broken => format!("the connection to {host} is gone; trying again"),
                Told::Again => format!("connected to {host} again"),
                // A command has said so itself.
                Told::Apart(NoConnection::Tls(why)) => format!("not connected again so far: {why}"),
                Told::Apart(_) => return,
                Told::NotKept(why) => format!(
                    "told to end, and waits for {host}: the changes can't be kept in a file: {why}"
                ),
            };
            // Standard error may be gone; the mount goes on.
            let _ = writeln!(io::stderr(), "surmise: {text}");
        };
        run(wanted, ready, tell).map_err(|error| self.failure(&error))?;
        Ok(ExitCode::SUCCESS)
    }

    fn transport(&self) -> Result<Transport, Failure> {
        match &self.source.way {
            Way::Ssh(source) => {
                let words = self.ssh.split_whitespace();
                let ssh: Vec<_> = words.map(OsString::from).collect();
                match ssh.is_empty() {
                    true => Err(Failure::usage("--ssh names no program")),
                    false => Ok(Transport::Command(
                        source.transport(&ssh, &self.server_command),
                    )),
                }
            }
            Way::Tls(source) => Ok(Transport::Tls(Target {
                host: source.host.clone(),
                port: source.port,
                export: source.export.clone(),
                certificate: credentials::path(self.certificate.as_deref(), "client.crt")?,
                key: credentials::path(self.key.as_deref(), "client.key")?,
                authorities: credentials::path(self.ca.as_deref(), "ca.crt")?,
            })),
        }
    }

    fn failure(&self, error: &RunError) -> Failure {
        let host = self.source.host();
        let place = self.directory.display();
        match error {
            RunError::NoConnection(NoConnection::NotStarted(program, why)) => {
                Failure::new(format_args!("no connection to {host}: {program}: {why}"))
                    .hint("--ssh COMMAND names another program that connects")
            }
            RunError::NoConnection(NoConnection::Ended(status)) if status.code() == Some(127) => {
                Failure::new(format_args!(
                    "{host} does not know {:?}",
                    self.server_command
                ))
                .hint(format_args!("copy it there: {}", copying(host)))
            }
            // That of ssh itself (ssh(1)).
            RunError::NoConnection(NoConnection::Ended(status)) if status.code() != Some(255) => {
                Failure::new(format_args!("nothing is served on {host}: {status}"))
                    .hint("what the server said is above")
            }
            RunError::NoConnection(NoConnection::Ended(status)) => {
                Failure::new(format_args!("no connection to {host}: {status}")).hint(format_args!(
                    "what it said is above; `ssh {host} true` has to work"
                ))
            }
            RunError::NoConnection(NoConnection::Tls(ConnectError::File(error)))
                if error.is_missing() && self.certificate.is_none() && self.ca.is_none() =>
            {
                Failure::new(error).hint(
                    "`surmise certificates` on the server makes what is to be copied to ~/.config/surmise, or to /etc/surmise for mounts of fstab",
                )
            }
            RunError::NoConnection(NoConnection::Tls(error)) => {
                Failure::new(error).maybe_hint(error.hint())
            }
            RunError::NoConnection(NoConnection::Closed) => {
                Failure::new(format_args!("{host} ended the connection"))
                    .hint("what the server says may tell more")
            }
            RunError::Protocol(version) => Failure::new(format_args!(
                "surmise on {host} speaks version {version} of the protocol, and this one another"
            ))
            .hint(format_args!("copy this one there: {}", copying(host))),
            RunError::Telling { .. } => {
                Failure::new(error).hint("XDG_RUNTIME_DIR names another directory for it")
            }
            RunError::Lost(lost) => Failure::new(format_args!(
                "changes or locks were lost on {}",
                self.source
            ))
            .details(lost),
            RunError::Mount(MountError::Helper(said)) => {
                Failure::new(format_args!("cannot mount on {place}: {said}"))
            }
            RunError::Mount(MountError::Io("start fusermount3", why)) => {
                Failure::new(format_args!("cannot start fusermount3: {why}"))
                    .hint("install the package fuse3; ordinary users mount by it")
            }
            other => Failure::new(other),
        }
    }
}

fn owner(text: &str) -> Result<(u32, u32), &'static str> {
    user_and_group_of(text).ok_or("there is no such user")
}

/// How this program gets to another machine.
fn copying(host: &str) -> String {
    let program = std::env::current_exe().unwrap_or_else(|_| "surmise".into());
    let program = program.display();
    format!("ssh {host} mkdir -p .local/bin && scp {program} {host}:.local/bin/surmise")
}

/// The directory to mount on, by its absolute path.
fn mount_point(directory: &Path) -> Result<PathBuf, Failure> {
    let place = directory.display();
    let found = directory.canonicalize().map_err(|error| {
        let failure = Failure::new(format_args!("cannot mount on {place}: {error}"));
        match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::NOENT) => failure.hint(format_args!("make it: mkdir -p {place}")),
            Some(Errno::NOTCONN) => failure.hint(format_args!(
                "what was mounted there has ended: surmise umount {place}"
            )),
            _ => failure,
        }
    })?;
    if !found.is_dir() {
        return Err(Failure::new(format_args!(
            "cannot mount on {place}: it is no directory"
        )));
    }
    Ok(found)
}

/// Runs a command with what it changes on the mount durable before anything else shows it, and then unmounts.
fn run_on(mount_point: &Path, command: &[OsString]) -> Result<ExitCode, Failure> {
    let failed = |what: &'static str| {
        move |error: io::Error| Failure::new(format_args!("{what} for the command: {error}"))
    };
    let program = std::env::current_exe().map_err(failed("find this program"))?;
    let child = Command::new(&program)
        .args(["sync", "--on"])
        .arg(mount_point)
        .arg("--")
        .args(command)
        .spawn();
    // A Ctrl-C is for the command, and the mount has to go when that has ended. Signals are held only from here on, since a child
    // begins with the mask of its parent.
    let held = Interrupts::hold();
    let sync = child.and_then(|mut child| child.wait());
    // A later one ends the wait for the server. The changes go on in the background.
    drop(held);
    let unmounted = Command::new(&program)
        .arg("umount")
        .arg(mount_point)
        .status()
        .map_err(failed("start `surmise umount`"))?;
    if !unmounted.success() {
        // It has said why.
        return Ok(ExitCode::from(LAUNCH_FAILED));
    }
    let sync = sync.map_err(failed("run `surmise sync`"))?;
    // That of `surmise sync` is always a number: it stands for the command.
    let code = sync.code().and_then(|code| u8::try_from(code).ok());
    Ok(ExitCode::from(code.unwrap_or(LAUNCH_FAILED)))
}

/// Starts this program once more, and waits until that one has mounted.
///
/// A process with threads cannot fork. The other one has the terminal for as long as ssh may ask for a password.
fn start_in_background() -> Result<ExitCode, Failure> {
    let failed = |error: io::Error| Failure::new(format_args!("start in the background: {error}"));
    let program = std::env::current_exe().map_err(failed)?;
    let mut arguments: Vec<_> = std::env::args_os().skip(1).collect();
    // Behind the subcommand's name, since a directory may be called --foreground behind a `--`.
    arguments.insert(1, "--background".into());
    let mut child = Command::new(program)
        .args(arguments)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let mut said = Vec::new();
    if let Some(mut output) = child.stdout.take() {
        output.read_to_end(&mut said).map_err(failed)?;
    }
    if said == READY {
        return Ok(ExitCode::SUCCESS);
    }
    let status = child.wait().map_err(failed)?;
    // It has said why.
    Ok(ExitCode::from(
        status
            .code()
            .and_then(|code| u8::try_from(code).ok())
            .unwrap_or(1),
    ))
}

const READY: &[u8] = b"ready\n";

/// Leaves the terminal to others, and tells the parent that the mount can be used.
fn go_to_background() -> io::Result<()> {
    // It fails for the leader of a group, which keeps its terminal then.
    let _ = rustix::process::setsid();
    std::env::set_current_dir("/")?;
    let null = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    let mut output = io::stdout().lock();
    output.write_all(READY)?;
    output.flush()?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(log().unwrap_or(null))?;
    Ok(())
}

/// Where a mount in the background says what becomes of its connection.
fn log() -> io::Result<File> {
    let path = status::log_path(&status::directory());
    File::options().create(true).append(true).open(path)
}
