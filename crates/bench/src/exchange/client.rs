//! The client of an exchange: it runs inside, and prints one number.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::server::{CHUNK, Request};

/// What a client does, and thereby what its number is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// A byte goes there and back again: the mean time of a round trip, in us.
    PingPong {
        /// How often.
        rounds: u32,
    },
    /// A connection is made, a byte goes there and one back, and it is closed: how many a second.
    Connect {
        /// How often.
        connections: u32,
    },
    /// Bytes go to the server, until it says that it has them: MB a second.
    Send {
        /// How many.
        bytes: u64,
    },
    /// Bytes come from the server: MB a second.
    Receive {
        /// How many.
        bytes: u64,
    },
    /// `redis-benchmark -t get`: requests a second.
    RedisGet {
        /// Connections at once.
        clients: u32,
        /// How many, of all.
        requests: u32,
    },
}

/// How long to wait for a byte.
const PATIENCE: Duration = Duration::from_secs(30);

/// How many round trips do not count.
const WARM_UP: u32 = 500;

/// From JSON, for the command line.
pub fn parse(text: &str) -> Result<Work, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

impl Work {
    /// Of the number.
    pub fn unit(self) -> &'static str {
        match self {
            Self::PingPong { .. } => "us",
            Self::Send { .. } | Self::Receive { .. } => "MB/s",
            Self::Connect { .. } | Self::RedisGet { .. } => "1/s",
        }
    }

    /// Does it with the server at `address`, and returns the number.
    pub fn perform(self, address: SocketAddr) -> io::Result<f64> {
        match self {
            Self::PingPong { rounds } => ping_pong(address, rounds),
            Self::Connect { connections } => connect_often(address, connections),
            Self::Send { bytes } => send(address, bytes),
            Self::Receive { bytes } => receive(address, bytes),
            Self::RedisGet { .. } => Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "redis-benchmark does that",
            )),
        }
    }
}

fn ping_pong(address: SocketAddr, rounds: u32) -> io::Result<f64> {
    let mut stream = connect(address)?;
    Request::Echo.write(&mut stream)?;
    let mut round = || {
        stream.write_all(b"x")?;
        stream.read_exact(&mut [0])
    };
    for _ in 0..WARM_UP {
        round()?;
    }
    let start = Instant::now();
    for _ in 0..rounds {
        round()?;
    }
    Ok(start.elapsed().as_secs_f64() * 1e6 / f64::from(rounds))
}

fn connect_often(address: SocketAddr, connections: u32) -> io::Result<f64> {
    let start = Instant::now();
    for _ in 0..connections {
        let mut stream = connect(address)?;
        // Of one byte only.
        Request::Answer.write(&mut stream)?;
        stream.read_exact(&mut [0])?;
    }
    Ok(f64::from(connections) / start.elapsed().as_secs_f64())
}

fn send(address: SocketAddr, bytes: u64) -> io::Result<f64> {
    let mut stream = connect(address)?;
    Request::Take.write(&mut stream)?;
    let chunk = vec![b'x'; CHUNK];
    let start = Instant::now();
    let mut left = bytes;
    while left > 0 {
        let length = CHUNK.min(usize::try_from(left).unwrap_or(CHUNK));
        stream.write_all(&chunk[..length])?;
        left -= length as u64;
    }
    stream.shutdown(Shutdown::Write)?;
    let mut taken = [0; 8];
    stream.read_exact(&mut taken)?;
    expect(u64::from_be_bytes(taken), bytes)?;
    Ok(megabytes_a_second(bytes, start))
}

fn receive(address: SocketAddr, bytes: u64) -> io::Result<f64> {
    let mut stream = connect(address)?;
    Request::Give { bytes }.write(&mut stream)?;
    let mut chunk = vec![0; CHUNK];
    let start = Instant::now();
    let mut got = 0;
    loop {
        match stream.read(&mut chunk)? {
            0 => break,
            length => got += length as u64,
        }
    }
    expect(got, bytes)?;
    Ok(megabytes_a_second(bytes, start))
}

fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

fn expect(got: u64, bytes: u64) -> io::Result<()> {
    if got == bytes {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::InvalidData,
        format!("{got} of {bytes} bytes arrived"),
    ))
}

#[expect(clippy::cast_precision_loss, reason = "exact below 8 PiB")]
fn megabytes_a_second(bytes: u64, start: Instant) -> f64 {
    bytes as f64 / 1e6 / start.elapsed().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::super::link::{self, Link};
    use super::super::server;
    use super::*;

    const EACH: [Work; 4] = [
        Work::PingPong { rounds: 10 },
        Work::Connect { connections: 10 },
        Work::Send { bytes: 1_000_001 },
        Work::Receive { bytes: 1_000_001 },
    ];

    const LINK: Link = Link {
        delay_ms: 2,
        bytes_per_s: None,
    };

    #[test]
    fn each_work_is_done_with_and_without_a_link() {
        let server = server::start().expect("a server");
        let link = link::start(server, LINK).expect("a link");
        for work in EACH {
            for address in [server, link] {
                let value = work.perform(address).expect("the work");
                assert!(value.is_finite() && value > 0.0, "{work:?}: {value}");
            }
        }
    }

    #[test]
    fn a_round_trip_over_a_link_takes_its_delay_each_way() {
        let server = server::start().expect("a server");
        let link = link::start(server, LINK).expect("a link");
        let us = Work::PingPong { rounds: 5 }.perform(link).expect("rounds");
        assert!(us >= 4000.0, "{us}");
    }

    #[test]
    fn a_link_carries_no_more_than_it_should() {
        let server = server::start().expect("a server");
        let link = Link {
            bytes_per_s: Some(20_000_000),
            ..LINK
        };
        let link = link::start(server, link).expect("a link");
        for work in [
            Work::Send { bytes: 2_000_000 },
            Work::Receive { bytes: 2_000_000 },
        ] {
            let megabytes_per_s = work.perform(link).expect("the work");
            assert!(megabytes_per_s <= 20.0, "{work:?}: {megabytes_per_s}");
        }
    }

    #[test]
    fn work_survives_the_command_line() {
        for work in EACH {
            let text = serde_json::to_string(&work).expect("JSON");
            assert_eq!(parse(&text), Ok(work));
        }
    }
}
