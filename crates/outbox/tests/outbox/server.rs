//! Receivers of what is delivered.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

/// What a receiver does with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// Reads to the end, answers and closes.
    Answer,
    /// As `Answer`, after a pause.
    Pause,
    /// Echoes everything at once, four times.
    Echo,
    /// Reads to the end and keeps the connection open.
    NeverClose,
    /// Reads nothing and keeps the connection open.
    NeverRead,
    /// Resets the connection at its first byte.
    Reset,
}

/// One connection, as its receiver saw it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    pub bytes: Vec<u8>,
    pub end: Option<Ended>,
    /// Whether all connections before it had ended when it was taken.
    pub was_alone: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ended {
    Closed,
    Reset,
}

/// A receiver on a loopback port of its own.
pub struct Server {
    pub port: u16,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Server {
    /// Serves every connection on a thread of its own.
    pub fn start(manner: Manner) -> Self {
        Self::serve(manner, false)
    }

    /// Serves one connection after the other.
    pub fn iterative(manner: Manner) -> Self {
        Self::serve(manner, true)
    }

    fn serve(manner: Manner, is_iterative: bool) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("listen");
        let port = listener.local_addr().expect("an address").port();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&seen);
        // The thread ends with the test program.
        thread::spawn(move || {
            let mut kept = Vec::new();
            for stream in listener.incoming() {
                let stream = stream.expect("accept");
                if matches!(manner, Manner::NeverRead | Manner::NeverClose) {
                    kept.push(stream.try_clone().expect("another descriptor"));
                }
                let index = {
                    let mut seen = shared.lock().expect("no panic");
                    let was_alone = seen.iter().all(|seen: &Seen| seen.end.is_some());
                    seen.push(Seen {
                        was_alone,
                        ..Seen::default()
                    });
                    seen.len() - 1
                };
                let shared = Arc::clone(&shared);
                let work = move || attend(stream, manner, &shared, index);
                if is_iterative {
                    work();
                } else {
                    thread::spawn(work);
                }
            }
        });
        Self { port, seen }
    }

    /// All connections so far, in the order in which they were taken.
    pub fn seen(&self) -> Vec<Seen> {
        self.lock().clone()
    }

    /// Bytes of all connections.
    pub fn bytes(&self) -> usize {
        self.lock().iter().map(|seen| seen.bytes.len()).sum()
    }

    /// Whether every connection has ended.
    pub fn is_quiet(&self) -> bool {
        self.lock().iter().all(|seen| seen.end.is_some())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Seen>> {
        self.seen.lock().expect("no panic")
    }
}

fn attend(mut stream: TcpStream, manner: Manner, seen: &Mutex<Vec<Seen>>, index: usize) {
    match manner {
        Manner::NeverRead => return,
        Manner::Reset => {
            let read = stream.read(&mut [0]).expect("read");
            assert_eq!(read, 1);
            let now = Some(Duration::ZERO);
            rustix::net::sockopt::set_socket_linger(&stream, now).expect("set the linger time");
            return;
        }
        Manner::Pause => thread::sleep(Duration::from_millis(100)),
        Manner::Answer | Manner::Echo | Manner::NeverClose => {}
    }
    let mut buffer = vec![0; 1 << 16];
    let end = loop {
        match stream.read(&mut buffer) {
            Ok(0) => break Ended::Closed,
            Ok(length) => {
                let bytes = &buffer[..length];
                seen.lock().expect("no panic")[index].bytes.extend(bytes);
                if manner == Manner::Echo && stream.write_all(&bytes.repeat(4)).is_err() {
                    break Ended::Reset;
                }
            }
            Err(_) => break Ended::Reset,
        }
    };
    if matches!(manner, Manner::Answer | Manner::Pause) && end == Ended::Closed {
        // Whoever was killed meanwhile does not listen.
        let _ = stream.write_all(b"thank you\n");
    }
    seen.lock().expect("no panic")[index].end = Some(end);
}
