//! What can be read of a domain that is damaged.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use surmise_commit::Changes;
use surmise_domain::Domain;

use crate::commands::diff::print_lines;
use crate::failure::Failure;
use crate::held;
use crate::report;
use crate::summary::count;

/// Prints the changes at or below the `wanted` paths that can be read, and says what cannot be.
pub fn show(domain: &Domain, wanted: &[PathBuf], base: &Path) -> Result<ExitCode, Failure> {
    let salvaged = domain.salvage()?;
    let changes = Changes::of(&salvaged.map).below(wanted);
    let held = held::rows(domain).unwrap_or_default();
    print_lines(&changes, &held, base)?;
    if salvaged.unread_bytes == 0 && salvaged.unfitting == 0 {
        report::note("all operations of the log can be read");
    } else {
        report::note(format_args!(
            "{} of the log can be read, {} of its operations rest on one that cannot; {} cannot be read",
            count(number(salvaged.operations), "operation"),
            salvaged.unfitting,
            count(number(salvaged.unread_bytes), "byte"),
        ));
    }
    domain.damages().iter().for_each(report::note);
    Ok(ExitCode::SUCCESS)
}

fn number(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
