//! S1, S2, S3 with programs that people run.

use surmise_testkit::{Facets, Scratch, TreeSnapshot, assert_same_tree};

use crate::setting::as_each_user;

/// A small C project: what a build reads, runs and writes.
fn plant_project(scratch: &Scratch) {
    scratch.file(
        "Makefile",
        "OBJECTS = main.o part.o\n\
         all: program libpart.a\n\
         program: $(OBJECTS)\n\t$(CC) -o $@ $^\n\
         libpart.a: part.o\n\tar rcD $@ $^\n\
         %.o: %.c part.h\n\t$(CC) -O1 -c -o $@ $<\n",
    );
    scratch.file("part.h", "int part(int);\n");
    scratch.file(
        "part.c",
        "#include \"part.h\"\nint part(int x) { return 2 * x; }\n",
    );
    scratch.file(
        "main.c",
        "#include <stdio.h>\n#include \"part.h\"\n\
         int main(void) { return printf(\"%d\\n\", part(21)) < 0; }\n",
    );
}

/// S3.
#[test]
fn a_build_gives_the_artifacts_of_a_plain_one() {
    as_each_user(|setting| {
        let twin = setting.twin();
        plant_project(&setting.scratch);
        plant_project(&twin.scratch);
        setting.commits_as_plain(
            &twin,
            "make -j2 >&2; ./program; touch part.h; make >&2; make -q",
        );
    });
}

/// S3.
#[test]
fn git_works_inside() {
    as_each_user(|setting| {
        let script = "
            export GIT_AUTHOR_DATE='1 Jan 2001 00:00 +0000' GIT_COMMITTER_DATE='1 Jan 2001 00:00 +0000'
            export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
            git -c init.defaultBranch=main init -q repo; cd repo
            for i in 1 2 3 4 5 6 7 8; do echo $i > file$i; git add .; git commit -qm c$i; done
            git gc -q; git fsck --strict; git checkout -q HEAD~3; git status --porcelain
        ";
        setting.run_script(script);
        setting.succeed(&["commit", "t"]);
        let look = "cd repo && git fsck --strict && git log --all --format=%H && git status -s";
        let committed = setting.plain(&["sh", "-c", look]).outcome();
        committed.assert_success();
        let twin = setting.twin();
        twin.plain(&["sh", "-ec", script])
            .outcome()
            .assert_success();
        let plain = twin.plain(&["sh", "-c", look]).outcome();
        assert_eq!(committed.stdout, plain.stdout);
    });
}

/// S1, S2: a database with locks, journals and shared memory.
#[test]
fn sqlite_works_inside() {
    as_each_user(|setting| {
        let script = r#"python3 - <<'EOF'
import sqlite3
base = sqlite3.connect("base")
base.execute("pragma journal_mode=wal")
base.execute("create table t(x)")
for number in range(50):
    with base: base.execute("insert into t values (?)", (number,))
other = sqlite3.connect("base")
assert other.execute("select sum(x) from t").fetchone() == (1225,)
assert other.execute("pragma integrity_check").fetchone() == ("ok",)
EOF"#;
        let before = TreeSnapshot::of(setting.scratch.work());
        setting.run_script(script);
        setting.succeed(&["abort", "t"]);
        assert_same_tree(
            &before,
            &TreeSnapshot::of(setting.scratch.work()),
            Facets::EXACT,
        );
    });
}

/// S1, S2.
#[test]
fn a_virtual_environment_is_made_inside_and_vanishes() {
    as_each_user(|setting| {
        let before = TreeSnapshot::of(setting.scratch.work());
        setting.run_script("python3 -m venv --without-pip v; v/bin/python -c 'import json'");
        setting.succeed(&["abort", "t"]);
        assert_same_tree(
            &before,
            &TreeSnapshot::of(setting.scratch.work()),
            Facets::EXACT,
        );
    });
}
