//! The server of our own exchanges: one thread a connection, as long as this program runs.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;

/// How much is read or written at once.
pub const CHUNK: usize = 64 * 1024;

/// The first bytes of a connection: what the client asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Request {
    /// Every byte back. Code 1.
    Echo,
    /// One byte. Code 2.
    Answer,
    /// To take all there is, and to tell how much it was, as 8 bytes, the highest first. Code 3.
    Take,
    /// So many bytes; the number follows, as 8 bytes, the highest first. Code 4.
    Give {
        /// How many.
        bytes: u64,
    },
}

impl Request {
    /// Sends it.
    pub fn write(self, stream: &mut TcpStream) -> io::Result<()> {
        match self {
            Self::Echo => stream.write_all(&[1]),
            Self::Answer => stream.write_all(&[2]),
            Self::Take => stream.write_all(&[3]),
            Self::Give { bytes } => {
                let mut message = vec![4];
                message.extend(bytes.to_be_bytes());
                stream.write_all(&message)
            }
        }
    }

    fn read(stream: &mut TcpStream) -> io::Result<Self> {
        let mut code = [0];
        stream.read_exact(&mut code)?;
        match code[0] {
            1 => Ok(Self::Echo),
            2 => Ok(Self::Answer),
            3 => Ok(Self::Take),
            4 => {
                let mut bytes = [0; 8];
                stream.read_exact(&mut bytes)?;
                Ok(Self::Give {
                    bytes: u64::from_be_bytes(bytes),
                })
            }
            code => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("no request has code {code}"),
            )),
        }
    }
}

/// Starts it on a free port of loopback.
pub fn start() -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // One that fails is the client's to tell.
            thread::spawn(|| serve(stream));
        }
    });
    Ok(address)
}

fn serve(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    match Request::read(&mut stream)? {
        Request::Echo => {
            let mut byte = [0];
            while stream.read(&mut byte)? > 0 {
                stream.write_all(&byte)?;
            }
            Ok(())
        }
        Request::Answer => stream.write_all(b"x"),
        Request::Take => {
            let mut chunk = vec![0; CHUNK];
            let mut taken = 0_u64;
            loop {
                match stream.read(&mut chunk)? {
                    0 => break,
                    length => taken += length as u64,
                }
            }
            stream.write_all(&taken.to_be_bytes())
        }
        Request::Give { bytes } => {
            let chunk = vec![b'x'; CHUNK];
            let mut left = bytes;
            while left > 0 {
                let length = CHUNK.min(usize::try_from(left).unwrap_or(CHUNK));
                stream.write_all(&chunk[..length])?;
                left -= length as u64;
            }
            Ok(())
        }
    }
}
