//! Real programs on a mount.

use surmise_testkit::{Facets, Outcome, TreeSnapshot, assert_same_tree};

use super::Far;
use crate::setting::{Setting, as_each_user};

/// What a person does with sources: unpacks, builds, commits, renames, links.
pub(super) const WORK: &str = r#"
export GIT_AUTHOR_DATE='@1700000000 +0000' GIT_COMMITTER_DATE='@1700000000 +0000'
mkdir project && cd project
i=0
while [ $i -lt 60 ]; do
    printf 'int f%d(void) { return %d; }\n' $i $i > f$i.c
    i=$((i+1))
done
tar --sort=name --mtime=@1700000000 -cf ../all.tar . && mkdir unpacked && tar xf ../all.tar -C unpacked
git -c init.defaultBranch=main init -q . && git add .
git -c user.name=n -c user.email=e@example.org commit -qm first
git status --porcelain
# It has inode numbers.
rm .git/index
printf 'all: $(patsubst %%.c,%%.o,$(wildcard *.c))\n\tcat *.o > linked\n%%.o: %%.c\n\tcp $< $@\n' > Makefile
make -s -j2
ln f1.c again && ln -s f2.c leads && mv f3.c moved && mv unpacked renamed
chmod 750 renamed && chmod 4711 linked && touch -d '2001-02-03 04:05:06.789' f4.c
rm f5.c && rm -r renamed/f6.c && mkfifo pipe && mkdir shared
# Another owner, even the same, takes set-id bits from all but directories.
chmod 6711 pipe f8.c shared && chown "$(id -u):$(id -g)" pipe f8.c shared
truncate -s 100000 hole && printf x | dd of=hole bs=1 seek=70000 conv=notrunc 2>/dev/null
python3 -c 'import os; os.setxattr("f7.c", "user.note", b"kept")'
cat leads again > both; cat linked | wc -c
"#;

pub fn on_there(work: &str) -> String {
    format!("cd there\n{work}")
}

/// [`WORK`] on a directory as it is.
pub fn done_elsewhere(setting: &Setting) -> (Setting, Outcome) {
    let plain = setting.twin();
    plain.scratch.directory("there");
    let outcome = plain.plain(&["sh", "-ec", &on_there(WORK)]).outcome();
    outcome.assert_success();
    (plain, outcome)
}

#[test]
fn s55_what_programs_do_on_a_mount_is_what_they_do_on_a_directory() {
    as_each_user(|setting| {
        let Some(far) = Far::new(setting) else {
            return;
        };
        let (plain, expected) = done_elsewhere(setting);
        let mount = far.mount("there");
        far.sh(&on_there(WORK)).assert_stdout(&expected.stdout);
        // As the client sees it, and as the server has it when it was unmounted.
        let wanted = TreeSnapshot::of(plain.scratch.path("there"));
        let facets = Facets::SAME_RESULT;
        // The mount of an ordinary user lets not even root in.
        if setting.is_root() {
            assert_same_tree(&wanted, &TreeSnapshot::of(mount.path()), facets);
        }
        mount.unmount();
        far.sh("rm -rf export/.surmise");
        assert_same_tree(&wanted, &TreeSnapshot::of(far.export()), facets);
    });
}
