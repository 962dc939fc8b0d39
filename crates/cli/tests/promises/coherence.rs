//! S15, S28: what somebody outside changes meanwhile.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use surmise_testkit::watchdog;

use crate::setting::{Setting, as_each_user};

/// Looks, says so by making `has-looked`, and ends when it has seen every change.
const LOOKER: &str = include_str!("coherence.py");

const FILES: [&str; 13] = [
    "changed",
    "longer",
    "replaced",
    "removed",
    "held",
    "mapped",
    "cut",
    "never-read",
    "logged",
    "moded",
    "attributed",
    "turned",
    "target",
];

/// S15, S28: and nothing of it is a conflict, since the domain changed none of it.
#[test]
fn every_change_outside_shows_inside() {
    as_each_user(|setting| {
        plant(setting);
        let looker = setting.scratch.root().join("looker.py");
        fs::write(&looker, LOOKER).expect("write the program");
        std::thread::scope(|scope| {
            let command = ["run", "--name", "t", "--", "python3"];
            let command = [&command[..], &[looker.to_str().expect("Unicode")]].concat();
            let run = scope.spawn(move || setting.surmise(&command).seconds(300).outcome());
            watchdog::until("the command looks", watchdog::LIMIT, || {
                run.is_finished()
                    || setting
                        .surmise(&["diff", "t"])
                        .outcome()
                        .stdout
                        .contains("has-looked")
            });
            if !run.is_finished() {
                change(&setting.scratch.work());
            }
            let outcome = run.join().expect("the command ends");
            outcome.assert_success();
            assert_eq!(outcome.lines().len(), 25, "{}", outcome.stdout);
        });
        setting.succeed(&["commit", "t"]);
    });
}

fn plant(setting: &Setting) {
    let scratch = &setting.scratch;
    for name in FILES {
        scratch.file(name, name);
    }
    let large = [b"mapped".to_vec(), vec![b'm'; 100_000]].concat();
    scratch
        .file("mapped", large)
        .file("gone", vec![b'g'; 200_000])
        .file("listed/old", "")
        .file("merged/old", "")
        .file("renamed/below", "below")
        .file("renamed/sub/leaf", "leaf")
        .symlink("target", "link");
    rustix::fs::setxattr(
        scratch.path("attributed"),
        "user.a",
        b"1",
        rustix::fs::XattrFlags::empty(),
    )
    .expect("set an attribute");
}

fn change(top: &Path) {
    let at = |name: &str| top.join(name);
    let write = |name: &str, contents: &[u8]| fs::write(at(name), contents).expect("write");
    write("changed", b"CHANGED");
    write("longer", &[b"longer".to_vec(), vec![b'l'; 19_994]].concat());
    write("another", b"another");
    fs::rename(at("another"), at("replaced")).expect("replace");
    for name in [
        "removed",
        "gone",
        "never-read",
        "turned",
        "link",
        "listed/old",
        "merged/old",
    ] {
        fs::remove_file(at(name)).expect("remove");
    }
    write("absent", b"here");
    write("listed/new", b"");
    write("merged/new", b"");
    let private = fs::Permissions::from_mode(0o600);
    fs::set_permissions(at("moded"), private).expect("chmod");
    symlink("absent", at("link")).expect("link");
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(at("attributed"), "user.a", b"2", flags).expect("set an attribute");
    fs::create_dir(at("turned")).expect("make a directory");
    write("turned/inside", b"");
    write("held", b"HELD AND LONGER");
    write(
        "mapped",
        &[b"MAPPED".to_vec(), vec![b'm'; 99_997], b"END".to_vec()].concat(),
    );
    write("cut", b"cu");
    fs::rename(at("logged"), at("logged.1")).expect("rename");
    write("logged.1", b"logged, and more");
    fs::rename(at("renamed"), at("elsewhere")).expect("rename");
    write("elsewhere/moved-by-now", b"m");
    write("elsewhere/sub/leaf", b"new leaf");
}
