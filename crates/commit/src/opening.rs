//! Directories that their owner made read-only, writable while a commit runs.
//!
//! A domain that removes a read-only tree gives itself the right to write first, and a plain run
//! would have done so on the real tree.

use std::collections::HashMap;
use std::io;
use std::os::fd::AsFd;

use surmise_changes::real::is_absent;

use crate::locate::Site;
use crate::metadata::set_permissions;
use crate::plan::{Finish, Metadata, Opened, Plan};

/// The owner's right to write.
pub(crate) const OWNER_WRITES: u16 = 0o200;

/// Puts what must be opened into the plan, and closes it again in the end.
pub(crate) fn add(plan: &mut Plan, opened: Vec<Opened>) {
    let finishes = plan.finishes.iter_mut();
    let mut known: HashMap<usize, &mut Finish> =
        finishes.map(|finish| (finish.directory, finish)).collect();
    let mut added = Vec::new();
    for opened in &opened {
        let permissions = Some(opened.permissions);
        match known.get_mut(&opened.directory) {
            Some(finish) => {
                let wanted = &mut finish.metadata.permissions;
                *wanted = wanted.or(permissions);
            }
            None => added.push(Finish {
                directory: opened.directory,
                metadata: Metadata {
                    permissions,
                    ..Metadata::default()
                },
            }),
        }
    }
    // First, since another one may close the way to it.
    plan.finishes.splice(0..0, added);
    plan.opened = opened;
}

/// Makes the directories writable that must be.
pub(crate) fn open_up(site: &Site<'_>) -> io::Result<()> {
    set_all(site, OWNER_WRITES)
}

/// Gives them back the permissions that they had.
pub(crate) fn close(site: &Site<'_>) -> io::Result<()> {
    set_all(site, 0)
}

fn set_all(site: &Site<'_>, more: u16) -> io::Result<()> {
    for opened in &site.plan().opened {
        match site.open(opened.directory) {
            Ok(directory) => set_permissions(directory.as_fd(), opened.permissions | more)?,
            // Removed by an earlier run of the commit.
            Err(error) if is_absent(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
