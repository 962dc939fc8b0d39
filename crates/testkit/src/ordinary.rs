//! A test that goes on as another user.

use rustix::process::{DumpableBehavior, Gid, Uid};

/// Whom root becomes: a user that owns nothing.
const ORDINARY: u32 = 12_345;

/// Has this process, root's, be an ordinary user's for good, who may trace what it forks.
pub fn become_ordinary_user() {
    let (uid, gid) = (Uid::from_raw(ORDINARY), Gid::from_raw(ORDINARY));
    rustix::thread::set_thread_groups(&[]).expect("leave all groups");
    rustix::thread::set_thread_res_gid(gid, gid, gid).expect("change the group");
    rustix::thread::set_thread_res_uid(uid, uid, uid).expect("change the user");
    // Who changes its user may no more be traced, as after a set-uid program.
    rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable).expect("be dumpable");
}
