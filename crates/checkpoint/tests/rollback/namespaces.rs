//! Processes whose vessels would be in namespaces that they are not in.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::Pid;
use surmise_checkpoint::{Suspicions, obstacle, pid_namespaces};
use surmise_testkit::skip;
use surmise_testkit::watchdog::{self, LIMIT};

use crate::tracee::children_of;

/// What stands in the way of a checkpoint of a program that has its children be born elsewhere, and of its first
/// child.
fn obstacles(flag: &str) -> Option<[Option<&'static str>; 2]> {
    let mut command = Command::new("unshare");
    command.args(["--user", flag, "--fork", "--kill-child", "cat"]);
    // So that whatever it leaves ends with its input.
    command.stdin(Stdio::piped()).stdout(Stdio::null());
    let mut parent = command.process_group(0).spawn().expect("start unshare");
    let pid = Pid::from_child(&parent);
    let mut ended = None;
    watchdog::until("it has a child", LIMIT, || {
        ended = parent.try_wait().expect("wait");
        ended.is_some() || is_cat(pid)
    });
    if let Some(status) = ended {
        skip(format_args!("unshare {flag}: {status}"));
        return None;
    }
    let suspicions = Suspicions {
        pid_namespaces: Some(pid_namespaces(pid).expect("look")),
        namespaces: true,
        ..Suspicions::default()
    };
    let child = children_of(pid)[0];
    let found = [pid, child].map(|process| obstacle(process, suspicions).expect("look"));
    drop(parent.stdin.take());
    parent.wait().expect("wait");
    Some(found)
}

/// Whether the child has become what it is to be: until then it has its parent's memory's name.
fn is_cat(parent: Pid) -> bool {
    let children = children_of(parent);
    let name = children.first().map(|child| {
        let path = format!("/proc/{}/comm", child.as_raw_nonzero());
        std::fs::read_to_string(path).unwrap_or_default()
    });
    name.as_deref() == Some("cat\n")
}

pub fn no_vessel_elsewhere(_: &Path) {
    let elsewhere = Some("has its children be born into another namespace");
    if let Some(found) = obstacles("--pid") {
        let below = Some("is in a pid namespace that was made since");
        assert_eq!(found, [elsewhere, below]);
    }
    if let Some(found) = obstacles("--time") {
        assert_eq!(found, [elsewhere, None]);
    }
    if let Some(found) = obstacles("--uts") {
        assert_eq!(found, [None, None]);
    }
}
