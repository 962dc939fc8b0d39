//! What a predictor is asked, and what it says.

use std::fmt;
use std::sync::Arc;

/// Predicts the results of one method.
pub trait Predictor<Q, V> {
    /// The values that the call may be answered with, the likeliest first; none where it does not
    /// know.
    fn predict(&mut self, asked: &Asked<'_, Q>) -> Vec<Guess<V>>;

    /// What a call was answered with. Errors are not told: they are not predicted.
    fn learn(&mut self, asked: &Asked<'_, Q>, actual: &V);
}

/// A call that is to be predicted, or was answered.
#[derive(Debug)]
pub struct Asked<'a, Q> {
    /// For whom the call is made.
    pub user: &'a User,
    /// What is asked.
    pub request: &'a Q,
    /// Milliseconds on some clock that does not go backwards.
    pub now_ms: u64,
}

impl<Q> Clone for Asked<'_, Q> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<Q> Copy for Asked<'_, Q> {}

/// A predicted value.
#[derive(Clone, Debug, PartialEq)]
pub struct Guess<V> {
    /// The value.
    pub value: V,
    /// How likely it is right, from 0 to 1, as far as the predictor can tell.
    pub confidence: f64,
}

/// On whose behalf a call is made: whatever makes the server answer one caller differently from
/// another. There is no default, since a default would be shared.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct User(Option<Arc<[u8]>>);

impl User {
    /// The user of this name, token or certificate. An empty one is a user, too, such as all who send no token.
    pub fn of(identity: impl AsRef<[u8]>) -> Self {
        Self(Some(identity.as_ref().into()))
    }

    /// The program itself, which is no user's: for clients all of whose calls are made with the same rights.
    pub fn program() -> Self {
        Self(None)
    }
}

impl fmt::Debug for User {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // It may be a token.
        formatter.write_str(match self.0 {
            Some(_) => "User::of(..)",
            None => "User::program()",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_without_a_name_is_not_the_program() {
        assert_ne!(User::of(""), User::program());
        assert_eq!(User::of("alice"), User::of(b"alice"));
    }

    #[test]
    fn tokens_are_not_printed() {
        let shown = format!("{:?} {:?}", User::of("secret"), User::program());
        assert_eq!(shown, "User::of(..) User::program()");
    }
}
