//! What a connection does to a message.

use surmise_remote::frame::{Decoder, encode};

/// The message, encoded and decoded again.
pub fn over_the_wire<M: serde::Serialize + serde::de::DeserializeOwned>(message: &M) -> M {
    let mut bytes = Vec::new();
    encode(message, &mut bytes).expect("no message is too long");
    let mut decoder = Decoder::default();
    decoder.feed(&bytes);
    decoder.message().expect("it decodes").expect("it is whole")
}
