//! S45: what is the machine's and no file of its stays as it is, whatever a command does to it.

use std::fs;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::sync::{Mutex, PoisonError};

use rustix::pty::{OpenptFlags, openpt, ptsname};
use surmise_testkit::Run;

use crate::setting::{Setting, as_each_user};
use crate::volume::mounting;

const STATE: &str = include_str!("corners/state.py");
const SWEEP: &str = include_str!("corners/sweep.py");
const OWN: &str = include_str!("corners/own.py");

/// Of a smaller machine's /proc, /sys and /dev little would have been seen.
const ENTRIES_MIN: usize = 1000;

/// S45.
#[test]
fn nothing_of_the_machine_is_changed_by_a_command_that_changes_all_it_can() {
    as_each_user(|setting| {
        let socket = setting.scratch.path("agent");
        let _agent = UnixListener::bind(&socket).expect("listen");
        fs::set_permissions(&socket, Permissions::from_mode(0o666)).expect("chmod");
        let socket = socket.to_str().expect("Unicode");
        let run = ["run", "--dry-run", "--allow-socket", "agent"];
        for more in [
            &["--", "python3", "../sweep.py", "/sys", "/dev"][..],
            // Each call is heard, and most wait.
            &["--torture", "7:0.05", "--", "python3", "../sweep.py"],
        ] {
            let arguments = [&run[..], more, &["/proc", socket]].concat();
            unchanged_by(setting, &[socket], || {
                let outcome = setting.surmise(&arguments).seconds(300).outcome();
                outcome.assert_success();
                outcome.stdout
            });
        }
    });
}

/// S45.
#[test]
fn nor_by_one_under_external_synchrony() {
    as_each_user(|setting| {
        let script = "surmise volume create 64M v.img; surmise volume mount v.img m; cd m
            surmise sync -- python3 ../../sweep.py /proc /sys /dev";
        unchanged_by(setting, &[], || match mounting(setting, script) {
            Some(outcome) => outcome.stdout,
            // The reason is told.
            None => "swept\n".to_owned(),
        });
    });
}

/// S45.
#[test]
fn what_is_of_a_process_is_written_inside_as_outside() {
    as_each_user(|setting| {
        let own = setting.scratch.root().join("own.py");
        fs::write(&own, OWN).expect("write the program");
        let own = own.to_str().expect("Unicode");
        let outside = setting.plain(&["python3", own]).outcome();
        outside.assert_success();
        let inside = setting.succeed(&["run", "--dry-run", "--", "python3", own]);
        assert_eq!(inside.lines(), outside.lines());
        assert!(outside.lines().len() > 12, "{outside:?}");
    });
}

/// Has `sweep` change what it can, and compares the machine before and after. It returns what the sweep printed: one
/// line for each entry that it changed.
#[track_caller]
fn unchanged_by(setting: &Setting, more: &[&str], sweep: impl FnOnce() -> String) {
    // One at a time: there is one machine, and what must not have happened to it is mended afterwards.
    static MACHINE: Mutex<()> = Mutex::new(());
    let _alone = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let terminal = openpt(flags).expect("open a terminal");
    let terminal_name = ptsname(&terminal, Vec::new()).expect("the terminal's name");
    let more = [more, &[terminal_name.to_str().expect("a name in ASCII")]].concat();
    let place = setting.scratch.root();
    for (name, text) in [("state.py", STATE), ("sweep.py", SWEEP)] {
        fs::write(place.join(name), text).expect("write the program");
    }
    // As who runs the tests, who can mend what must not have happened.
    let look = |what: &str| {
        let own = Run::plain(
            &setting.scratch,
            [
                &["python3", "../state.py", what, "../state.json"],
                &more[..],
            ]
            .concat(),
        );
        let outcome = own.seconds(120).outcome();
        outcome.assert_success();
        outcome.stdout
    };
    look("record");
    let swept = sweep();
    let compared = look("compare");
    let (differences, entries): (Vec<_>, Vec<_>) = compared
        .lines()
        .partition(|line| !line.starts_with("entries: "));
    assert!(differences.is_empty(), "{differences:#?}\n{swept}");
    let entries = entries[0]["entries: ".len()..].parse::<usize>();
    assert!(entries.expect("a number") >= ENTRIES_MIN);
    // Else it did not come to its end.
    assert!(swept.ends_with("swept\n"), "{swept}");
    let foreign = |line: &&str| line.starts_with("/sys") || line.starts_with("a child in");
    let foreign: Vec<_> = swept.lines().filter(foreign).collect();
    assert!(foreign.is_empty(), "{foreign:#?}");
}
