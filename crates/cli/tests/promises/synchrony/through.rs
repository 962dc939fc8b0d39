//! S52: `run` and external synchrony together: what is below `--through` is made at once and its syncs are put off, and
//! all else is undone.

use serde_json::Value;

use super::{on_a_volume, stats};
use crate::setting::as_each_user;

/// Changes the volume and a file beside it, and syncs both.
const WORK: &str = r#"
import os, sqlite3
shop = sqlite3.connect("shop.db")
shop.execute("create table orders (number)")
for number in range(20):
    shop.execute("insert into orders values (?)", (number,))
    shop.commit()
file = open("../other", "w")
file.write("undone")
file.flush()
os.fsync(file.fileno())
print(shop.execute("select count(*) from orders").fetchone()[0])
"#;

#[test]
fn what_is_passed_through_stays_and_its_syncs_are_put_off_and_all_else_is_undone() {
    let script = format!(
        "cat > ../work.py <<'END'\n{WORK}\nEND
        surmise run --name work --through . --json --stats -- python3 ../work.py > ../out 2> ../told
        grep -qx 20 ../out
        test ! -e ../other
        surmise diff work | grep -q other
        surmise abort work
        test ! -e ../other
        sqlite3 shop.db 'select count(*) from orders' | grep -qx 20
        tail -1 ../told >&2"
    );
    on_a_volume(&script, |outcome| {
        outcome.assert_code(0);
        let told = stats(outcome);
        let synchrony = &told["synchrony"];
        let count = |name: &str| synchrony[name].as_u64().expect("a number");
        assert!(count("put_off") >= 20, "{told}");
        assert_eq!(count("real"), 0, "{told}");
        assert!(count("held") >= 1, "{told}");
        let commits = &synchrony["commits"];
        assert!(commits["output"].as_u64() >= Some(1), "{told}");
        let changes = told["changes"].as_array().expect("changes");
        let paths = changes.iter().map(|change| &change["path"]);
        let paths: Vec<_> = paths.filter_map(Value::as_str).collect();
        assert!(
            matches!(paths[..], [path] if path.ends_with("/other")),
            "{told}"
        );
    });
}

/// Guesses are taken back, those about what is passed through included; its syncs are put off all the same.
#[test]
fn what_is_passed_through_is_the_same_under_wrong_guesses() {
    let script = format!(
        "cat > ../work.py <<'END'\n{WORK}\nEND
        for seed in 1 2 3; do
            rm -f shop.db
            surmise run --through . --torture $seed:0.05 --dry-run -- python3 ../work.py > ../out
            grep -qx 20 ../out
            sqlite3 shop.db 'select count(*) from orders' | grep -qx 20
            test ! -e ../other
        done"
    );
    on_a_volume(&script, |outcome| {
        outcome.assert_success();
    });
}

#[test]
fn where_nothing_orders_changes_they_are_made_and_synced() {
    as_each_user(|setting| {
        let script = "mkdir -p real; echo a > real/file; sync real/file; echo b > other";
        setting.plain(&["mkdir", "real"]).outcome().assert_success();
        let words = [
            "run",
            "--dry-run",
            "--through",
            "real",
            "--",
            "sh",
            "-ec",
            script,
        ];
        setting
            .surmise(&words)
            .outcome()
            .assert_success()
            .assert_stderr_contains("/real is a real one: ");
        setting
            .plain(&["cat", "real/file"])
            .outcome()
            .assert_stdout("a\n");
        assert!(!setting.scratch.path("other").exists());
    });
}

#[test]
fn what_cannot_be_passed_through_is_told() {
    as_each_user(|setting| {
        for (directory, error) in [
            ("nothing", "No such file or directory"),
            ("/etc/passwd", "it is no directory"),
            ("/proc", "each domain has its own"),
            ("/", "domains are kept in "),
        ] {
            setting
                .surmise(&["run", "--through", directory, "--", "touch", "made"])
                .outcome()
                .assert_code(125)
                .assert_stderr_contains(error)
                .assert_stderr_contains("Hint: --through names a directory");
            assert!(!setting.scratch.path("made").exists());
        }
    });
}
