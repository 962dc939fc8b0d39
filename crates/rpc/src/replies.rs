//! The replies to one call: any number of predictions, then the actual value.
//!
//! An actual value that was predicted is not sent again: a frame says which of the predictions it is.
//! Values are compared as they are on the wire. So equal values with unequal encodings cost bytes, and
//! what is named by a frame is exact.

use thiserror::Error;

use crate::stamp::Stamp;

/// Predictions that a server sends for one call at most.
pub const PREDICTIONS_MAX: usize = 16;

/// One reply.
#[derive(Clone, Debug, PartialEq)]
pub enum Frame<V> {
    /// The actual value may be this.
    Prediction {
        /// The value.
        value: V,
        /// How likely it is right, from 0 to 1, as far as the server can tell.
        confidence: f32,
    },
    /// The actual value, and the position in a store's history that it was read at.
    Actual(V, Option<Stamp>),
    /// The actual value is a prediction that was sent before: the first has index 0.
    ActualIs(u32, Option<Stamp>),
}

/// What a server has sent to one caller.
#[derive(Debug)]
pub struct Sent<V> {
    predictions: Vec<V>,
    is_answered: bool,
}

impl<V: Clone + PartialEq> Sent<V> {
    /// Nothing yet.
    pub fn new() -> Self {
        Self {
            predictions: Vec::new(),
            is_answered: false,
        }
    }

    /// What is to be sent for a prediction: nothing, if it was sent before, there are enough, or the actual value was
    /// sent.
    pub fn predict(&mut self, value: V, confidence: f32) -> Option<Frame<V>> {
        let is_enough = self.is_answered || self.predictions.len() >= PREDICTIONS_MAX;
        if is_enough || self.predictions.contains(&value) {
            return None;
        }
        self.predictions.push(value.clone());
        Some(Frame::Prediction { value, confidence })
    }

    /// What is to be sent for the actual value, after which there is nothing to send.
    pub fn actual(&mut self, value: V, stamp: Option<Stamp>) -> Frame<V> {
        self.is_answered = true;
        match self.predictions.iter().position(|sent| *sent == value) {
            // There are few.
            Some(index) => Frame::ActualIs(index as u32, stamp),
            None => Frame::Actual(value, stamp),
        }
    }
}

impl<V: Clone + PartialEq> Default for Sent<V> {
    fn default() -> Self {
        Self::new()
    }
}

/// What a caller has received from one server.
#[derive(Debug)]
pub struct Received<V> {
    predictions: Vec<V>,
    is_answered: bool,
}

/// What a frame says.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply<V> {
    /// The actual value may be this.
    Prediction(V),
    /// The actual value.
    Actual(V, Option<Stamp>),
}

/// A server that does not keep to the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ReplyError {
    /// It sends more predictions than anybody may.
    #[error("more than {PREDICTIONS_MAX} predictions of one reply")]
    TooMany,
    /// It names a prediction that it has not sent.
    #[error("the reply is said to be prediction {0}, which was not sent")]
    NotSent(u32),
    /// It goes on after the actual value.
    #[error("a frame after the actual reply")]
    AfterActual,
}

impl<V: Clone> Received<V> {
    /// Nothing yet.
    pub fn new() -> Self {
        Self {
            predictions: Vec::new(),
            is_answered: false,
        }
    }

    /// A frame came.
    ///
    /// # Errors
    ///
    /// The server does not keep to the protocol, and nothing that it says counts any more.
    pub fn receive(&mut self, frame: Frame<V>) -> Result<Reply<V>, ReplyError> {
        if self.is_answered {
            return Err(ReplyError::AfterActual);
        }
        let (value, stamp) = match frame {
            Frame::Prediction { value, .. } => {
                if self.predictions.len() >= PREDICTIONS_MAX {
                    return Err(ReplyError::TooMany);
                }
                self.predictions.push(value.clone());
                return Ok(Reply::Prediction(value));
            }
            Frame::Actual(value, stamp) => (value, stamp),
            Frame::ActualIs(index, stamp) => {
                let found = self.predictions.get(index as usize);
                let value = found.ok_or(ReplyError::NotSent(index))?;
                (value.clone(), stamp)
            }
        };
        self.is_answered = true;
        Ok(Reply::Actual(value, stamp))
    }

    /// Whether the actual value came.
    pub fn is_answered(&self) -> bool {
        self.is_answered
    }
}

impl<V: Clone> Default for Received<V> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_predicted_is_named_and_found_again() {
        let (mut sent, mut received) = (Sent::new(), Received::new());
        for value in ["a", "b"] {
            let frame = sent.predict(value, 0.5).expect("it is new");
            assert_eq!(received.receive(frame), Ok(Reply::Prediction(value)));
        }
        assert_eq!(sent.predict("a", 1.0), None);
        let frame = sent.actual("b", None);
        assert_eq!(frame, Frame::ActualIs(1, None));
        let actual = received.receive(frame.clone());
        assert_eq!(actual, Ok(Reply::Actual("b", None)));
        assert_eq!(sent.predict("c", 1.0), None);
        assert_eq!(received.receive(frame), Err(ReplyError::AfterActual));
    }

    #[test]
    fn predictions_are_bounded_on_both_sides() {
        let (mut sent, mut received) = (Sent::new(), Received::new());
        let frames = (0..100).filter_map(|value| sent.predict(value, 0.0));
        assert_eq!(frames.count(), PREDICTIONS_MAX);
        let forged = Frame::Prediction {
            value: 1,
            confidence: f32::NAN,
        };
        let flood = (0..PREDICTIONS_MAX).map(|_| received.receive(forged.clone()));
        assert_eq!(flood.filter(Result::is_ok).count(), PREDICTIONS_MAX);
        let again = received.receive(forged);
        assert_eq!(again, Err(ReplyError::TooMany));
        let unsent = received.receive(Frame::ActualIs(16, None));
        assert_eq!(unsent, Err(ReplyError::NotSent(16)));
    }
}
