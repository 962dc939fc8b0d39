//! What makes one node far from another: a relay of TCP connections that holds everything back for a while.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// What may be under way in one direction, in pieces of [`PIECE`].
const PIECES_MAX: usize = 1024;
const PIECE: usize = 16 << 10;

/// Relays connections until it is dropped.
pub async fn relay(listener: TcpListener, to: SocketAddr, delay: Duration) {
    let mut connections = JoinSet::new();
    while let Ok((near, _)) = listener.accept().await {
        connections.spawn(async move {
            // One that cannot be relayed is closed, which its peers see.
            let _ = connect(near, to, delay).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn connect(near: TcpStream, to: SocketAddr, delay: Duration) -> io::Result<()> {
    let far = TcpStream::connect(to).await?;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    let ((from_near, to_near), (from_far, to_far)) = (near.into_split(), far.into_split());
    let (there, back) = tokio::join!(
        pass_on(from_near, to_far, delay),
        pass_on(from_far, to_near, delay)
    );
    there.and(back)
}

/// In order, each piece as long after it came as any other: so pieces follow each other as they did.
async fn pass_on(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    delay: Duration,
) -> io::Result<()> {
    let (sender, mut pieces) = mpsc::channel::<(Instant, Vec<u8>)>(PIECES_MAX);
    let read = async move {
        loop {
            let mut piece = vec![0; PIECE];
            let length = from.read(&mut piece).await?;
            piece.truncate(length);
            // An empty piece is the end, which takes its time as well.
            let sent = sender.send((Instant::now() + delay, piece)).await;
            if length == 0 || sent.is_err() {
                return io::Result::Ok(());
            }
        }
    };
    let write = async move {
        while let Some((at, piece)) = pieces.recv().await {
            tokio::time::sleep_until(at).await;
            if piece.is_empty() {
                return to.shutdown().await;
            }
            to.write_all(&piece).await?;
        }
        io::Result::Ok(())
    };
    let (read, written) = tokio::join!(read, write);
    read.and(written)
}
