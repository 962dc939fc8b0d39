//! The lock of what several threads use. Where all orders of threads are explored, it is one that lets others on
//! whenever it is taken.

#[cfg(not(all(test, feature = "explored")))]
pub use std::sync::{Mutex, MutexGuard, PoisonError};

#[cfg(all(test, feature = "explored"))]
pub use shuttle::sync::{Mutex, MutexGuard, PoisonError};
