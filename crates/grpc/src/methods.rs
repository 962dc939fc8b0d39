//! Which methods are safe to call ahead: what is configured, and what services say of themselves.

mod descriptor;
#[cfg(feature = "reflection")]
mod reflection;

use std::collections::BTreeMap;

use surmise_rpc::Safety;
use thiserror::Error;

#[cfg(feature = "reflection")]
pub use reflection::ReflectionError;

/// The classes of methods, by path, with or without the slash at its beginning. What is not known is unsafe.
///
/// Services say it of their methods in their descriptors. `option idempotency_level = NO_SIDE_EFFECTS`,
/// which is a part of protobuf, makes a method safe. `option (surmise.aware) = true`, of
/// `proto/surmise/options.proto`, makes it aware. That a method is `IDEMPOTENT` says that a second call has no
/// more effects than the first, not that the first has none.
///
/// A service is believed what it says of itself, so there is one of these for each team that is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Methods {
    /// What their descriptors say.
    described: BTreeMap<String, Safety>,
    /// What the program says, which counts more.
    configured: BTreeMap<String, Safety>,
}

/// Descriptors that cannot be read.
#[derive(Debug, Error)]
#[error("the descriptors of services cannot be read: {0}")]
pub struct DescriptorError(String);

impl Methods {
    /// Nothing is known.
    pub fn new() -> Self {
        Self::default()
    }

    /// Learns from a `FileDescriptorSet`, as `protoc --descriptor_set_out` writes it.
    ///
    /// # Errors
    ///
    /// The bytes are no such message.
    pub fn describe(mut self, descriptors: &[u8]) -> Result<Self, DescriptorError> {
        self.described.extend(descriptor::of_set(descriptors)?);
        Ok(self)
    }

    /// Says what a method is, such as `/etcdserverpb.KV/Range`, whatever its descriptor does.
    pub fn class(mut self, path: impl Into<String>, class: Safety) -> Self {
        self.configured.insert(bare(&path.into()).to_owned(), class);
        self
    }

    /// What a method is.
    pub fn of(&self, path: &str) -> Safety {
        let path = bare(path);
        let configured = self.configured.get(path);
        let class = configured.or_else(|| self.described.get(path));
        class.copied().unwrap_or_default()
    }
}

/// How a path is told from others: without the slash that some leave out.
pub fn bare(path: &str) -> &str {
    path.strip_prefix('/').unwrap_or(path)
}
