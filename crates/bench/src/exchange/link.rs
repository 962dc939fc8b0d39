//! A link that takes its time: a proxy that passes on what it gets after a delay, each way, and at most
//! so much a second where that is wanted.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use super::server::CHUNK;

/// How many chunks are under way at most: 64 MiB, so that a reader that stalls does not fill the
/// memory. A delay of 1 ms would need 64 GB a second to meet it.
const UNDER_WAY_MAX: usize = 1024;

/// What a link is like, each way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// How long a byte takes, besides waiting for its turn.
    pub delay_ms: u64,
    /// How many bytes go over it, of each connection; `None`: as many as there are.
    pub bytes_per_s: Option<u64>,
}

/// Starts `link` to `server` on a free port of loopback. It lives as long as this program.
pub fn start(server: SocketAddr, link: Link) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            // One that fails is closed, and the client tells of it.
            let _ = join(client, server, link);
        }
    });
    Ok(address)
}

fn join(client: TcpStream, server: SocketAddr, link: Link) -> io::Result<()> {
    let server = TcpStream::connect(server)?;
    for stream in [&client, &server] {
        stream.set_nodelay(true)?;
    }
    direction(client.try_clone()?, server.try_clone()?, link);
    direction(server, client, link);
    Ok(())
}

impl Link {
    /// How long it is busy with so many bytes.
    #[expect(
        clippy::cast_precision_loss,
        reason = "chunks and rates are far smaller"
    )]
    fn transmission(self, bytes: usize) -> Duration {
        match self.bytes_per_s {
            Some(rate) => Duration::from_secs_f64(bytes as f64 / rate as f64),
            None => Duration::ZERO,
        }
    }
}

/// Bytes on their way, and when they arrive.
struct Chunk {
    due: Instant,
    bytes: Vec<u8>,
    length: usize,
}

fn direction(from: TcpStream, to: TcpStream, link: Link) {
    let (departure, arrival) = mpsc::sync_channel(UNDER_WAY_MAX);
    let (spent, fresh) = mpsc::channel();
    thread::spawn(move || depart(from, &departure, &fresh, link));
    thread::spawn(move || arrive(to, &arrival, &spent));
}

/// Reads until the end, and hands on what comes; an empty chunk is the end.
fn depart(
    mut from: TcpStream,
    departure: &SyncSender<Chunk>,
    fresh: &Receiver<Vec<u8>>,
    link: Link,
) {
    let mut free = Instant::now();
    loop {
        let mut bytes = fresh.try_recv().unwrap_or_else(|_| vec![0; CHUNK]);
        let length = from.read(&mut bytes).unwrap_or(0);
        free = free.max(Instant::now()) + link.transmission(length);
        let chunk = Chunk {
            due: free + Duration::from_millis(link.delay_ms),
            bytes,
            length,
        };
        if departure.send(chunk).is_err() || length == 0 {
            return;
        }
    }
}

/// Writes what was handed on when it is due, and gives its memory back.
fn arrive(mut to: TcpStream, arrival: &Receiver<Chunk>, spent: &Sender<Vec<u8>>) {
    for chunk in arrival {
        thread::sleep(chunk.due.saturating_duration_since(Instant::now()));
        if chunk.length == 0 || to.write_all(&chunk.bytes[..chunk.length]).is_err() {
            break;
        }
        // At the end nobody takes it.
        let _ = spent.send(chunk.bytes);
    }
    // It may have been closed from the other end.
    let _ = to.shutdown(Shutdown::Write);
}
