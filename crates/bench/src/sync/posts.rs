//! A web server that logs every POST durably before it answers, and clients that post to it.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

const ANSWER: &[u8] = b"HTTP/1.1 204 No Content\r\n\r\n";
const BODY: [u8; 100] = [b'x'; 100];
const PATIENCE: Duration = Duration::from_secs(30);

/// Serves on this port of loopback, and logs in the current directory, for ever.
pub fn serve(port: u16) -> io::Result<()> {
    let log = OpenOptions::new().append(true).create(true).open("log")?;
    let log = Arc::new(log);
    for client in TcpListener::bind(("127.0.0.1", port))?.incoming() {
        let (client, log) = (client?, Arc::clone(&log));
        // Its client tells of whatever fails.
        thread::spawn(move || answer(client, &log));
    }
    Ok(())
}

fn answer(client: TcpStream, mut log: &File) -> io::Result<()> {
    client.set_nodelay(true)?;
    let mut requests = BufReader::new(&client);
    let mut body = Vec::new();
    while let Some(length) = head(&mut requests)? {
        body.resize(length, 0);
        requests.read_exact(&mut body)?;
        log.write_all(&body)?;
        log.sync_data()?;
        (&client).write_all(ANSWER)?;
    }
    Ok(())
}

/// Reads up to a message's body, and gives its length; `None` at the end.
fn head(stream: &mut impl BufRead) -> io::Result<Option<usize>> {
    let mut length = 0;
    let mut line = String::new();
    loop {
        line.clear();
        if stream.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let Some((name, value)) = line.split_once(':') else {
            if line == "\r\n" {
                return Ok(Some(length));
            }
            continue;
        };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().map_err(io::Error::other)?;
        }
    }
}

/// How well posting went.
pub struct Posted {
    /// Requests a second, of all clients.
    pub rate: f64,
    /// All but one of a hundred were answered in this time.
    pub p99: Duration,
}

/// Has so many clients post one after the other, each so often.
pub fn post(server: SocketAddr, clients: u32, each: u32) -> io::Result<Posted> {
    let start = Instant::now();
    let posting: Vec<_> = (0..clients)
        .map(|_| thread::spawn(move || one_client(server, each)))
        .collect();
    let mut times = Vec::new();
    for client in posting {
        times.extend(client.join().expect("a client does not panic")?);
    }
    let rate = f64::from(clients * each) / start.elapsed().as_secs_f64();
    times.sort_unstable();
    let p99 = times[times.len() * 99 / 100];
    Ok(Posted { rate, p99 })
}

fn one_client(server: SocketAddr, count: u32) -> io::Result<Vec<Duration>> {
    let stream = TcpStream::connect_timeout(&server, PATIENCE)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut answers = BufReader::new(&stream);
    let mut request = format!("POST / HTTP/1.1\r\nContent-Length: {}\r\n\r\n", BODY.len());
    request.push_str(std::str::from_utf8(&BODY).expect("letters"));
    let mut post = || {
        let start = Instant::now();
        (&stream).write_all(request.as_bytes())?;
        match head(&mut answers)? {
            Some(_) => Ok(start.elapsed()),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    };
    (0..count).map(|_| post()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_ends_its_head_with_an_empty_line() {
        let mut two: &[u8] =
            b"POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcGET / HTTP/1.1\r\n\r\n";
        assert_eq!(head(&mut two).expect("a head"), Some(3));
        two = &two[3..];
        assert_eq!(head(&mut two).expect("a head"), Some(0));
        assert_eq!(head(&mut two).expect("the end"), None);
    }

    #[test]
    fn what_is_posted_is_logged_before_it_is_answered() {
        let scratch = tempfile::tempdir().expect("a directory");
        let path = scratch.path().join("log");
        let log = Arc::new(File::create(&path).expect("a log"));
        let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
        let address = listener.local_addr().expect("an address");
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let log = Arc::clone(&log);
                thread::spawn(move || answer(client, &log));
            }
        });
        let posted = post(address, 3, 7).expect("posted");
        assert!(posted.rate > 0.0 && !posted.p99.is_zero());
        let logged = std::fs::metadata(&path).expect("a log").len();
        assert_eq!(logged, 3 * 7 * BODY.len() as u64);
    }
}
