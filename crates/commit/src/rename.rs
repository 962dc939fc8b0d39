//! Renames that never overwrite by accident.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::BorrowedFd;

use rustix::fs::{AtFlags, RenameFlags};
use rustix::io::Errno;
use surmise_changes::real::look_at;

/// Moves a name to one that is free.
///
/// # Errors
/// `EEXIST` when it is not.
pub(crate) fn move_to_free(
    old: BorrowedFd<'_>,
    old_name: &OsStr,
    new: BorrowedFd<'_>,
    new_name: &OsStr,
) -> io::Result<()> {
    match rustix::fs::renameat_with(old, old_name, new, new_name, RenameFlags::NOREPLACE) {
        Err(error) if is_unsupported(error) => match look_at(new, new_name)? {
            Some(_) => Err(Errno::EXIST.into()),
            None => Ok(rustix::fs::renameat(old, old_name, new, new_name)?),
        },
        moved => Ok(moved?),
    }
}

/// Lets two names change places. `old_name` is one of the commit's own, random names.
///
/// File systems that cannot do it at once are given a third name, [`spare`]; a kill in between leaves
/// that, and [`settle`] clears it up.
pub(crate) fn exchange(
    old: BorrowedFd<'_>,
    old_name: &OsStr,
    new: BorrowedFd<'_>,
    new_name: &OsStr,
) -> io::Result<()> {
    match rustix::fs::renameat_with(old, old_name, new, new_name, RenameFlags::EXCHANGE) {
        Err(error) if is_unsupported(error) => exchange_by_spare(old, old_name, new, new_name),
        exchanged => Ok(exchanged?),
    }
}

/// The third name of an exchange, beside `name`.
pub(crate) fn spare(name: &OsStr) -> OsString {
    let mut spare = name.to_owned();
    spare.push("x");
    spare
}

/// Completes an exchange that was cut short, or takes it back where the first name had not moved yet.
/// Where nothing was cut short it does nothing.
pub(crate) fn settle(
    old: BorrowedFd<'_>,
    old_name: &OsStr,
    new: BorrowedFd<'_>,
    new_name: &OsStr,
) -> io::Result<()> {
    let spare = spare(old_name);
    let Some(waits) = look_at(old, &spare)? else {
        return Ok(());
    };
    if look_at(old, old_name)?.is_none() {
        return move_to_free(old, &spare, old, old_name);
    }
    match look_at(new, new_name)? {
        None => move_to_free(old, &spare, new, new_name),
        Some(found) if found.identity.key() == waits.identity.key() => {
            Ok(rustix::fs::unlinkat(old, &spare, AtFlags::empty())?)
        }
        Some(_) => Err(Errno::EXIST.into()),
    }
}

/// The name `new_name` always leads to one of the two, where the file system has hard links and
/// neither is a directory.
fn exchange_by_spare(
    old: BorrowedFd<'_>,
    old_name: &OsStr,
    new: BorrowedFd<'_>,
    new_name: &OsStr,
) -> io::Result<()> {
    settle(old, old_name, new, new_name)?;
    let spare = spare(old_name);
    if rustix::fs::linkat(new, new_name, old, &spare, AtFlags::empty()).is_err() {
        move_to_free(new, new_name, old, &spare)?;
    }
    match rustix::fs::renameat(old, old_name, new, new_name) {
        // A directory does not take the place of a file, which has its other name.
        Err(Errno::NOTDIR) => {
            rustix::fs::unlinkat(new, new_name, AtFlags::empty())?;
            move_to_free(old, old_name, new, new_name)?;
        }
        renamed => renamed?,
    }
    move_to_free(old, &spare, old, old_name)
}

fn is_unsupported(error: Errno) -> bool {
    matches!(error, Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::fd::AsFd;
    use std::path::Path;

    type Exchange = fn(BorrowedFd<'_>, &OsStr, BorrowedFd<'_>, &OsStr) -> io::Result<()>;

    fn with(directory: &Path, exchange: Exchange) -> io::Result<()> {
        let fd = fs::File::open(directory).unwrap();
        exchange(fd.as_fd(), "ours".as_ref(), fd.as_fd(), "theirs".as_ref())
    }

    fn names(directory: &Path) -> Vec<(String, String)> {
        let mut names: Vec<_> = fs::read_dir(directory)
            .unwrap()
            .map(|entry| {
                let path = entry.unwrap().path();
                let name = path.file_name().unwrap().to_str().unwrap().to_owned();
                let text = match path.is_dir() {
                    true => "a directory".into(),
                    false => fs::read_to_string(path).unwrap(),
                };
                (name, text)
            })
            .collect();
        names.sort();
        names
    }

    fn pair(ours: &str, theirs: &str) -> Vec<(String, String)> {
        [("ours", ours), ("theirs", theirs)]
            .map(|(name, text)| (name.to_owned(), text.to_owned()))
            .to_vec()
    }

    fn planted() -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("ours"), "new").unwrap();
        fs::write(directory.path().join("theirs"), "old").unwrap();
        directory
    }

    #[test]
    fn a_file_system_that_cannot_exchange_gets_the_same_with_a_third_name() {
        let directory = planted();
        with(directory.path(), exchange_by_spare).unwrap();
        assert_eq!(names(directory.path()), pair("old", "new"));
        let other = planted();
        fs::remove_file(other.path().join("ours")).unwrap();
        fs::create_dir(other.path().join("ours")).unwrap();
        with(other.path(), exchange_by_spare).unwrap();
        assert_eq!(names(other.path()), pair("old", "a directory"));
    }

    #[test]
    fn an_exchange_that_was_cut_short_is_settled_wherever_it_was() {
        // The third name made; made by a move; and the new file placed.
        let cuts: [(fn(&Path), _); 3] = [
            (
                |at| fs::hard_link(at.join("theirs"), at.join("oursx")).unwrap(),
                pair("new", "old"),
            ),
            (
                |at| fs::rename(at.join("theirs"), at.join("oursx")).unwrap(),
                pair("new", "old"),
            ),
            (
                |at| {
                    fs::rename(at.join("theirs"), at.join("oursx")).unwrap();
                    fs::rename(at.join("ours"), at.join("theirs")).unwrap();
                },
                pair("old", "new"),
            ),
        ];
        for (cut, wanted) in cuts {
            let directory = planted();
            cut(directory.path());
            with(directory.path(), settle).unwrap();
            assert_eq!(names(directory.path()), wanted);
            with(directory.path(), settle).unwrap();
            assert_eq!(names(directory.path()), wanted);
        }
    }

    #[test]
    fn what_somebody_put_in_the_way_is_not_overwritten() {
        let directory = planted();
        let at = directory.path();
        fs::rename(at.join("theirs"), at.join("oursx")).unwrap();
        fs::write(at.join("theirs"), "a third").unwrap();
        assert!(with(at, settle).is_err());
        assert_eq!(names(at).len(), 3);
    }
}
