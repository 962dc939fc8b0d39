//! Servers on ports of loopback, until the program ends.

use std::convert::Infallible;
use std::error::Error;
use std::net::Ipv4Addr;

use surmise_grpc::{Server, bear_cancelled_calls};
use tokio::net::TcpListener;
use tonic::body::Body;
use tonic::codegen::{Service, http};
use tonic::server::NamedService;
use tonic::transport::Channel;
use tonic::transport::server::TcpIncoming;

pub async fn serve<S>(service: S) -> Result<Server, Box<dyn Error>>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>
        + NamedService
        + Clone
        + Send
        + Sync
        + 'static,
    S::Future: Send,
{
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    let server = tonic::transport::Server::builder().add_service(service);
    tokio::spawn(server.serve_with_incoming(incoming));
    let endpoint = Channel::from_shared(format!("http://{address}"))?;
    let channel = bear_cancelled_calls(endpoint).connect().await?;
    Ok(Server::new(channel))
}
