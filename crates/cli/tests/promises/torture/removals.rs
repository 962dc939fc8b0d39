//! S31: directories are removed while something is undecided, and are there again where that is undone; and modes are changed by
//! paths that name descriptors.

use super::right::{decided_late, waits_in};
use super::torture;
use crate::setting::Setting;

#[test]
fn directories_are_removed_and_nothing_waits_for_that() {
    let command = ["sh", "removals.sh"];
    let prepare = |setting: &Setting| {
        setting
            .scratch
            .file("removals.sh", include_str!("removals.sh"));
        true
    };
    torture("removals", &command, prepare);
    decided_late(&command, prepare);
    for (calls, waits) in waits_in("rmdir", &command, prepare) {
        // Where the machine is busy, a thread may not come past its call in time.
        assert!(2 * waits < calls, "{waits} of {calls} wait");
    }
}

/// The kernel drops the name of a directory that is removed. A process that works in the directory could not ask for the name any
/// more, also where the removal is undone.
#[test]
fn a_process_knows_where_it_works_though_a_removal_was_undone() {
    const PROGRAM: &str = "\
import os, subprocess, sys
for number in range(12):
    os.mkdir('place')
    child = 'import os; print(os.path.basename(os.getcwd()))'
    subprocess.run([sys.executable, '-S', '-E', '-c', child], cwd='place')
    open('place/file', 'w').close()
    os.stat('place')
    os.unlink('place/file')
    os.rmdir('place')
";
    let command = ["/usr/bin/python3", "-u", "-c", PROGRAM];
    torture("places", &command, |_| true);
    decided_late(&command, |_| true);
}

/// The C library opens a file, and changes its mode by the descriptor's name in `/proc`, where no link is to be followed.
#[test]
fn modes_are_changed_by_the_names_of_descriptors_and_nothing_waits_for_that() {
    const PROGRAM: &str = "\
import os
os.mkdir('directory')
for path in ['file', 'directory/file']:
    open(path, 'w').close()
    for mode in range(0o600, 0o604):
        os.chmod(path, mode, follow_symlinks=False)
        print(path, oct(os.stat(path).st_mode))
";
    let command = ["/usr/bin/python3", "-c", PROGRAM];
    torture("modes", &command, |_| true);
    decided_late(&command, |_| true);
    for (calls, waits) in waits_in("chmod", &command, |_| true) {
        assert!(2 * waits < calls, "{waits} of {calls} wait");
    }
}
