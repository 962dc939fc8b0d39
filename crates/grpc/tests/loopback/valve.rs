//! A connection whose way back can be closed: what the server sends is late, as long as the test likes.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Stands between clients and a server.
#[derive(Clone)]
pub struct Valve(Arc<watch::Sender<bool>>, Arc<watch::Sender<()>>);

impl Valve {
    /// An open one before this server, and its address.
    pub async fn before(server: SocketAddr) -> (Self, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, receiver) = watch::channel(true);
        let cut = Arc::new(watch::Sender::new(()));
        let cuts = cut.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(server).await.unwrap();
                client.set_nodelay(true).unwrap();
                server.set_nodelay(true).unwrap();
                let (mut from_client, to_client) = client.into_split();
                let (from_server, mut to_server) = server.into_split();
                let back = let_back(from_server, to_client, receiver.clone());
                let mut cut = cuts.subscribe();
                tokio::spawn(async move {
                    tokio::select! {
                        _ = copy(&mut from_client, &mut to_server) => {}
                        () = back => {}
                        _ = cut.changed() => {}
                    }
                });
            }
        });
        (Self(Arc::new(sender), cut), address)
    }

    /// Ends all connections that there are, with no word to anybody.
    pub fn cut(&self) {
        self.1.send_replace(());
    }

    pub fn close(&self) {
        self.0.send_replace(false);
    }

    pub fn open(&self) {
        self.0.send_replace(true);
    }
}

async fn let_back(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut open: watch::Receiver<bool>,
) {
    let mut piece = [0; 4096];
    while let Ok(length) = from.read(&mut piece).await {
        let is_open = open.wait_for(|is_open| *is_open).await.is_ok();
        if length == 0 || !is_open || to.write_all(&piece[..length]).await.is_err() {
            return;
        }
    }
}
