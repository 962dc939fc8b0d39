//! What is told of wrong usage and missing things.

use std::fs;

use super::Far;
use crate::setting::as_each_user;

#[test]
fn each_failure_says_what_to_do() {
    as_each_user(|setting| {
        let Some(far) = Far::new(setting) else {
            return;
        };
        let failed = |options: &[&str], source: &str, text: &str| {
            let outcome = far.try_mount(options, source, "there");
            outcome.assert_code(1).assert_stderr_contains(text);
        };
        failed(&["--server-command", "/no/such"], "near:/", "scp ");
        let program = surmise_testkit::copied_binary(&setting.scratch);
        let known = ["--server-command", &program.display().to_string()];
        failed(&known, "near:/no/such", "/no/such");

        let words = ["mount", "--ssh", "/no/such", "near:x", "there"];
        let unknown = setting.surmise(&words).in_place().outcome();
        unknown
            .assert_code(1)
            .assert_stderr_contains("--ssh COMMAND");
        let none = setting
            .surmise(&["mount", "near:x", "nowhere"])
            .in_place()
            .outcome();
        none.assert_code(1)
            .assert_stderr_contains("mkdir -p nowhere");
        let bad = setting
            .surmise(&["mount", "nothing", "there"])
            .in_place()
            .outcome();
        bad.assert_code(2).assert_stderr_contains("HOST:DIRECTORY");
        let not = setting.surmise(&["umount", "export"]).in_place().outcome();
        not.assert_code(1).assert_stderr_contains("surmise mounts");
    });
}

#[test]
fn mounts_are_listed() {
    as_each_user(|setting| {
        let Some(far) = Far::new(setting) else {
            return;
        };
        let mount = far.mount("there");
        let place = mount.path().display().to_string();
        far.succeed(&["mounts"])
            .assert_stdout_contains(&place)
            .assert_stdout_contains("connected");

        mount.unmount();
        let after = far.succeed(&["mounts"]);
        assert!(!after.stdout.contains(&place));
    });
}

/// A thread of the mount is stopped, so its process sees the end of the mount late.
const SLOW: &str = "\
elsewhere() { grep -ls \"$PWD/there \" /proc/[0-9]*/mountinfo | grep -v \"/$$/\" >>elsewhere || true; }
python3 stopped.py $PROCESS stopped go &
until test -e stopped; do sleep 0.02; done
$SURMISE umount there 2>said & umount=$!
until test -s said; do sleep 0.02; done
elsewhere
touch go
wait $umount
";

#[test]
fn a_mount_that_is_slow_to_end_is_not_taken_for_one_that_is_mounted_elsewhere() {
    as_each_user(|setting| {
        // Other users may not be let at the threads of a process (yama).
        if !setting.is_root() {
            return;
        }
        let Some(far) = Far::new(setting) else {
            return;
        };
        setting
            .scratch
            .file("stopped.py", include_str!("stopped.py"));
        let mut mount = far.mount("there");
        far.sh("echo text > there/file && sync there/file");
        mount.is_mounted = false;
        let program = surmise_testkit::copied_binary(&setting.scratch);
        far.sh(&format!(
            "PROCESS={} SURMISE={}\n{SLOW}",
            mount.process,
            program.display()
        ));
        let said = fs::read_to_string(far.path("said")).expect("it was written");
        // A domain of another test may have a copy of the mount.
        let elsewhere = fs::read_to_string(far.path("elsewhere")).expect("it was written");
        assert!(
            said.contains("has not ended yet") || !elsewhere.is_empty(),
            "{said}"
        );
    });
}
