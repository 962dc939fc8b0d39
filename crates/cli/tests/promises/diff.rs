//! S4: the list of changes, and the patch.

use std::fs;

use surmise_testkit::{Facets, Scratch, TreeSnapshot, assert_same_tree, is_root};

use crate::setting::as_each_user;

/// S4.
#[test]
fn the_example_is_listed_in_the_order_in_which_it_happened() {
    as_each_user(|setting| {
        setting
            .scratch
            .file("b", "b")
            .file("c", "c")
            .file("big", "y");
        setting.run_script("echo new > a; rm b; mkdir -p d/e; mv c d/c; printf x >> big");
        setting.succeed(&["diff", "t"]).assert_lines(&[
            "A a",
            "D b",
            "A d/",
            "A d/e/",
            "R c -> d/c",
            "M big",
        ]);
        setting
            .succeed(&["diff", "t", "d"])
            .assert_lines(&["A d/", "A d/e/", "R c -> d/c"]);
        setting.succeed(&["abort", "t"]);
    });
}

/// S4.
#[test]
fn what_is_as_before_is_not_listed() {
    as_each_user(|setting| {
        setting
            .scratch
            .file("kept", "k")
            .file("moved", "m")
            .directory("sub");
        setting.run_script(
            "echo > tmp; rm tmp; mv moved elsewhere; mv elsewhere moved; cat kept; \
             echo x > sub/t; rm sub/t; exec 3<>kept; mkdir gone; rmdir gone; echo > added",
        );
        setting.succeed(&["diff", "t"]).assert_lines(&["A added"]);
    });
}

/// S4.
#[test]
fn kinds_of_change_are_told_apart() {
    as_each_user(|setting| {
        setting
            .scratch
            .file("mode", "")
            .file("type", "")
            .file("replaced", "old");
        setting
            .scratch
            .file("dir/leaf", "")
            .file("both", "text")
            .file("linked", "l");
        setting.run_script(
            "chmod 600 mode; rm type; ln -s x type; echo new > n; mv n replaced; mv dir folder; \
             mv both renamed; echo more >> renamed; ln linked second; rm folder/leaf",
        );
        setting.succeed(&["diff", "t"]).assert_lines(&[
            "M mode\tmode 0644 -> 0600",
            "T type\tsymbolic link to \"x\", was a file",
            "M replaced",
            "R dir/ -> folder/",
            "R both -> renamed",
            "M renamed",
            "A second",
            "D folder/leaf",
        ]);
    });
}

/// S4: paths outside the current directory are absolute.
#[test]
fn paths_are_relative_below_the_current_directory_only() {
    as_each_user(|setting| {
        setting.scratch.directory("here").file("above", "");
        setting.run_script("echo > here/file; echo > beside; rm above");
        let work = setting.scratch.work();
        setting
            .surmise(&["diff", "t"])
            .directory("here")
            .outcome()
            .assert_lines(&[
                "A file",
                &format!("A {}/beside", work.display()),
                &format!("D {}/above", work.display()),
            ]);
    });
}

/// S4.
#[test]
fn a_patch_applied_by_git_gives_the_same_files() {
    as_each_user(|setting| {
        let plant = |scratch: &Scratch| {
            scratch
                .file("text", "one\ntwo\nthree\n")
                .file("gone", "bye\n")
                .file("moved", "m\n");
            scratch
                .file("binary", [0, 1, 2, 255])
                .file("tail", "no newline")
                .file("sub/x", "x\n");
        };
        plant(&setting.scratch);
        let twin = setting.twin();
        plant(&twin.scratch);
        setting.run_script(
            "sed -i s/two/2/ text; rm gone; mv moved sub/moved; echo >> sub/moved; \
             printf '\\000\\001\\377' > binary; printf 'still none' > tail; echo new > added; \
             chmod 755 sub/x; ln -s text link; head -c 100000 /dev/zero > zeros; : > empty",
        );
        let patch = setting.succeed(&["diff", "t", "-p"]).stdout;
        setting.succeed(&["commit", "t"]);
        fs::write(twin.scratch.root().join("patch"), patch).expect("write the patch");
        twin.plain(&["git", "apply", "../patch"])
            .outcome()
            .assert_success();
        assert_same_tree(
            &TreeSnapshot::of(setting.scratch.work()),
            &TreeSnapshot::of(twin.scratch.work()),
            Facets::SAME_RESULT,
        );
    });
}

/// S4: what a change means for who may do what is said in a column of its own, with real programs.
#[test]
fn what_matters_for_trust_is_in_the_second_column() {
    as_each_user(|setting| {
        setting
            .scratch
            .file("tool", "")
            .file("script", "")
            .file("text", "")
            .file("replaced", "");
        setting.run_script(
            "chmod 4755 tool; chmod +x script; echo more >> text; mkfifo p; ln -s /etc/passwd l; \
             printf 'x' > n; chmod 666 n; mv n replaced; mkdir d; chmod 3777 d; : > plain; \
             cp script 'two words'; \
             python3 -c 'import os; os.setxattr(\"plain\", \"user.note\", b\"1\")'",
        );
        let owner = setting.user.map(|user| user.uid.to_string());
        let group = setting.user.map(|user| user.gid.to_string());
        let (owner, group) = (owner.as_deref(), group.as_deref());
        let own = |id: Option<&str>, own: u32| match (id, own) {
            (Some(id), _) => id.to_owned(),
            (None, 0) => "root".to_owned(),
            (None, own) => own.to_string(),
        };
        let owner = own(owner, rustix::process::geteuid().as_raw());
        let group = own(group, rustix::process::getegid().as_raw());
        let lines = [
            &*format!("M tool\tset-user-id {owner}, executable, mode 0644 -> 4755"),
            "M script\texecutable, mode 0644 -> 0755",
            "M text",
            "A p\tFIFO",
            "A l\tsymbolic link to \"/etc/passwd\"",
            "M replaced\twritable by all, mode 0644 -> 0666",
            &*format!("A d/\tset-group-id {group}"),
            "A plain\tattribute user.note",
            "A two words\texecutable",
        ];
        setting.succeed(&["diff", "t"]).assert_lines(&lines);
        // The reader of a patch sees the same.
        let patch = setting.succeed(&["diff", "t", "-p"]);
        for line in lines.iter().filter(|line| line.contains('\t')) {
            patch.assert_stdout_contains(&format!("# {line}\n"));
        }
        assert!(!patch.stdout.contains("# M text"), "{}", patch.stdout);
        setting.succeed(&["abort", "t"]);
    });
}

/// S4.
#[test]
fn owners_and_capabilities_are_in_the_second_column() {
    if !is_root() {
        return surmise_testkit::skip("to give files away takes root");
    }
    let setting = crate::setting::Setting {
        scratch: Scratch::new(),
        user: None,
    };
    setting.scratch.file("given", "").file("ping", "");
    setting.run_script(
        "chown 7:8 given; mknod w c 0 0; cp ping kept; \
         python3 -c 'import os; os.setxattr(\"ping\", \"security.capability\", \
         bytes.fromhex(\"0100000200200000\") + bytes(12))'",
    );
    setting.succeed(&["diff", "t"]).assert_lines(&[
        "M given\towner root -> 7, group root -> 8",
        "A w\twhiteout",
        "A kept",
        "M ping\tcapabilities cap_net_raw=ep",
    ]);
    setting.succeed(&["commit", "t"]);
    setting.run_script("echo x >> ping");
    setting
        .succeed(&["diff", "t"])
        .assert_lines(&["M ping\tno capabilities"]);
}

/// S4: a right that is given does not hide in the part of the summary that is only counted.
#[test]
fn the_summary_shows_every_right_that_is_given() {
    as_each_user(|setting| {
        let script = "for n in $(seq 50); do : > $n; done; chmod u+s 40; chmod +x 41";
        let outcome = setting
            .surmise(&["run", "--dry-run", "--", "sh", "-ec", script])
            .outcome();
        outcome.assert_success();
        let stderr = &outcome.stderr;
        assert!(stderr.contains("  A 20\n  A 40\tset-user-id "), "{stderr}");
        assert!(stderr.contains("  … and 29 more\n"), "{stderr}");
        let script = "umask 022; : > a; chmod 644 a; mkfifo p";
        let outcome = setting
            .surmise(&["run", "--name", "t", "--json", "--", "sh", "-ec", script])
            .outcome();
        let result = outcome.stderr.lines().last().unwrap_or_default();
        let path = |name: &str| setting.scratch.work().join(name).display().to_string();
        let (a, p) = (path("a"), path("p"));
        let changes = format!(
            r#"[{{"kind":"A","path":"{a}"}},{{"kind":"A","path":"{p}","notes":["FIFO"]}}]"#
        );
        assert!(result.contains(&changes), "{result}");
        setting.succeed(&["abort", "t"]);
    });
}
