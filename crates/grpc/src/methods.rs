//! Which methods are safe to call ahead: what is configured, and what services say of themselves.

use std::collections::BTreeMap;

use prost::Message;
use prost_types::FileDescriptorSet;
use prost_types::method_options::IdempotencyLevel;
use surmise_rpc::Safety;
use thiserror::Error;

/// The classes of methods, by path. What is not known is unsafe.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Methods(BTreeMap<String, Safety>);

/// Descriptors that cannot be read.
#[derive(Debug, Error)]
#[error("the descriptors of services cannot be read: {0}")]
pub struct DescriptorError(String);

impl Methods {
    /// Nothing is known.
    pub fn new() -> Self {
        Self::default()
    }

    /// Learns from a `FileDescriptorSet`, as `protoc --descriptor_set_out` writes it: methods that
    /// say `option idempotency_level = NO_SIDE_EFFECTS` are safe. That they are `IDEMPOTENT` says
    /// that a second call has no more effects than the first, not that the first has none.
    ///
    /// # Errors
    ///
    /// The bytes are no such message.
    pub fn describe(mut self, descriptors: &[u8]) -> Result<Self, DescriptorError> {
        let set = FileDescriptorSet::decode(descriptors);
        let set = set.map_err(|error| DescriptorError(error.to_string()))?;
        for file in &set.file {
            for service in &file.service {
                let is_safe = |options: &prost_types::MethodOptions| {
                    options.idempotency_level() == IdempotencyLevel::NoSideEffects
                };
                let mut methods = service.method.iter();
                let methods = methods
                    .by_ref()
                    .filter(|method| method.options.as_ref().is_some_and(is_safe));
                for method in methods {
                    let scope = match file.package() {
                        "" => String::new(),
                        package => format!("{package}."),
                    };
                    let path = format!("/{scope}{}/{}", service.name(), method.name());
                    self.0.insert(path, Safety::Safe);
                }
            }
        }
        Ok(self)
    }

    /// Says what a method is, such as `/etcdserverpb.KV/Range`, whatever its descriptor does.
    pub fn class(mut self, path: impl Into<String>, class: Safety) -> Self {
        self.0.insert(path.into(), class);
        self
    }

    /// What a method is.
    pub fn of(&self, path: &str) -> Safety {
        self.0.get(path).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use prost_types::{
        FileDescriptorProto, MethodDescriptorProto, MethodOptions, ServiceDescriptorProto,
    };

    use super::*;

    fn method(name: &str, level: Option<IdempotencyLevel>) -> MethodDescriptorProto {
        let options = level.map(|level| MethodOptions {
            idempotency_level: Some(level.into()),
            ..MethodOptions::default()
        });
        MethodDescriptorProto {
            name: Some(name.to_owned()),
            options,
            ..MethodDescriptorProto::default()
        }
    }

    #[test]
    fn only_methods_that_say_so_are_safe() {
        let service = ServiceDescriptorProto {
            name: Some("Shop".to_owned()),
            method: vec![
                method("Get", Some(IdempotencyLevel::NoSideEffects)),
                method("Set", Some(IdempotencyLevel::Idempotent)),
                method("Buy", None),
            ],
            ..ServiceDescriptorProto::default()
        };
        let file = FileDescriptorProto {
            package: Some("shop.v1".to_owned()),
            service: vec![service],
            ..FileDescriptorProto::default()
        };
        let set = FileDescriptorSet { file: vec![file] };
        let methods = Methods::new().describe(&set.encode_to_vec()).unwrap();
        assert_eq!(methods.of("/shop.v1.Shop/Get"), Safety::Safe);
        assert_eq!(methods.of("/shop.v1.Shop/Set"), Safety::Unsafe);
        assert_eq!(methods.of("/shop.v1.Shop/Buy"), Safety::Unsafe);
        assert_eq!(methods.of("/other.Shop/Get"), Safety::Unsafe);
        let configured = methods.class("/shop.v1.Shop/Get", Safety::Unsafe);
        assert_eq!(configured.of("/shop.v1.Shop/Get"), Safety::Unsafe);
    }

    #[test]
    fn what_is_no_descriptor_is_an_error() {
        assert!(Methods::new().describe(&[0xff, 0xff]).is_err());
    }
}
