//! Processes in a pid namespace of their own, as a domain's are.

use std::fs::{self, File, Permissions};
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::process::{Gid, Pid, Signal, Uid, WaitOptions, getpid};
use rustix::thread::UnshareFlags;
use rustix::time::Timespec;
use surmise_linux::proc::{Task, tasks};
use surmise_sys::process::{self, Child};
use surmise_testkit::watchdog::LIMIT;
use surmise_testkit::{is_root, watchdog};
use tempfile::TempDir;

/// Whom root becomes: a user that owns nothing.
const ORDINARY: u32 = 12_345;

/// A directory that every user may use, with the compiled tracees.
pub struct Place(TempDir);

impl Place {
    pub fn new() -> Self {
        let place = Self(tempfile::tempdir().expect("a temporary directory"));
        let open = Permissions::from_mode(0o777);
        fs::set_permissions(place.0.path(), open).expect("chmod");
        for name in ["waits", "restless", "counts", "vfork", "traces"] {
            crate::compile(name, &place.path(name));
        }
        place
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// An empty directory of the calling user.
    pub fn directory(&self, name: &str) -> PathBuf {
        let path = self.path(&format!("{name}.{}", getpid().as_raw_nonzero()));
        fs::create_dir(&path).expect("make a directory");
        path
    }

    /// This process, which has one thread, becomes a user without rights.
    pub fn become_ordinary_user(&self) {
        let (uid, gid) = (Uid::from_raw(ORDINARY), Gid::from_raw(ORDINARY));
        rustix::thread::set_thread_groups(&[]).expect("leave all groups");
        rustix::thread::set_thread_res_gid(gid, gid, gid).expect("change the group");
        rustix::thread::set_thread_res_uid(uid, uid, uid).expect("change the user");
    }
}

/// A pid namespace, owned by a user namespace of the caller's where the caller is not root.
pub struct Domain {
    init: Child,
    input: Option<OwnedFd>,
    output: File,
    text: String,
}

impl Domain {
    /// Starts `command` as a child of pid 1, which reaps, and ends when no process is left.
    pub fn start(directory: &Path, command: &[&str]) -> Self {
        let (input, to_command) = rustix::pipe::pipe().expect("a pipe");
        let (from_command, output) = rustix::pipe::pipe().expect("a pipe");
        let mut namespaces = UnshareFlags::NEWPID;
        if !is_root() {
            namespaces |= UnshareFlags::NEWUSER;
        }
        let keep = [input.as_fd(), output.as_fd()];
        let init = process::clone(namespaces, &keep, || {
            let ends = [&input, &output].map(|end| end.try_clone().expect("duplicate"));
            let [input, output] = ends;
            let command = Command::new(command[0])
                .args(&command[1..])
                .current_dir(directory)
                .stdin(input)
                .stdout(output)
                .spawn()
                .expect("start the command");
            reap_all(command)
        });
        Self {
            init: init.expect("a pid namespace"),
            input: Some(to_command),
            output: File::from(from_command),
            text: String::new(),
        }
    }

    pub fn init(&self) -> Pid {
        self.init.pid()
    }

    pub fn has_ended(&self) -> bool {
        let mut polled = [PollFd::new(&self.init, PollFlags::IN)];
        rustix::event::poll(&mut polled, Some(&Timespec::default())) == Ok(1)
    }

    /// None once pid 1 has ended.
    pub fn tasks(&self) -> Vec<Task> {
        tasks(self.init()).unwrap_or_default()
    }

    /// The first process with this name.
    #[track_caller]
    pub fn find(&self, name: &str) -> Task {
        let mut found = None;
        watchdog::until(name, LIMIT, || {
            let all = self.tasks();
            found = all
                .into_iter()
                .find(|&task| about(task, "comm").trim() == name);
            found.is_some()
        });
        found.expect("found above")
    }

    /// Closes the command's standard input.
    pub fn close_input(&mut self) {
        self.input = None;
    }

    /// Types into the command.
    pub fn write(&mut self, text: &str) {
        let input = self.input.as_ref().expect("not closed");
        File::from(input.try_clone().expect("duplicate"))
            .write_all(text.as_bytes())
            .expect("write");
    }

    /// Reads until the output so far contains `wanted`.
    #[track_caller]
    pub fn read_until(&mut self, wanted: &str) {
        let text = self.read(|text| text.contains(wanted));
        assert!(text.contains(wanted), "no {wanted:?} in {text:?}");
    }

    /// All output, once the command has ended.
    #[track_caller]
    pub fn read_to_end(&mut self) -> String {
        self.read(|_| false)
    }

    #[track_caller]
    fn read(&mut self, enough: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + LIMIT;
        while !enough(&self.text) {
            let rest = deadline.saturating_duration_since(Instant::now());
            let rest = Timespec::try_from(rest).expect("a short wait");
            let mut polled = [PollFd::new(&self.output, PollFlags::IN)];
            let ready = rustix::event::poll(&mut polled, Some(&rest)).expect("poll");
            assert!(ready > 0, "nothing more within {LIMIT:?}: {:?}", self.text);
            let mut buffer = [0; 4096];
            match self.output.read(&mut buffer).expect("read") {
                0 => break,
                length => self.text += &String::from_utf8_lossy(&buffer[..length]),
            }
        }
        self.text.clone()
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        // Fails only if it has ended.
        let _ = self.init.signal(Signal::KILL);
        self.init.wait().expect("reap pid 1");
    }
}

/// Its child among them.
fn reap_all(_: std::process::Child) -> u8 {
    while rustix::process::wait(WaitOptions::empty()).is_ok() {}
    0
}

/// A file of /proc about a task; empty once it has ended.
pub fn about(task: Task, name: &str) -> String {
    let (process, thread) = (task.process, task.thread);
    let path = format!(
        "/proc/{}/task/{}/{name}",
        process.as_raw_nonzero(),
        thread.as_raw_nonzero()
    );
    fs::read_to_string(path).unwrap_or_default()
}

/// The state of a task, as one letter.
pub fn state(task: Task) -> char {
    let stat = about(task, "stat");
    let after = stat.rsplit_once(") ").map_or("", |(_, after)| after);
    after.chars().next().unwrap_or('X')
}

pub fn pause(milliseconds: u64) {
    std::thread::sleep(Duration::from_millis(milliseconds));
}
