//! One thing that was refused, as a person and a program are told of it.

use serde::{Deserialize, Serialize};

/// What was tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// To connect to a host.
    Connection,
    /// To send a datagram, or to choose a host for datagrams.
    Datagram,
    /// To look up a name.
    Name,
    /// To connect to, or to send to, a Unix socket.
    Socket,
    /// To open a FIFO.
    Fifo,
    /// To trace a process.
    Process,
    /// A system call, whatever its arguments lead to.
    Call,
}

/// What was refused to one program, and how often.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// What was tried.
    pub kind: Kind,
    /// With whom or what: host and port, a name, a path, a process, a call.
    pub target: String,
    /// The program that tried, as `ps` shows it; `None` where that could not be found out.
    pub program: Option<String>,
    /// How often.
    pub count: u64,
    /// The option of `surmise run` that allows it, with its value; `None` where none does.
    pub allow: Option<String>,
}

/// All that was refused in a domain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusals {
    /// In the order in which each was first refused.
    pub list: Vec<Refusal>,
    /// How many more attempts there were, of sorts for which the list had no place.
    pub more: u64,
}
