//! The option by which a directory of a domain's is the real one.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use surmise_kept::StateRoot;
use surmise_launch::Through;
use surmise_sync::{Options, Promise, Scope, driver_of};

use crate::failure::Failure;
use crate::report;

/// How long a change may stay in memory when nobody waits for it.
const INTERVAL: Duration = Duration::from_secs(5);

/// Trees that each domain has of its own, or read-only.
const OWN: [&str; 3] = ["/dev", "/proc", "/sys"];

/// What is not undone.
#[derive(clap::Args)]
pub struct Passing {
    /// Change the files below this directory at once: they are not undone
    ///
    /// Where its file system commits in order, as `surmise sync` needs it, a sync of a file there returns at once, and
    /// what the command puts out waits until all is durable that it was promised before.
    #[arg(long, value_name = "DIR", group = "supervised")]
    through: Option<PathBuf>,
}

impl Passing {
    /// The directory, and how syncs are put off there.
    pub fn through(&self, root: &StateRoot) -> Result<Option<Through>, Failure> {
        let Some(given) = &self.through else {
            return Ok(None);
        };
        let failed = |error: String| {
            let text = format!("--through {}: {error}", given.display());
            Failure::new(text).hint(
                "--through names a directory of a file system that the command may change for good",
            )
        };
        let directory = given
            .canonicalize()
            .map_err(|error| failed(error.to_string()))?;
        check(&directory, root.path()).map_err(failed)?;
        let synchrony = match driver_of(&directory) {
            Ok(driver) => Some(Options {
                driver: Arc::from(driver),
                promise: Promise::Fsync,
                interval: INTERVAL,
                eager: false,
                scope: Scope::View,
            }),
            Err(error) => {
                let shown = directory.display();
                report::note(format_args!(
                    "every fsync below {shown} is a real one: {error}"
                ));
                None
            }
        };
        Ok(Some(Through {
            directory,
            synchrony,
        }))
    }
}

fn check(directory: &Path, root: &Path) -> Result<(), String> {
    if !directory.is_dir() {
        return Err("it is no directory".into());
    }
    if OWN.iter().any(|own| directory.starts_with(own)) {
        return Err("each domain has its own".into());
    }
    // By names that lead nowhere else.
    let root = root.canonicalize().unwrap_or_else(|_| root.into());
    if root.starts_with(directory) || directory.starts_with(&root) {
        return Err(format!("domains are kept in {}", root.display()));
    }
    Ok(())
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
}
