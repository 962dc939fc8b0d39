//! Opaque numbers for everything that a tree relates to each other.

use std::fmt;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident $word:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(formatter, concat!($word, " {}"), self.0)
            }
        }
    )*};
}

ids! {
    /// A scope: the root, or a branch. The tree hands these out, rising and never twice.
    ScopeId "scope";
    /// One call. The tree hands these out, rising and never twice.
    CallId "call";
    /// What undoes something that a scope did. Chosen by the shell; unique among those that are
    /// neither forgotten nor run.
    RollbackId "rollback";
    /// Whoever waits at a barrier. Chosen by the shell; unique among those that wait.
    WaiterId "waiter";
}

impl ScopeId {
    /// The scope that a tree begins with.
    pub const ROOT: Self = Self(0);
}
