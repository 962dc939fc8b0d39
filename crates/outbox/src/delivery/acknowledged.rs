//! Whether a receiver's kernel has taken everything.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpStream};

/// Whether everything that was written to `stream` has been acknowledged.
///
/// The kernel's table of sockets tells the bytes between the last written and the last acknowledged
/// one. A socket that is not in the table has nothing left to send.
///
/// # Errors
/// When the table cannot be read.
pub(super) fn is_acknowledged(stream: &TcpStream) -> io::Result<bool> {
    let local = stream.local_addr()?;
    let table = if local.is_ipv4() { "tcp" } else { "tcp6" };
    let text = fs::read_to_string(format!("/proc/thread-self/net/{table}"))?;
    let ends = [hexadecimal(local), hexadecimal(stream.peer_addr()?)];
    Ok(left_in(&text, &ends).is_none_or(|left| left == 0))
}

/// The send queue's length, in bytes, of the socket with these two ends.
fn left_in(table: &str, ends: &[String; 2]) -> Option<u64> {
    table.lines().find_map(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        if fields.next()? != ends[0] || fields.next()? != ends[1] {
            return None;
        }
        let (left, _) = fields.nth(1)?.split_once(':')?;
        u64::from_str_radix(left, 16).ok()
    })
}

/// An address as the table has it: words in the machine's order, the port in reading order.
fn hexadecimal(address: SocketAddr) -> String {
    let words = |octets: &[u8]| -> String {
        let words = octets.as_chunks::<4>().0.iter();
        words
            .map(|word| format!("{:08X}", u32::from_ne_bytes(*word)))
            .collect()
    };
    let host = match address {
        SocketAddr::V4(address) => words(&address.ip().octets()),
        SocketAddr::V6(address) => words(&address.ip().octets()),
    };
    format!("{host}:{:04X}", address.port())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use surmise_testkit::watchdog;

    use super::*;

    #[test]
    fn bytes_are_acknowledged_when_the_receiver_has_taken_them() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let listener = match TcpListener::bind(address) {
                Ok(listener) => listener,
                Err(error) => {
                    surmise_testkit::skip(format!("no listener on {address}: {error}"));
                    continue;
                }
            };
            let local = listener.local_addr().expect("an address");
            let mut stream = TcpStream::connect(local).expect("connect");
            let (mut server, _) = listener.accept().expect("accept");
            stream.set_nonblocking(true).expect("set non-blocking");
            let mut written = 0;
            // Filled up once, and again after what the kernels could still move has moved.
            watchdog::until("the connection is full", watchdog::LIMIT, || {
                let mut wrote = false;
                while let Ok(length) = stream.write(&[7; 1 << 16]) {
                    written += length;
                    wrote = true;
                }
                !wrote
            });
            assert!(!is_acknowledged(&stream).expect("read the table"));
            let mut buffer = vec![0; written];
            server.read_exact(&mut buffer).expect("read");
            watchdog::until("all is acknowledged", watchdog::LIMIT, || {
                is_acknowledged(&stream).expect("read the table")
            });
        }
    }
}
