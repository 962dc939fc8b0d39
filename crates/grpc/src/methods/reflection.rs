//! Asks a server what its methods are: `grpc.reflection.v1`, and `v1alpha`, which has the same messages, at servers that
//! know only that.

use prost::bytes::Bytes;
use thiserror::Error;
use tonic::body::Body;
use tonic::client::{Grpc, GrpcService};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::codegen::{Body as HttpBody, StdError};
use tonic::{Code, Request, Status, Streaming};
use tonic_prost::ProstCodec;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_reflection::pb::v1::{ErrorResponse, ServerReflectionRequest, ServerReflectionResponse};

use super::descriptor::{self, File};
use super::{DescriptorError, Methods};

const V1: &str = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
const V1_ALPHA: &str = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";

/// Why a server does not say what its methods are.
#[derive(Debug, Error)]
pub enum ReflectionError {
    /// The call failed, with `UNIMPLEMENTED` at a server that has no reflection.
    #[error("the server cannot be asked for its methods: {0}")]
    Status(#[from] Status),
    /// It lists a service and refuses to describe it.
    #[error("the server does not describe {service}: {message} (code {code})")]
    Refused {
        /// Its full name.
        service: String,
        /// The code of a gRPC status.
        code: i32,
        /// In the server's words.
        message: String,
    },
    /// It answers something else than it was asked for, or nothing.
    #[error("the server's answer to {0:?} is of another kind")]
    Answer(String),
    /// What it says is no descriptor.
    #[error(transparent)]
    Descriptor(#[from] DescriptorError),
}

impl Methods {
    /// Learns from a server, which has the service for reflection. It is believed what it says of services that it
    /// lists, so this should not be asked for another server. Ask once, at the start: it is a call for each service,
    /// with no limit of time.
    ///
    /// A service that a server lists and does not find is unsafe.
    ///
    /// # Errors
    ///
    /// The server has no reflection, refuses to describe a service for another reason, or answers against its protocol.
    pub async fn reflect<C>(mut self, client: C) -> Result<Self, ReflectionError>
    where
        C: GrpcService<Body> + Clone,
        C::ResponseBody: HttpBody<Data = Bytes> + Send + 'static,
        <C::ResponseBody as HttpBody>::Error: Into<StdError> + Send,
    {
        let classes = match asked(client.clone(), V1).await {
            Err(ReflectionError::Status(status)) if status.code() == Code::Unimplemented => {
                asked(client, V1_ALPHA).await
            }
            answered => answered,
        };
        self.described.extend(classes?);
        Ok(self)
    }
}

type Classes = Vec<(String, surmise_rpc::Safety)>;

async fn asked<C>(client: C, path: &'static str) -> Result<Classes, ReflectionError>
where
    C: GrpcService<Body>,
    C::ResponseBody: HttpBody<Data = Bytes> + Send + 'static,
    <C::ResponseBody as HttpBody>::Error: Into<StdError> + Send,
{
    let mut client = Grpc::new(client);
    let ready = client.ready().await;
    ready.map_err(|error| Status::unavailable(error.into().to_string()))?;
    let (ask, asked) = tokio::sync::mpsc::unbounded_channel();
    let path = PathAndQuery::from_static(path);
    let asked = Request::new(UnboundedReceiverStream::new(asked));
    // Some servers say nothing, also no headers, before they are asked.
    let list = MessageRequest::ListServices(String::new());
    let _ = ask.send(request(list.clone()));
    let answers = client.streaming(asked, path, ProstCodec::default());
    let mut answers = answers.await?.into_inner();
    let MessageResponse::ListServicesResponse(list) = next(&mut answers, "list").await? else {
        return Err(ReflectionError::Answer("list".to_owned()));
    };
    let mut classes = Vec::new();
    for service in list.service {
        let symbol = MessageRequest::FileContainingSymbol(service.name.clone());
        let _ = ask.send(request(symbol));
        classes.extend(described(
            next(&mut answers, &service.name).await?,
            &service.name,
        )?);
    }
    Ok(classes)
}

fn request(message: MessageRequest) -> ServerReflectionRequest {
    ServerReflectionRequest {
        host: String::new(),
        message_request: Some(message),
    }
}

async fn next(
    answers: &mut Streaming<ServerReflectionResponse>,
    to: &str,
) -> Result<MessageResponse, ReflectionError> {
    let answer = answers.message().await?;
    let answer = answer.and_then(|answer| answer.message_response);
    answer.ok_or_else(|| ReflectionError::Answer(to.to_owned()))
}

/// What an answer says of the service that it was asked for. Files that it needs may be there, too.
fn described(answer: MessageResponse, service: &str) -> Result<Classes, ReflectionError> {
    let files = match answer {
        MessageResponse::FileDescriptorResponse(files) => files.file_descriptor_proto,
        MessageResponse::ErrorResponse(error) => return undescribed(error, service),
        _ => return Err(ReflectionError::Answer(service.to_owned())),
    };
    let files = files.iter().map(|file| descriptor::file(file));
    let files: Vec<File> = files.collect::<Result<_, _>>()?;
    let own = format!("{service}/");
    let classes = files.iter().flat_map(File::classes);
    let own = classes.filter(|(path, _)| path.starts_with(&own));
    Ok(descriptor::collected(own)?)
}

/// Servers also list what they have no descriptor of.
fn undescribed(error: ErrorResponse, service: &str) -> Result<Classes, ReflectionError> {
    match Code::from(error.error_code) {
        Code::NotFound => Ok(Vec::new()),
        _ => Err(ReflectionError::Refused {
            service: service.to_owned(),
            code: error.error_code,
            message: error.error_message,
        }),
    }
}
