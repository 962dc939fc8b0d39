//! A proxy that does one thing wrong, at one frame, and knows what passed it.
//!
//! It reads the headers of HTTP/2 frames (RFC 9113, section 4.1) and the lengths of gRPC messages, and
//! nothing else.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

use crate::store::Entry;

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Both ends are told that the other has reset the frame's stream, of which nothing passes any more.
    Reset,
    /// Whoever was to get it is told that its stream is at its end, as if that were meant; and what was to
    /// get there never does.
    EndStream,
    /// The same of the connection.
    HalfClose,
    /// It comes late, and so does what is behind it.
    Delay,
    /// It comes twice.
    Duplicate,
    /// The connection is reset in its place.
    Kill,
    /// The connection is reset in the midst of it.
    Truncate,
}

pub const KINDS: [Kind; 7] = [
    Kind::Reset,
    Kind::EndStream,
    Kind::HalfClose,
    Kind::Delay,
    Kind::Duplicate,
    Kind::Kill,
    Kind::Truncate,
];

/// Toward the server, or toward the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Toward {
    Server,
    Client,
}

/// What goes wrong once, at which frame in one direction, counted over all connections.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    pub kind: Kind,
    pub toward: Toward,
    pub at: usize,
}

/// Longer than everything else takes that happens meanwhile.
const LATE: Duration = Duration::from_millis(15);

/// What has passed toward the server in one call: messages, and how many of them were commits.
#[derive(Clone, Debug, Default)]
pub struct Passed {
    pub key: Option<String>,
    pub commits: usize,
    bytes: Vec<u8>,
}

/// What the proxy knows.
#[derive(Debug, Default)]
pub struct Seen {
    pub has_struck: bool,
    frames: [usize; 2],
    /// By connection and stream.
    calls: BTreeMap<(usize, u32), Passed>,
    /// Those of which nothing passes any more, and in which direction, if not in both.
    over: Vec<(usize, u32, Option<Toward>)>,
}

impl Seen {
    /// What has passed of calls with this key.
    pub fn of<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a Passed> {
        let calls = self.calls.values();
        calls.filter(move |passed| passed.key.as_deref() == Some(key))
    }
}

/// Stands between a client and a server.
#[derive(Clone)]
pub struct Proxy {
    pub address: SocketAddr,
    pub seen: Arc<Mutex<Seen>>,
}

impl Proxy {
    pub async fn before(server: SocketAddr, fault: Option<Fault>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Self {
            address: listener.local_addr().unwrap(),
            seen: Arc::default(),
        };
        let seen = proxy.seen.clone();
        tokio::spawn(async move {
            for number in 0.. {
                let (client, _) = listener.accept().await.unwrap();
                let server = TcpStream::connect(server).await.unwrap();
                let connection = Connection {
                    number,
                    fault,
                    seen: seen.clone(),
                };
                tokio::spawn(connection.run(client, server));
            }
        });
        proxy
    }
}

struct Connection {
    number: usize,
    fault: Option<Fault>,
    seen: Arc<Mutex<Seen>>,
}

type Writer = tokio::sync::Mutex<OwnedWriteHalf>;

/// How one direction ends.
enum End {
    Closed,
    Killed,
}

impl Connection {
    async fn run(self, client: TcpStream, server: TcpStream) {
        client.set_nodelay(true).unwrap();
        server.set_nodelay(true).unwrap();
        let (from_client, to_client) = client.into_split();
        let (mut from_server, to_server) = server.into_split();
        let (to_client, to_server) = (Writer::new(to_client), Writer::new(to_server));
        let forth = self.pump(from_client, Toward::Server, &to_server, &to_client);
        let back = async {
            let end = self.pump_frames(&mut from_server, Toward::Client, &to_client, &to_server);
            end.await.unwrap_or(End::Closed)
        };
        // One that is closed in one direction stays open in the other, until that ends, too.
        let (mut forth, mut back) = (std::pin::pin!(forth), std::pin::pin!(back));
        let end = tokio::select! {
            End::Killed = &mut forth => End::Killed,
            End::Killed = &mut back => End::Killed,
            else => End::Closed,
        };
        if matches!(end, End::Killed) {
            for writer in [&to_client, &to_server] {
                // To close it then is to reset it.
                let writer = writer.lock().await;
                let socket: &TcpStream = writer.as_ref();
                socket.set_zero_linger().unwrap();
            }
        }
    }

    /// From a client, which begins with its preface.
    async fn pump(
        &self,
        mut from: OwnedReadHalf,
        toward: Toward,
        to: &Writer,
        origin: &Writer,
    ) -> End {
        let mut preface = [0; 24];
        let read = from.read_exact(&mut preface).await;
        if read.is_err() || to.lock().await.write_all(&preface).await.is_err() {
            return End::Closed;
        }
        let end = self.pump_frames(&mut from, toward, to, origin).await;
        end.unwrap_or(End::Closed)
    }

    async fn pump_frames(
        &self,
        from: &mut OwnedReadHalf,
        toward: Toward,
        to: &Writer,
        origin: &Writer,
    ) -> io::Result<End> {
        loop {
            let Some(frame) = Frame::read(from).await? else {
                to.lock().await.shutdown().await?;
                return Ok(End::Closed);
            };
            let Some(kind) = self.strikes(toward) else {
                if !self.is_over(&frame, toward) {
                    to.lock().await.write_all(&frame.bytes).await?;
                    self.passed(toward, &frame);
                }
                continue;
            };
            match kind {
                Kind::Reset => {
                    self.end(&frame, None);
                    for end in [to, origin] {
                        end.lock().await.write_all(&frame.reset()).await?;
                    }
                }
                Kind::EndStream => {
                    self.end(&frame, Some(toward));
                    to.lock().await.write_all(&frame.end()).await?;
                }
                Kind::HalfClose => {
                    to.lock().await.shutdown().await?;
                    // What is said into the void is heard to its end.
                    tokio::io::copy(from, &mut tokio::io::sink()).await?;
                    return Ok(End::Closed);
                }
                Kind::Delay => {
                    tokio::time::sleep(LATE).await;
                    to.lock().await.write_all(&frame.bytes).await?;
                    self.passed(toward, &frame);
                }
                Kind::Duplicate => {
                    for _ in 0..2 {
                        to.lock().await.write_all(&frame.bytes).await?;
                        self.passed(toward, &frame);
                    }
                }
                Kind::Kill => return Ok(End::Killed),
                Kind::Truncate => {
                    let half = &frame.bytes[..frame.bytes.len() / 2];
                    to.lock().await.write_all(half).await?;
                    return Ok(End::Killed);
                }
            }
        }
    }

    /// What goes wrong at the next frame.
    fn strikes(&self, toward: Toward) -> Option<Kind> {
        let mut seen = self.seen.lock().unwrap();
        let count = &mut seen.frames[toward as usize];
        let at = *count;
        *count += 1;
        let fault = self
            .fault
            .filter(|fault| fault.toward == toward && fault.at == at)?;
        seen.has_struck = true;
        Some(fault.kind)
    }

    /// From now on, nothing of its stream passes.
    fn end(&self, frame: &Frame, toward: Option<Toward>) {
        let mut seen = self.seen.lock().unwrap();
        seen.over.push((self.number, frame.stream, toward));
    }

    fn is_over(&self, frame: &Frame, toward: Toward) -> bool {
        let seen = self.seen.lock().unwrap();
        let mut over = seen.over.iter();
        frame.stream != 0
            && over.any(|&(connection, stream, in_direction)| {
                (connection, stream) == (self.number, frame.stream)
                    && in_direction.is_none_or(|direction| direction == toward)
            })
    }

    fn passed(&self, toward: Toward, frame: &Frame) {
        if toward == Toward::Server && frame.kind == Frame::DATA {
            let mut seen = self.seen.lock().unwrap();
            let call = seen.calls.entry((self.number, frame.stream)).or_default();
            call.take(&frame.bytes[Frame::HEADER..]);
        }
    }
}

impl Passed {
    fn take(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        // A flag, and the length.
        while let Some((&[_, a, b, c, d], rest)) = self.bytes.split_first_chunk() {
            let length = u32::from_be_bytes([a, b, c, d]) as usize;
            let Some(message) = rest.get(..length) else {
                return;
            };
            match (&self.key, length) {
                (None, _) => {
                    // That of a speculative caller is marked.
                    let message = message.strip_prefix(&[7]).unwrap_or(message);
                    self.key = Some(Entry::decode(message).unwrap().key);
                }
                (Some(_), 0) => self.commits += 1,
                (Some(_), _) => {}
            }
            self.bytes.drain(..5 + length);
        }
    }
}

/// A frame, with its header.
struct Frame {
    bytes: Vec<u8>,
    kind: u8,
    stream: u32,
}

impl Frame {
    const HEADER: usize = 9;
    const DATA: u8 = 0;
    const RST_STREAM: u8 = 3;
    const CANCEL: u8 = 8;
    const GOAWAY: u8 = 7;

    /// None at the end.
    async fn read(from: &mut OwnedReadHalf) -> io::Result<Option<Self>> {
        let mut bytes = vec![0; Self::HEADER];
        match from.read_exact(&mut bytes).await {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            read => read?,
        };
        let length = u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]) as usize;
        bytes.resize(Self::HEADER + length, 0);
        from.read_exact(&mut bytes[Self::HEADER..]).await?;
        Ok(Some(Self {
            kind: bytes[3],
            stream: u32::from_be_bytes([bytes[5], bytes[6], bytes[7], bytes[8]]) & 0x7fff_ffff,
            bytes,
        }))
    }

    /// An empty frame of data that is its stream's last; one of the whole connection gets lost.
    fn end(&self) -> Vec<u8> {
        const END_STREAM: u8 = 1;
        let header = [0, 0, 0, Self::DATA, END_STREAM];
        match self.stream {
            0 => Vec::new(),
            stream => [&header, &stream.to_be_bytes()[..]].concat(),
        }
    }

    /// What resets its stream; for those of the whole connection, what ends that.
    fn reset(&self) -> Vec<u8> {
        let (kind, payload) = match self.stream {
            // The last stream that was worked on, and no error.
            0 => (Self::GOAWAY, [0; 8].to_vec()),
            _ => (Self::RST_STREAM, vec![0, 0, 0, Self::CANCEL]),
        };
        let length = u8::try_from(payload.len()).unwrap();
        let header = [0, 0, length, kind, 0];
        [&header, &self.stream.to_be_bytes()[..], &payload].concat()
    }
}
