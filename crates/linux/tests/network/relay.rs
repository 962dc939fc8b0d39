//! A relay as small as can be: it answers SYNs as a test says, and echoes what is sent to it.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::mpsc::Sender;
use std::thread;

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use surmise_linux::network::gate::{Gate, SocketOwner, has_listener, inject, owner};
use surmise_linux::network::gate::{PACKET_SIZE, Protocol};

use crate::packet::{self, Syn};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    LetThrough,
    Refuse,
    /// As if the decision took its time: the SYN's second copy is let through.
    Wait,
}

/// What the relay has seen.
#[derive(Debug)]
pub enum Seen {
    Syn(Syn, Option<SocketOwner>),
    /// A loopback SYN that went to a server inside.
    Inside(SocketAddr),
    /// Source and destination of an accepted connection, and whether it was let through.
    Accepted(SocketAddr, SocketAddr, bool),
}

/// Serves the gate until the process ends.
pub fn serve(gate: Gate, answer: fn(&Syn) -> Answer, seen: Sender<Seen>) {
    let relay = Relay {
        gate,
        answer,
        seen,
        open: HashSet::new(),
        waiting: HashSet::new(),
    };
    thread::spawn(move || relay.run());
}

struct Relay {
    gate: Gate,
    answer: fn(&Syn) -> Answer,
    seen: Sender<Seen>,
    open: HashSet<(SocketAddr, SocketAddr)>,
    waiting: HashSet<(SocketAddr, SocketAddr)>,
}

impl Relay {
    fn run(mut self) {
        loop {
            let mut events = [
                PollFd::new(&self.gate.tun, PollFlags::IN),
                PollFd::new(&self.gate.listener, PollFlags::IN),
            ];
            rustix::event::poll(&mut events, None).expect("poll");
            self.read_packets();
            self.accept();
        }
    }

    fn read_packets(&mut self) {
        let mut buffer = vec![0; PACKET_SIZE];
        loop {
            match rustix::io::read(&self.gate.tun, &mut buffer) {
                Ok(length) => {
                    if let Some(syn) = Syn::parse(&buffer[..length]) {
                        self.decide(&syn, &buffer[..length]);
                    }
                }
                Err(Errno::AGAIN) => return,
                Err(errno) => panic!("read a packet: {errno}"),
            }
        }
    }

    fn decide(&mut self, syn: &Syn, packet: &[u8]) {
        let pair = (syn.source, syn.destination);
        let diagnostics = self.gate.diagnostics.as_fd();
        let loopback = syn.destination.ip().is_loopback();
        if loopback && has_listener(diagnostics, syn.destination).expect("look for a server") {
            let sockets = self.gate.loopback.as_ref().expect("gated loopback");
            inject(sockets.inside.as_fd(), packet).expect("hand a packet to a server");
            self.tell(Seen::Inside(syn.destination));
            return;
        }
        let owner = owner(diagnostics, Protocol::Tcp, pair.0, pair.1).expect("find the owner");
        let again = self.waiting.contains(&pair);
        match (self.answer)(syn) {
            Answer::Wait if !again => {
                self.waiting.insert(pair);
            }
            Answer::LetThrough | Answer::Wait => {
                self.open.insert(pair);
                self.write(loopback, packet);
            }
            Answer::Refuse => self.write(loopback, &packet::reset(syn)),
        }
        self.tell(Seen::Syn(syn.clone(), owner));
    }

    fn write(&self, loopback: bool, packet: &[u8]) {
        if loopback {
            let sockets = self.gate.loopback.as_ref().expect("gated loopback");
            inject(sockets.relay.as_fd(), packet).expect("inject a packet");
        } else {
            rustix::io::write(&self.gate.tun, packet).expect("write a packet");
        }
    }

    fn accept(&mut self) {
        while let Ok(socket) = rustix::net::accept(&self.gate.listener) {
            let destination = address(rustix::net::getsockname(&socket));
            let source = address(rustix::net::getpeername(&socket).map(Option::unwrap));
            let expected = self.open.remove(&(source, destination));
            self.tell(Seen::Accepted(source, destination, expected));
            thread::spawn(move || echo(socket.into()));
        }
    }

    fn tell(&self, seen: Seen) {
        // The test may have seen enough.
        let _ = self.seen.send(seen);
    }
}

fn echo(mut stream: TcpStream) {
    let mut buffer = [0; 4096];
    while let Ok(length @ 1..) = stream.read(&mut buffer) {
        if stream.write_all(&buffer[..length]).is_err() {
            return;
        }
    }
    let _ = stream.shutdown(Shutdown::Write);
}

fn address(any: rustix::io::Result<rustix::net::SocketAddrAny>) -> SocketAddr {
    let address = SocketAddr::try_from(any.expect("an address")).expect("an internet address");
    SocketAddr::new(address.ip().to_canonical(), address.port())
}
