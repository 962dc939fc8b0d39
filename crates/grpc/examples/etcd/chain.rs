//! Reads that depend on each other.

use std::future::Future;
use std::pin::Pin;

use surmise_grpc::{Order, Scope, Status};

use crate::kv::{Consistency, Found, Kv};

/// How a chain is read.
#[derive(Clone, Copy)]
pub enum Reads {
    OneByOne,
    /// What follows a read runs ahead on what the nearest node has.
    Ahead,
}

/// A key, whose value is the next one.
pub fn key(step: u32) -> String {
    format!("step/{step}")
}

impl Reads {
    /// Reads so many keys, each found under the one before, and returns what the last one leads to.
    pub async fn follow(self, kv: &Kv, first: String, reads: u32) -> Result<String, Status> {
        match self {
            Self::OneByOne => one_by_one(kv, first, reads).await,
            Self::Ahead => ahead(kv, Scope::root(), first, reads).await,
        }
    }
}

async fn one_by_one(kv: &Kv, mut key: String, reads: u32) -> Result<String, Status> {
    for _ in 0..reads {
        key = kv.read(&key, Consistency::Linearizable).await?.value;
    }
    Ok(key)
}

type Following<'a> = Pin<Box<dyn Future<Output = Result<String, Status>> + Send + 'a>>;

/// Boxed, since it follows itself.
fn ahead(kv: &Kv, scope: Scope, key: String, reads: u32) -> Following<'_> {
    Box::pin(async move {
        if reads == 0 {
            return Ok(key);
        }
        let prediction = {
            let (kv, key) = (kv.clone(), key.clone());
            async move { kv.read(&key, Consistency::Serializable).await.ok() }
        };
        scope
            .call(|| kv.read(&key, Consistency::Linearizable))
            .safe()
            .predict_with(prediction)
            .compared_by(Found::is_same)
            // With writers beside it, no read may see less than those that it follows.
            .ordered(Order::Stamp, |found| Some(found.stamp()))
            .then(async |scope: Scope, found: Found| ahead(kv, scope, found.value, reads - 1).await)
            .await
    })
}
