//! The part of etcd's service that the example needs, by the numbers in its `rpc.proto`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use surmise_grpc::{Stamp, Status, bear_cancelled_calls};
use tonic::Request;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic_prost::ProstCodec;

/// What a read may answer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Consistency {
    /// What is true now: other nodes are asked.
    Linearizable,
    /// What the node has.
    Serializable,
}

/// What a key led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub value: String,
    /// Of the whole store, when it was read.
    revision: u64,
    /// Whose revision it is.
    cluster: u64,
}

impl Found {
    /// The store's revision moves on with every change of any key.
    pub fn is_same(&self, other: &Self) -> bool {
        self.value == other.value
    }

    pub fn stamp(&self) -> Stamp {
        Stamp {
            clock: self.cluster,
            at: self.revision,
        }
    }
}

/// A client of one node.
#[derive(Clone)]
pub struct Kv {
    channel: Channel,
    reads: Arc<AtomicU64>,
}

impl Kv {
    pub async fn connect(address: String) -> Result<Self, tonic::transport::Error> {
        let endpoint = Channel::from_shared(address).expect("an address");
        let endpoint = bear_cancelled_calls(endpoint.tcp_nodelay(true));
        Ok(Self {
            channel: endpoint.connect().await?,
            reads: Arc::default(),
        })
    }

    /// How many reads were sent.
    pub fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    pub async fn read(&self, key: &str, consistency: Consistency) -> Result<Found, Status> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let request = RangeRequest {
            key: key.into(),
            serializable: consistency == Consistency::Serializable,
        };
        let reply: RangeResponse = self.unary("/etcdserverpb.KV/Range", request).await?;
        let found = reply.found.first();
        let value = found.and_then(|found| String::from_utf8(found.value.clone()).ok());
        let header = reply.header.unwrap_or_default();
        Ok(Found {
            value: value.ok_or_else(|| Status::not_found(key))?,
            revision: u64::try_from(header.revision).unwrap_or_default(),
            cluster: header.cluster_id,
        })
    }

    pub async fn put(&self, key: &str, value: &str) -> Result<(), Status> {
        let request = PutRequest {
            key: key.into(),
            value: value.into(),
        };
        let _: PutResponse = self.unary("/etcdserverpb.KV/Put", request).await?;
        Ok(())
    }

    pub async fn status(&self) -> Result<StatusResponse, Status> {
        let path = "/etcdserverpb.Maintenance/Status";
        self.unary(path, StatusRequest {}).await
    }

    async fn unary<Q, R>(&self, path: &'static str, request: Q) -> Result<R, Status>
    where
        Q: prost::Message + Default + 'static,
        R: prost::Message + Default + 'static,
    {
        let mut client = Grpc::new(self.channel.clone());
        let ready = client.ready().await;
        ready.map_err(|error| Status::unavailable(error.to_string()))?;
        let codec = ProstCodec::<Q, R>::default();
        let reply = client.unary(
            Request::new(request),
            PathAndQuery::from_static(path),
            codec,
        );
        Ok(reply.await?.into_inner())
    }
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
struct RangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bool, tag = "7")]
    serializable: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
struct RangeResponse {
    #[prost(message, optional, tag = "1")]
    header: Option<ResponseHeader>,
    #[prost(message, repeated, tag = "2")]
    found: Vec<KeyValue>,
}

#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ResponseHeader {
    #[prost(uint64, tag = "1")]
    cluster_id: u64,
    #[prost(uint64, tag = "2")]
    pub member_id: u64,
    #[prost(int64, tag = "3")]
    revision: i64,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
struct KeyValue {
    #[prost(bytes = "vec", tag = "5")]
    value: Vec<u8>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
struct PutRequest {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
struct PutResponse {}

#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
struct StatusRequest {}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct StatusResponse {
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    /// Who leads; none while that is undecided.
    #[prost(uint64, tag = "4")]
    pub leader: u64,
}
