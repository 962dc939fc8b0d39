//! Connections from outside to published servers: pid 1, who is inside, makes the sockets.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::time::Timespec;
use serde::{Deserialize, Serialize};
use surmise_kept::Link;
use surmise_network::Dial;

/// How long pid 1 waits for a server inside.
const ANSWERED: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 20_000_000,
};

/// The relay's end. Asked on one thread.
pub(crate) struct Dialer(Link);

/// pid 1's end.
#[derive(Debug)]
pub(crate) struct Switchboard(Link);

/// What is asked for: a connection to a port of the domain's loopback address.
#[derive(Serialize, Deserialize)]
struct Request {
    port: u16,
}

/// What follows.
#[derive(Serialize, Deserialize)]
enum Answer {
    Socket,
    Failed(i32),
}

/// Both ends.
pub(crate) fn pair() -> io::Result<(Dialer, Switchboard)> {
    let (relay, init) = Link::pair()?;
    Ok((Dialer(relay), Switchboard(init)))
}

impl Dial for Dialer {
    fn dial(&self, port: u16) -> io::Result<OwnedFd> {
        let Self(link) = self;
        link.send(&Request { port })?;
        let ended = || io::Error::from(Errno::CONNREFUSED);
        match link.receive()?.ok_or_else(ended)? {
            Answer::Socket => link.receive_descriptor()?.ok_or_else(ended),
            Answer::Failed(errno) => Err(io::Error::from_raw_os_error(errno)),
        }
    }
}

impl AsFd for Dialer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Switchboard {
    /// Serves one request. False when there will be no more.
    pub(crate) fn serve(&self) -> io::Result<bool> {
        let Some(Request { port }) = self.0.receive()? else {
            return Ok(false);
        };
        match connect(port) {
            Ok(socket) => {
                self.0.send(&Answer::Socket)?;
                self.0.send_descriptor(socket.as_fd())?;
            }
            Err(errno) => self.0.send(&Answer::Failed(errno.raw_os_error()))?,
        }
        Ok(true)
    }
}

/// Readable when there is a request, or will be no more.
impl AsFd for Switchboard {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// To a server on either loopback address.
fn connect(port: u16) -> Result<OwnedFd, Errno> {
    let v4 = connect_to(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
    v4.or_else(|errno| connect_to(IpAddr::V6(Ipv6Addr::LOCALHOST), port).map_err(|_| errno))
}

/// On loopback the answer is there at once: the other end is the same kernel.
fn connect_to(host: IpAddr, port: u16) -> Result<OwnedFd, Errno> {
    let family = match host {
        IpAddr::V4(_) => AddressFamily::INET,
        IpAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    match rustix::net::connect(&socket, &SocketAddr::new(host, port)) {
        Ok(()) => return Ok(socket),
        Err(Errno::INPROGRESS) => {}
        Err(errno) => return Err(errno),
    }
    // Where the server's queue is full there is no answer; who relays sees how that ends.
    rustix::event::poll(&mut [PollFd::new(&socket, PollFlags::OUT)], Some(&ANSWERED))?;
    rustix::net::sockopt::socket_error(&socket)??;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_server_is_reached_and_a_missing_one_is_told() {
        let server = TcpListener::bind("127.0.0.1:0").expect("listen");
        let port = server.local_addr().expect("an address").port();
        let (dialer, switchboard) = pair().expect("a pair");
        let serving = std::thread::spawn(move || while switchboard.serve().expect("serve") {});
        dialer.dial(port).expect("dial");
        server.accept().expect("the connection");
        drop(server);
        let refused = dialer.dial(port).expect_err("nobody");
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        drop(dialer);
        serving.join().expect("no panic");
    }
}
