//! Where the certificates and keys of clients are.

use std::env;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// For the whole machine, as for mounts of fstab(5).
const OF_ALL: &str = "/etc/surmise";

/// A file that was named, or else the one of this name where such files are looked for. It is absolute, since a mount goes on in
/// another directory.
pub fn path(named: Option<&Path>, name: &str) -> Result<PathBuf, Failure> {
    if let Some(named) = named {
        return std::path::absolute(named)
            .map_err(|error| Failure::new(format_args!("{}: {error}", named.display())));
    }
    let of_all = Path::new(OF_ALL).join(name);
    // Where there is neither, the user's own is missed.
    Ok(match own() {
        Some(own) if own.join(name).exists() || !of_all.exists() => own.join(name),
        _ => of_all,
    })
}

/// The user's own; `None` where there is no home.
fn own() -> Option<PathBuf> {
    let absolute = |name| {
        let path = env::var_os(name).map(PathBuf::from);
        path.filter(|path| path.is_absolute())
    };
    let config = absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")));
    Some(config?.join("surmise"))
}
