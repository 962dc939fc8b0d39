//! Asking name servers.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use super::configuration::Configuration;
use crate::names::{Answer, Kind, Query};

/// All addresses of a name, IPv4 first.
pub fn lookup(configuration: &Configuration, name: &str) -> io::Result<Vec<IpAddr>> {
    let mut last = None;
    for _ in 0..configuration.attempts {
        for &server in &configuration.nameservers {
            match ask(server, name, configuration.timeout) {
                Err(error) if !is_final(&error) => last = Some(error),
                decided => return decided,
            }
        }
    }
    let error = last.unwrap_or_else(|| io::ErrorKind::TimedOut.into());
    Err(io::Error::new(
        error.kind(),
        format!("{name}: no name server could tell: {error}"),
    ))
}

/// Whether no other server would say anything else.
fn is_final(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidInput, NotFound};
    matches!(error.kind(), NotFound | InvalidInput)
}

/// Asks one server once for both kinds of addresses, at the same time.
fn ask(server: SocketAddr, name: &str, timeout: Duration) -> io::Result<Vec<IpAddr>> {
    let deadline = Instant::now() + timeout;
    let queries = [new_query(name, Kind::V4)?, new_query(name, Kind::V6)?];
    let mut answers = [None, None];
    let asked = ask_over_udp(server, &queries, &mut answers, deadline);
    for (query, answer) in queries.iter().zip(&mut answers) {
        if answer.as_ref().is_some_and(|answer| answer.truncated) {
            *answer = Some(ask_over_tcp(server, query, deadline)?);
        }
    }
    let told = answers.iter().flatten();
    let addresses: Vec<IpAddr> = told.flat_map(|answer| &answer.addresses).copied().collect();
    if !addresses.is_empty() {
        return Ok(addresses);
    }
    // One kind alone may be missing; that there is nothing is sure only when both say so.
    asked?;
    if answers.iter().flatten().any(|answer| answer.failed) {
        return Err(io::Error::other(format!("{server} cannot tell")));
    }
    let no_such_name = answers.iter().flatten().any(|answer| answer.no_such_name);
    let what = match no_such_name {
        true => format!("{name}: no such host"),
        false => format!("{name}: the host has no address"),
    };
    Err(io::Error::new(io::ErrorKind::NotFound, what))
}

fn new_query(name: &str, kind: Kind) -> io::Result<Query> {
    let mut id = [0; 2];
    let flags = rustix::rand::GetRandomFlags::empty();
    rustix::rand::getrandom(&mut id, flags)?;
    Query::new(u16::from_ne_bytes(id), name, kind).ok_or_else(|| {
        let what = format!("{name:?} cannot be a name");
        io::Error::new(io::ErrorKind::InvalidInput, what)
    })
}

/// Fills in the answers that come before the deadline.
fn ask_over_udp(
    server: SocketAddr,
    queries: &[Query; 2],
    answers: &mut [Option<Answer>; 2],
    deadline: Instant,
) -> io::Result<()> {
    let any: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0))?;
    // Connected, it hears only this server, and of a port without one at once.
    socket.connect(server)?;
    for query in queries {
        socket.send(&query.with_id(query.id()))?;
    }
    let mut buffer = vec![0; 65536];
    while answers.iter().any(Option::is_none) {
        socket.set_read_timeout(Some(until(deadline, server)?))?;
        let length = match socket.recv(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            received => received.map_err(|error| tell(error, server))?,
        };
        for (query, answer) in queries.iter().zip(answers.iter_mut()) {
            // What answers neither is somebody's forgery, or late.
            if answer.is_none() {
                *answer = query.read_answer(&buffer[..length]);
            }
        }
    }
    Ok(())
}

fn ask_over_tcp(server: SocketAddr, query: &Query, deadline: Instant) -> io::Result<Answer> {
    let mut stream = TcpStream::connect_timeout(&server, until(deadline, server)?)?;
    let message = query.with_id(query.id());
    let length = u16::try_from(message.len()).expect("a query with one question");
    let mut framed = length.to_be_bytes().to_vec();
    framed.extend_from_slice(&message);
    stream.set_write_timeout(Some(until(deadline, server)?))?;
    stream.write_all(&framed)?;
    let mut length = [0; 2];
    read_exact(&mut stream, &mut length, server, deadline)?;
    let mut message = vec![0; u16::from_be_bytes(length).into()];
    read_exact(&mut stream, &mut message, server, deadline)?;
    query.read_answer(&message).ok_or_else(|| {
        let what = format!("{server} answered over TCP what was not asked");
        io::Error::new(io::ErrorKind::InvalidData, what)
    })
}

/// As the standard one, but a server that sends a byte now and then does not keep us.
fn read_exact(
    stream: &mut TcpStream,
    mut buffer: &mut [u8],
    server: SocketAddr,
    deadline: Instant,
) -> io::Result<()> {
    while !buffer.is_empty() {
        stream.set_read_timeout(Some(until(deadline, server)?))?;
        match stream.read(buffer) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => buffer = &mut buffer[count..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(tell(error, server)),
        }
    }
    Ok(())
}

/// The time that is left; never 0, which sockets take for no limit.
fn until(deadline: Instant, server: SocketAddr) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    match left.is_zero() {
        true => Err(tell(io::ErrorKind::TimedOut.into(), server)),
        false => Ok(left),
    }
}

fn tell(error: io::Error, server: SocketAddr) -> io::Error {
    match error.kind() {
        // What a socket's own time limit gives.
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            let what = format!("{server} did not answer");
            io::Error::new(io::ErrorKind::TimedOut, what)
        }
        kind => io::Error::new(kind, format!("{server}: {error}")),
    }
}
