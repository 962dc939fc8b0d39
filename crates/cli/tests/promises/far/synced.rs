//! Commands whose syncs on a far directory are put off.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use surmise_testkit::{Outcome, Run};

use super::{Far, Mount, assert_unmounted_quietly};
use crate::setting::{Setting, as_own_user};

/// Makes files, syncs each, and says so.
const SYNCS: &str = "\
import os, sys
for n in range(100):
    fd = os.open(f'there/{n}', os.O_CREAT | os.O_WRONLY)
    os.write(fd, b'kept')
    os.fsync(fd)
    os.close(fd)
open('there/done', 'w').close()
print('all is durable', flush=True)
";

/// Runs the program, whose server is stopped, to its end, and then does `then`: the program waits for nothing, and shows nothing
/// before.
fn run_without_server(setting: &Setting, mount: &Mount<'_>, then: impl FnOnce()) -> Outcome {
    thread::scope(|scope| {
        let words = ["sync", "--on", "there", "--", "python3", "-c", SYNCS];
        let command = scope.spawn(move || setting.surmise(&words).in_place().outcome());
        while !mount.path().join("done").exists() {
            assert!(!command.is_finished(), "it has ended");
            thread::sleep(Duration::from_millis(10));
        }
        thread::sleep(Duration::from_millis(300));
        assert!(!command.is_finished(), "it has ended");
        then();
        command.join().expect("it does not panic")
    })
}

#[test]
fn s57_a_command_whose_changes_are_lost_shows_nothing_of_what_came_after_them() {
    as_own_user(|setting| {
        let Some(far) = Far::new(setting) else {
            return;
        };
        let server = far.serve("60");
        let mount = far.mount("there");
        fs::write(mount.path().join("first"), "").expect("write");
        kill_process(Pid::from_child(&server.0), Signal::STOP).expect("it runs");
        let outcome = run_without_server(setting, &mount, || {
            // The next server knows of no client.
            drop(server);
            fs::remove_dir_all(far.export().join(".surmise")).expect("remove");
        });
        assert_eq!(outcome.code, 125, "{}", outcome.stderr);
        assert_eq!(outcome.stdout, "");
        mount.unmount_whatever();
    });
}

#[test]
fn s57_a_command_whose_syncs_are_put_off_shows_nothing_before_the_server_has_it() {
    as_own_user(|setting| {
        let Some(far) = Far::new(setting) else {
            return;
        };
        let server = far.serve("60");
        let mount = far.mount("there");
        fs::write(mount.path().join("first"), "").expect("write");
        let process = Pid::from_child(&server.0);
        let listed = fs::read_dir(mount.path()).expect("list").count();
        assert_eq!(listed, 1);
        kill_process(process, Signal::STOP).expect("it runs");
        let outcome = run_without_server(setting, &mount, || {
            kill_process(process, Signal::CONT).expect("it is there");
        });
        outcome.assert_success().assert_no_stderr();
        assert_eq!(outcome.stdout, "all is durable\n");
        // What was shown outlives the client. The server makes in its directory what its log has.
        drop(mount);
        let is_there = |number: u32| {
            let kept = fs::read_to_string(far.export().join(number.to_string()));
            kept.is_ok_and(|kept| kept == "kept")
        };
        let deadline = Instant::now() + Duration::from_secs(30);
        while !(0..100).all(is_there) {
            assert!(Instant::now() < deadline, "what was shown is not there");
            thread::sleep(Duration::from_millis(10));
        }
    });
}

#[test]
fn s55_a_directory_can_be_mounted_for_one_command() {
    as_own_user(|setting| {
        let Some(far) = Far::new(setting) else {
            return;
        };
        let script = "echo hello > there/file && sync there/file && echo made && exit 7";
        let outcome = mounted_for(&far, &["sh", "-c", script]).outcome();
        assert_eq!(outcome.code, 7, "{}", outcome.stderr);
        assert_eq!(outcome.stdout, "made\n");
        assert_unmounted_quietly(&outcome);
        let made = fs::read_to_string(far.export().join("file"));
        assert_eq!(made.expect("read"), "hello\n");
        assert_eq!(fs::read_dir(far.path("there")).expect("list").count(), 0);
    });
}

#[test]
fn s55_an_interrupt_ends_the_command_and_then_its_mount() {
    as_own_user(|setting| {
        let Some(far) = Far::new(setting) else {
            return;
        };
        let script = "echo begun | tee there/begun; exec sleep 1000";
        let outcome = mounted_for(&far, &["sh", "-c", script]).on_terminal(&[("begun", "\x03")]);
        assert_eq!(outcome.code, 130, "{}", outcome.stdout);
        assert!(far.export().join("begun").exists());
        assert_eq!(fs::read_dir(far.path("there")).expect("list").count(), 0);
    });
}

#[test]
fn s55_a_command_is_not_run_where_nothing_could_be_mounted() {
    as_own_user(|setting| {
        let Some(far) = Far::new(setting) else {
            return;
        };
        fs::remove_dir(far.export()).expect("remove");
        let outcome = mounted_for(&far, &["touch", "run"]).outcome();
        assert_eq!(outcome.code, 125, "{}", outcome.stderr);
        assert!(!far.path("run").exists());
    });
}

/// `surmise mount` for this command alone, on `work/there`.
fn mounted_for<'f>(far: &Far<'f>, command: &[&str]) -> Run<'f> {
    far.setting.scratch.directory("there");
    let program = surmise_testkit::copied_binary(&far.setting.scratch);
    let (program, ssh) = (program.display().to_string(), far.path("ssh"));
    let source = format!("near:{}", far.export().display());
    let ssh = ssh.display().to_string();
    let words = ["mount", "--ssh", &ssh, "--server-command", &program];
    let words = [&words[..], &[&source, "there", "--"], command].concat();
    let run = far.setting.surmise(&words).in_place();
    run.env("TMPDIR", far.path("tmp"))
}
