//! Certificates for those who have no authority that makes them: an authority of their own, kept in a directory.
//!
//! | file | what | who needs it |
//! |---|---|---|
//! | `ca.crt` | the authority's certificate | everybody |
//! | `ca.key` | its key, by which all others are made | only who makes them |
//! | `server.crt`, `server.key` | the server's | the server |
//! | `USER/client.crt`, `USER/client.key`, `USER/ca.crt` | what a user needs, for `~/.config/surmise` | that user |

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};

/// For how many days an authority holds.
const AUTHORITY_DAYS: u32 = 3650;

/// Clocks differ: what is made now holds for those that are late by so much.
const LATE: Duration = Duration::from_secs(3600);

const DAY: Duration = Duration::from_secs(86_400);

/// What is to be made.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// Where, and where the authority is, if there is one.
    pub directory: PathBuf,
    /// Names and addresses by which clients reach the server.
    pub hosts: Vec<String>,
    /// Whom to make clients' certificates for.
    pub users: Vec<String>,
    /// For how many days they hold.
    pub days: u32,
}

/// Why certificates were not made.
#[derive(Debug, thiserror::Error)]
pub enum MakeError {
    /// There is a file already.
    #[error("{} is there already", .0.display())]
    Exists(PathBuf),
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    At {
        /// Which.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// It names no user.
    #[error("{0:?} cannot be the name of a user")]
    User(String),
    /// It is no host.
    #[error("{0:?} cannot be the name of a host")]
    Host(String),
    /// The authority that is there cannot be used.
    #[error("the authority in {}: {why}", directory.display())]
    Authority {
        /// Where it is.
        directory: PathBuf,
        /// Why not.
        why: String,
    },
    /// The library of certificates has failed.
    #[error("make a certificate: {0}")]
    Failed(#[from] rcgen::Error),
}

impl MakeError {
    /// The fix.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Exists(path) => Some(format!(
                "to have a new one: rm {}",
                path.with_extension("*").display()
            )),
            Self::Authority { directory, .. } => Some(format!(
                "both {0}/ca.crt and {0}/ca.key are needed, as this command has made them",
                directory.display()
            )),
            Self::At { .. } | Self::User(_) | Self::Host(_) | Self::Failed(_) => None,
        }
    }
}

/// Makes what is wanted, and the authority if there is none. Returns the certificates that were made.
///
/// # Errors
/// [`MakeError`]; nothing that was there has changed.
pub fn make(wanted: &Wanted) -> Result<Vec<PathBuf>, MakeError> {
    let at = |name: &str| wanted.directory.join(name);
    if let Some(user) = wanted.users.iter().find(|user| !is_plain(user)) {
        return Err(MakeError::User(user.clone()));
    }
    let server = (!wanted.hosts.is_empty()).then(|| [at("server.crt"), at("server.key")]);
    let clients: Vec<_> = wanted.users.iter().map(|user| at(user)).collect();
    let files = server.iter().flatten().cloned();
    let clients_files = clients.iter().map(|client| client.join("client.crt"));
    for path in files.chain(clients_files) {
        if path.exists() {
            return Err(MakeError::Exists(path));
        }
    }
    let server_params = match wanted.hosts.first() {
        Some(host) => Some(of_server(host, wanted)?),
        None => None,
    };
    make_directory(&wanted.directory)?;
    let mut made = Vec::new();
    let (authority, issuer) = authority(&wanted.directory, &mut made)?;
    if let (Some(params), Some([certificate, key])) = (server_params, server) {
        write_pair(params, &issuer, &certificate, &key)?;
        made.push(certificate);
    }
    for (user, directory) in wanted.users.iter().zip(clients) {
        make_directory(&directory)?;
        let mut params = named(user, wanted.days);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let certificate = directory.join("client.crt");
        let copy = directory.join("ca.crt");
        // It is there when a certificate is renewed.
        if fs::read_to_string(&copy).ok().as_ref() != Some(&authority) {
            write(&copy, &authority, 0o644)?;
        }
        write_pair(params, &issuer, &certificate, &directory.join("client.key"))?;
        made.push(certificate);
    }
    Ok(made)
}

/// The certificate of the authority in a directory, and what signs with its key. It is made if there is none.
fn authority(
    directory: &Path,
    made: &mut Vec<PathBuf>,
) -> Result<(String, Issuer<'static, KeyPair>), MakeError> {
    let (certificate, key) = (directory.join("ca.crt"), directory.join("ca.key"));
    if !certificate.exists() && !key.exists() {
        let mut params = named("Surmise", AUTHORITY_DAYS);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let pair = KeyPair::generate()?;
        let signed = params.self_signed(&pair)?;
        write(&key, &pair.serialize_pem(), 0o600)?;
        write(&certificate, &signed.pem(), 0o644)?;
        made.push(certificate.clone());
    }
    let bad = |why: &dyn ToString| MakeError::Authority {
        directory: directory.to_owned(),
        why: why.to_string(),
    };
    let read = |path: &Path| fs::read_to_string(path).map_err(|error| bad(&error));
    let text = read(&certificate)?;
    let pair = KeyPair::from_pem(&read(&key)?).map_err(|error| bad(&error))?;
    let issuer = Issuer::from_ca_cert_pem(&text, pair).map_err(|error| bad(&error))?;
    Ok((text, issuer))
}

fn of_server(host: &str, wanted: &Wanted) -> Result<CertificateParams, MakeError> {
    for host in &wanted.hosts {
        let is_name = rustls::pki_types::ServerName::try_from(&host[..]).is_ok();
        if !is_name {
            return Err(MakeError::Host(host.clone()));
        }
    }
    let mut params = named(host, wanted.days);
    params.subject_alt_names = CertificateParams::new(wanted.hosts.clone())?.subject_alt_names;
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    Ok(params)
}

/// A certificate of this common name that holds from now on.
fn named(name: &str, days: u32) -> CertificateParams {
    let now = SystemTime::now();
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = (now - LATE).into();
    params.not_after = (now + DAY * days).into();
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params
}

fn write_pair(
    params: CertificateParams,
    issuer: &Issuer<'static, KeyPair>,
    certificate: &Path,
    key: &Path,
) -> Result<(), MakeError> {
    let pair = KeyPair::generate()?;
    let signed = params.signed_by(&pair, issuer)?;
    write(key, &pair.serialize_pem(), 0o600)?;
    write(certificate, &signed.pem(), 0o644)
}

/// Writes a file that is not there.
fn write(path: &Path, text: &str, mode: u32) -> Result<(), MakeError> {
    let mut options = OpenOptions::new();
    let file = options.write(true).create_new(true).mode(mode).open(path);
    let written = file.and_then(|mut file: File| file.write_all(text.as_bytes()));
    written.map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => MakeError::Exists(path.to_owned()),
        _ => MakeError::At {
            path: path.to_owned(),
            source,
        },
    })
}

fn make_directory(path: &Path) -> Result<(), MakeError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|source| MakeError::At {
        path: path.to_owned(),
        source,
    })
}

/// Whether a user's name can name a directory, too.
fn is_plain(user: &str) -> bool {
    let is_odd = |letter: char| letter == '/' || letter.is_control();
    !user.is_empty() && !user.starts_with(['.', '-']) && !user.contains(is_odd)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn wanted(directory: &Path, hosts: &[&str], users: &[&str]) -> Wanted {
        Wanted {
            directory: directory.to_owned(),
            hosts: hosts.iter().map(ToString::to_string).collect(),
            users: users.iter().map(ToString::to_string).collect(),
            days: 30,
        }
    }

    #[test]
    fn nothing_that_is_there_is_overwritten() {
        let scratch = tempfile::tempdir().expect("a directory");
        let directory = scratch.path().join("certificates");
        let made = make(&wanted(&directory, &["localhost", "::1"], &["ann"])).expect("make them");
        assert_eq!(made.len(), 3);
        let mode = |name: &str| {
            let found = fs::metadata(directory.join(name)).expect("it was made");
            found.permissions().mode() & 0o777
        };
        assert_eq!((mode("ca.key"), mode("ann/client.key")), (0o600, 0o600));
        assert_eq!(mode("."), 0o700);
        let read = |name: &str| fs::read(directory.join(name)).expect("it was made");
        let before = [read("ca.key"), read("ann/client.key"), read("server.key")];
        for again in [
            wanted(&directory, &["localhost"], &["bob"]),
            wanted(&directory, &[], &["ann"]),
        ] {
            let made = make(&again);
            assert!(matches!(made, Err(MakeError::Exists(_))), "{made:?}");
        }
        assert!(!directory.join("bob").exists());
        let after = [read("ca.key"), read("ann/client.key"), read("server.key")];
        assert_eq!(before, after);
        // The authority that is there signs for more users.
        make(&wanted(&directory, &[], &["bob"])).expect("make it");
        assert_eq!(read("bob/ca.crt"), read("ann/ca.crt"));
        // As the hint says: what is removed is made anew.
        let before = read("ann/client.crt");
        for name in ["ann/client.crt", "ann/client.key"] {
            fs::remove_file(directory.join(name)).expect("remove");
        }
        make(&wanted(&directory, &[], &["ann"])).expect("renew it");
        assert_ne!(read("ann/client.crt"), before);
    }

    #[test]
    fn names_stay_in_the_directory() {
        let scratch = tempfile::tempdir().expect("a directory");
        for user in ["", "..", "a/b", "-x", "a\nb"] {
            let made = make(&wanted(scratch.path(), &[], &[user]));
            assert!(matches!(made, Err(MakeError::User(_))), "{user}");
        }
        let made = make(&wanted(scratch.path(), &["a b"], &[]));
        assert!(matches!(made, Err(MakeError::Host(_))), "{made:?}");
        assert_eq!(fs::read_dir(scratch.path()).expect("list").count(), 0);
    }
}
