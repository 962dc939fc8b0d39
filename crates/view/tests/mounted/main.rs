//! A commit while tasks hold files, and the undoing of what they did, through a real mount.
//!
//! The test program runs itself: the test starts a *server* under `unshare`, which mounts a view,
//! serves it and commits, and starts a *client* (`client.py`), which works on the mount and stands
//! still while that happens. So no process ever holds both the device and a file on the mount.

mod server;
mod undo;

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use surmise_testkit::{User, is_root, ordinary_user, skip, watchdog};

/// The directory that holds the real tree, the state and the mount point; only the server is given
/// it.
const PLACE: &str = "SURMISE_VIEW_TEST_PLACE";

const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn what_tasks_hold_survives_a_commit() {
    perform("what_tasks_hold_survives_a_commit", None, server::run);
}

#[test]
fn what_tasks_of_an_ordinary_user_hold_survives_a_commit() {
    let test = "what_tasks_of_an_ordinary_user_hold_survives_a_commit";
    perform_as_user(test, server::run);
}

#[test]
fn what_a_task_did_is_undone() {
    perform("what_a_task_did_is_undone", None, undo::run);
}

#[test]
fn what_a_task_of_an_ordinary_user_did_is_undone() {
    let test = "what_a_task_of_an_ordinary_user_did_is_undone";
    perform_as_user(test, undo::run);
}

fn perform_as_user(test: &str, play: fn(&Path)) {
    if env::var_os(PLACE).is_some() || !is_root() {
        return perform(test, None, play);
    }
    match ordinary_user() {
        Ok(user) => perform(test, Some(user), play),
        Err(reason) => skip(reason),
    }
}

fn perform(test: &str, user: Option<&User>, play: fn(&Path)) {
    match env::var_os(PLACE) {
        None => start(test, user),
        Some(place) => play(Path::new(&place)),
    }
}

fn start(test: &str, user: Option<&User>) {
    let scratch = tempfile::tempdir().unwrap();
    let program = scratch.path().join("test");
    // By a program: were it open for writing here, other tests' processes would keep it busy.
    let copied = Command::new("cp")
        .arg(env::current_exe().unwrap())
        .arg(&program)
        .status();
    assert!(copied.unwrap().success());
    for directory in ["real", "state", "mount"] {
        fs::create_dir(scratch.path().join(directory)).unwrap();
        give(&scratch.path().join(directory), user);
    }
    fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let probe = unshared(user)
        .args(["sh", "-c", "exec 3<>/dev/fuse"])
        .output()
        .unwrap();
    if !probe.status.success() {
        let reason = String::from_utf8_lossy(&probe.stderr);
        return skip(format!(
            "no FUSE in a private mount namespace: {}",
            reason.trim()
        ));
    }
    let server = unshared(user)
        .arg(&program)
        .args([test, "--exact", "--nocapture"])
        .env(PLACE, scratch.path())
        .spawn()
        .unwrap();
    assert!(
        watchdog::wait(server, "the server", PATIENCE * 2)
            .status
            .success()
    );
}

fn unshared(user: Option<&User>) -> Command {
    let mut command = Command::new("unshare");
    command.arg(if is_root() && user.is_none() {
        "-m"
    } else {
        "-rm"
    });
    command.current_dir("/");
    if let Some(user) = user {
        command.uid(user.uid).gid(user.gid);
    }
    command
}

fn give(path: &Path, user: Option<&User>) {
    if let Some(user) = user {
        std::os::unix::fs::chown(path, Some(user.uid), Some(user.gid)).unwrap();
    }
}
