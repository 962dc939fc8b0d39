//! What descriptors say of methods: the fields of `google/protobuf/descriptor.proto` that matter here, and the option
//! of `proto/surmise/options.proto`. The types of `prost-types` have no place for that, and drop it.

use prost::Message;
use surmise_rpc::Safety;

use super::DescriptorError;

/// `idempotency_level = NO_SIDE_EFFECTS`.
const NO_SIDE_EFFECTS: i32 = 1;

/// How long the paths of what is described at once may be together, in bytes. The name of a package is in the path of
/// each of its methods, so a message of a few megabytes could fill the memory.
const PATHS_BYTES_MAX: usize = 16 << 20;

#[derive(Message)]
struct Set {
    #[prost(message, repeated, tag = "1")]
    file: Vec<File>,
}

#[derive(Message)]
pub struct File {
    #[prost(string, tag = "2")]
    package: String,
    #[prost(message, repeated, tag = "6")]
    service: Vec<Service>,
}

#[derive(Message)]
struct Service {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, repeated, tag = "2")]
    method: Vec<Method>,
}

#[derive(Message)]
struct Method {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "4")]
    options: Option<Options>,
}

#[derive(Message)]
struct Options {
    #[prost(int32, tag = "34")]
    idempotency_level: i32,
    #[prost(bool, tag = "50747")]
    aware: bool,
}

impl Options {
    fn class(&self) -> Safety {
        match (self.idempotency_level, self.aware) {
            (NO_SIDE_EFFECTS, _) => Safety::Safe,
            (_, true) => Safety::Aware,
            (_, false) => Safety::Unsafe,
        }
    }
}

/// The bare paths and the classes of the methods of a `FileDescriptorSet`.
pub fn of_set(bytes: &[u8]) -> Result<Vec<(String, Safety)>, DescriptorError> {
    let set: Set = decoded(bytes)?;
    collected(set.file.iter().flat_map(File::classes))
}

/// All of them, if they are not too long together.
pub fn collected(
    classes: impl Iterator<Item = (String, Safety)>,
) -> Result<Vec<(String, Safety)>, DescriptorError> {
    let mut bytes = 0;
    let within = |(path, class): (String, Safety)| {
        bytes += path.len();
        match bytes <= PATHS_BYTES_MAX {
            true => Ok((path, class)),
            false => {
                let error = format!("the paths of methods have more than {PATHS_BYTES_MAX} bytes");
                Err(DescriptorError(error))
            }
        }
    };
    classes.map(within).collect()
}

/// A `FileDescriptorProto`.
#[cfg(feature = "reflection")]
pub fn file(bytes: &[u8]) -> Result<File, DescriptorError> {
    decoded(bytes)
}

fn decoded<M: Message + Default>(bytes: &[u8]) -> Result<M, DescriptorError> {
    M::decode(bytes).map_err(|error| DescriptorError(error.to_string()))
}

impl File {
    /// The bare paths and the classes of all its methods.
    pub fn classes(&self) -> impl Iterator<Item = (String, Safety)> {
        let scope = match self.package.as_str() {
            "" => String::new(),
            package => format!("{package}."),
        };
        self.service.iter().flat_map(move |service| {
            let service_path = format!("{scope}{}/", service.name);
            service.method.iter().map(move |method| {
                let class = method.options.as_ref().map(Options::class);
                let path = format!("{service_path}{}", method.name);
                (path, class.unwrap_or_default())
            })
        })
    }
}
