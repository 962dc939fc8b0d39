//! The client's side.

use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use rustls::{AlertDescription, CertificateError, ClientConfig, ClientConnection};
use surmise_remote::opening::{APPLICATION_PROTOCOL, Answer, Opening, Refusal};

use crate::copy::Copying;
use crate::files::{FileError, Own, authorities, provider, unfit};
use crate::handshake::{Broken, Handshake};
use crate::socket;

/// How long it may take until a connection stands, for each address, and until both sides agree.
const CONNECTING_MAX: Duration = Duration::from_secs(10);
const TIME_MAX: Duration = Duration::from_secs(20);

/// An export to connect to, and as whom.
#[derive(Debug, Clone)]
pub struct Target {
    /// The machine, by its name or address.
    pub host: String,
    /// Where the server listens there.
    pub port: u16,
    /// The name of the export, or nothing for the only one.
    pub export: String,
    /// The client's certificate.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// The certificates of those that sign the server's.
    pub authorities: PathBuf,
}

/// Why there is no connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// A file is not as it should be.
    #[error(transparent)]
    File(#[from] FileError),
    /// No address is known of the host.
    #[error("no address of {host} is known: {why}")]
    Unknown {
        /// The host.
        host: String,
        /// Why not.
        why: String,
    },
    /// Nothing listens there.
    #[error("nothing listens on port {port} of {host}")]
    NothingListens {
        /// The host.
        host: String,
        /// The port.
        port: u16,
    },
    /// It cannot be reached.
    #[error("{host} cannot be reached: {why}")]
    Unreachable {
        /// The host.
        host: String,
        /// Why not.
        why: String,
    },
    /// What listens there is no server of far directories, or of another version.
    #[error("what listens on port {port} of {host} is no `surmise serve` of this version: {why}")]
    NoServer {
        /// The host.
        host: String,
        /// The port.
        port: u16,
        /// What shows that.
        why: String,
    },
    /// The server's certificate does not hold.
    #[error("the certificate of {host} does not hold: {why}")]
    Untrusted {
        /// The host.
        host: String,
        /// Why not.
        why: String,
        /// How that can be mended.
        fix: Fix,
    },
    /// The server does not take this client's certificate.
    #[error("{host} does not take the certificate {}: {why}", certificate.display())]
    NotTaken {
        /// The host.
        host: String,
        /// The certificate.
        certificate: PathBuf,
        /// Why not.
        why: String,
    },
    /// The server takes the certificate and does not give what is wanted.
    #[error("{host} refuses: {why}")]
    Refused {
        /// The host.
        host: String,
        /// Why.
        why: Refusal,
    },
}

/// How a server's certificate can be made to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fix {
    /// By another certificate for the server.
    Renew,
    /// By a right clock on either machine.
    Clock,
    /// By the name that is in the certificate.
    Name,
    /// By the right file of authorities.
    Authority,
}

impl ConnectError {
    /// The fix.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::File(file) => return file.hint(),
            Self::Unknown { .. } => "surmise://HOST[:PORT]/EXPORT is expected".into(),
            Self::NothingListens { host, port } => format!(
                "on {host}, `surmise serve DIR --listen ADDRESS:{port} ...` has to run"
            ),
            Self::Unreachable { .. } => "look at the network, and at firewalls".into(),
            Self::NoServer { .. } => {
                "surmise://HOST:PORT/EXPORT names the port of `surmise serve`, and both machines need the same version".into()
            }
            Self::Untrusted { fix, .. } => match fix {
                Fix::Renew => "the server needs a new certificate",
                Fix::Clock => "look at the clocks of both machines",
                Fix::Name => "use a name of the host that its certificate has",
                Fix::Authority => "--ca names the certificate of the authority that signed the server's",
            }
            .into(),
            Self::NotTaken { .. } => {
                "--certificate and --key name those that an authority signed that the server trusts (`surmise serve --clients`)".into()
            }
            Self::Refused { host, why } => match why {
                Refusal::Export { served } => format!("the address has to end with /{served}"),
                Refusal::User { name, runs_as } => format!(
                    "a server acts for one user: either start one on {host} as {name}, or this one with --user {name}={runs_as}"
                ),
                Refusal::Nameless => {
                    "the certificate's subject needs a common name (CN), which is the user".into()
                }
                Refusal::Full => "unmount elsewhere, or try again later".into(),
            },
        })
    }
}

impl Target {
    /// Connects: one end for the bytes as they are, and what is to be run meanwhile. The files are read each time, since
    /// certificates are renewed.
    ///
    /// # Errors
    /// [`ConnectError`].
    pub fn connect(&self) -> Result<(UnixStream, Copying), ConnectError> {
        let config = self.config()?;
        let name = ServerName::try_from(self.host.clone());
        let name = name.map_err(|error| self.unknown(&error))?;
        let stream = self.reach()?;
        let gone = |error: io::Error| self.unreachable(&error);
        socket::prepare(&stream).map_err(gone)?;
        let tls = ClientConnection::new(config, name).map_err(|error| self.tls(error, false))?;
        let mut handshake = Handshake::new(tls.into(), &stream, TIME_MAX);
        handshake
            .complete()
            .map_err(|broken| self.broken(broken, false))?;
        if handshake.tls.alpn_protocol() != Some(APPLICATION_PROTOCOL) {
            return Err(self.no_server("it speaks another protocol"));
        }
        let opening = Opening {
            export: self.export.clone(),
        };
        let answer = handshake
            .say(&opening)
            .and_then(|()| handshake.hear::<Answer>());
        match answer.map_err(|broken| self.broken(broken, true))? {
            Answer::Welcome => {
                let tls = handshake.tls;
                Copying::new(tls, stream).map_err(gone)
            }
            Answer::Refused(why) => Err(ConnectError::Refused {
                host: self.host.clone(),
                why,
            }),
        }
    }

    fn config(&self) -> Result<Arc<ClientConfig>, ConnectError> {
        let roots = authorities(&self.authorities)?;
        let own = Own::read(&self.certificate, &self.key)?;
        let config = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| self.tls(error, false))?
            .with_root_certificates(roots)
            .with_client_auth_cert(own.chain, own.key);
        let mut config = config.map_err(|error| unfit(error, &self.certificate, &self.key))?;
        config.alpn_protocols = vec![APPLICATION_PROTOCOL.to_vec()];
        config.resumption = Resumption::disabled();
        Ok(Arc::new(config))
    }

    /// A connection to the first address that takes one.
    fn reach(&self) -> Result<TcpStream, ConnectError> {
        let addresses = (&self.host[..], self.port).to_socket_addrs();
        let addresses = addresses.map_err(|error| self.unknown(&error))?;
        let mut last = None;
        for address in addresses {
            match TcpStream::connect_timeout(&address, CONNECTING_MAX) {
                Ok(stream) => return Ok(stream),
                Err(error) => last = Some(error),
            }
        }
        Err(match last {
            None => self.unknown(&"it has none"),
            Some(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                ConnectError::NothingListens {
                    host: self.host.clone(),
                    port: self.port,
                }
            }
            Some(error) => self.unreachable(&error),
        })
    }

    /// Why both sides do not agree. A server looks at the client's certificate only when the client is done, and `is_done` then.
    fn broken(&self, broken: Broken, is_done: bool) -> ConnectError {
        match broken {
            Broken::Tls(error) => self.tls(error, is_done),
            Broken::Io(error) => match error.kind() {
                io::ErrorKind::UnexpectedEof
                | io::ErrorKind::ConnectionReset
                | io::ErrorKind::BrokenPipe => {
                    self.no_server("it closed the connection, or too many come at once")
                }
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                    self.no_server("it does not answer")
                }
                _ => self.unreachable(&error),
            },
            Broken::Garbled => self.no_server("its answer cannot be understood"),
        }
    }

    fn tls(&self, error: rustls::Error, is_done: bool) -> ConnectError {
        let host = self.host.clone();
        match error {
            rustls::Error::InvalidCertificate(error) => {
                let fix = match &error {
                    CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                        Fix::Clock
                    }
                    CertificateError::NotValidForName
                    | CertificateError::NotValidForNameContext { .. } => Fix::Name,
                    CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                        Fix::Authority
                    }
                    _ => Fix::Renew,
                };
                let why = said(&error);
                ConnectError::Untrusted { host, why, fix }
            }
            rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol) => {
                self.no_server("it speaks another protocol")
            }
            rustls::Error::AlertReceived(alert) if is_done => ConnectError::NotTaken {
                host,
                certificate: self.certificate.clone(),
                why: of_alert(alert),
            },
            error => self.no_server(&error.to_string()),
        }
    }

    fn no_server(&self, why: &str) -> ConnectError {
        ConnectError::NoServer {
            host: self.host.clone(),
            port: self.port,
            why: why.to_owned(),
        }
    }

    fn unreachable(&self, error: &io::Error) -> ConnectError {
        let why = match error.kind() {
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => "it does not answer".to_owned(),
            _ => error.to_string(),
        };
        ConnectError::Unreachable {
            host: self.host.clone(),
            why,
        }
    }

    fn unknown(&self, why: &dyn ToString) -> ConnectError {
        ConnectError::Unknown {
            host: self.host.clone(),
            why: why.to_string(),
        }
    }
}

/// What is wrong with a server's certificate, for people.
fn said(error: &CertificateError) -> String {
    match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "it has expired".into()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "it is not valid yet".into()
        }
        CertificateError::NotValidForName => "it is for another name".into(),
        CertificateError::NotValidForNameContext { presented, .. } => {
            format!("it is for {}", presented.join(", "))
        }
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "no authority that is trusted here has signed it".into()
        }
        other => other.to_string(),
    }
}

/// What a server says of a client's certificate (RFC 8446, section 6.2), for people.
fn of_alert(alert: AlertDescription) -> String {
    match alert {
        AlertDescription::CertificateExpired => "it has expired, or is not valid yet".into(),
        AlertDescription::UnknownCA | AlertDescription::DecryptError => {
            "no authority that the server trusts has signed it".into()
        }
        AlertDescription::CertificateRequired => "there is none".into(),
        AlertDescription::BadCertificate
        | AlertDescription::CertificateUnknown
        | AlertDescription::UnsupportedCertificate => "it is none for a client".into(),
        AlertDescription::CertificateRevoked => "it was revoked".into(),
        other => format!("{other:?}"),
    }
}
