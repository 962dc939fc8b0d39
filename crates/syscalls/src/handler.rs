//! Who serves a call that needs more than its disposition.

/// The module of the supervisor that serves a tracked or held call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Handler {
    /// None: the disposition says all there is.
    Plain,
    /// Collects the status of children, real or held.
    Children,
    /// The data behind a descriptor, whatever its kind.
    Data,
    /// The descriptor table.
    Descriptors,
    /// Requests for durability.
    Durability,
    /// Readiness of objects: poll, select, epoll.
    Events,
    /// A new program in a process.
    Exec,
    /// The end of a task.
    Exit,
    /// Maps of files and shared memory.
    Memory,
    /// Sockets, and the network boundary.
    Network,
    /// Birth of tasks, and attributes of a process that are journaled.
    Process,
    /// Signals as objects.
    Signals,
    /// Names and attributes of files.
    View,
}

impl Handler {
    /// The module's name, or `none`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "none",
            Self::Children => "children",
            Self::Data => "data",
            Self::Descriptors => "descriptors",
            Self::Durability => "durability",
            Self::Events => "events",
            Self::Exec => "exec",
            Self::Exit => "exit",
            Self::Memory => "memory",
            Self::Network => "network",
            Self::Process => "process",
            Self::Signals => "signals",
            Self::View => "view",
        }
    }
}
