//! Names of domains.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::error::StateError;

/// Longest name of a domain, in bytes.
pub(crate) const LENGTH_MAX: usize = 64;

/// # Errors
/// [`StateError::Name`].
pub(crate) fn check(name: &str) -> Result<(), StateError> {
    let good = (1..=LENGTH_MAX).contains(&name.len())
        && !name.starts_with('.')
        && name.bytes().all(is_name_byte);
    if good {
        Ok(())
    } else {
        Err(StateError::Name { name: name.into() })
    }
}

/// What is common to the default names of domains for `command`: its last part, with anything
/// that a name may not have replaced, and with room left for a number.
pub(crate) fn stem(command: &OsStr) -> String {
    let base = Path::new(command).file_name().unwrap_or(command);
    let stem: String = base
        .as_bytes()
        .iter()
        .map(|&byte| {
            if is_name_byte(byte) {
                byte as char
            } else {
                '_'
            }
        })
        .collect();
    let stem = stem.trim_start_matches('.');
    let stem = &stem[..stem.len().min(LENGTH_MAX / 2)];
    if stem.is_empty() {
        "domain".into()
    } else {
        stem.into()
    }
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"._-".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain() {
        for good in ["a", "make-1", "A.b_c-9", &"x".repeat(64)] {
            assert!(check(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            ".",
            "..",
            ".a",
            "a/b",
            "a b",
            "ä",
            "a\n",
            &"x".repeat(65),
        ] {
            assert!(check(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_default_name_comes_from_the_command() {
        for (command, wanted) in [
            ("make", "make"),
            ("/usr/bin/python3.12", "python3.12"),
            ("./.hidden", "hidden"),
            ("a b/ö", "__"),
            ("..", "domain"),
            ("", "domain"),
        ] {
            assert_eq!(stem(OsStr::new(command)), wanted, "{command}");
        }
        let long = stem(OsStr::new(&"x".repeat(300)));
        assert!(check(&format!("{long}-{}", u64::MAX)).is_ok());
    }
}
