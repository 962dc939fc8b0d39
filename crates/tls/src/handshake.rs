//! A connection until both sides agree, within a time that no peer can stretch.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustls::Connection;
use serde::Serialize;
use serde::de::DeserializeOwned;
use surmise_remote::frame::{Decoder, encode};
use surmise_remote::opening::OPENING_BYTES_MAX;

/// Why both sides do not agree.
#[derive(Debug)]
pub(crate) enum Broken {
    /// The connection, or the time.
    Io(io::Error),
    /// The TLS of the other side, or its certificate.
    Tls(rustls::Error),
    /// What was sent inside.
    Garbled,
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// A connection that is not ready to be copied.
pub(crate) struct Handshake<'s> {
    pub(crate) tls: Connection,
    stream: &'s TcpStream,
    until: Instant,
    decoder: Decoder,
    /// How many bytes of messages have come.
    heard: usize,
}

impl<'s> Handshake<'s> {
    pub(crate) fn new(tls: Connection, stream: &'s TcpStream, time: Duration) -> Self {
        Self {
            tls,
            stream,
            until: Instant::now() + time,
            decoder: Decoder::default(),
            heard: 0,
        }
    }

    /// Goes on until this side is done. That the other side takes this one's certificate is known only with its first message.
    pub(crate) fn complete(&mut self) -> Result<(), Broken> {
        while self.tls.is_handshaking() {
            self.write()?;
            if self.tls.is_handshaking() {
                self.read()?;
            }
        }
        self.write()
    }

    /// Sends a message, and all that goes before it.
    pub(crate) fn say(&mut self, message: &impl Serialize) -> Result<(), Broken> {
        let mut bytes = Vec::new();
        encode(message, &mut bytes).map_err(|_| Broken::Garbled)?;
        self.tls.writer().write_all(&bytes)?;
        self.write()
    }

    /// The next message. Nothing may follow it.
    pub(crate) fn hear<M: DeserializeOwned>(&mut self) -> Result<M, Broken> {
        loop {
            let mut bytes = [0; OPENING_BYTES_MAX];
            match self.tls.reader().read(&mut bytes) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                Ok(length) => {
                    self.heard += length;
                    self.decoder.feed(&bytes[..length]);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.read()?;
                    continue;
                }
                Err(error) => return Err(error.into()),
            }
            match self.decoder.message() {
                Ok(Some(message)) if self.decoder.is_empty() => return Ok(message),
                Ok(None) if self.heard < OPENING_BYTES_MAX => {}
                _ => return Err(Broken::Garbled),
            }
        }
    }

    fn read(&mut self) -> Result<(), Broken> {
        self.stream.set_read_timeout(Some(self.left()?))?;
        let mut stream = self.stream;
        match self.tls.read_tls(&mut stream) {
            // The reader tells of the end.
            Ok(0) if !self.tls.is_handshaking() => {}
            Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
        let processed = self.tls.process_new_packets();
        if let Err(error) = processed {
            // The other side is told why, if it still listens.
            let _ = self.write();
            return Err(Broken::Tls(error));
        }
        Ok(())
    }

    fn write(&mut self) -> Result<(), Broken> {
        while self.tls.wants_write() {
            self.stream.set_write_timeout(Some(self.left()?))?;
            let mut stream = self.stream;
            match self.tls.write_tls(&mut stream) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // What the other side said last may tell why.
                Err(error) if is_gone(&error) && self.last_words()? => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Takes what came before the connection broke; whether anything did.
    fn last_words(&mut self) -> Result<bool, Broken> {
        let mut stream = self.stream;
        match self.tls.read_tls(&mut stream) {
            Ok(0) | Err(_) => Ok(false),
            Ok(_) => match self.tls.process_new_packets() {
                Ok(_) => Ok(true),
                Err(error) => Err(Broken::Tls(error)),
            },
        }
    }

    fn left(&self) -> io::Result<Duration> {
        let left = self.until.saturating_duration_since(Instant::now());
        match left.is_zero() {
            true => Err(io::ErrorKind::TimedOut.into()),
            false => Ok(left),
        }
    }
}

/// Whether the other side has closed.
fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
    )
}
