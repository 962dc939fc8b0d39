//! The bytes of a connection between the server of a far directory and a client: in blocks, compressed by zstd where that pays.
//!
//! What is sent is a stream of frames (`surmise_remote::frame`). The first frame of each direction goes as it is, so that a side that
//! speaks another version of the protocol is understood. All that follows goes in blocks, which may begin and end anywhere in a frame.
//! A block is four bytes, little-endian, and a body:
//!
//! | bits | |
//! |---|---|
//! | 0 to 23 | the length of the body in bytes, at least one |
//! | 24 to 29 | zero |
//! | 30 | the sender wants to be sent compressed blocks |
//! | 31 | the body is compressed |
//!
//! The compressed bodies of one direction are together one frame of zstd (RFC 8878) that does not end, cut behind a flush. So the
//! compressor knows what it has sent before: attributes, names and ids of one tree are much alike, and a message of some hundred bytes
//! has too little in itself to be made shorter. Neither side knows more of what was sent than [`WINDOW_LOG`] says, and a receiver makes
//! no more of what comes at a time than a buffer holds. What it makes is taken before it goes on.
//!
//! # When a sender compresses
//!
//! * When the line is far: a round trip takes two milliseconds or more. The client measures that, and tells the server by bit 30.
//! * When the line is near and yet slow: to write takes several times as long as to compress would ([`Pace`](pace::Pace)).
//! * Not what does not become shorter: after a block that did not, the next ones go as they are, each time for longer.
//!
//! # Encryption
//!
//! TLS or ssh encrypt what was compressed, and do not hide how long it is. An attacker who sees the lengths, and can have text of his
//! own sent beside a secret again and again, learns from them whether the two are alike (CRIME, BREACH). Web servers are open to this
//! since any page can make a browser send a request that holds the secret. Here no key, password or token goes over the stream: TLS and ssh
//! have dealt with these before it begins. What remains are secrets in files. To learn one, an attacker has to see the line, write files
//! or names that this same client sends or reads, and have the client send the secret again close to each of many hundred guesses, while
//! leases and the client's cache see to it that nothing that is known is sent twice. Lengths tell such an observer a good deal
//! without compression, too: the sizes of files, and which program runs. So it is accepted, as for ssh's own compression and rsync's. One
//! stream never carries what belongs to two clients, since each connection has its own.
#![forbid(unsafe_code)]

mod block;
mod compress;
mod decompress;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod line;
mod pace;
mod reader;
mod writer;

pub use line::{Line, Traffic, Transferred};
pub use reader::{Garbled, Reader};
pub use writer::Writer;

/// The binary logarithm of how many bytes back a compressed block may refer.
pub const WINDOW_LOG: u32 = 17;
