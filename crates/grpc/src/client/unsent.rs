//! Calls that failed before any of their request was sent.

use std::error::Error;

use tonic::Status;

/// How often one call is sent again because it was never sent. A connection that closes takes what was
/// queued for it along; the next try waits for a new one.
pub const TRIES_MAX: u32 = 5;

/// Whether no byte of the call has left this process, so that it may be sent again, whatever it does:
/// the case of gRPC's transparent retries that needs no word from the server.
///
/// hyper's client says `is_canceled` of requests that it still holds when it gives up, and of no others:
/// those queued for a connection that has closed, or not yet handed to one. A call that the server ended
/// with `CANCELLED` has no such cause.
pub fn was_never_sent(status: &Status) -> bool {
    let mut cause = status.source();
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<hyper::Error>() {
            return error.is_canceled();
        }
        cause = error.source();
    }
    false
}
