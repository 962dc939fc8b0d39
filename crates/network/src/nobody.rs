//! The nameserver of a domain whose network has no gate: it refuses every question, and tells the names.
//!
//! Without it a program's question would fail before it is asked, and nobody would know the name. The
//! nameserver answers as the relay does where the policy denies a name.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use surmise_linux::network::gate::Protocol;
use surmise_refusals::{Kind, Tally};

use crate::lookups::Lookups;
use crate::names::{Query, format_error};
use crate::relay::Attribution;

/// Longest question that is read: what fits into one datagram everywhere is less.
const LONGEST: usize = 4096;

/// Answers for all nameservers of one domain.
#[derive(Debug)]
pub struct Nobody {
    /// By the address of the nameserver.
    sockets: Vec<(SocketAddr, OwnedFd)>,
    attribution: Attribution,
    lookups: Lookups,
    tally: Tally,
}

impl Nobody {
    /// One that answers on `sockets`, which do not block. `diagnostics`: of the domain's network namespace,
    /// to find out who asks.
    #[must_use]
    pub fn new(sockets: Vec<(SocketAddr, OwnedFd)>, diagnostics: OwnedFd, tally: Tally) -> Self {
        Self {
            sockets,
            attribution: Attribution::new(diagnostics),
            lookups: Lookups::default(),
            tally,
        }
    }

    /// Readable when there is a question.
    #[must_use]
    pub fn sources(&self) -> Vec<BorrowedFd<'_>> {
        self.sockets
            .iter()
            .map(|(_, socket)| socket.as_fd())
            .collect()
    }

    /// Answers all that was asked.
    pub fn answer(&mut self) {
        for index in 0..self.sockets.len() {
            while let Some((asker, question)) = self.next_question(index) {
                self.refuse(index, asker, &question);
            }
        }
    }

    /// `None` when there is none, or when an earlier answer has met an error, which its asker knows.
    fn next_question(&self, index: usize) -> Option<(SocketAddr, Vec<u8>)> {
        let (_, socket) = &self.sockets[index];
        let mut bytes = [0; LONGEST];
        loop {
            match rustix::net::recvfrom(socket, &mut bytes[..], RecvFlags::empty()) {
                Ok((length, _, Some(asker))) => {
                    let asker = SocketAddr::try_from(asker).ok()?;
                    return Some((asker, bytes[..length].to_vec()));
                }
                Err(Errno::INTR) => {}
                Ok((_, _, None)) | Err(_) => return None,
            }
        }
    }

    fn refuse(&mut self, index: usize, asker: SocketAddr, question: &[u8]) {
        let (server, _) = self.sockets[index];
        let reply = match Query::parse(question) {
            Some(query) => {
                // The program that has asked waits, so it can be found.
                self.count(&query, asker, server);
                Some(query.refused())
            }
            None => format_error(question),
        };
        if let Some(reply) = reply {
            let (_, socket) = &self.sockets[index];
            // An answer may get lost.
            let _ = rustix::net::sendto(socket, &reply, SendFlags::NOSIGNAL, &asker);
        }
    }

    fn count(&mut self, query: &Query, asker: SocketAddr, server: SocketAddr) {
        let inode = self.attribution.inode(Protocol::Udp, asker, server);
        let sender = inode.and_then(|inode| self.attribution.sender(inode));
        let program = sender.as_ref().map(|sender| sender.name.as_str());
        if self.lookups.is_another(query, program) {
            let name = &query.question().name;
            let allow = Some(format!("--allow-net {name}"));
            self.tally.record(Kind::Name, name, program, allow);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;
    use crate::names;

    #[test]
    fn a_question_is_refused_and_told_with_what_allows_it() {
        let server = UdpSocket::bind("127.0.0.1:0").expect("bind");
        server.set_nonblocking(true).expect("set");
        let address = server.local_addr().expect("an address");
        let (unused, _) = rustix::pipe::pipe().expect("a pipe");
        let tally = Tally::default();
        let mut nobody = Nobody::new(vec![(address, server.into())], unused, tally.clone());
        let client = UdpSocket::bind("127.0.0.1:0").expect("bind");
        client.connect(address).expect("connect");
        let mut ask = |message: &[u8]| {
            client.send(message).expect("send");
            nobody.answer();
            let mut reply = [0; 512];
            let length = client.recv(&mut reply).expect("an answer");
            reply[..length].to_vec()
        };
        let query = Query::new(7, "A.Example", names::Kind::V4).expect("a query");
        let reply = ask(&query.with_id(7));
        assert!(query.read_answer(&reply).expect("an answer").failed);
        // A response code of 1: it cannot be read.
        assert_eq!(ask(&[0, 9, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0])[3] & 0xf, 1);
        let list = tally.refusals().list;
        let told: Vec<_> = list
            .iter()
            .map(|one| (one.target.as_str(), one.allow.as_deref()))
            .collect();
        assert_eq!(told, [("a.example", Some("--allow-net a.example"))]);
    }
}
