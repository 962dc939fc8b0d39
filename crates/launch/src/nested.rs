//! Whether this process is in a domain already.

use std::env;
use std::path::Path;

use surmise_linux::proc::{Entry, Mount};

use crate::error::LaunchError;

/// Tells programs inside the name of their domain.
pub(crate) const VARIABLE: &str = "SURMISE_DOMAIN";

/// The file-system type of a domain's root, as mountinfo names it.
pub(crate) const FILE_SYSTEM: &str = "fuse.surmise";

/// `statfs`' number for any FUSE file system.
const FUSE_MAGIC: u64 = 0x6573_5546;

/// The name of the domain that this process is in; empty when it is in one that hides it.
pub(crate) fn domain() -> Result<Option<String>, LaunchError> {
    if let Some(name) = env::var_os(VARIABLE) {
        return Ok(Some(name.to_string_lossy().into_owned()));
    }
    let root = rustix::fs::statfs("/").map_err(LaunchError::step("look at /"))?;
    // Reading the list of mounts takes longer than all of this, and is hardly ever needed.
    if root.f_type as u64 & u64::from(u32::MAX) != FUSE_MAGIC {
        return Ok(None);
    }
    let mounts = Mount::of_task(Entry::own()).map_err(LaunchError::step("read the mounts"))?;
    Ok(is_root(&mounts).then(String::new))
}

/// Whether the uppermost mount on `/` is a view.
fn is_root(mounts: &[Mount]) -> bool {
    let mut latest = mounts.iter().rev();
    let root = latest.find(|mount| mount.directory == Path::new("/"));
    root.is_some_and(|root| root.kind == FILE_SYSTEM)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_uppermost_root_counts() {
        let disk = "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n";
        let view = "90 27 0:50 / / rw,nodev shared:1 - fuse.surmise surmise rw,user_id=0\n";
        let other = "91 27 0:51 / /mnt rw - fuse.surmise surmise rw\n";
        let is_root = |mounts: [&str; 2]| is_root(&Mount::parse_all(mounts.concat().as_bytes()));
        assert!(is_root([disk, view]));
        assert!(!is_root([disk, other]));
        assert!(!is_root([view, disk]));
    }
}
