//! S13, S14, S15, S19: files inside are like files outside.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use surmise_testkit::{is_root, skip, watchdog};

use crate::setting::as_each_user;

/// A self-checking program whose every check must hold inside as it does outside.
const CHECKS: &str = include_str!("files.py");

/// S13.
#[test]
fn files_behave_inside_as_they_do_outside() {
    as_each_user(|setting| {
        let checks = setting.scratch.root().join("checks.py");
        fs::write(&checks, CHECKS).expect("write the program");
        let checks = checks.to_str().expect("Unicode");
        for directory in ["outside", "inside"] {
            for name in ["unchanged", "linked", "mapped"] {
                setting
                    .scratch
                    .file(format!("{directory}/{name}"), "0123456789".repeat(1000));
            }
            setting
                .scratch
                .hard_link(format!("{directory}/linked"), format!("{directory}/other"));
            setting
                .scratch
                .file(format!("{directory}/tree/leaf"), "leaf");
        }
        let outside = setting
            .plain(&["python3", checks])
            .directory("outside")
            .outcome();
        outside.assert_success();
        let inside = setting
            .surmise(&["run", "--dry-run", "--", "python3", checks])
            .directory("inside")
            .outcome();
        inside.assert_success();
        assert_eq!(inside.stdout, outside.stdout);
        assert!(
            inside.lines().len() > 20,
            "few checks ran:\n{}",
            inside.stdout
        );
    });
}

/// S14: a second real file system, mounted below the first.
#[test]
fn real_file_systems_stay_apart() {
    if !is_root() {
        return skip("mounting a second file system needs root");
    }
    as_each_user(|setting| {
        setting.scratch.directory("mounted").file("file", "f");
        let script =
            "mount -t tmpfs -o mode=777 tmpfs mounted && echo m > mounted/there && exec \"$@\"";
        let checks = r#"
            import errno, os
            def fails(call, *arguments):
                try: call(*arguments)
                except OSError as error: return errno.errorcode[error.errno]
            print(fails(os.rename, "file", "mounted/file"), fails(os.link, "file", "mounted/file"))
            print(fails(os.rename, "mounted", "elsewhere"), fails(os.rmdir, "mounted"))
            print(os.stat("file").st_ino != os.stat("mounted/there").st_ino)
            print(os.stat("file").st_dev == os.stat("mounted/there").st_dev)
            print(os.statvfs("mounted").f_blocks != os.statvfs(".").f_blocks)
            open("mounted/new", "w").write("n"); os.rename("mounted/new", "mounted/newer")
            print(sorted(os.listdir("mounted")))
        "#;
        let checks: String = checks
            .lines()
            .map(|line| format!("{}\n", line.trim_start_matches("            ")))
            .collect();
        let inside = ["unshare", "-m", "sh", "-ec", script, "sh"];
        let surmise = surmise_testkit::surmise_binary().to_str().expect("Unicode");
        if setting.user.is_some() {
            // The mount is root's to make; that the view keeps file systems apart is nobody's right.
            return;
        }
        let mut command = inside.to_vec();
        command.extend([surmise, "run", "--dry-run", "--", "python3", "-c", &checks]);
        setting.plain(&command).outcome().assert_lines(&[
            "EXDEV EXDEV",
            "EBUSY EBUSY",
            "True",
            "True",
            "True",
            "['newer', 'there']",
        ]);
    });
}

/// S15.
#[test]
fn a_change_outside_shows_inside() {
    as_each_user(|setting| {
        setting.scratch.file("watched", "old");
        // What is there and what is not has been seen before it changes.
        let script = "cat watched; ! test -e added; echo > has-read; \
                      until grep -q new watched && test -e added; do sleep 0.1; done; cat watched";
        std::thread::scope(|scope| {
            let run = scope.spawn(|| setting.run_script(script));
            watchdog::until("the command reads", watchdog::LIMIT, || {
                let diff = setting.surmise(&["diff", "t"]).outcome();
                diff.stdout.contains("A has-read")
            });
            fs::write(setting.scratch.path("added"), "").expect("write outside");
            fs::write(setting.scratch.path("watched"), "new\n").expect("write outside");
            let outcome = run.join().expect("the command ends");
            outcome.assert_stdout("oldnew\n");
        });
    });
}

/// S19.
#[test]
fn an_ordinary_user_reads_nothing_more_inside() {
    as_each_user(|setting| {
        if setting.ordinary_user().is_none() {
            return;
        }
        let secret = setting.scratch.path("secret");
        setting.scratch.file("secret", "s");
        std::os::unix::fs::chown(&secret, Some(0), Some(0)).expect("chown");
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).expect("chmod");
        setting.run_script(
            "! cat secret; ! cat /etc/shadow; ! echo x >> secret; ! echo > /etc/x; echo > new",
        );
        setting.succeed(&["abort", "t"]);
        let readable = fs::Permissions::from_mode(0o644);
        fs::set_permissions(&secret, readable).expect("chmod");
        setting.run_script("cat secret; ! echo x >> secret; mv secret moved");
        setting.succeed(&["commit", "t"]);
        let moved = setting.scratch.path("moved");
        assert_eq!(fs::read_to_string(moved).expect("the file"), "s");
    });
}
