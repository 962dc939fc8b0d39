//! A service that knows nothing of speculation, and takes a while: what is asked of it is looked up in a table.

use std::convert::Infallible;
use std::future::Future;
use std::net::Ipv4Addr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use surmise_grpc::{Status, bear_cancelled_calls};
use tokio::net::TcpListener;
use tonic::body::Body;
use tonic::client::Grpc;
use tonic::codegen::{Service, http};
use tonic::server::{NamedService, UnaryService};
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Server};
use tonic::{Request, Response};
use tonic_prost::ProstCodec;

/// How long an answer takes.
const TAKES: Duration = Duration::from_millis(50);

const TABLE: [(&str, &str); 3] = [
    ("1 + 2", "3"),
    ("personal information of Ann", "hats"),
    ("advertisements for hats", "red hats"),
];

/// A question, or its answer.
#[derive(Clone, PartialEq, Eq, prost::Message)]
struct Text {
    #[prost(string, tag = "1")]
    text: String,
}

#[derive(Clone)]
struct Table;

/// An ordinary client.
pub struct Client(Channel);

impl Client {
    /// Of a server on a port of loopback, which ends with this program.
    pub async fn start() -> Result<Self, Box<dyn std::error::Error>> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        let server = Server::builder().add_service(Table);
        tokio::spawn(server.serve_with_incoming(incoming));
        let endpoint = Channel::from_shared(format!("http://{address}"))?.tcp_nodelay(true);
        Ok(Self(bear_cancelled_calls(endpoint).connect().await?))
    }

    pub async fn ask(&self, question: &str) -> Result<String, Status> {
        let mut client = Grpc::new(self.0.clone());
        let ready = client.ready().await;
        ready.map_err(|error| Status::unavailable(error.to_string()))?;
        let text = question.to_owned();
        let path = http::uri::PathAndQuery::from_static("/figures.Table/Ask");
        let codec = ProstCodec::<Text, Text>::default();
        let reply = client
            .unary(Request::new(Text { text }), path, codec)
            .await?;
        Ok(reply.into_inner().text)
    }
}

type Pinned<T> = Pin<Box<dyn Future<Output = T> + Send>>;

impl NamedService for Table {
    const NAME: &'static str = "figures.Table";
}

impl Service<http::Request<Body>> for Table {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pinned<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let codec = ProstCodec::<Text, Text>::default();
        Box::pin(async move { Ok(tonic::server::Grpc::new(codec).unary(Self, request).await) })
    }
}

impl UnaryService<Text> for Table {
    type Response = Text;
    type Future = Pinned<Result<Response<Text>, Status>>;

    fn call(&mut self, request: Request<Text>) -> Self::Future {
        Box::pin(async move {
            tokio::time::sleep(TAKES).await;
            let question = request.into_inner().text;
            let answer = TABLE.iter().find(|(asked, _)| *asked == question);
            let (_, answer) = answer.ok_or_else(|| Status::not_found(question))?;
            Ok(Response::new(Text {
                text: (*answer).to_owned(),
            }))
        })
    }
}
