//! S8, S11, S23, S49: full disks, few descriptors, roles that are stopped, and several makers.

use std::fs;

use surmise_testkit::{Outcome, copied_binary, is_root, skip};

use crate::setting::{Setting, as_each_user};

/// Runs a script whose `$1` is `surmise` and whose further parameters are these.
fn script(setting: &Setting, script: &str, parameters: &[&str]) -> Outcome {
    let surmise = copied_binary(&setting.scratch);
    let surmise = surmise.to_str().expect("a path in Unicode");
    let words = [&["bash", "-c", script, "bash", surmise], parameters].concat();
    setting.plain(&words).outcome()
}

/// As [`script`], by root alone, with a small file system for state.
fn on_small_disk(options: &str, commands: &str) -> Option<Outcome> {
    if !is_root() {
        skip("to mount a small file system takes root");
        return None;
    }
    let setting = Setting {
        scratch: surmise_testkit::Scratch::new(),
        user: None,
    };
    let surmise = copied_binary(&setting.scratch);
    let state = setting.scratch.state();
    fs::create_dir_all(&state).expect("make the state directory");
    let mount = format!("mount -t tmpfs -o {options} none \"$XDG_STATE_HOME\"; {commands}");
    let surmise = surmise.to_str().expect("a path in Unicode");
    let words = ["unshare", "-m", "bash", "-c", &mount, "bash", surmise];
    Some(setting.plain(&words).outcome())
}

/// S8: the status is the command's, and what is missing of the domain is told.
#[test]
fn a_full_state_disk_takes_no_exit_status() {
    let commands = "\"$1\" run --json --name t -- sh -c 'echo kept > small; \
                        head -c 9000000 /dev/zero > big; exit 3'; echo status $?; \"$1\" diff t; \
                    \"$1\" shell t -- sh -c 'cat small; exit 4'; echo status $?";
    let Some(outcome) = on_small_disk("size=2m", commands) else {
        return;
    };
    outcome.assert_lines(&["status 3", "A small", "A big", "kept", "status 4"]);
    outcome
        .assert_stderr_contains("how the command ended is not written down: ")
        .assert_stderr_contains("\"exit\":3,\"state\":\"kept\"")
        .assert_stderr_contains("\"missing\":[\"");
}

/// However far the start comes on a disk without inodes, nothing of it is left.
#[test]
fn a_failed_start_leaves_nothing() {
    let mut codes = Vec::new();
    for inodes in 2..10 {
        let commands = "\"$1\" run --name t -- true; echo $?; ls \"$XDG_STATE_HOME\"";
        let Some(outcome) = on_small_disk(&format!("nr_inodes={inodes}"), commands) else {
            return;
        };
        let lines = outcome.lines();
        assert_eq!(
            lines.len(),
            1,
            "{inodes} inodes: {lines:?}, {}",
            outcome.stderr
        );
        codes.push(lines[0].to_owned());
    }
    let failed = codes.iter().take_while(|code| *code == "125").count();
    assert!(failed > 2, "{codes:?}");
    assert!(codes[failed..].iter().all(|code| code == "0"), "{codes:?}");
    assert!(failed < codes.len(), "{codes:?}");
}

#[test]
fn a_limit_on_open_files_is_the_commands_alone_and_too_low_a_one_is_named() {
    as_each_user(|setting| {
        let soft = "ulimit -Sn 20; \"$1\" run --commit -- bash -c 'ulimit -Sn; echo x > made'";
        script(setting, soft, &[])
            .assert_success()
            .assert_stdout("20\n");
        assert!(setting.scratch.path("made").exists());
        let hard = "ulimit -n 8; \"$1\" run -- true";
        script(setting, hard, &[])
            .assert_code(125)
            .assert_stderr_contains(
                "Error: 8 files may be open at a time; a domain needs 64\nHint: ",
            );
        assert!(!setting.scratch.state().join("surmise").exists());
    });
}

/// Stops role `$2` of a running domain, and does `$3` with the domain.
const STOP: &str = r#"
    "$1" run --name t -- sh -c 'echo x > made; sleep 600' 2> /dev/null & control=$!
    until "$1" diff t 2> /dev/null | grep -q made; do sleep 0.1; done
    role=$control
    for child in $(cat /proc/$control/task/$control/children); do
        [ "$(cat /proc/$child/comm)" != "surmise-$2" ] || role=$child
    done
    kill -STOP $role
    timeout -k 1 20 "$1" $3 t; echo $?
    kill -CONT $role 2> /dev/null
    kill -TERM $control 2> /dev/null
    wait
"#;

/// S23.
#[test]
fn a_stopped_role_keeps_no_abort_from_its_work() {
    as_each_user(|setting| {
        for role in ["control", "view", "relay", "init"] {
            let outcome = script(setting, STOP, &[role, "abort"]);
            assert_eq!(outcome.lines(), ["0"], "{role}: {}", outcome.stderr);
            assert!(!setting.scratch.state().join("surmise").exists(), "{role}");
            assert!(!setting.scratch.path("made").exists(), "{role}");
        }
    });
}

/// S23.
#[test]
fn a_commit_names_the_role_that_is_stopped_and_changes_nothing() {
    as_each_user(|setting| {
        for (role, name) in [
            ("control", "domain `t`"),
            ("view", "the view process of the domain"),
            ("relay", "the relay process of the domain"),
            ("init", "pid 1 of the domain"),
        ] {
            let outcome = script(setting, STOP, &[role, "commit"]);
            assert_eq!(outcome.lines(), ["1"], "{role}: {}", outcome.stderr);
            outcome
                .assert_stderr_contains(&format!("Error: {name} is stopped\n"))
                .assert_stderr_contains("Hint: nothing has changed; ")
                .assert_stderr_contains("kill -CONT ");
            assert!(!setting.scratch.path("made").exists(), "{role}");
            // What it did is kept, and can be committed now that the role goes on.
            setting.succeed(&["commit", "t"]);
            fs::remove_file(setting.scratch.path("made")).expect("it is real now");
        }
    });
}

/// S49.
#[test]
fn abort_all_takes_what_its_maker_has_made_and_names_it() {
    as_each_user(|setting| {
        let make = |name, maker| {
            setting
                .surmise(&["run", "--name", name, "--", "touch", "a", "b"])
                .env("SURMISE_MAKER", maker)
                .outcome()
                .assert_success();
        };
        make("own", "");
        make("theirs", "ci");
        setting
            .succeed(&["list"])
            .assert_stdout_contains("ci (")
            .assert_stdout_contains("theirs");
        let ours = setting.succeed(&["abort", "--all"]);
        assert_eq!(
            ours.stderr,
            "surmise: to be thrown away: 1 domain\n  own: 2 changes, touch a b\n\
             surmise: made by others, and left (--everyone takes them, too): theirs\n"
        );
        setting
            .succeed(&["list", "--names"])
            .assert_stdout("theirs\n");
        let json = setting
            .surmise(&["abort", "--all", "--json"])
            .env("SURMISE_MAKER", "ci")
            .outcome();
        json.assert_success()
            .assert_stdout(
                "{\"aborted\":[{\"name\":\"theirs\",\"changes\":2,\"outcome\":\"whole\"}],\"left\":[]}\n",
            );
        make("theirs", "ci");
        setting.succeed(&["abort", "--all", "--everyone"]);
        assert!(!setting.scratch.state().join("surmise").exists());
    });
}

/// S49: on a terminal it asks.
#[test]
fn abort_all_asks_on_a_terminal() {
    as_each_user(|setting| {
        let abort_all = |answer: &str| {
            let run = setting.surmise(&["abort", "--all"]);
            run.on_terminal(&[("then Enter: ", answer)])
        };
        setting.run_script("touch a");
        abort_all("n\n")
            .assert_code(1)
            .assert_stdout_contains("t: 1 change, ")
            .assert_stdout_contains("nothing is thrown away");
        setting.succeed(&["list", "--names"]).assert_stdout("t\n");
        abort_all("y\n").assert_success();
        setting.succeed(&["list"]).assert_stdout("");
        setting.run_script("touch a");
        let yes = setting.surmise(&["abort", "--all", "--yes"]);
        yes.on_terminal(&[]).assert_success();
        setting.succeed(&["list"]).assert_stdout("");
    });
}
