//! Calls that no server has begun: gRPC's transparent retries (gRFC A6).

use std::error::Error;

use h2::Reason;
use tonic::Status;

/// How often one call is sent again because it was not begun. A connection that closes takes what was
/// queued for it along; the next try waits for a new one.
const TRIES_MAX: u32 = 5;

/// How often a call has been sent again because nobody had begun it.
#[derive(Default)]
pub struct Tries(u32);

impl Tries {
    /// Whether it is sent again, having come to this.
    pub fn again<T>(&mut self, answer: &Result<T, Status>) -> bool {
        let again = self.0 < TRIES_MAX && matches!(answer, Err(status) if was_not_begun(status));
        self.0 += u32::from(again);
        again
    }
}

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
