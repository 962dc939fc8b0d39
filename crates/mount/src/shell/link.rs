//! The connection to the server.

use std::sync::Arc;
use std::time::Instant;

use surmise_remote::frame::{ToClient, ToServer};
use surmise_wire::Line;

/// The connection as it is.
pub(super) struct Link {
    /// Which one it is, or was.
    pub(super) number: u64,
    pub(super) is_up: bool,
    /// For how long it has been so.
    pub(super) since: Instant,
    /// Ends it.
    pub(super) breaker: Option<Box<dyn FnMut() + Send>>,
    pub(super) line: Arc<Line>,
    /// A question that is out, and when it left.
    pub(super) asked: Option<(u64, Instant)>,
}

impl Link {
    /// A question leaves. Of several that are out, the time is taken of one.
    pub(super) fn asks(&mut self, message: &ToServer) {
        if let ToServer::Ask { request, .. }
        | ToServer::Explore { request, .. }
        | ToServer::Fetch { request, .. } = message
        {
            self.asked.get_or_insert((*request, Instant::now()));
        }
    }

    /// A message has come, which may be an answer. No answer takes less than a round trip.
    pub(super) fn answers(&mut self, message: &ToClient) {
        if let ToClient::Granted { request }
        | ToClient::Explored { request, .. }
        | ToClient::Failed { request, .. }
        | ToClient::Data { request, .. }
        | ToClient::Same { request } = message
            && let Some((_, at)) = self.asked.take_if(|(asked, _)| asked == request)
        {
            self.line.answered_after(at.elapsed());
        }
    }
}
