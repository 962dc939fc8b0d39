//! `enum fuse_notify_code`: what the server tells unasked. The code stands where a reply has its error,
//! and `unique` is zero.

pub(crate) const INVAL_INODE: i32 = 2;
pub(crate) const INVAL_ENTRY: i32 = 3;
pub(crate) const STORE: i32 = 4;
pub(crate) const INC_EPOCH: i32 = 8;
