//! Who runs the domains of a test, where, and how.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use rustix::process::{Pid, PidfdFlags};
use surmise_kept::{StateRoot, Status};
use surmise_testkit::{Outcome, Run, Scratch, User, is_root, ordinary_user, skip, watchdog};

use crate::strike;

/// The option of the caller that commits a domain.
const COMMIT: &[u8] = b"--commit";

/// A scratch tree, and a user to run as.
pub struct Setting {
    pub scratch: Scratch,
    user: Option<&'static User>,
    program: PathBuf,
}

/// Who, and how to get the setting; `None` where that user cannot be had.
type Named = (&'static str, fn() -> Option<Setting>);

impl Setting {
    /// Root, where the tests run as root, and an ordinary user.
    pub fn all() -> impl Iterator<Item = Named> {
        let root: Named = ("root", || {
            if is_root() {
                return Some(Self::new(Scratch::new(), None));
            }
            skip("the tests do not run as root");
            None
        });
        let user: Named = ("user", || match ordinary_user() {
            Ok(user) => Some(Self::new(Scratch::owned_by(user), Some(user))),
            Err(reason) => {
                skip(reason);
                None
            }
        });
        [root, user].into_iter()
    }

    fn new(scratch: Scratch, user: Option<&'static User>) -> Self {
        // The build may lie where another user cannot reach it. By a program: were it open for
        // writing here, the processes that other tests start meanwhile would keep it busy.
        let program = scratch.root().join("caller");
        let this = std::env::current_exe().expect("this program");
        let copied = Command::new("cp")
            .arg(this)
            .arg(&program)
            .status()
            .expect("start cp");
        assert!(copied.success(), "cp: {copied}");
        Self {
            scratch,
            user,
            program,
        }
    }

    pub fn user(&self) -> u32 {
        self.user.map_or(0, |user| user.uid)
    }

    pub fn root(&self) -> StateRoot {
        StateRoot::at(self.scratch.state().join("surmise"))
    }

    /// The words that run a domain: options, `--`, and a command.
    pub fn words(&self, words: &[&str]) -> Vec<OsString> {
        let mut line: Vec<OsString> = vec![self.program.clone().into(), "caller".into()];
        line.push(self.root().path().into());
        line.extend(words.iter().map(OsString::from));
        line
    }

    /// Those words, to be started by the words in front.
    pub fn run_by(&self, front: &[&str], words: &[&str]) -> Run<'_> {
        let front = front.iter().map(OsString::from);
        let run = Run::plain(&self.scratch, front.chain(self.words(words)));
        match self.user {
            Some(user) => run.user(user),
            None => run,
        }
    }

    pub fn run(&self, words: &[&str]) -> Outcome {
        self.run_by(&[], words).outcome()
    }

    /// Runs a shell script in a domain.
    pub fn script(&self, script: &str) -> Outcome {
        self.run(&["--", "sh", "-c", script])
    }

    /// Waits until the domain's command has become `name`, and tells who its processes are.
    pub fn roles(&self, name: &str) -> Roles {
        let mut found = None;
        watchdog::until("the command runs", watchdog::LIMIT, || {
            found = self.find(name);
            found.is_some()
        });
        found.expect("found above")
    }

    fn find(&self, name: &str) -> Option<Roles> {
        let domain = self.root().list().ok()?.into_iter().next()?;
        let Status::Running { pid: control } = domain.status() else {
            return None;
        };
        let children_of_control = children(control);
        let role = |wanted: &str| {
            let mut found = children_of_control.iter();
            found
                .find(|pid| name_of(**pid).as_deref() == Some(wanted))
                .copied()
        };
        let init = role("surmise-init")?;
        let command = *children(init).first()?;
        (name_of(command)? == name).then_some(Roles {
            control,
            view: role("surmise-view")?,
            relay: role("surmise-relay")?,
            init,
            command,
        })
    }

    /// Waits until the command has started a `sleep`.
    pub fn sleeping(&self, roles: &Roles) {
        watchdog::until("the command sleeps", watchdog::LIMIT, || {
            children(roles.command)
                .into_iter()
                .any(|pid| name_of(pid).as_deref() == Some("sleep"))
        });
    }

    /// Whether a process lives that was started by this test.
    pub fn has_processes(&self) -> bool {
        !self.processes().is_empty()
    }

    /// The processes that were started by this test: all of them name its scratch tree.
    pub fn processes(&self) -> Vec<i32> {
        let mark = self.scratch.root().as_os_str().as_encoded_bytes();
        let mut all = strike::processes();
        all.retain(|&pid| {
            let line = command_line(pid);
            line.windows(mark.len()).any(|window| window == mark)
        });
        all
    }

    /// The process that controls the one domain of this test, from its first moment on.
    pub fn control(&self) -> Option<i32> {
        self.caller(|words| !words.contains(&COMMIT))
    }

    /// The process that commits that domain from outside.
    pub fn client(&self) -> Option<i32> {
        self.caller(|words| words.contains(&COMMIT))
    }

    /// A process that executes this test's program with such words, and is no copy of another one.
    fn caller(&self, wanted: impl Fn(&[&[u8]]) -> bool) -> Option<i32> {
        let program = self.program.as_os_str().as_encoded_bytes();
        let mut all = strike::processes();
        all.retain(|&pid| {
            let line = command_line(pid);
            let words: Vec<_> = line.split(|&byte| byte == 0).collect();
            words[0] == program && wanted(&words)
        });
        let copies: Vec<_> = all.iter().flat_map(|&pid| children(pid)).collect();
        all.into_iter().find(|pid| !copies.contains(pid))
    }
}

/// The processes of one domain, by their numbers outside.
pub struct Roles {
    pub control: i32,
    pub view: i32,
    pub relay: i32,
    pub init: i32,
    pub command: i32,
}

impl Roles {
    pub fn signal(pid: i32, signal: rustix::process::Signal) {
        let pid = Pid::from_raw(pid).expect("a pid");
        rustix::process::kill_process(pid, signal).expect("signal it");
    }

    /// Waits until none of them is left.
    pub fn end(&self) {
        for (role, pid) in [
            ("control", self.control),
            ("the view", self.view),
            ("the relay process", self.relay),
            ("pid 1", self.init),
            ("the command", self.command),
        ] {
            watchdog::until(role, watchdog::LIMIT, || !lives(pid));
        }
    }
}

/// A zombie is dead: it waits for a parent outside the domain.
fn lives(pid: i32) -> bool {
    let pid = Pid::from_raw(pid).expect("a pid");
    let Ok(pidfd) = rustix::process::pidfd_open(pid, PidfdFlags::empty()) else {
        return false;
    };
    let mut events = [rustix::event::PollFd::new(
        &pidfd,
        rustix::event::PollFlags::IN,
    )];
    rustix::event::poll(&mut events, Some(&rustix::time::Timespec::default())) == Ok(0)
}

pub fn name_of(pid: i32) -> Option<String> {
    let comm = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(comm.trim().to_owned())
}

pub fn children(pid: i32) -> Vec<i32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace()
        .filter_map(|pid| pid.parse().ok())
        .collect()
}

fn command_line(pid: i32) -> Vec<u8> {
    fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default()
}
