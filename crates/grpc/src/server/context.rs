//! What a handler has of its caller.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

use prost::Message;
use prost::bytes::Bytes;
use surmise_rpc::{Sent, Stamp};
use tokio::sync::mpsc;
use tonic::Status;

use crate::lock::{Mutex, MutexGuard, PoisonError};
use crate::scope::Scope;
use crate::wire::{FRAME_ADDS_MAX, encode};

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
    /// nothing else depends on whether it is right. Nothing is told once the handler has replied, nor what is too large
    /// for either side, nor more than 16 predictions of one reply.
    pub fn predict(&self, value: &T) {
        self.predict_with(value, 0.5);
    }

    /// As [`Context::predict`], with how likely the prediction is right, from 0 to 1. It is said to the caller. This
    /// library's own, which takes predictions as they come, makes no use of it.
    pub fn predict_with(&self, value: &T, confidence: f32) {
        self.replies
            .predict(value.encode_to_vec().into(), confidence);
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
    /// Frames are sent with it: the caller counts them in the order in which they come.
    said: Mutex<Said>,
    /// None, if the caller takes no more than a reply.
    frames: Option<Frames>,
}

/// Where frames go.
pub struct Frames {
    pub send: mpsc::UnboundedSender<Result<Bytes, Status>>,
    pub sizes: Sizes,
}

/// How large frames may be, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// By what the server says of its replies.
    pub sent: usize,
    /// By what the caller says of those that it takes.
    pub taken: usize,
}

struct Said {
    sent: Sent<Bytes>,
    stamp: Option<Stamp>,
}

impl Replies {
    pub fn new(frames: Option<Frames>) -> Self {
        let said = Said {
            sent: Sent::new(),
            stamp: None,
        };
        Self {
            said: Mutex::new(said),
            frames,
        }
    }

    /// One that is too large would fail the call, for no more than a guess.
    fn predict(&self, value: Bytes, confidence: f32) {
        let Some(Frames { sizes, .. }) = &self.frames else {
            return;
        };
        if value.len().saturating_add(FRAME_ADDS_MAX) <= sizes.sent.min(sizes.taken) {
            let mut said = self.lock();
            let frame = said.sent.predict(value, confidence);
            frame.into_iter().for_each(|frame| self.send(encode(frame)));
        }
    }

    /// Tells the reply. One that is too large is an error of the call, and is treated as all of them; what sends
    /// frames would end the stream at once.
    pub fn actual(&self, value: Bytes) -> Result<(), Status> {
        let mut said = self.lock();
        let stamp = said.stamp;
        let frame = encode(said.sent.actual(value, stamp));
        let size_max = self.frames.as_ref().map(|frames| frames.sizes.sent);
        if let Some(size_max) = size_max.filter(|size_max| frame.len() > *size_max) {
            let size = frame.len();
            let error = format!("a reply of {size} bytes, of at most {size_max} that are sent");
            return Err(Status::out_of_range(error));
        }
        self.send(frame);
        Ok(())
    }

    pub fn fail(&self, status: Status) {
        if let Some(Frames { send, .. }) = &self.frames {
            // If nobody takes it, the stream is gone, and with it the handler.
            let _ = send.send(Err(status));
        }
    }

    fn send(&self, frame: Bytes) {
        if let Some(Frames { send, .. }) = &self.frames {
            // As above.
            let _ = send.send(Ok(frame));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Said> {
        // Nothing panics with it.
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
