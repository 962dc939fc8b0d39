//! What came of a schedule.

/// What has happened that the core does not count.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::core::simulation) struct Happened {
    /// Something in the connection inside was moved back.
    pub(in crate::core::simulation) moves_back: u64,
    /// A signal has interrupted a call that waited.
    pub(in crate::core::simulation) interruptions: u64,
    /// A signal has ended a process that the supervisor traced.
    pub(in crate::core::simulation) ends: u64,
}
