//! What a call that is allowed may yet fail to reach, since it is outside.

/// Whom or what a call asks for. A filter cannot see whether that is inside; the role that hears the call can.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reach {
    /// The address that a socket is connected to.
    Address,
    /// The address that a datagram is sent to.
    Datagram,
    /// The process that is to be traced.
    Process,
    /// Calls of other tasks, to listen to: a domain whose own calls are heard has no second listener.
    Calls,
}
