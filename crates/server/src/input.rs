//! What the thread that has the state machine is told.

use std::os::unix::net::UnixStream;
use std::sync::mpsc::Sender;

use surmise_remote::frame::ToServer;
use surmise_remote::server::{Event, Link};

use crate::directory::Stuck;
use crate::log::LogError;

#[derive(Debug)]
pub(crate) enum Input {
    /// A client has come.
    Connected(UnixStream),
    /// A message of so many bytes.
    Message(Link, ToServer, usize),
    /// What came is no message.
    Garbled(Link),
    /// A connection has ended.
    Closed(Link),
    /// What the log or the disk have to tell.
    Event(Event),
    /// What the disk was asked for.
    Answers(Vec<Event>),
    /// The kernel has something to tell of the directory; it is to be said when that was looked at.
    Look(Sender<()>),
    /// The log is so long.
    LogIs(u64),
    /// A new log was asked for. The one that there is now is so long.
    LogBegun(u64),
    /// What was promised can't be made.
    Stuck(Stuck),
    /// The log can't be written.
    LogFailed(LogError),
    /// A signal asks to stop.
    Stop,
}
