//! Whether a volume is whole.

use std::ffi::OsStr;
use std::path::Path;

use super::VolumeError;
use super::create::journal_mib;
use super::mounting::{lock, loop_device};
use super::superblock;
use super::tool::{CHECK, TUNE};

/// What e2fsck(8) found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// Nothing is wrong.
    Sound,
    /// It was not unmounted. What its journal holds is done when it is mounted next, or mended; until
    /// then nothing can be said.
    Unfinished,
    /// What was wrong has been mended; its words.
    Mended(String),
    /// Something is wrong; its words.
    Broken(String),
}

/// Bits of its status.
const MENDED: i32 = 1;
const BROKEN: i32 = 4;
const FAILED: i32 = !7;

/// Checks a volume that is not in use. Without `repair` nothing is written.
///
/// # Errors
/// As [`VolumeError`] says. A broken volume is none.
pub fn check(file: &Path, repair: bool) -> Result<Health, VolumeError> {
    let image = superblock::open(file, repair)?;
    lock(&image, file)?;
    if let Some(device) = loop_device(file)? {
        let path = file.to_owned();
        return Err(VolumeError::InUse { path, device });
    }
    if !repair && superblock::has_unfinished(&image, file)? {
        return Ok(Health::Unfinished);
    }
    let words = ["-f", if repair { "-y" } else { "-n" }, "--"];
    let words = words.iter().map(OsStr::new).chain([file.as_os_str()]);
    let output = CHECK.run(None, words)?;
    let status = match output.status.code() {
        Some(status) if status & FAILED == 0 => status,
        _ => return Err(CHECK.failed(&output)),
    };
    let told = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if repair && !superblock::has_journal(&image, file)? {
        // A journal that is damaged itself is thrown away.
        let bytes = image
            .metadata()
            .map_err(superblock::error("look at", file))?
            .len();
        let journal = format!("size={}", journal_mib(bytes));
        let words = ["-J", &journal, "--"].map(OsStr::new);
        TUNE.succeed(None, words.into_iter().chain([file.as_os_str()]))?;
    }
    Ok(match status {
        status if status & BROKEN != 0 => Health::Broken(told),
        status if status & MENDED != 0 => Health::Mended(told),
        _ => Health::Sound,
    })
}
