//! Connections that outlive the calls which are cancelled on them.

use tonic::transport::Endpoint;

/// How many cancelled streams a connection remembers at a time, so that what the server still sends on
/// them is dropped without a word.
const CANCELLED_MAX: usize = 1024;

/// Has an endpoint's connections bear cancelled calls, of which denied predictions make many.
///
/// A cancelled call's reply may be under way already. The client's HTTP/2 remembers 50 streams that it
/// has cancelled in the last second; a reply to any other looks to it like a mistake of the server, and
/// after 1024 frames of such, ever, it closes the connection (`ENHANCE_YOUR_CALM`,
/// `too_many_internal_resets`) with every call on it. That limit is meant for servers, against clients
/// that have them send resets without end. Here the client is the one that cancelled, and a late frame
/// costs it one reset, so late frames are not counted.
pub fn bear_cancelled_calls(endpoint: Endpoint) -> Endpoint {
    endpoint
        .http2_max_concurrent_reset_streams(CANCELLED_MAX)
        .http2_max_local_error_reset_streams(None)
}
