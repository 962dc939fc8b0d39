//! S31: directories are removed while something is undecided, and are there again where that is undone.

use super::right::decided_late;
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
}
