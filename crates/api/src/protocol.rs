//! The protocol by which programs in any language use Surmise: JSON-RPC 2.0, a message a line.
//!
//! `docs/api.md` is its reference. A client sends requests, [`Call`]s with an [`Id`]; each is answered by one
//! response with that id, in the order in which they are done. While a request is worked on, notifications
//! `event` tell what happens, each with the request's id.
//!
//! What comes from a client is decoded by [`decode`], which takes nothing that it does not know: no unknown method,
//! member or value, no member twice, no batch, no notification.

mod call;
mod message;
mod params;

pub use call::Call;
pub use message::{
    DiffResult, Hi, Id, Incoming, LINE_MAX, LeftOutRow, Outgoing, Problem, Rejected, VERSION,
    decode, encode, encode_event, encode_request,
};
pub use params::{
    Abort, Answered, BoundaryParams, CancelParams, Commit, Decide, Diff, FilesParam, Hello, Input,
    Named, Net, PromiseParam, RightParams, Run, SignalName, SignalParams, Stdin, Stdout,
    SyncParams, TortureParams, Unsent,
};
