//! The file systems that commit in order, one file each.

mod btrfs;
mod ext4;
mod far;

pub(crate) use btrfs::btrfs;
pub(crate) use ext4::ext4;
pub(crate) use far::far;
