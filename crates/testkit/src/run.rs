//! One command, run in a scratch tree.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Write;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::terminal::Act;
use crate::{Outcome, Scratch, User, copied_binary, is_root, surmise_binary, terminal, watchdog};

/// What lies between two pieces of input.
const MOMENT: Duration = Duration::from_millis(2);

/// One command, run in a scratch tree with an environment of its own.
///
/// It starts in `work/`, with `HOME` and `XDG_STATE_HOME` in the scratch directory, the `PATH` of
/// the test and nothing else of its environment.
#[must_use = "a command runs when `outcome` or `on_terminal` is called"]
pub struct Run<'a> {
    scratch: &'a Scratch,
    program: Program,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    directory: PathBuf,
    stdin: Vec<u8>,
    /// How much of that is written at once.
    piece: usize,
    limit: Duration,
    user: Option<&'a User>,
    /// Whether devices are opened for an ordinary user where they are not.
    opens_devices: bool,
}

enum Program {
    Surmise,
    Other(OsString),
}

impl<'a> Run<'a> {
    /// The built `surmise` with these arguments.
    pub fn surmise<S: Into<OsString>>(
        scratch: &'a Scratch,
        arguments: impl IntoIterator<Item = S>,
    ) -> Self {
        Self::new(
            scratch,
            Program::Surmise,
            arguments.into_iter().map(Into::into).collect(),
        )
    }

    /// Another command, for the plain run that one under Surmise is compared with.
    pub fn plain<S: Into<OsString>>(
        scratch: &'a Scratch,
        command: impl IntoIterator<Item = S>,
    ) -> Self {
        let mut command = command.into_iter().map(Into::into);
        let program = Program::Other(command.next().expect("a command has a name"));
        Self::new(scratch, program, command.collect())
    }

    fn new(scratch: &'a Scratch, program: Program, arguments: Vec<OsString>) -> Self {
        Self {
            scratch,
            program,
            arguments,
            environment: base_environment(scratch),
            directory: scratch.work(),
            stdin: Vec::new(),
            piece: usize::MAX,
            limit: watchdog::LIMIT,
            user: None,
            opens_devices: true,
        }
    }

    /// Sets a variable of the environment.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.environment
            .push((name.as_ref().into(), value.as_ref().into()));
        self
    }

    /// Starts in `directory`, relative to `work/` unless absolute.
    pub fn directory(mut self, directory: impl AsRef<Path>) -> Self {
        self.directory = self.scratch.path(directory);
        self
    }

    /// Gives `bytes` on standard input, which is empty otherwise.
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = bytes.into();
        self
    }

    /// As [`stdin`](Self::stdin), `length` bytes at a time with a moment between.
    pub fn stdin_in_pieces(mut self, bytes: impl Into<Vec<u8>>, length: usize) -> Self {
        self.stdin = bytes.into();
        self.piece = length;
        self
    }

    /// Fails the test after `seconds` instead of [`watchdog::LIMIT`].
    pub fn seconds(mut self, seconds: u64) -> Self {
        self.limit = Duration::from_secs(seconds);
        self
    }

    /// Runs as `user`, with no supplementary groups; the scratch tree must be
    /// [owned by](Scratch::owned_by) that user. Needs root unless the test runs as that user.
    ///
    /// Where `/dev/fuse` or `/dev/net/tun` is closed to ordinary users, the command sees an open one,
    /// in a mount namespace of its own; the machine is not changed.
    pub fn user(mut self, user: &'a User) -> Self {
        self.user = Some(user);
        self
    }

    /// Leaves the machine's devices as they are, so that the command is in no mount namespace of its own.
    pub fn in_place(mut self) -> Self {
        self.opens_devices = false;
        self
    }

    /// Runs the command, fails the test if that takes too long, and tells what came of it.
    #[track_caller]
    pub fn outcome(self) -> Outcome {
        let (mut command, shown) = self.command();
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("start {shown}: {error}"));
        let mut input = child.stdin.take().expect("a piped standard input");
        let (bytes, piece) = (self.stdin, self.piece);
        // On a thread, for a command that reads late; one that does not read at all is its business.
        std::thread::spawn(move || {
            for piece in bytes.chunks(piece) {
                if input.write_all(piece).is_err() {
                    return;
                }
                std::thread::sleep(MOMENT);
            }
        });
        Outcome::new(shown.clone(), &watchdog::wait(child, &shown, self.limit))
    }

    /// Runs the command on a terminal of its own, 80 columns wide. For each pair of `dialogue`, waits
    /// until the first text appears and then types the second. All that appears on the terminal,
    /// what was typed included, is the outcome's standard output.
    #[track_caller]
    pub fn on_terminal(self, dialogue: &[(&str, &str)]) -> Outcome {
        let typed = dialogue
            .iter()
            .map(|(text, answer)| (*text, Act::Type(answer)));
        self.at_terminal(&typed.collect::<Vec<_>>())
    }

    /// As [`on_terminal`](Self::on_terminal), with more than typing.
    #[track_caller]
    pub fn at_terminal(self, dialogue: &[(&str, Act<'_>)]) -> Outcome {
        assert!(
            self.stdin.is_empty(),
            "on a terminal, input is typed by the dialogue"
        );
        let (command, shown) = self.command();
        let finished = terminal::converse(command, &shown, dialogue, self.limit);
        Outcome::new(shown, &finished)
    }

    /// The command to start and how messages show it.
    fn command(&self) -> (Command, String) {
        let mut line = self.as_user();
        line.push(match &self.program {
            Program::Surmise if self.changes_user() => copied_binary(self.scratch).into(),
            Program::Surmise => surmise_binary().into(),
            Program::Other(program) => program.clone(),
        });
        line.extend(self.arguments.iter().cloned());
        let mut command = Command::new(&line[0]);
        command
            .args(&line[1..])
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)));
        if self.changes_user() {
            // The test's own search path may lead through directories that are closed to the user.
            command.env("PATH", SYSTEM_PATH);
        }
        command.current_dir(&self.directory);
        let name = match &self.program {
            Program::Surmise => OsStr::new("surmise"),
            Program::Other(program) => program,
        };
        let words = std::iter::once(name).chain(self.arguments.iter().map(OsString::as_os_str));
        let shown: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
        (command, shown.join(" "))
    }

    fn changes_user(&self) -> bool {
        let own = rustix::process::geteuid().as_raw();
        self.user.is_some_and(|user| user.uid != own)
    }

    /// The words in front of the command that make it run as another user.
    fn as_user(&self) -> Vec<OsString> {
        let Some(user) = self.user.filter(|_| self.changes_user()) else {
            return Vec::new();
        };
        assert!(is_root(), "only root can run a command as {}", user.name);
        let mut words = Vec::new();
        if self.opens_devices && DEVICES.iter().any(|device| !is_open(device)) {
            let directory = self.scratch.root().join("dev");
            fs::create_dir_all(&directory).expect("create a directory for the device");
            words.extend(["unshare", "--mount", "--propagation", "private"].map(OsString::from));
            words.extend(["sh", "-c", OPEN_DEVICES, "sh"].map(OsString::from));
            words.push(directory.into());
        }
        words.extend(["setpriv", "--clear-groups", "--reuid"].map(OsString::from));
        words.push(user.uid.to_string().into());
        words.extend(["--regid".into(), user.gid.to_string().into(), "--".into()]);
        words
    }
}

/// Where every user finds programs.
const SYSTEM_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// What most systems open to all users, and some to root alone.
const DEVICES: [&str; 2] = ["/dev/fuse", "/dev/net/tun"];

/// Puts devices that all may open over [`DEVICES`], in this mount namespace, and goes on as the
/// command given behind the directory. A file system of its own: the scratch directory's may ignore
/// devices.
const OPEN_DEVICES: &str = r#"mount -t tmpfs -o mode=755 tmpfs "$1" &&
mknod -m 666 "$1/fuse" c 10 229 && mount --bind "$1/fuse" /dev/fuse &&
{ test ! -e /dev/net/tun ||
  { mknod -m 666 "$1/tun" c 10 200 && mount --bind "$1/tun" /dev/net/tun; }; } &&
shift && exec "$@""#;

fn is_open(device: &str) -> bool {
    fs::metadata(device)
        .is_ok_and(|device| device.file_type().is_char_device() && device.mode() & 0o006 == 0o006)
}

fn base_environment(scratch: &Scratch) -> Vec<(OsString, OsString)> {
    let path = env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    vec![
        ("PATH".into(), path),
        ("HOME".into(), scratch.home().into()),
        ("XDG_STATE_HOME".into(), scratch.state().into()),
        ("LANG".into(), "C.UTF-8".into()),
        ("TERM".into(), "dumb".into()),
        ("RUST_BACKTRACE".into(), "1".into()),
    ]
}
