//! Volumes: an ext4 file system in a file, whose data all go through its journal, so that it keeps the order
//! of changes wherever root can mount it.
//!
//! The work is done by the programs of e2fsprogs and util-linux. No two loop devices are ever made for one
//! file: each would have its own idea of what is on it.

mod check;
mod create;
mod error;
mod mounted;
mod mounting;
mod superblock;
mod tool;

pub use check::{Health, check};
pub use create::{BYTES_MIN, create};
pub use error::VolumeError;
pub use mounted::{MountedVolume, mounted};
pub use mounting::{mount, mount_privately, unmount};
