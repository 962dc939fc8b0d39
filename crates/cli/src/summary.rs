//! A domain's changes in short, for standard error.

use std::io::Write;
use std::time::Duration;

use surmise_api::{Domain, Pending};
use surmise_diff::Diff;
use surmise_diff::forms::{Shown, lines, patch, remarks, summary};

use crate::failure::Failure;
use crate::held;
use crate::launch;
use crate::pager;

pub use surmise_diff::count;

/// Prints them on standard error.
pub fn show(diff: &Diff) -> Result<(), Failure> {
    let shown = Shown {
        diff,
        held: &[],
        base: &launch::directory()?,
    };
    let mut text = Vec::new();
    summary::write(&shown, &mut text)?;
    // As all remarks: what can't be written must not change what a run does.
    let _ = anstream::stderr().lock().write_all(&text);
    Ok(())
}

/// Shows all of them, then what they are in files below the current directory, a screen at a time.
pub fn show_all(domain: &Domain, pending: &Pending) -> Result<(), Failure> {
    let shown = Shown {
        diff: &pending.changes,
        held: &held::shown(&pending.held),
        base: &launch::directory()?,
    };
    let contents = domain.contents()?;
    pager::page(|out| {
        lines::write(&shown, out)?;
        writeln!(out)?;
        let left = patch::write(&shown, &contents.of_form(), out)?;
        for line in remarks("patch", &left, shown.base) {
            writeln!(out, "{line}")?;
        }
        Ok(())
    })
    .map_err(|error| Failure::new(format_args!("show the changes: {error}")))
}

/// [`count`] of what is counted in 64 bits.
pub fn counted(number: u64, noun: &str) -> String {
    count(usize::try_from(number).unwrap_or(usize::MAX), noun)
}

/// A duration with three digits or so.
pub fn time(time: Duration) -> String {
    let micros = time.as_micros();
    match micros {
        0..1_000 => format!("{micros} us"),
        1_000..1_000_000 => format!("{:.1} ms", time.as_secs_f64() * 1e3),
        _ => format!("{:.1} s", time.as_secs_f64()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_a_unit_that_suits_it() {
        assert_eq!(time(Duration::from_micros(999)), "999 us");
        assert_eq!(time(Duration::from_micros(1_000)), "1.0 ms");
        assert_eq!(time(Duration::from_micros(2_345)), "2.3 ms");
        assert_eq!(time(Duration::from_secs(1)), "1.0 s");
    }
}
