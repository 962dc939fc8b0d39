//! Paths that the user names, to choose among changes.

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

/// The absolute path that `path` means in the directory `base`.
///
/// Links on its way are followed as far as it exists outside; what a domain made exists only inside.
/// The last name is not followed: a link can be a change itself.
pub fn resolve(base: &Path, path: &Path) -> PathBuf {
    let path = normalize(&base.join(path));
    let mut missing: Vec<&OsStr> = path.file_name().into_iter().collect();
    for ancestor in path.ancestors().skip(1) {
        if let Ok(mut real) = ancestor.canonicalize() {
            real.extend(missing.iter().rev());
            return real;
        }
        missing.extend(ancestor.file_name());
    }
    path
}

/// Without `.` and `..`, by the names alone.
fn normalize(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                normal.pop();
            }
            Component::CurDir => {}
            _ => normal.push(component),
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(base: impl AsRef<Path>, path: &str) -> PathBuf {
        resolve(base.as_ref(), Path::new(path))
    }

    #[test]
    fn names_alone_are_made_absolute_and_plain() {
        for (path, absolute) in [
            ("src/", "/nowhere/base/src"),
            (".", "/nowhere/base"),
            ("./x/../Makefile", "/nowhere/base/Makefile"),
            ("/nowhere//etc/./motd", "/nowhere/etc/motd"),
            ("../../..", "/"),
        ] {
            assert_eq!(
                resolved("/nowhere/base", path),
                Path::new(absolute),
                "{path}"
            );
        }
    }

    #[test]
    fn links_are_followed_on_the_way_but_not_at_the_end() {
        let scratch = tempfile::tempdir().unwrap();
        let base = scratch.path().canonicalize().unwrap();
        std::fs::create_dir(base.join("real")).unwrap();
        std::os::unix::fs::symlink("real", base.join("link")).unwrap();
        assert_eq!(
            resolved(&base, "link/made/inside"),
            base.join("real/made/inside")
        );
        assert_eq!(resolved(&base, "link"), base.join("link"));
    }
}
