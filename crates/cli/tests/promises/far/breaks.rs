//! Connections that break, servers and clients that are killed.

use std::fs;
use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::Far;
use crate::setting::as_own_user;

fn kill(process: i32) {
    let process = Pid::from_raw(process).expect("a process");
    kill_process(process, Signal::KILL).expect("it runs");
}

/// Makes a file that is synced, whatever happens meanwhile.
fn write_synced(path: &std::path::Path, text: &str) {
    let mut file = fs::File::create(path).expect("create");
    file.write_all(text.as_bytes()).expect("write");
    file.sync_all().expect("sync");
}

#[test]
fn s57_work_goes_on_when_a_connection_or_the_server_is_back() {
    as_own_user(|setting| {
        let Some(far) = Far::new(setting) else {
            return;
        };
        let mount = far.mount("there");
        for round in 0..12 {
            fs::create_dir(mount.path().join(format!("d{round}"))).expect("make");
            // The server that comes finds it made in the log, and not in the directory.
            let passing = mount.path().join("passing");
            write_synced(&passing, "");
            fs::remove_file(&passing).expect("remove");
            match round % 3 {
                0 => kill(far.connection()),
                1 => kill(far.server().expect("it runs")),
                _ => {}
            }
            let file = mount.path().join(format!("d{round}/file"));
            write_synced(&file, &round.to_string());
            assert_eq!(fs::read_to_string(&file).expect("read"), round.to_string());
        }
        mount.unmount();
        for round in 0..12 {
            let file = far.export().join(format!("d{round}/file"));
            assert_eq!(fs::read_to_string(file).expect("read"), round.to_string());
        }
        let errors = fs::read_to_string(far.export().join(".surmise/errors"));
        assert_eq!(errors.unwrap_or_default(), "");
    });
}

#[test]
fn s56_what_is_synced_outlives_both_sides() {
    as_own_user(|setting| {
        let Some(far) = Far::new(setting) else {
            return;
        };
        let server = far.serve("1");
        let mount = far.mount("there");
        fs::create_dir(mount.path().join("d")).expect("make");
        write_synced(&mount.path().join("d/synced"), "kept");
        kill(mount.process);
        // By SIGKILL.
        drop(server);
        drop(mount);
        let _server = far.serve("1");
        // Another client sees it at once, also what was in the log alone.
        let again = far.mount("again");
        let kept = fs::read_to_string(again.path().join("d/synced")).expect("read");
        assert_eq!(kept, "kept");
        again.unmount();
    });
}

#[test]
fn s57_what_a_killed_client_leaves_is_all_that_it_did_up_to_some_moment() {
    as_own_user(|setting| {
        let Some(far) = Far::new(setting) else {
            return;
        };
        let server = far.serve("1");
        for round in 0..5 {
            let mount = far.mount("there");
            let directory = mount.path().join(format!("d{round}"));
            fs::create_dir(&directory).expect("make");
            write_synced(&directory.join("synced"), "");
            let process = mount.process;
            let writer = thread::spawn(move || {
                for number in 0_u32.. {
                    let file = directory.join(number.to_string());
                    if fs::write(file, number.to_string()).is_err() {
                        return;
                    }
                }
            });
            thread::sleep(Duration::from_millis(30 + 20 * round));
            kill(process);
            writer.join().expect("it ends with an error");
            drop(mount);
            // The next client waits until the one that was killed is given up.
            let again = far.mount("again");
            let left = again.path().join(format!("d{round}"));
            let count = fs::read_dir(&left).expect("list").count() - 1;
            for number in 0..count {
                let text = fs::read_to_string(left.join(number.to_string())).expect("no gap");
                // The last one may have been made and not written.
                let is_last = number + 1 == count;
                assert!(text == number.to_string() || (is_last && text.is_empty()));
            }
            again.unmount();
        }
        drop(server);
    });
}

#[test]
fn a_program_that_waits_for_the_server_can_be_ended() {
    as_own_user(|setting| {
        let Some(far) = Far::new(setting) else {
            return;
        };
        let mount = far.mount("there");
        fs::write(mount.path().join("file"), "text").expect("write");
        let server = far.server().expect("it runs");
        let stopped = Pid::from_raw(server).expect("a process");
        kill_process(stopped, Signal::STOP).expect("it runs");
        // The server cannot have this.
        fs::write(mount.path().join("file"), "other").expect("write");
        let begun = Instant::now();
        let sync = ["timeout", "-s", "INT", "1", "sync", "there/file"];
        let outcome = setting.plain(&sync).in_place().outcome();
        outcome.assert_code(124);
        assert!(begun.elapsed() < Duration::from_secs(30), "it was ended");
        kill_process(stopped, Signal::CONT).expect("it runs");
        far.sh("sync there/file");
        mount.unmount();
    });
}
