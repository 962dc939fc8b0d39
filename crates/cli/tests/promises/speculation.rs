//! `surmise run --torture`: the end is a plain run's, and `--stats` tells what was done.

use surmise_testkit::{Facets, TreeSnapshot, assert_same_tree};

use crate::setting::as_each_user;

const SCRIPT: &str =
    "mkdir d; for n in 1 2 3; do echo $n > d/$n; done; cat d/* | sort -r; rm d/2; exit 3";

#[test]
fn a_tortured_run_ends_as_a_plain_one() {
    as_each_user(|setting| {
        let twin = setting.twin();
        let plain = twin.plain(&["sh", "-c", SCRIPT]).outcome();
        plain.assert_code(3).assert_stdout("3\n2\n1\n");
        for torture in ["7", "1:1e-9", "18446744073709551615:1"] {
            let arguments = [
                "run",
                "--name",
                "t",
                "--torture",
                torture,
                "--",
                "sh",
                "-c",
                SCRIPT,
            ];
            let tortured = setting.surmise(&arguments).outcome();
            tortured
                .assert_code(plain.code)
                .assert_stdout(&plain.stdout);
            assert!(!tortured.stderr.contains("predictions"), "{tortured:?}");
            if torture == "7" {
                setting.succeed(&["commit", "t"]);
                assert_same_tree(
                    &TreeSnapshot::of(twin.scratch.work()),
                    &TreeSnapshot::of(setting.scratch.work()),
                    Facets::SAME_RESULT,
                );
                setting.plain(&["rm", "-r", "d"]).outcome().assert_success();
            } else {
                setting.succeed(&["abort", "t"]);
            }
        }
    });
}

#[test]
fn what_was_done_is_told_to_people_and_to_programs() {
    as_each_user(|setting| {
        let told = [
            "run",
            "--torture",
            "7",
            "--stats",
            "--",
            "cat",
            "/etc/passwd",
        ];
        setting
            .succeed(&told)
            .assert_stderr_contains(" tracked calls, ")
            .assert_stderr_contains("\nCALL ")
            .assert_stderr_contains("\nopenat ");
        let json = ["run", "--torture", "7", "--stats", "--json", "--", "true"];
        let outcome = setting.succeed(&json);
        let last = outcome.stderr.lines().last().expect("a line");
        let object: serde_json::Value = serde_json::from_str(last).expect("JSON");
        let calls = object["speculation"]["calls"].as_array().expect("calls");
        let events = |name: &str| {
            let call = calls.iter().find(|call| call["name"] == name);
            call.map_or(0, |call| call["events"].as_u64().expect("a number"))
        };
        assert_eq!((events("execve"), events("exit_group")), (1, 1), "{object}");
        assert_eq!(events("getpid"), 0, "a checkpoint holds it");
        let often: Vec<_> = calls.iter().map(|call| call["events"].as_u64()).collect();
        assert!(often.is_sorted_by(|one, two| one >= two), "{object}");
        let plain = setting.succeed(&["run", "--json", "--", "true"]);
        assert!(!plain.stderr.contains("speculation"), "{plain:?}");
    });
}
