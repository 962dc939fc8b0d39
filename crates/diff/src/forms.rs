//! The forms in which a diff is written.
//!
//! A form is a file in `forms/` that has a constant `FORM`, and an entry in the list [`FORMS`]: that is all.
//! The command line offers each form that has an [`Asked`] as an option of `surmise diff`, with its help.

pub mod lines;
pub mod patch;
pub mod summary;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use surmise_view::{FileKind, Map};

use crate::diff::Diff;
use crate::held::Held;
use crate::quote::shown;

/// All forms, in the order in which they are offered.
pub const FORMS: &[&Form] = &[&lines::FORM, &summary::FORM, &patch::FORM];

/// One way to write a diff.
#[derive(Debug)]
pub struct Form {
    /// How a person asks for it; `None` for a form that stands where nobody asked for one.
    pub asked: Option<Asked>,
    /// What writes it.
    pub writer: Writer,
}

/// An option by which a person asks for a form.
#[derive(Debug)]
pub struct Asked {
    /// The long option, and what messages call the form.
    pub name: &'static str,
    /// The short option.
    pub short: Option<char>,
    /// What the form is, in one line.
    pub help: &'static str,
}

/// Writes a form, as far as it needs what files hold or does without.
#[derive(Debug, Clone, Copy)]
pub enum Writer {
    /// Tells what became of names and attributes.
    Names(fn(&Shown<'_>, &mut dyn Write) -> io::Result<()>),
    /// Tells what files hold, and returns the changes for which the form has no place.
    Contents(WriteContents),
}

/// Writes a form that tells what files hold.
pub type WriteContents =
    fn(&Shown<'_>, &Contents<'_>, &mut dyn Write) -> Result<Vec<LeftOut>, FormError>;

/// What is written.
#[derive(Debug, Clone, Copy)]
pub struct Shown<'s> {
    /// The changes, in order.
    pub diff: &'s Diff,
    /// Output that is held until the commit, in the order in which it goes out.
    pub held: &'s [Held<'s>],
    /// Paths below it (absolute) are relative to it.
    pub base: &'s Path,
}

/// Where the contents behind changes are.
#[derive(Debug, Clone, Copy)]
pub struct Contents<'s> {
    /// What the domain changed.
    pub map: &'s Map,
    /// The domain's state directory, which holds its objects.
    pub directory: &'s Path,
    /// The real directory that is the view's root: `/`.
    pub root: &'s Path,
}

/// A change for which a form has no place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// Its path in the view.
    pub path: PathBuf,
    /// Why.
    pub reason: LeftOutReason,
}

/// Why a form has no place for a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LeftOutReason {
    /// Patches name paths below the directory in which they are applied.
    #[error("not below the current directory")]
    Outside,
    /// Patches know files and symbolic links.
    #[error("neither a file nor a symbolic link")]
    Kind(FileKind),
}

/// Why a form that tells what files hold could not be written.
#[derive(Debug, thiserror::Error)]
pub enum FormError {
    /// What reading a file, an object or the real tree says, or writing the form.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The domain's file lacks data that it left as they were, and the real file that had them is another.
    #[error(
        "{}: it changed outside, and data that the domain left as they were are gone with that",
        .0.display()
    )]
    Lost(PathBuf),
}

impl FormError {
    /// Whether nobody reads what is written any more.
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Io(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

/// Remarks on changes that are not in the form with this name, a line each. Paths below `base` are relative
/// to it.
pub fn remarks(name: &str, left_out: &[LeftOut], base: &Path) -> Vec<String> {
    /// Lines before the rest is only counted.
    const LINES_MAX: usize = 20;
    let first = left_out.iter().take(LINES_MAX);
    let mut lines: Vec<_> = first
        .map(|left| {
            let path = shown(&left.path, base, false);
            format!("not in the {name}: {path}: {}", left.reason)
        })
        .collect();
    if left_out.len() > LINES_MAX {
        let rest = left_out.len() - LINES_MAX;
        lines.push(format!("not in the {name}: {rest} more"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_two_forms_are_asked_for_alike() {
        let asked = || FORMS.iter().filter_map(|form| form.asked.as_ref());
        let names: HashSet<_> = asked().map(|asked| asked.name).collect();
        assert_eq!(names.len(), asked().count());
        let shorts: HashSet<_> = asked().filter_map(|asked| asked.short).collect();
        let with_short = asked().filter(|asked| asked.short.is_some());
        assert_eq!(shorts.len(), with_short.count());
    }

    #[test]
    fn remarks_end_where_they_would_fill_the_screen() {
        let left = |number: usize| LeftOut {
            path: format!("/d/{number}").into(),
            reason: LeftOutReason::Outside,
        };
        let all: Vec<_> = (0..22).map(left).collect();
        let lines = remarks("patch", &all, Path::new("/d"));
        assert_eq!(lines.len(), 21);
        let first = "not in the patch: 0: not below the current directory";
        assert_eq!(
            (&*lines[0], &*lines[20]),
            (first, "not in the patch: 2 more")
        );
    }
}
