//! A row whose program is a server, on the row's disk, and whose clients may be outside.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use super::{Setup, postgres, posts};
use crate::measure::{Clock, Sample, command, run, wait};
use crate::place::{Place, about, free_address};

/// A server, and what its clients do.
#[derive(Clone, Copy)]
pub enum Served {
    /// `PostgreSQL` and so many clients in the same domain, or without one: transactions a second.
    Inside(u32),
    /// The same, with clients outside.
    Outside(u32),
    /// A web server that logs, and so many clients outside: requests a second.
    Posts(u32),
    /// The same: the time in which 99 of 100 are answered, in ms.
    PostsP99(u32),
}

/// How long a server may take to be there.
const START_MAX: Duration = Duration::from_secs(60);
/// How long one may take to end.
const END_MAX: Duration = Duration::from_secs(60);

impl Served {
    /// The program that it needs and that is not installed.
    pub fn missing_program(self) -> Option<&'static str> {
        let needs_postgres = matches!(self, Self::Inside(_) | Self::Outside(_));
        (needs_postgres && postgres::programs().is_none()).then_some("postgres")
    }

    /// Of a sample's value.
    pub fn unit(self) -> &'static str {
        match self {
            Self::PostsP99(_) => "ms",
            _ => "1/s",
        }
    }

    /// Measures once, in `directory`. Each client does as much as the setup says.
    pub fn sample(self, place: &Place, directory: &Path, setup: Setup) -> Result<Sample, String> {
        postgres::own(directory).map_err(|error| about("give away", directory, &error))?;
        let address = free_address()?;
        let clock = Clock::start()?;
        let value = match self {
            Self::Inside(clients) => {
                let client = postgres::client(address, clients, setup.count);
                let server = postgres::server(address.port(), &client);
                let line = setup.under.around(place, &[], server);
                said_rate(&run(&line, place, directory)?.output)?
            }
            Self::Outside(clients) => {
                let server = postgres::server(address.port(), &[]);
                let line = published(place, setup, address, server);
                let is_there = || postgres::is_there(address);
                let server = Server::start(place, directory, &line, is_there)?;
                let client = postgres::client(address, clients, setup.count);
                let finished = run(&client, place, directory);
                server.end()?;
                said_rate(&finished?.output)?
            }
            Self::Posts(clients) | Self::PostsP99(clients) => {
                let words = ["log".into(), address.port().to_string().into()];
                let line = published(place, setup, address, place.own(&words));
                let is_there = || posts::post(address, 1, 1).is_ok();
                let server = Server::start(place, directory, &line, is_there)?;
                let posted = posts::post(address, clients, setup.count);
                server.end()?;
                let posted = posted.map_err(|error| format!("post: {error}"))?;
                match self {
                    Self::PostsP99(_) => posted.p99.as_secs_f64() * 1e3,
                    _ => posted.rate,
                }
            }
        };
        let cost = clock.stop()?;
        Ok(Sample {
            value,
            user_ms: cost.user_ms,
            system_ms: cost.system_ms,
        })
    }
}

fn said_rate(said: &str) -> Result<f64, String> {
    postgres::rate(said).ok_or_else(|| format!("pgbench gave no rate but {said:?}"))
}

fn published(
    place: &Place,
    setup: Setup,
    address: SocketAddr,
    server: Vec<OsString>,
) -> Vec<OsString> {
    let port = address.port().to_string();
    setup.under.around(place, &["--publish", &port], server)
}

/// A server that runs; killed if it is dropped before its end.
struct Server(Option<Child>);

impl Server {
    /// Under external synchrony somebody accepts connections before the server does.
    fn start(
        place: &Place,
        directory: &Path,
        line: &[OsString],
        is_there: impl Fn() -> bool,
    ) -> Result<Self, String> {
        let mut child = command(line, place, directory)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| format!("start a server: {error}"))?;
        let end = Instant::now() + START_MAX;
        while !is_there() {
            if let Ok(Some(status)) = child.try_wait() {
                return Err(format!("the server ended: {status}"));
            }
            if Instant::now() > end {
                drop(Self(Some(child)));
                return Err("the server does not answer".to_owned());
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(Self(Some(child)))
    }

    /// Has it end, and waits for that: its file system is to be unmounted.
    fn end(mut self) -> Result<(), String> {
        let mut child = self.0.take().expect("it was started");
        let pid = Pid::from_child(&child);
        // It has not been waited for, so the number is its own.
        let _ = rustix::process::kill_process(pid, Signal::INT);
        wait(&mut child, END_MAX).map(drop)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            // Both fail only if it has ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
