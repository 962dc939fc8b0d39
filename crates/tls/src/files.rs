//! Certificates and keys, read from files.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::OFlags;
use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// No file of certificates is longer.
const BYTES_MAX: u64 = 1 << 20;

/// What group and others may do with a key: with root's, its group may read it, as with those that services share.
const TOO_OPEN: u32 = 0o077;
const TOO_OPEN_OF_ROOT: u32 = 0o037;

/// What is wrong with a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// It cannot be read.
    #[error("{}: {why}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why not.
        why: String,
        /// Whether there is none.
        is_missing: bool,
    },
    /// Others may read the key.
    #[error("the key {} is open to others (mode {mode:04o})", path.display())]
    TooOpen {
        /// Which file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// It is no PEM, or has not in it what it should.
    #[error("{}: {what}", path.display())]
    Content {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// The certificate is another key's.
    #[error("{} is not the certificate of the key {}", certificate.display(), key.display())]
    Mismatch {
        /// The certificate.
        certificate: PathBuf,
        /// The key.
        key: PathBuf,
    },
}

impl FileError {
    /// The fix.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::TooOpen { path, .. } => Some(format!("chmod 600 {}", path.display())),
            Self::Content { .. } => Some(
                "files of PEM are expected, as `surmise certificates` or openssl makes them".into(),
            ),
            Self::Read { .. } | Self::Mismatch { .. } => None,
        }
    }

    /// Whether there is no such file.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Read { is_missing, .. } if *is_missing)
    }

    pub(crate) fn content(path: &Path, what: impl ToString) -> Self {
        Self::Content {
            path: path.to_owned(),
            what: what.to_string(),
        }
    }
}

/// A certificate with the chain above it, and its key.
pub(crate) struct Own {
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) key: PrivateKeyDer<'static>,
}

impl Own {
    pub(crate) fn read(certificate: &Path, key: &Path) -> Result<Self, FileError> {
        Ok(Self {
            chain: certificates(certificate)?,
            key: private_key(key)?,
        })
    }
}

/// What is wrong with a certificate and its key, which the TLS library does not take.
pub(crate) fn unfit(error: rustls::Error, certificate: &Path, key: &Path) -> FileError {
    match error {
        rustls::Error::InconsistentKeys(_) => FileError::Mismatch {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
        },
        error => FileError::content(certificate, error),
    }
}

/// Those that certificates of the other side are to be signed by.
pub(crate) fn authorities(path: &Path) -> Result<Arc<RootCertStore>, FileError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots
            .add(certificate)
            .map_err(|error| FileError::content(path, error))?;
    }
    Ok(Arc::new(roots))
}

pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, FileError> {
    let text = read(open(path), path)?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let all = all.map_err(|error| FileError::content(path, error))?;
    match all.is_empty() {
        true => Err(FileError::content(path, "there is no certificate in it")),
        false => Ok(all),
    }
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, FileError> {
    let file = open(path);
    if let Ok(file) = &file {
        must_be_closed(file, path)?;
    }
    let text = read(file, path)?;
    PrivateKeyDer::from_pem_slice(&text).map_err(|error| match error {
        PemError::NoItemsFound => {
            FileError::content(path, "there is no key in it, or one with a passphrase")
        }
        error => FileError::content(path, error),
    })
}

/// The file that was opened, so that nobody puts another one there meanwhile.
fn must_be_closed(file: &File, path: &Path) -> Result<(), FileError> {
    let found = file.metadata().map_err(|error| unreadable(path, &error))?;
    let open = match found.uid() {
        0 => TOO_OPEN_OF_ROOT,
        _ => TOO_OPEN,
    };
    let mode = found.mode() & 0o7777;
    match mode & open {
        0 => Ok(()),
        _ => Err(FileError::TooOpen {
            path: path.to_owned(),
            mode,
        }),
    }
}

/// To open a pipe would wait for a writer.
fn open(path: &Path) -> std::io::Result<File> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    File::options().read(true).custom_flags(flags).open(path)
}

fn read(file: std::io::Result<File>, path: &Path) -> Result<Vec<u8>, FileError> {
    let mut text = Vec::new();
    let read = file.and_then(|file| {
        let is_file = file.metadata()?.is_file();
        // A device could have no end.
        match is_file {
            true => file.take(BYTES_MAX).read_to_end(&mut text),
            false => Err(std::io::Error::other("it is no file")),
        }
    });
    read.map_err(|error| unreadable(path, &error))?;
    Ok(text)
}

fn unreadable(path: &Path, error: &std::io::Error) -> FileError {
    FileError::Read {
        path: path.to_owned(),
        why: error.to_string(),
        is_missing: error.kind() == std::io::ErrorKind::NotFound,
    }
}

/// The cryptography of both sides.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}
