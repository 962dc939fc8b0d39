//! Why a supervisor could not go on.

use std::io;

use surmise_engine::EngineError;

/// Why a supervisor could not go on. Its tasks wait, so the domain has to end.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {source}")]
pub struct SupervisorError {
    /// What was tried.
    pub what: &'static str,
    /// Why it failed.
    pub source: io::Error,
}

/// What turns a reason into an error.
pub(crate) fn fail<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> SupervisorError {
    move |source| SupervisorError {
        what,
        source: source.into(),
    }
}

/// What only a fault of this program can cause. A test stops at it; a user is told that it is one.
pub(crate) fn bug(what: &'static str) -> io::Error {
    debug_assert!(false, "{what}");
    io::Error::other(format!("{what}; this is a bug of Surmise"))
}

/// What turns the engine's refusal, which only a fault of this program can cause, into an error.
pub(crate) fn refused(what: &'static str) -> impl FnOnce(EngineError) -> SupervisorError {
    move |error| fail(what)(io::Error::other(error.bug(what)))
}
