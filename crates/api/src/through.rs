//! A directory of a domain's that is the real one.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use surmise_launch::Through;
use surmise_sync::{NoDriver, Options, Promise, Scope, driver_of};

use crate::error::Explained;

/// How long a change may stay in memory when nobody waits for it.
const INTERVAL: Duration = Duration::from_secs(5);

/// Trees that each domain has of its own, or read-only.
const OWN: [&str; 3] = ["/dev", "/proc", "/sys"];

/// Why a directory can't be passed through.
#[derive(Debug, thiserror::Error)]
#[error("--through {}: {error}", given.display())]
pub struct ThroughError {
    /// The directory, as it was given.
    pub given: PathBuf,
    /// Why not.
    pub error: String,
}

/// Has a command change what is below a directory at once, where all else is undone. Also why syncs there are real
/// ones, if they are: otherwise they are put off. `root`: the state root.
///
/// # Errors
/// When it is no directory, one that each domain has of its own, or one that has to do with the state root.
pub fn pass_through(
    given: &Path,
    root: &Path,
) -> Result<(Through, Option<NoDriver>), ThroughError> {
    let failed = |error: String| ThroughError {
        given: given.into(),
        error,
    };
    let directory = given
        .canonicalize()
        .map_err(|error| failed(error.to_string()))?;
    check(&directory, root).map_err(failed)?;
    let (synchrony, no_driver) = match driver_of(&directory) {
        Ok(driver) => {
            let options = Options {
                driver: Arc::from(driver),
                promise: Promise::Fsync,
                interval: INTERVAL,
                eager: false,
                scope: Scope::View,
            };
            (Some(options), None)
        }
        Err(error) => (None, Some(error)),
    };
    let through = Through {
        directory,
        synchrony,
    };
    Ok((through, no_driver))
}

fn check(directory: &Path, root: &Path) -> Result<(), String> {
    if !directory.is_dir() {
        return Err("it is no directory".into());
    }
    if OWN.iter().any(|own| directory.starts_with(own)) {
        return Err("each domain has its own".into());
    }
    // By names that lead nowhere else.
    let root = resolved(root);
    if root.starts_with(directory) || directory.starts_with(&root) {
        return Err(format!("domains are kept in {}", root.display()));
    }
    Ok(())
}

/// The path without links. What does not exist yet holds none.
fn resolved(path: &Path) -> PathBuf {
    let mut ancestors = path.ancestors();
    let found = ancestors.find_map(|ancestor| Some((ancestor, ancestor.canonicalize().ok()?)));
    let Some((ancestor, real)) = found else {
        return path.into();
    };
    let rest = path.strip_prefix(ancestor).expect("an ancestor");
    real.components().chain(rest.components()).collect()
}

impl Explained for ThroughError {
    fn code(&self) -> &'static str {
        "not_passed_through"
    }

    fn hint(&self) -> Option<String> {
        let hint =
            "--through names a directory of a file system that the command may change for good";
        Some(hint.into())
    }

    fn status(&self) -> Option<u8> {
        Some(125)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_undo_the_domain_itself_is_not_passed_through() {
        let root = Path::new("/usr/share/surmise");
        let refused = |directory: &str| check(Path::new(directory), root).is_err();
        assert!(refused("/") && refused("/usr") && refused("/usr/share/surmise/one"));
        assert!(refused("/proc") && refused("/dev/shm") && refused("/etc/passwd"));
        assert!(!refused("/tmp") && !refused("/usr/bin"));
    }

    #[test]
    fn a_state_root_that_does_not_exist_yet_is_found_behind_links() {
        let scratch = tempfile::tempdir().expect("a directory");
        let real = scratch.path().canonicalize().expect("a path").join("real");
        let link = scratch.path().join("link");
        std::fs::create_dir(&real).expect("create");
        std::os::unix::fs::symlink(&real, &link).expect("link");
        let root = link.join(".local/state/surmise");
        check(&real, &root).expect_err("domains will be kept there");
        assert_eq!(resolved(&root), real.join(".local/state/surmise"));
    }
}
