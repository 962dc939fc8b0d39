//! `surmise volume`.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;
use surmise_sync::volume::{self, Health, MountedVolume};

use crate::failure::Failure;
use crate::json::Json;
use crate::size::{Size, shown};
use crate::table::Table;

/// File systems that keep the order of changes, each in a file
///
/// A volume is an ext4 file system whose data all go through its journal: after a power loss no change is
/// there without all that were made before it. Other file systems do not promise that unless every change is
/// followed by an fsync. Making one needs mkfs.ext4; mounting one needs root.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  surmise volume create 2G base.img         a volume in a new file of 2 GiB
  sudo surmise volume mount base.img /mnt   use it
  sudo surmise volume umount /mnt
  surmise volume check base.img             after a crash, if you like to know")]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Make a volume in a new file, whose space is taken at once
    ///
    /// Its root directory is yours. It is readable by you alone.
    Create {
        /// How large the file is to be: 500M, 2G, 1T, or bytes; at least 32M
        size: Size,
        /// The file; there must be none of that name
        file: PathBuf,
    },
    /// Mount a volume (root)
    ///
    /// A volume may be mounted in several places at once.
    Mount {
        /// The file that it is in
        file: PathBuf,
        /// Where to mount it
        directory: PathBuf,
    },
    /// Unmount a volume (root)
    Umount {
        /// Where it is mounted
        directory: PathBuf,
    },
    /// Tell whether a volume that is not mounted is whole
    ///
    /// Exits with 1 when it is not, or when it was not unmounted. Nothing is written without --repair.
    Check {
        /// The file that it is in
        file: PathBuf,
        /// Mend what is wrong
        #[arg(long)]
        repair: bool,
    },
    /// Show the volumes that are mounted
    List {
        /// Print one JSON object on standard output
        #[arg(long)]
        json: bool,
    },
}

impl Arguments {
    /// Where it prints JSON, if it was asked to.
    pub fn json(&self) -> Option<Json> {
        matches!(self.action, Action::List { json: true }).then_some(Json::Out)
    }

    /// Does it.
    pub fn execute(self) -> Result<ExitCode, Failure> {
        match self.action {
            Action::Create { size, file } => volume::create(&file, size.bytes())?,
            Action::Mount { file, directory } => volume::mount(&file, &directory)?,
            Action::Umount { directory } => volume::unmount(&directory)?,
            Action::Check { file, repair } => match volume::check(&file, repair)? {
                Health::Sound => writeln!(anstream::stdout(), "{} is whole.", file.display())?,
                Health::Unfinished => {
                    let error = format!("{} was not unmounted", file.display());
                    return Err(Failure::new(error)
                        .hint("to mount it finishes what its journal holds; so does --repair"));
                }
                Health::Mended(told) => writeln!(
                    anstream::stdout(),
                    "{told}\n\n{} is whole again.",
                    file.display()
                )?,
                Health::Broken(told) => {
                    writeln!(anstream::stdout(), "{told}\n")?;
                    let error = format!("{} is damaged", file.display());
                    return Err(
                        Failure::new(error).hint("`surmise volume check --repair` mends it")
                    );
                }
            },
            Action::List { json } => list(json)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn list(json: bool) -> Result<(), Failure> {
    let volumes = volume::mounted()?;
    let mut out = anstream::stdout().lock();
    if json {
        let volumes: Vec<_> = volumes.iter().map(Told::of).collect();
        let object = serde_json::json!({ "volumes": volumes });
        return Ok(writeln!(out, "{object}")?);
    }
    if volumes.is_empty() {
        return Ok(writeln!(anstream::stderr(), "No volume is mounted.")?);
    }
    let mut table = Table::new(["FILE", "DIRECTORY", "SIZE", "USED"]);
    for volume in &volumes {
        table.push([
            volume.file.display().to_string(),
            volume.directory.display().to_string(),
            shown(volume.bytes),
            shown(volume.used_bytes),
        ]);
    }
    Ok(table.write(&mut out)?)
}

#[derive(Serialize)]
struct Told {
    file: String,
    directory: String,
    bytes: u64,
    used_bytes: u64,
}

impl Told {
    fn of(volume: &MountedVolume) -> Self {
        Self {
            file: volume.file.to_string_lossy().into_owned(),
            directory: volume.directory.to_string_lossy().into_owned(),
            bytes: volume.bytes,
            used_bytes: volume.used_bytes,
        }
    }
}
