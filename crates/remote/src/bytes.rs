//! Data in messages and records, copied in one piece. On the wire they are what a sequence of bytes is, which `serde` would take
//! byte by byte.

use std::fmt::{self, Formatter};

use serde::de::{Deserializer, Error, Visitor};
use serde::ser::Serializer;

pub(crate) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_bytes(bytes)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    deserializer.deserialize_byte_buf(Bytes)
}

struct Bytes;

impl Visitor<'_> for Bytes {
    type Value = Vec<u8>;

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("bytes")
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
        Ok(bytes.to_vec())
    }

    fn visit_byte_buf<E: Error>(self, bytes: Vec<u8>) -> Result<Vec<u8>, E> {
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    #[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
    struct Whole(#[serde(with = "super")] Vec<u8>);

    #[test]
    fn they_are_on_the_wire_what_a_sequence_is() {
        for length in [0, 1, 127, 128, 300] {
            let bytes = vec![7; length];
            let sequence = postcard::to_allocvec(&bytes).expect("no limit");
            let whole = postcard::to_allocvec(&Whole(bytes.clone())).expect("no limit");
            assert_eq!(whole, sequence);
            assert_eq!(postcard::from_bytes(&whole), Ok(Whole(bytes)));
        }
    }
}
