//! The server's side: which certificates let in, and what is asked of a client before the server hears of it.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read};
use std::net::{Shutdown, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{ServerConfig, ServerConnection};
use surmise_remote::opening::{APPLICATION_PROTOCOL, Answer, Opening, Refusal};

use crate::copy::Copying;
use crate::files::{FileError, Own, authorities, provider, unfit};
use crate::handshake::{Broken, Handshake};
use crate::names::common_name;
use crate::socket;

/// How long a client may take until it is let in. With [`LAST_WORDS`] it is 10 seconds.
const TIME_MAX: Duration = Duration::from_secs(8);

/// How long one that is refused may take to hear why.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Whom a server lets in, all of them with the rights of the one user that it runs as.
#[derive(Debug, Clone)]
pub struct Users {
    /// As whom the server runs.
    pub runs_as: String,
    /// The common names of certificates that stand for this user.
    pub names: BTreeSet<String>,
}

/// The files of a server, in PEM.
#[derive(Debug, Clone)]
pub struct Files {
    /// Its certificate, with those of the authorities above it.
    pub certificate: PathBuf,
    /// The key of that.
    pub key: PathBuf,
    /// The certificates of the authorities that sign those of clients.
    pub clients: PathBuf,
}

/// What a server shows, and what it asks of clients.
#[derive(Debug)]
pub struct Terms {
    files: Files,
    export: String,
    users: Users,
    loaded: Mutex<Loaded>,
}

/// What the files said when they were read last.
#[derive(Debug)]
struct Loaded {
    config: Arc<ServerConfig>,
    stamps: [Stamp; 3],
    /// Why the files as they are now are not used, until that is told.
    unfit: Option<TermsError>,
}

/// What changes of a file when it is written or replaced: device, inode, size, and time of change.
type Stamp = Option<(u64, u64, u64, (i64, i64))>;

/// Why nothing can be served by TLS.
#[derive(Debug, thiserror::Error)]
pub enum TermsError {
    /// A file is not as it should be.
    #[error(transparent)]
    File(#[from] FileError),
    /// Something about the certificates.
    #[error("{0}")]
    Tls(String),
}

/// Why a client was not let in.
#[derive(Debug, thiserror::Error)]
pub enum NotAccepted {
    /// It does not speak the protocol, or its certificate is not trusted.
    #[error("{0}")]
    Handshake(String),
    /// It has a certificate and does not get what it wants.
    #[error("{0}")]
    Refused(Refusal),
    /// It has said nothing, or not enough in time.
    #[error("it said nothing in time")]
    Silent,
    /// It has gone.
    #[error("{0}")]
    Io(#[source] io::Error),
}

/// A client that was let in.
#[derive(Debug)]
pub struct Accepted {
    /// What it says, and what is said to it.
    pub plain: UnixStream,
    /// What is to be run meanwhile.
    pub copying: Copying,
    /// The name in its certificate.
    pub name: String,
}

impl Terms {
    /// Terms by these files, for an export of this name.
    ///
    /// # Errors
    /// [`TermsError`].
    pub fn new(files: Files, export: String, users: Users) -> Result<Self, TermsError> {
        let stamps = files.stamps();
        let config = files.config()?;
        Ok(Self {
            files,
            export,
            users,
            loaded: Mutex::new(Loaded {
                config,
                stamps,
                unfit: None,
            }),
        })
    }

    /// Lets a client in that has just connected; `is_full` if the server takes no more.
    ///
    /// # Errors
    /// Why it was not let in. It has been told by then, as far as it listened.
    pub fn accept(&self, stream: TcpStream, is_full: bool) -> Result<Accepted, NotAccepted> {
        socket::prepare(&stream).map_err(NotAccepted::Io)?;
        let tls = ServerConnection::new(self.current()).map_err(Broken::Tls)?;
        let mut handshake = Handshake::new(tls.into(), &stream, TIME_MAX);
        match self.admit(&mut handshake, is_full) {
            Ok(name) => {
                let tls = handshake.tls;
                let (plain, copying) = Copying::new(tls, stream).map_err(NotAccepted::Io)?;
                Ok(Accepted {
                    plain,
                    copying,
                    name,
                })
            }
            Err(why) => {
                linger(&stream);
                Err(why)
            }
        }
    }

    fn admit(&self, handshake: &mut Handshake<'_>, is_full: bool) -> Result<String, NotAccepted> {
        handshake.complete()?;
        let opening: Opening = handshake.hear()?;
        let certificates = handshake.tls.peer_certificates().unwrap_or_default();
        let name = certificates.first().and_then(|own| common_name(own));
        let refusal = match &name {
            None => Some(Refusal::Nameless),
            Some(name) if !self.users.names.contains(name) => Some(Refusal::User {
                name: name.clone(),
                runs_as: self.users.runs_as.clone(),
            }),
            Some(_) if !opening.export.is_empty() && opening.export != self.export => {
                Some(Refusal::Export {
                    served: self.export.clone(),
                })
            }
            Some(_) => is_full.then_some(Refusal::Full),
        };
        match (refusal, name) {
            (None, Some(name)) => {
                handshake.say(&Answer::Welcome)?;
                Ok(name)
            }
            (refusal, _) => {
                let refusal = refusal.unwrap_or(Refusal::Nameless);
                // It learns by the end, too, that it is not let in.
                let _ = handshake.say(&Answer::Refused(refusal.clone()));
                Err(NotAccepted::Refused(refusal))
            }
        }
    }

    /// What the files say by now: certificates are renewed while the server runs. As long as they are not whole, the ones before
    /// hold.
    fn current(&self) -> Arc<ServerConfig> {
        // It is whole whatever its last holder did.
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let stamps = self.files.stamps();
        if stamps != loaded.stamps {
            // What is not whole now is looked at again when it has changed.
            loaded.stamps = stamps;
            match self.files.config() {
                Ok(config) => loaded.config = config,
                Err(error) => loaded.unfit = Some(error),
            }
        }
        Arc::clone(&loaded.config)
    }

    /// Why files that have changed are not used: told once for each change.
    pub fn unfit(&self) -> Option<TermsError> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        loaded.unfit.take()
    }
}

impl Files {
    fn config(&self) -> Result<Arc<ServerConfig>, TermsError> {
        let own = Own::read(&self.certificate, &self.key)?;
        let failed = |error: &dyn ToString| TermsError::Tls(error.to_string());
        let roots = authorities(&self.clients)?;
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider()).build();
        let config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| failed(&error))?
            .with_client_cert_verifier(verifier.map_err(|error| failed(&error))?)
            .with_single_cert(own.chain, own.key);
        let mut config = config.map_err(|error| unfit(error, &self.certificate, &self.key))?;
        config.alpn_protocols = vec![APPLICATION_PROTOCOL.to_vec()];
        // A session that is taken up again would not be asked for its certificate, which may have expired.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Arc::new(config))
    }

    fn stamps(&self) -> [Stamp; 3] {
        [&self.certificate, &self.key, &self.clients].map(|path| {
            let found = fs::metadata(path).ok()?;
            let changed = (found.ctime(), found.ctime_nsec());
            Some((found.dev(), found.ino(), found.size(), changed))
        })
    }
}

/// Waits a little until the other side has closed: to close a socket that has more to read could take back what was said last.
fn linger(stream: &TcpStream) {
    let until = Instant::now() + LAST_WORDS;
    let mut waste = [0; 4096];
    let mut stream = stream;
    let _ = stream.shutdown(Shutdown::Write);
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || stream.set_read_timeout(Some(left)).is_err() {
            return;
        }
        match stream.read(&mut waste) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
    }
}

impl From<Broken> for NotAccepted {
    fn from(broken: Broken) -> Self {
        match broken {
            Broken::Io(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Self::Silent,
                _ => Self::Io(error),
            },
            Broken::Tls(error) => Self::Handshake(error.to_string()),
            Broken::Garbled => Self::Handshake("what it wants cannot be understood".into()),
        }
    }
}
