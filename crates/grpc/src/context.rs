//! What a handler has of its caller.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prost::Message;
use prost::bytes::Bytes;
use surmise_rpc::{Frame, Sent, Stamp};
use tokio::sync::mpsc;
use tonic::Status;

use crate::scope::Scope;
use crate::wire::encode;

/// A handler's root scope, and the way to its caller. `T` is what the handler replies with.
///
/// Calls that the handler makes in this scope rest on what its caller rests on, over any number of
/// servers. If the caller is aborted, rollbacks are run and the handler is dropped.
pub struct Context<T> {
    scope: Scope,
    replies: Arc<Replies>,
    reply: PhantomData<fn(T)>,
}

impl<T: Message> Context<T> {
    /// Tells the caller what the reply may be, before it is known. The caller runs ahead with it, and
    /// nothing else depends on whether it is right.
    pub fn predict(&self, value: &T) {
        self.predict_with(value, 0.5);
    }

    /// As [`Context::predict`], with how likely the prediction is right, from 0 to 1.
    pub fn predict_with(&self, value: &T, confidence: f32) {
        let value = value.encode_to_vec().into();
        let frame = self.replies.lock().sent.predict(value, confidence);
        frame.into_iter().for_each(|frame| self.replies.send(frame));
    }
}

impl<T> Context<T> {
    pub(crate) fn new(scope: Scope, replies: Arc<Replies>) -> Self {
        Self {
            scope,
            replies,
            reply: PhantomData,
        }
    }

    /// Says which position in the history of a store the reply is read at.
    pub fn stamp(&self, stamp: Stamp) {
        self.replies.lock().stamp = Some(stamp);
    }
}

impl<T> Deref for Context<T> {
    type Target = Scope;

    fn deref(&self) -> &Scope {
        &self.scope
    }
}

impl<T> Clone for Context<T> {
    fn clone(&self) -> Self {
        Self::new(self.scope.clone(), self.replies.clone())
    }
}

impl<T> fmt::Debug for Context<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Context");
        shown.field("scope", &self.scope).finish_non_exhaustive()
    }
}

/// The replies to one caller.
pub struct Replies {
    said: Mutex<Said>,
    /// None, if the caller takes no more than a reply.
    frames: Option<mpsc::UnboundedSender<Result<Bytes, Status>>>,
}

struct Said {
    sent: Sent<Bytes>,
    stamp: Option<Stamp>,
}

impl Replies {
    pub fn new(frames: Option<mpsc::UnboundedSender<Result<Bytes, Status>>>) -> Self {
        let said = Said {
            sent: Sent::new(),
            stamp: None,
        };
        Self {
            said: Mutex::new(said),
            frames,
        }
    }

    pub fn actual(&self, value: Bytes) {
        let said = self.lock();
        let frame = said.sent.actual(value, said.stamp);
        drop(said);
        self.send(frame);
    }

    pub fn fail(&self, status: Status) {
        if let Some(frames) = &self.frames {
            // If nobody takes it, the stream is gone, and with it the handler.
            let _ = frames.send(Err(status));
        }
    }

    fn send(&self, frame: Frame<Bytes>) {
        if let Some(frames) = &self.frames {
            // As above.
            let _ = frames.send(Ok(encode(frame)));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Said> {
        // Nothing panics with it.
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
