//! What is told of wrong usage and missing things.

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
