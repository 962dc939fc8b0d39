//! What messages a server takes and sends: how they are compressed, and how large they may be.

use tonic::codec::{CompressionEncoding, EnabledCompressionEncodings};
use tonic::server::Grpc;

use crate::wire::Raw;

/// As of any server of tonic, where nothing is said.
#[derive(Clone, Copy, Debug, Default)]
pub struct Messages {
    accepted: EnabledCompressionEncodings,
    sent: EnabledCompressionEncodings,
    /// In bytes.
    decoding_max: Option<usize>,
    encoding_max: Option<usize>,
}

impl Messages {
    pub fn accept(&mut self, encoding: CompressionEncoding) {
        self.accepted.enable(encoding);
    }

    pub fn send(&mut self, encoding: CompressionEncoding) {
        self.sent.enable(encoding);
    }

    pub fn decode_at_most(&mut self, bytes: usize) {
        self.decoding_max = Some(bytes);
    }

    pub fn encode_at_most(&mut self, bytes: usize) {
        self.encoding_max = Some(bytes);
    }

    pub fn encoding_max(&self) -> usize {
        self.encoding_max.unwrap_or(usize::MAX)
    }

    pub fn served(&self) -> Grpc<Raw> {
        Grpc::new(Raw)
            .apply_compression_config(self.accepted, self.sent)
            .apply_max_message_size_config(self.decoding_max, self.encoding_max)
    }
}
