//! What goes over a connection by TLS before all messages: the client names the export, and the server says whether it may have it. Over
//! ssh the command says as much.
//!
//! Both are frames as of [`crate::frame`]. The client sends nothing more until it has the answer.

use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

/// The name that both sides give this protocol in the handshake (RFC 7301). It changes when the opening does.
pub const APPLICATION_PROTOCOL: &[u8] = b"surmise/1";

/// How long the frame of an opening or of its answer is at most, in bytes.
pub const OPENING_BYTES_MAX: usize = 4096;

/// What a client wants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opening {
    /// The name of the export. An empty one is whichever the server has.
    pub export: String,
}

/// Whether it gets that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// The messages of [`crate::frame`] follow.
    Welcome,
    /// The connection ends, for this reason.
    Refused(Refusal),
}

/// Why a server does not take a client whose certificate it trusts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// The server has another export.
    Export {
        /// Which it has.
        served: String,
    },
    /// The server does not let in whom the certificate names.
    User {
        /// The name in the certificate.
        name: String,
        /// As whom the server runs.
        runs_as: String,
    },
    /// The certificate does not name one user.
    Nameless,
    /// The server has as many clients as it takes.
    Full,
}

impl Display for Refusal {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Export { served } => write!(f, "its export is called {served:?}"),
            Self::User { name, runs_as } => write!(
                f,
                "it runs as {runs_as}, and does not take the certificate of {name:?} for that user's"
            ),
            Self::Nameless => write!(f, "the certificate has not one common name"),
            Self::Full => write!(f, "it has as many clients as it takes"),
        }
    }
}
