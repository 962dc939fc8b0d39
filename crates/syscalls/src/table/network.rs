//! Sockets. Inside, a socket is an object; what leaves the domain's network namespace is held at
//! its boundary.

use crate::disposition::Disposition::{Allow, Hold, Track};
use crate::handler::Handler::Network;
use crate::reach::Reach;
use crate::row::{Row, row};
use crate::shape::Shape::{Command, Fd, Flags, In, InOut, Integer, Length, Out};
use crate::syscall::Syscall::*;
use crate::table::exceptions;

/// Sorted by number.
#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    row( 41, Socket,      &[Integer, Integer, Integer],           [Allow, Track, Allow], Network, "makes a socket in the domain's own network").except(exceptions::SOCKET),
    row( 42, Connect,     &[Fd, In, Length],                      [Allow, Hold, Track],  Network, "a connection that leaves is output; a socket outside may be reached by its name").reaching(Reach::Address),
    row( 43, Accept,      &[Fd, Out, InOut],                      [Allow, Track, Allow], Network, "observes who connects"),
    row( 44, Sendto,      &[Fd, In, Length, Flags, In, Length],   [Allow, Hold, Track],  Network, "output where it leaves, tracked inside").except(exceptions::SENDTO).reaching(Reach::Datagram),
    row( 45, Recvfrom,    &[Fd, Out, Length, Flags, Out, InOut],  [Allow, Track, Allow], Network, "observes the sender's state"),
    row( 46, Sendmsg,     &[Fd, In, Flags],                       [Allow, Hold, Track],  Network, "output where it leaves, tracked inside; may pass descriptors"),
    row( 47, Recvmsg,     &[Fd, InOut, Flags],                    [Allow, Track, Allow], Network, "observes the sender's state; may add descriptors"),
    row( 48, Shutdown,    &[Fd, Command],                         [Allow, Hold, Hold],   Network, "the end of a stream is output"),
    row( 49, Bind,        &[Fd, In, Length],                      [Allow, Track, Track], Network, "takes an address, or creates a name in the view"),
    row( 50, Listen,      &[Fd, Integer],                         [Allow, Track, Allow], Network, "opens a socket to others"),
    row( 51, Getsockname, &[Fd, Out, InOut],                      [Allow, Track, Allow], Network, "observes a socket"),
    row( 52, Getpeername, &[Fd, Out, InOut],                      [Allow, Track, Allow], Network, "observes a socket"),
    row( 53, Socketpair,  &[Integer, Integer, Integer, Out],      [Allow, Track, Allow], Network, "makes two sockets that stay inside"),
    row( 54, Setsockopt,  &[Fd, Command, Integer, In, Length],    [Allow, Track, Allow], Network, "changes a socket; forced sizes take a right that the domain lacks"),
    row( 55, Getsockopt,  &[Fd, Command, Integer, Out, InOut],    [Allow, Track, Allow], Network, "observes a socket"),
    row(288, Accept4,     &[Fd, Out, InOut, Flags],               [Allow, Track, Allow], Network, "observes who connects"),
    row(299, Recvmmsg,    &[Fd, InOut, Length, Flags, In],        [Allow, Track, Allow], Network, "observes the sender's state; may add descriptors"),
    row(307, Sendmmsg,    &[Fd, InOut, Length, Flags],            [Allow, Hold, Track],  Network, "output where it leaves, tracked inside; may pass descriptors"),
];
