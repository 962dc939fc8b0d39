//! Connections that break, servers and clients that are killed.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use surmise_testkit::{Facets, TreeSnapshot, assert_same_tree, tell};

use super::programs::{WORK, done_elsewhere, on_there};
use super::{Far, number};
use crate::setting::as_own_user;

fn kill(process: i32) {
    let process = Pid::from_raw(process).expect("a process");
    kill_process(process, Signal::KILL).expect("it runs");
}

/// Makes a file that is synced, whatever happens meanwhile.
fn write_synced(path: &Path, text: &str) {
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

/// `SURMISE_KILLS=200` kills so many clients.
#[test]
fn s56_s57_what_a_killed_client_leaves_is_all_that_it_did_up_to_some_moment() {
    let kills = number("SURMISE_KILLS").unwrap_or(5);
    as_own_user(|setting| {
        let Some(far) = Far::new(setting) else {
            return;
        };
        let server = far.serve("1");
        let mut left = 0;
        for round in 0..kills {
            let mount = far.mount("there");
            let directory = mount.path().join(format!("d{round}"));
            fs::create_dir(&directory).expect("make");
            write_synced(&directory.join("synced"), "");
            let synced = AtomicUsize::new(0);
            thread::scope(|scope| {
                let writer = scope.spawn(|| write_files(&directory, &synced));
                thread::sleep(Duration::from_millis(30 + 20 * (round % 20)));
                kill(mount.process);
                writer.join().expect("it ends with an error");
            });
            drop(mount);
            // The next client waits until the one that was killed is given up.
            let again = far.mount("again");
            let there = again.path().join(format!("d{round}"));
            let count = fs::read_dir(&there).expect("list").count() - 1;
            let synced = synced.into_inner();
            assert!(count >= synced, "{synced} were synced, {count} are there");
            for number in 0..count {
                let text = fs::read_to_string(there.join(number.to_string())).expect("no gap");
                // The last one may have been made and not written.
                let is_last = number + 1 == count && number >= synced;
                assert!(text == number.to_string() || (is_last && text.is_empty()));
            }
            left += count;
            again.unmount();
        }
        tell(format_args!(
            "{kills} kills of a client, which left {left} files"
        ));
        drop(server);
    });
}

/// Makes files until that fails, and syncs one now and then.
fn write_files(directory: &Path, synced: &AtomicUsize) {
    for number in 0_usize.. {
        let file = directory.join(number.to_string());
        if number % 8 != 7 {
            if fs::write(file, number.to_string()).is_err() {
                return;
            }
            continue;
        }
        let write = fs::File::create(file)
            .and_then(|mut file| write!(file, "{number}").and_then(|()| file.sync_all()));
        if write.is_err() {
            return;
        }
        synced.store(number + 1, Ordering::SeqCst);
    }
}

/// Cuts the connection of the last mount, unless this one was cut already.
fn cut(far: &Far<'_>, before: &mut Option<Pid>) -> bool {
    let text = fs::read_to_string(far.path("tmp/connection")).unwrap_or_default();
    // It is being written.
    let Some(process) = text.trim().parse().ok().and_then(Pid::from_raw) else {
        return false;
    };
    if before.replace(process) == Some(process) {
        return false;
    }
    kill_process(process, Signal::KILL).is_ok()
}

/// `SURMISE_CUTS=1000` cuts so many connections.
#[test]
fn s55_s57_programs_notice_nothing_of_connections_that_are_cut() {
    let wanted = number("SURMISE_CUTS").unwrap_or(10);
    as_own_user(|setting| {
        let Some(far) = Far::new(setting) else {
            return;
        };
        let (plain, expected) = done_elsewhere(setting);
        let tree = TreeSnapshot::of(plain.scratch.path("there"));
        let (mut cuts, mut before) = (0, None);
        while cuts < wanted {
            let mount = far.mount("there");
            let script = on_there(WORK);
            let run = setting.plain(&["sh", "-ec", &script]).in_place();
            let outcome = thread::scope(|scope| {
                let work = scope.spawn(|| run.seconds(300).outcome());
                while !work.is_finished() {
                    thread::sleep(Duration::from_millis(20 + cuts * 37 % 300));
                    cuts += u64::from(cut(&far, &mut before));
                }
                work.join().expect("it does not panic")
            });
            outcome.assert_success().assert_stdout(&expected.stdout);
            mount.unmount();
            far.sh("rm -rf export/.surmise");
            assert_same_tree(&tree, &TreeSnapshot::of(far.export()), Facets::SAME_RESULT);
            far.sh("rm -rf export && mkdir export");
        }
        tell(format_args!("{cuts} connections cut"));
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
