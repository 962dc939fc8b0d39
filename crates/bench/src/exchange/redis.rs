//! A Redis server of our own, outside, and `redis-benchmark` as its client.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use surmise_testkit::is_installed;

use crate::place::{Place, free_address};

const CLIENT: &str = "redis-benchmark";

/// By which names the server is installed. `redis-check-rdb` is the same program, which looks at its
/// name to know what to do; Debian's package of tools has it without the service.
const SERVERS: [&str; 2] = ["redis-server", "redis-check-rdb"];

/// How long it may take to answer for the first time.
const START_MAX: Duration = Duration::from_secs(10);

/// A running server; dropped, it ends.
pub struct Redis {
    /// On loopback.
    pub address: SocketAddr,
    server: Child,
}

impl Redis {
    /// Starts one that keeps nothing on disk, on a free port.
    pub fn start(place: &Place) -> Result<Self, String> {
        let server = SERVERS.into_iter().find(|name| is_installed(name));
        let (Some(server), true) = (server, is_installed(CLIENT)) else {
            return Err(format!(
                "{CLIENT} or its server is missing\nHint: apt-get install redis-tools"
            ));
        };
        place.reset(None)?;
        let address = free_address()?;
        let child = Command::new(server)
            .arg0(SERVERS[0])
            .args(["--bind", &address.ip().to_string()])
            .args(["--port", &address.port().to_string()])
            .args(["--save", "", "--appendonly", "no"])
            .arg("--dir")
            .arg(place.work())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("start {server}: {error}"))?;
        let mut redis = Self {
            address,
            server: child,
        };
        redis.wait_for_answer()?;
        Ok(redis)
    }

    fn wait_for_answer(&mut self) -> Result<(), String> {
        let end = Instant::now() + START_MAX;
        loop {
            let Err(error) = ping(self.address) else {
                return Ok(());
            };
            if let Ok(Some(status)) = self.server.try_wait() {
                return Err(format!("the Redis server ended: {status}"));
            }
            if Instant::now() > end {
                return Err(format!("the Redis server does not answer: {error}"));
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // Both fail only if it has ended.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// The words that make `clients` ask the server at `address` in turn until `requests` are answered.
pub fn client(address: SocketAddr, clients: u32, requests: u32) -> Vec<OsString> {
    let (ip, port) = (address.ip().to_string(), address.port().to_string());
    let (clients, requests) = (clients.to_string(), requests.to_string());
    [
        CLIENT, "-h", &ip, "-p", &port, "-t", "get", "-c", &clients, "-n", &requests, "--csv",
    ]
    .map(OsString::from)
    .to_vec()
}

/// The requests a second, from what the client says: `"GET","68493.15",…`.
pub fn rate(said: &str) -> Option<f64> {
    let row = said
        .lines()
        .find_map(|line| line.strip_prefix("\"GET\","))?;
    row.split(',').next()?.trim_matches('"').parse().ok()
}

fn ping(address: SocketAddr) -> io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    stream.write_all(b"PING\r\n")?;
    let mut answer = [0; 7];
    stream.read_exact(&mut answer)?;
    if answer == *b"+PONG\r\n" {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::InvalidData,
        format!("it says {}", answer.escape_ascii()),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_found_in_what_the_client_says() {
        let said = "\"test\",\"rps\",\"avg_latency_ms\"\n\"GET\",\"84889.65\",\"0.364\"\n";
        assert_eq!(rate(said), Some(84889.65));
        assert_eq!(rate("WARNING: Could not fetch server CONFIG\n"), None);
    }
}
