//! Ports of servers inside that the host may reach.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use surmise_linux::mailbox;

use super::interface::{Dial, Message};
use super::poller::{Kind, Poller, Registration, Token};
use super::slab::{Key, Slab};
use super::sockets;

/// How many connections wait at once for the server inside; more wait in the listener's queue.
const DIALING_MAX: usize = 64;

/// The listeners of published ports, and the connections that wait for their servers inside.
#[derive(Debug)]
pub(crate) struct Publish {
    listeners: Slab<Listener>,
    dialing: Slab<OwnedFd>,
    dialer: Option<SyncSender<(Key, u16)>>,
    paused: bool,
}

#[derive(Debug)]
struct Listener {
    port: u16,
    socket: OwnedFd,
    registration: Registration,
}

impl Publish {
    /// Listens on the host's loopback addresses.
    ///
    /// # Errors
    /// A port cannot be had; the error names it. A host without IPv6 is none.
    pub(crate) fn bind(ports: &[u16]) -> io::Result<Self> {
        let mut listeners = Slab::new();
        for &port in ports {
            let first = listen(Ipv4Addr::LOCALHOST.into(), port)?;
            listeners.insert(Listener::new(port, first));
            match listen(Ipv6Addr::LOCALHOST.into(), port) {
                Ok(second) => _ = listeners.insert(Listener::new(port, second)),
                Err(error) if is_without_ipv6(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Self {
            listeners,
            dialing: Slab::new(),
            dialer: None,
            paused: false,
        })
    }

    /// Begins to accept. `dial` is asked on a thread of its own, since it waits for another process.
    ///
    /// # Errors
    /// As `epoll_ctl` and the start of a thread.
    pub(crate) fn start(
        &mut self,
        poller: &Poller,
        dial: Box<dyn Dial>,
        mailer: mailbox::Sender<Message>,
    ) -> io::Result<()> {
        if self.listeners.len() == 0 {
            return Ok(());
        }
        let (sender, requests) = sync_channel(DIALING_MAX);
        let thread = thread::Builder::new().name("surmise-dial".into());
        thread.spawn(move || answer_requests(&requests, &*dial, &mailer))?;
        self.dialer = Some(sender);
        self.listen(poller, true)
    }

    /// Takes the connections that came to one port.
    ///
    /// # Errors
    /// As `epoll_ctl`.
    pub(crate) fn accept(&mut self, poller: &Poller, key: Key) -> io::Result<()> {
        loop {
            if self.dialing.len() >= DIALING_MAX {
                return self.listen(poller, false);
            }
            let (Some(listener), Some(dialer)) = (self.listeners.get(key), &self.dialer) else {
                return Ok(());
            };
            match sockets::accept(&listener.socket) {
                Ok((socket, _)) => {
                    let waiting = self.dialing.insert(socket);
                    match dialer.try_send((waiting, listener.port)) {
                        Ok(()) => {}
                        Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                            let refused = self.dialing.remove(waiting);
                            refused.into_iter().for_each(sockets::reset);
                        }
                    }
                }
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                // Out of descriptors: until some come back.
                Err(_) => return self.listen(poller, false),
            }
        }
    }

    /// The server inside was dialed: the pair to relay between, the inner socket first.
    pub(crate) fn dialed(
        &mut self,
        key: Key,
        result: io::Result<OwnedFd>,
    ) -> Option<(OwnedFd, OwnedFd)> {
        let outside = self.dialing.remove(key)?;
        let prepared = result.and_then(|inside| {
            rustix::io::ioctl_fionbio(&inside, true)?;
            rustix::net::sockopt::set_tcp_nodelay(&inside, true)?;
            rustix::net::sockopt::set_tcp_nodelay(&outside, true)?;
            Ok(inside)
        });
        match prepared {
            Ok(inside) => Some((inside, outside)),
            Err(_) => {
                sockets::reset(outside);
                None
            }
        }
    }

    /// Accepts again after a pause.
    ///
    /// # Errors
    /// As `epoll_ctl`.
    pub(crate) fn resume(&mut self, poller: &Poller) -> io::Result<()> {
        if self.paused && self.dialing.len() < DIALING_MAX {
            self.listen(poller, true)?;
        }
        Ok(())
    }

    fn listen(&mut self, poller: &Poller, wanted: bool) -> io::Result<()> {
        self.paused = !wanted;
        let flags = if wanted {
            EventFlags::IN
        } else {
            EventFlags::empty()
        };
        for key in self.listeners.keys() {
            if let Some(one) = self.listeners.get_mut(key) {
                let token = Token::new(Kind::Published, key);
                one.registration.set(poller, &one.socket, token, flags)?;
            }
        }
        Ok(())
    }
}

impl Listener {
    fn new(port: u16, socket: OwnedFd) -> Self {
        Self {
            port,
            socket,
            registration: Registration::default(),
        }
    }
}

fn listen(address: IpAddr, port: u16) -> io::Result<OwnedFd> {
    let address = SocketAddr::new(address, port);
    let listen = || {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(listener.into())
    };
    listen().map_err(|error: io::Error| io::Error::new(error.kind(), Published { address, error }))
}

fn is_without_ipv6(error: &io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    let errno = inner.and_then(|Published { error, .. }| Errno::from_io_error(error));
    matches!(errno, Some(Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL))
}

/// Why a port can't be published.
#[derive(Debug, thiserror::Error)]
#[error("publish port {}: listen on {address}: {error}", address.port())]
struct Published {
    address: SocketAddr,
    error: io::Error,
}

fn answer_requests(
    requests: &Receiver<(Key, u16)>,
    dial: &dyn Dial,
    mailer: &mailbox::Sender<Message>,
) {
    for (key, port) in requests {
        let result = dial.dial(port);
        if !mailer.send(Message::Dialed { key, result }) {
            return;
        }
    }
}
