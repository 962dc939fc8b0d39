//! Servers of the outer network.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::mpsc::channel;
use std::thread;

use crate::world::SOON;

/// A listener that nobody serves yet.
pub fn listen(address: IpAddr) -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind((address, 0)).expect("listen");
    let address = listener.local_addr().expect("its address");
    (listener, address)
}

/// An address at which nobody listens.
pub fn nobody(address: IpAddr) -> SocketAddr {
    listen(address).1
}

/// The next connection to a listener.
#[track_caller]
pub fn accept(listener: &TcpListener) -> TcpStream {
    let listener = listener.try_clone().expect("a copy");
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let _ = sender.send(listener.accept());
    });
    let accepted = receiver.recv_timeout(SOON).expect("a connection comes");
    let (stream, _) = accepted.expect("accept");
    stream.set_read_timeout(Some(SOON)).expect("bound reads");
    stream.set_write_timeout(Some(SOON)).expect("bound writes");
    stream
}

/// Fails if a connection has come to the listener.
#[track_caller]
pub fn nobody_came(listener: &TcpListener) {
    listener.set_nonblocking(true).expect("set");
    let came = listener.accept();
    let error = came.expect_err("nobody may come");
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    listener.set_nonblocking(false).expect("set");
}

/// A server that sends back what it gets.
pub fn echo(address: IpAddr) -> SocketAddr {
    let (listener, address) = listen(address);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::Builder::new()
                .stack_size(64 << 10)
                .spawn(move || echo_to(stream))
                .expect("a thread");
        }
    });
    address
}

fn echo_to(mut stream: TcpStream) {
    stream.set_nodelay(true).expect("set");
    let mut buffer = [0; 16 << 10];
    while let Ok(length @ 1..) = stream.read(&mut buffer) {
        if stream.write_all(&buffer[..length]).is_err() {
            return;
        }
    }
    let _ = stream.shutdown(Shutdown::Write);
}

/// A UDP server that answers each datagram with its own address and the datagram.
pub fn echo_datagrams(address: IpAddr) -> SocketAddr {
    let socket = UdpSocket::bind((address, 0)).expect("bind");
    let address = socket.local_addr().expect("its address");
    thread::spawn(move || {
        let mut buffer = [0; 65536];
        while let Ok((length, from)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(&buffer[..length], from);
        }
    });
    address
}

/// A connection's whole input, and then nothing.
#[track_caller]
pub fn read_all(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("read to the end");
    bytes
}

/// Exactly so many bytes.
#[track_caller]
pub fn read_some(stream: &mut TcpStream, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).expect("read");
    bytes
}

/// What a connection's program would be told.
pub fn failure(stream: &mut TcpStream) -> Option<io::ErrorKind> {
    stream.read(&mut [0; 16]).err().map(|error| error.kind())
}

/// One ping-pong.
#[track_caller]
pub fn assert_echoes(stream: &mut TcpStream, text: &[u8]) {
    stream.write_all(text).expect("write");
    assert_eq!(read_some(stream, text.len()), text);
}
