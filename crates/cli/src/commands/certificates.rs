//! `surmise certificates`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use surmise_tls::make::{MakeError, Wanted, make};

use crate::failure::Failure;
use crate::report;

/// Make certificates for `surmise serve --listen` and `surmise mount surmise://...`
///
/// For those who have no authority that makes them: the first call makes one of your own in DIR. A person who has its key, DIR/ca.key,
/// can let anybody in. Nothing that is there is overwritten: to renew a certificate, remove it and its key first. A server
/// that runs takes new files by itself; clients take them when they connect again.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    /// Where they are kept; made if there is none
    #[arg(value_name = "DIR")]
    directory: PathBuf,

    /// Make DIR/server.crt and server.key, for a server that clients reach by this name or address
    #[arg(long, value_name = "HOST")]
    host: Vec<String>,

    /// Make DIR/NAME/, with client.crt, client.key and ca.crt, which is to become ~/.config/surmise of this person
    #[arg(long, value_name = "NAME")]
    user: Vec<String>,

    /// For how many days they hold
    #[arg(long, value_name = "DAYS", default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=3650))]
    days: u32,
}

const AFTER_HELP: &str = "\
Examples:
  surmise certificates ~/certificates --host files.example.org --user ann
  surmise serve ~/src --listen [::] --certificate ~/certificates/server.crt \\
      --key ~/certificates/server.key --clients ~/certificates/ca.crt
  scp -r files.example.org:certificates/ann ~/.config/surmise      on ann's machine
  surmise mount surmise://files.example.org/src ~/src";

impl Arguments {
    /// Makes what is wanted, and says what is to become of it.
    pub fn execute(self) -> Result<ExitCode, Failure> {
        if self.host.is_empty() && self.user.is_empty() {
            return Err(Failure::usage(
                "neither --host nor --user says what to make",
            ));
        }
        let made = make(&Wanted {
            directory: self.directory,
            hosts: self.host,
            users: self.user,
            days: self.days,
        })?;
        for certificate in made {
            report::note(format_args!("made {}", shown(&certificate)));
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn shown(certificate: &Path) -> String {
    let key = certificate.with_extension("key");
    format!("{}, with its key {}", certificate.display(), key.display())
}

impl From<MakeError> for Failure {
    fn from(error: MakeError) -> Self {
        Self::new(&error).maybe_hint(error.hint())
    }
}
