//! The network boundary of a domain: who may be reached, and the relay through which it happens.
//!
//! * [`policy`] decides, and [`peer`] reads what a user types for it;
//! * [`packet`] reads what the domain's kernel hands out at the gate, and builds the answers;
//! * [`names`] is DNS, and which address has which name;
//! * [`resolver`] looks names up outside, as the host does;
//! * [`relay`] is the one loop through which everything passes;
//! * [`Nobody`] is the nameserver where nothing passes, and there is no relay.
//!
//! The first three compute and do nothing else.
#![forbid(unsafe_code)]

mod lookups;
pub mod names;
mod nobody;
pub mod packet;
pub mod peer;
pub mod policy;
pub mod relay;
pub mod resolver;

pub use nobody::Nobody;
pub use peer::{Pattern, Peer, PeerError, is_localhost};
pub use policy::{Loopback, Policy, Rule, Verdict};
pub use relay::{Config, Dial, Event, Relay, RelayHandle, Released};
pub use resolver::Resolver;
