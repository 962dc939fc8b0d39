//! The changes as a patch that `git apply` takes.

mod binary;
mod pairs;
mod side;
mod unified;

use std::io::{self, Write};
use std::path::Path;

use super::{Asked, Contents, Form, FormError, LeftOut, LeftOutReason, Shown, Writer};
use crate::quote::patch_path;
use pairs::{Pair, pairs};
use side::{Reader, Side};

/// What `git apply` takes.
pub const FORM: Form = Form {
    asked: Some(Asked {
        name: "patch",
        short: Some('p'),
        help: "Print a patch, as `git apply` takes it in the current directory",
    }),
    writer: Writer::Contents(write),
};

/// Writes the patch for `git apply` in the base, and returns the changes that it could not hold.
/// Directories are left out without a word: a patch has none, and makes what it needs. Lines of
/// changes with notes come first, as comments: git knows of nothing in them but one permission, and
/// skips what is before the first file. Between a file's own header lines it would not.
///
/// # Errors
/// [`FormError`].
pub fn write(
    shown: &Shown<'_>,
    contents: &Contents<'_>,
    out: &mut dyn Write,
) -> Result<Vec<LeftOut>, FormError> {
    let Shown { diff, base, .. } = *shown;
    for row in diff.iter().filter(|row| !row.notes.is_empty()) {
        writeln!(out, "# {}", row.line(base))?;
    }
    let reader = Reader::new(contents)?;
    let (pairs, mut left_out) = pairs(&reader, diff, base)?;
    for pair in pairs {
        let old = read(&reader, pair.old.as_ref(), base, &mut left_out)?;
        let new = read(&reader, pair.new.as_ref(), base, &mut left_out)?;
        write_pair(&pair, old, new, out)?;
    }
    Ok(left_out)
}

fn read(
    reader: &Reader<'_>,
    end: Option<&pairs::End>,
    base: &Path,
    left_out: &mut Vec<LeftOut>,
) -> Result<Option<Side>, FormError> {
    let Some(end) = end else { return Ok(None) };
    match reader.read(&end.source)? {
        Ok(side) => Ok(Some(side)),
        Err(kind) => {
            left_out.push(LeftOut {
                path: base.join(&end.path),
                reason: LeftOutReason::Kind(kind),
            });
            Ok(None)
        }
    }
}

fn write_pair(
    pair: &Pair,
    old: Option<Side>,
    new: Option<Side>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let path = |end: &Option<pairs::End>| end.as_ref().map(|end| end.path.clone());
    let (old_path, new_path) = (path(&pair.old), path(&pair.new));
    match (old, new) {
        (None, None) => Ok(()),
        // A link in place of a file is no change that a patch can say in one, and git loses sight of
        // a renamed link that something else takes the place of.
        (Some(old), Some(new))
            if old.is_link() != new.is_link() || (old.is_link() && old_path != new_path) =>
        {
            let (old_path, new_path) = (old_path.unwrap_or_default(), new_path.unwrap_or_default());
            write_file(Some((&old_path, &old)), None, out)?;
            write_file(None, Some((&new_path, &new)), out)
        }
        (old, new) => {
            let old = old.as_ref().zip(old_path.as_deref());
            let new = new.as_ref().zip(new_path.as_deref());
            write_file(
                old.map(|(side, path)| (path, side)),
                new.map(|(side, path)| (path, side)),
                out,
            )
        }
    }
}

/// One `diff --git`.
fn write_file(
    old: Option<(&Path, &Side)>,
    new: Option<(&Path, &Side)>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let (Some(old_path), Some(new_path)) =
        (old.or(new).map(|end| end.0), new.or(old).map(|end| end.0))
    else {
        return Ok(());
    };
    let old_data = old.map_or(&[][..], |(_, side)| &side.data);
    let new_data = new.map_or(&[][..], |(_, side)| &side.data);
    let mode = |end: Option<(&Path, &Side)>| end.map(|(_, side)| side.mode);
    let (old_mode, new_mode) = (mode(old), mode(new));
    let is_rename = old_path != new_path;
    let same_data = old.is_some() && new.is_some() && old_data == new_data;
    if same_data && !is_rename && old_mode == new_mode {
        return Ok(());
    }
    out.write_all(b"diff --git ")?;
    out.write_all(&patch_path("a/", old_path))?;
    out.write_all(b" ")?;
    out.write_all(&patch_path("b/", new_path))?;
    out.write_all(b"\n")?;
    match (old_mode, new_mode) {
        (Some(old), Some(new)) if old != new => {
            writeln!(out, "old mode {old}\nnew mode {new}")?;
        }
        (Some(old), None) => writeln!(out, "deleted file mode {old}")?,
        (None, Some(new)) => writeln!(out, "new file mode {new}")?,
        _ => {}
    }
    if is_rename {
        if same_data {
            out.write_all(b"similarity index 100%\n")?;
        }
        for (word, path) in [("from", old_path), ("to", new_path)] {
            write!(out, "rename {word} ")?;
            out.write_all(&patch_path("", path))?;
            out.write_all(b"\n")?;
        }
    }
    if same_data {
        return Ok(());
    }
    let hash = |end: Option<(&Path, &Side)>| {
        end.map_or_else(binary::no_hash, |(_, side)| binary::hash(&side.data))
    };
    write!(out, "index {}..{}", hash(old), hash(new))?;
    match (old_mode, new_mode) {
        (Some(old), Some(new)) if old == new => writeln!(out, " {new}")?,
        _ => writeln!(out)?,
    }
    if binary::is_binary(old_data) || binary::is_binary(new_data) {
        return binary::write(old_data, new_data, out);
    }
    if old_data.is_empty() && new_data.is_empty() {
        return Ok(());
    }
    write_name(b"--- ", "a/", old.map(|end| end.0), out)?;
    write_name(b"+++ ", "b/", new.map(|end| end.0), out)?;
    unified::write(old_data, new_data, out)
}

fn write_name(
    mark: &[u8],
    prefix: &str,
    path: Option<&Path>,
    out: &mut dyn Write,
) -> io::Result<()> {
    out.write_all(mark)?;
    match path {
        None => out.write_all(b"/dev/null")?,
        Some(path) => {
            let name = patch_path(prefix, path);
            out.write_all(&name)?;
            // What follows an unquoted name with spaces would be read as a part of it, or it as a
            // time stamp.
            if name.contains(&b' ') && !name.starts_with(b"\"") {
                out.write_all(b"\t")?;
            }
        }
    }
    out.write_all(b"\n")
}
