//! Who loses set-id bits by a change.
//!
//! The kernel asks for it unless the caller has `CAP_FSETID` over the whole machine, which nobody has
//! in the user namespace of a domain. On other file systems root of the domain keeps them.

use surmise_fuse::{Caller, SetAttributes};

const ROOT: u32 = 0;

/// Whether set-id bits go with a change of data, where the kernel asks for it.
pub(super) fn dropped_by_change(caller: Caller, asked: bool) -> bool {
    asked && caller.uid != ROOT
}

/// Whether set-id bits go with a change of attributes.
pub(super) fn dropped_by_setattr(caller: Caller, changes: &SetAttributes) -> bool {
    if changes.uid.is_some() || changes.gid.is_some() {
        return changes.kill_privileges;
    }
    // What is left of a change that was for nothing else: the kernel sends it before fallocate(2) and
    // copy_file_range(2), and for a chown(2) of neither owner nor group.
    let nothing_else = SetAttributes {
        handle: changes.handle,
        kill_privileges: changes.kill_privileges,
        ..SetAttributes::default()
    };
    let asked = changes.kill_privileges || *changes == nothing_else;
    dropped_by_change(caller, asked)
}

#[cfg(test)]
mod tests {
    use super::*;

    const USER: Caller = Caller {
        uid: 1000,
        gid: 1000,
        pid: 1,
    };
    const SUPERUSER: Caller = Caller { uid: 0, ..USER };

    #[test]
    fn root_keeps_set_id_bits_when_it_changes_data_but_not_when_it_gives_a_file_away() {
        let truncated = SetAttributes {
            size: Some(1),
            kill_privileges: true,
            ..SetAttributes::default()
        };
        let given = SetAttributes {
            uid: Some(1),
            ..truncated
        };
        assert!(dropped_by_setattr(USER, &truncated));
        assert!(!dropped_by_setattr(SUPERUSER, &truncated));
        assert!(dropped_by_setattr(SUPERUSER, &given));
        assert!(dropped_by_change(USER, true));
        assert!(!dropped_by_change(SUPERUSER, true));
    }

    #[test]
    fn a_change_of_nothing_drops_and_one_of_something_does_not() {
        let nothing = SetAttributes {
            handle: Some(1),
            ..SetAttributes::default()
        };
        let mode = SetAttributes {
            mode: Some(0o6755),
            ..nothing
        };
        assert!(dropped_by_setattr(USER, &nothing));
        assert!(!dropped_by_setattr(SUPERUSER, &nothing));
        assert!(!dropped_by_setattr(USER, &mode));
    }
}
