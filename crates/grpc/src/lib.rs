//! Speculative gRPC calls: what follows a call runs ahead on its predicted reply.
//!
//! Two calls, of which the second needs what the first answers, take two round trips. If the first
//! reply can be predicted, both are sent at once, and take one. A prediction that was wrong costs
//! what was done with it, and changes nothing: results, errors and effects are those of calls made
//! one after the other.
//!
//! ```
//! use surmise_grpc::{Scope, Status};
//! # #[derive(Clone, PartialEq)] struct Profile { city: String }
//! # #[derive(Clone, PartialEq)] struct Weather { celsius: i32 }
//! # async fn profile(user: u32) -> Result<Profile, Status> {
//! #     let cities = ["Bergen", "Lima"];
//! #     let city = cities.get(user as usize).ok_or_else(|| Status::not_found("no such user"))?;
//! #     Ok(Profile { city: city.to_string() })
//! # }
//! # async fn weather(city: &str) -> Result<Weather, Status> {
//! #     Ok(Weather { celsius: if city == "Lima" { 19 } else { 7 } })
//! # }
//!
//! # async fn example(user: u32, cached: Profile) -> Result<Weather, Status> {
//! let scope = Scope::root();
//! let weather = scope
//!     .call(|| profile(user))
//!     .predict(cached)
//!     .then(async |scope: Scope, profile: Profile| {
//!         scope.call(|| weather(&profile.city)).safe().value().await
//!     })
//!     .await?;
//! # Ok(weather)
//! # }
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! #     for city in ["Lima", "Bergen"] {
//! #         let cached = Profile { city: city.to_owned() };
//! #         assert_eq!(example(1, cached).await.unwrap().celsius, 19);
//! #     }
//! #     assert!(example(2, Profile { city: "Lima".to_owned() }).await.is_err());
//! # }
//! ```
//!
//! `profile` and `weather` are calls of any gRPC client to any gRPC server; neither knows of this.
//! What follows a call ([`Call::then`]) is a closure, which may be run several times, at the same
//! time, with different values. It gets a [`Scope`], in which it makes all its own calls.
//!
//! # What code that follows a call may do
//!
//! * Make calls, in its scope. Those of methods that are [safe](Call::safe) are sent at once.
//!   Others wait until nothing that the scope rests on is undecided, which is always right. What
//!   nobody has said of a method is *unsafe*.
//! * Change what it owns. It is dropped if a prediction is denied, at any `await`.
//! * Give its scope to tasks of its own, whether it waits for them or not. If a prediction is denied, their
//!   calls fail with `CANCELLED`.
//! * Change something else, if it says how to undo it: [`Scope::on_abort`].
//! * Anything at all after [`Scope::confirmed`].
//!
//! # Servers that are aware
//!
//! A server that answers by [`Callers`] predicts its own replies and holds its effects back for a
//! caller that speculates; [`Scope::call_to`] calls it. Its handlers get a [`Context`], which is a
//! scope.
//!
//! Branches run in the task that awaits the call. To drop a call's future is to end everything that
//! follows it.
#![forbid(unsafe_code)]

mod client;
mod deadline;
#[cfg(all(test, feature = "explored"))]
mod explored;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod gate;
mod known;
mod lock;
mod methods;
mod scope;
mod server;
mod telemetry;
mod wire;

pub use client::{Server, bear_cancelled_calls};
pub use gate::Gate;
pub use known::Known;
#[cfg(feature = "reflection")]
pub use methods::ReflectionError;
pub use methods::{DescriptorError, Methods};
pub use scope::{Call, CallTo, Scope};
pub use server::{AwareMethods, Callers, Context, Granted};
pub use surmise_rpc::{Budget, Limits, Order, Safety, Stamp, Waste};
pub use tonic::Status;

/// The guide's code that is of no program.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/rpc.md")]
pub struct Guide;
