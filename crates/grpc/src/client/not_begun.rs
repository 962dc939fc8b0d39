//! Calls that no server has begun: gRPC's transparent retries (gRFC A6).

use std::error::Error;

use h2::Reason;
use tonic::Status;

/// How often one call is sent again because it was not begun. A connection that closes takes what was
/// queued for it along; the next try waits for a new one.
pub const TRIES_MAX: u32 = 5;

/// Whether nobody has begun the call, so that it may be sent again, whatever it does.
///
/// hyper's client says `is_canceled` of requests that it still holds when it gives up, and of no others:
/// those queued for a connection that has closed, or not yet handed to one. A call that the server ended
/// with `CANCELLED` has no such cause.
///
/// A server that has as many streams as it takes refuses the next, and says with that that it has done nothing for it
/// (RFC 9113, 8.7). A client learns how many that are when a connection has begun, and whoever runs ahead has more
/// calls under way by then.
pub fn was_not_begun(status: &Status) -> bool {
    let mut cause = status.source();
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<hyper::Error>()
            && error.is_canceled()
        {
            return true;
        }
        if let Some(error) = error.downcast_ref::<h2::Error>() {
            return error.is_remote() && error.reason() == Some(Reason::REFUSED_STREAM);
        }
        cause = error.source();
    }
    false
}
