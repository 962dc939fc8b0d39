//! Which methods may be called by code that a denied prediction would take back.

/// What a method does when it is called by a scope that speculates. What nobody has said of a method
/// is the default, [`Safety::Unsafe`]: a wrong default costs time, never correctness.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Safety {
    /// The call has effects that stay: it is sent when its scope is confirmed, and never before.
    #[default]
    Unsafe,
    /// The server keeps the effects of the call back, or undoes them, unless a commit follows. This
    /// counts only where an answer has shown it; see [`Safety::toward`].
    Aware,
    /// The method has no effects, so a call that should never have been made does not matter.
    Safe,
}

/// What is known of the method at the server that a call goes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Peer {
    /// It may be any gRPC server.
    #[default]
    Plain,
    /// Its last answer was in the protocol of Surmise.
    Aware,
}

impl Safety {
    /// What the method's class is worth with this server. One that has not shown that it knows what
    /// a missing commit means would simply run an aware method.
    pub fn toward(self, peer: Peer) -> Self {
        match (self, peer) {
            (Self::Aware, Peer::Plain) => Self::Unsafe,
            (class, _) => class,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_server_that_has_shown_awareness_is_trusted_with_it() {
        assert_eq!(Safety::Aware.toward(Peer::Plain), Safety::Unsafe);
        assert_eq!(Safety::Aware.toward(Peer::Aware), Safety::Aware);
        assert_eq!(Safety::Safe.toward(Peer::Plain), Safety::Safe);
        assert_eq!(Safety::Unsafe.toward(Peer::Aware), Safety::Unsafe);
        assert_eq!(Safety::default(), Safety::Unsafe);
    }
}
