//! A server that knows nothing of speculation.

use std::error::Error;
use std::net::Ipv4Addr;
use std::time::Duration;

use surmise_grpc::bear_cancelled_calls;
use surmise_guide::weather::weather_client::WeatherClient;
use surmise_guide::weather::weather_server::{Weather, WeatherServer};
use surmise_guide::weather::{Measured, Place, Profile, User};
use tokio::net::TcpListener;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Server};
use tonic::{Request, Response, Status};

/// How long an answer takes.
const TAKES: Duration = Duration::from_millis(20);

struct Station;

#[tonic::async_trait]
impl Weather for Station {
    async fn find(&self, user: Request<User>) -> Result<Response<Profile>, Status> {
        tokio::time::sleep(TAKES).await;
        let city = match user.into_inner().number {
            0 => "Bergen".to_owned(),
            1 => "Lima".to_owned(),
            other => return Err(Status::not_found(format!("there is no user {other}"))),
        };
        Ok(Response::new(Profile { city }))
    }

    async fn measure(&self, place: Request<Place>) -> Result<Response<Measured>, Status> {
        tokio::time::sleep(TAKES).await;
        let celsius = match place.into_inner().city.as_str() {
            "Lima" => 19,
            _ => 7,
        };
        Ok(Response::new(Measured { celsius }))
    }
}

/// Serves on a port of loopback until the program ends, and connects to it.
pub async fn start() -> Result<WeatherClient<Channel>, Box<dyn Error>> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    let server = Server::builder().add_service(WeatherServer::new(Station));
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    tokio::spawn(server.serve_with_incoming(incoming));
    let endpoint = Channel::from_shared(format!("http://{address}"))?;
    let channel = bear_cancelled_calls(endpoint).connect().await?;
    Ok(WeatherClient::new(channel))
}
