//! What methods are, as their descriptors say: from a file, and from servers that are asked.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;

use protox::Compiler;
use surmise_grpc::{Methods, ReflectionError, Safety};
use tokio::net::TcpListener;
use tonic::body::Body;
use tonic::codegen::tokio_stream::{Stream, StreamExt};
use tonic::codegen::{Service, http};
use tonic::server::NamedService;
use tonic::transport::server::{Router, TcpIncoming};
use tonic::transport::{Channel, Server};
use tonic::{Code, Request, Response, Status, Streaming};
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_reflection::pb::v1::server_reflection_server::{
    ServerReflection, ServerReflectionServer,
};
use tonic_reflection::pb::v1::{
    ErrorResponse, FileDescriptorResponse, ListServiceResponse, ServerReflectionRequest,
    ServerReflectionResponse, ServiceResponse,
};

use crate::store::Store;

const SHOP: &str = r#"
    syntax = "proto3";
    package shop.v1;
    import "surmise/options.proto";
    message Item {}
    service Shop {
      rpc Get(Item) returns (Item) { option idempotency_level = NO_SIDE_EFFECTS; }
      rpc Set(Item) returns (Item) { option idempotency_level = IDEMPOTENT; }
      rpc Order(Item) returns (Item) { option (surmise.aware) = true; }
      rpc Cancel(Item) returns (Item) { option (surmise.aware) = false; }
      rpc Look(Item) returns (Item) {
        option idempotency_level = NO_SIDE_EFFECTS;
        option (surmise.aware) = true;
      }
      rpc Buy(Item) returns (Item);
    }
    service Bank {
      rpc Pay(Item) returns (Item) { option idempotency_level = NO_SIDE_EFFECTS; }
    }
"#;

/// A compiler that has read this file.
fn compiler(source: &str) -> Compiler {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("shop.proto");
    fs::write(&file, source).unwrap();
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("proto");
    let mut compiler = Compiler::new([directory.path(), &ours]).unwrap();
    compiler.include_imports(true).open_file(&file).unwrap();
    compiler
}

fn shop(methods: &Methods, names: &[&str]) -> Vec<Safety> {
    let names = names.iter();
    names
        .map(|name| methods.of(&format!("/shop.v1.Shop/{name}")))
        .collect()
}

#[test]
fn methods_are_what_they_say_and_else_unsafe() {
    let said = compiler(SHOP).encode_file_descriptor_set();
    let methods = Methods::new().describe(&said).unwrap();
    assert_eq!(shop(&methods, &["Get", "Look"]), [Safety::Safe; 2]);
    assert_eq!(shop(&methods, &["Order"]), [Safety::Aware]);
    assert_eq!(
        shop(&methods, &["Set", "Cancel", "Buy", "Other"]),
        [Safety::Unsafe; 4]
    );
    assert_eq!(methods.of("/other.Shop/Get"), Safety::Unsafe);
}

#[test]
fn services_need_no_package() {
    let said = compiler(&SHOP.replace("package shop.v1;", "")).encode_file_descriptor_set();
    let methods = Methods::new().describe(&said).unwrap();
    assert_eq!(methods.of("/Shop/Get"), Safety::Safe);
}

#[test]
fn what_is_configured_counts_whenever_it_is_said() {
    let said = compiler(SHOP).encode_file_descriptor_set();
    let configured = Methods::new().class("/shop.v1.Shop/Get", Safety::Unsafe);
    let before = configured.clone().describe(&said).unwrap();
    let after = Methods::new().describe(&said).unwrap();
    let after = after.class("/shop.v1.Shop/Get", Safety::Unsafe);
    assert_eq!(
        [shop(&before, &["Get"]), shop(&after, &["Get"])].concat(),
        [Safety::Unsafe; 2]
    );
    assert_eq!(shop(&before, &["Look"]), [Safety::Safe]);
}

#[test]
fn the_slash_at_the_beginning_of_a_path_may_be_left_out() {
    for path in ["/shop.v1.Shop/Get", "shop.v1.Shop/Get"] {
        let methods = Methods::new().class(path, Safety::Safe);
        assert_eq!(methods.of("/shop.v1.Shop/Get"), Safety::Safe);
        assert_eq!(methods.of("shop.v1.Shop/Get"), Safety::Safe);
        assert_eq!(methods.of("//shop.v1.Shop/Get"), Safety::Unsafe);
    }
}

#[test]
fn what_is_no_descriptor_is_an_error() {
    assert!(Methods::new().describe(&[0xff, 0xff]).is_err());
}

/// Serves it on a port of its own.
async fn connected(router: Router) -> Channel {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address: SocketAddr = listener.local_addr().unwrap();
    tokio::spawn(router.serve_with_incoming(TcpIncoming::from(listener)));
    let endpoint = Channel::from_shared(format!("http://{address}")).unwrap();
    endpoint.connect().await.unwrap()
}

fn serving<S>(service: S) -> Router
where
    S: Service<
            http::Request<Body>,
            Response = http::Response<Body>,
            Error = std::convert::Infallible,
        > + NamedService
        + Clone
        + Send
        + Sync
        + 'static,
    S::Future: Send,
{
    Server::builder().add_service(service)
}

/// By the server for reflection that tonic has.
#[tokio::test]
async fn servers_are_asked_in_both_versions_of_the_protocol() {
    let said = compiler(SHOP).encode_file_descriptor_set();
    let server = || {
        let server = tonic_reflection::server::Builder::configure();
        server.register_encoded_file_descriptor_set(&said)
    };
    let new = connected(serving(server().build_v1().unwrap())).await;
    let old = connected(serving(server().build_v1alpha().unwrap())).await;
    for channel in [new, old] {
        let methods = Methods::new().reflect(channel).await.unwrap();
        assert_eq!(shop(&methods, &["Get", "Look"]), [Safety::Safe; 2]);
        assert_eq!(shop(&methods, &["Order"]), [Safety::Aware]);
        assert_eq!(shop(&methods, &["Set", "Buy"]), [Safety::Unsafe; 2]);
        assert_eq!(methods.of("/shop.v1.Bank/Pay"), Safety::Safe);
    }
}

#[tokio::test]
async fn a_server_without_reflection_is_an_error() {
    let address = Store::default().listen().await;
    let endpoint = Channel::from_shared(format!("http://{address}")).unwrap();
    let error = Methods::new()
        .reflect(endpoint.connect_lazy())
        .await
        .unwrap_err();
    assert!(
        matches!(&error, ReflectionError::Status(status) if status.code() == Code::Unimplemented),
        "{error}"
    );
}

/// Lists one service, and answers this to whoever asks what it is.
struct Says(MessageResponse);

#[tonic::async_trait]
impl ServerReflection for Says {
    type ServerReflectionInfoStream =
        Pin<Box<dyn Stream<Item = Result<ServerReflectionResponse, Status>> + Send>>;

    async fn server_reflection_info(
        &self,
        asked: Request<Streaming<ServerReflectionRequest>>,
    ) -> Result<Response<Self::ServerReflectionInfoStream>, Status> {
        let said = self.0.clone();
        let answers = asked.into_inner().map(move |asked| {
            let name = "shop.v1.Shop".to_owned();
            let answer = match asked?.message_request {
                Some(MessageRequest::ListServices(_)) => {
                    let service = vec![ServiceResponse { name }];
                    MessageResponse::ListServicesResponse(ListServiceResponse { service })
                }
                Some(MessageRequest::FileContainingSymbol(of)) if of == name => said.clone(),
                other => return Err(Status::invalid_argument(format!("{other:?}"))),
            };
            Ok(ServerReflectionResponse {
                message_response: Some(answer),
                ..ServerReflectionResponse::default()
            })
        });
        Ok(Response::new(Box::pin(answers)))
    }
}

async fn reflected(said: MessageResponse) -> Result<Methods, ReflectionError> {
    let server = ServerReflectionServer::new(Says(said));
    Methods::new()
        .reflect(connected(serving(server)).await)
        .await
}

#[tokio::test]
async fn a_server_is_believed_what_it_says_of_what_it_lists_and_of_nothing_else() {
    let pool = compiler(SHOP).descriptor_pool();
    let file = pool.get_file_by_name("shop.proto").unwrap();
    let said = FileDescriptorResponse {
        file_descriptor_proto: vec![file.encode_to_vec()],
    };
    let methods = reflected(MessageResponse::FileDescriptorResponse(said))
        .await
        .unwrap();
    assert_eq!(
        shop(&methods, &["Get", "Order", "Buy"]),
        [Safety::Safe, Safety::Aware, Safety::Unsafe]
    );
    assert_eq!(methods.of("/shop.v1.Bank/Pay"), Safety::Unsafe);
}

fn refusal(code: Code) -> MessageResponse {
    MessageResponse::ErrorResponse(ErrorResponse {
        error_code: code.into(),
        error_message: "no".to_owned(),
    })
}

#[tokio::test]
async fn what_a_server_cannot_describe_is_unsafe_and_what_it_refuses_an_error() {
    let methods = reflected(refusal(Code::NotFound)).await.unwrap();
    assert_eq!(methods, Methods::new());
    let error = reflected(refusal(Code::PermissionDenied))
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "the server does not describe shop.v1.Shop: no (code 7)"
    );
    let other = MessageResponse::ListServicesResponse(ListServiceResponse::default());
    let error = reflected(other).await.unwrap_err();
    assert!(matches!(error, ReflectionError::Answer(_)), "{error}");
    let garbage = FileDescriptorResponse {
        file_descriptor_proto: vec![vec![0xff]],
    };
    let error = reflected(MessageResponse::FileDescriptorResponse(garbage))
        .await
        .unwrap_err();
    assert!(matches!(error, ReflectionError::Descriptor(_)), "{error}");
}
