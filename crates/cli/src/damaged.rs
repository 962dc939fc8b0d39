//! What can be read of a domain that is damaged.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use surmise_api::Domain;
use surmise_diff::forms::Shown;

use crate::failure::Failure;
use crate::form::Choice;
use crate::held;
use crate::report;
use crate::summary::count;

/// Prints the changes at or below the `wanted` paths that can be read, and says what cannot be.
pub fn show(
    domain: &Domain,
    form: &Choice,
    wanted: &[PathBuf],
    base: &Path,
) -> Result<ExitCode, Failure> {
    let salvaged = domain.salvage()?;
    let diff = salvaged.changes.below(wanted);
    let held = domain.held().unwrap_or_default();
    let shown = Shown {
        diff: &diff,
        held: &held::shown(&held),
        base,
    };
    form.print(domain, &shown)?;
    let (readable, unread) = (
        count(number(salvaged.operations), "operation"),
        count(number(salvaged.unread_bytes), "byte"),
    );
    report::note(format_args!(
        "{readable} of the log can be read, and {unread} cannot"
    ));
    if salvaged.unfitting > 0 {
        let unfitting = count(number(salvaged.unfitting), "operation");
        report::note(format_args!(
            "not shown: {unfitting} that can be read and build on what cannot"
        ));
    }
    domain.damages().iter().for_each(report::note);
    Ok(ExitCode::SUCCESS)
}

fn number(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
