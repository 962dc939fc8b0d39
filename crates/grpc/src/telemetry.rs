//! What is told of what is run ahead: to OpenTelemetry, where the program has this feature, else to nobody, at
//! no cost.
//!
//! All of it names the `rpc.method`, where that is known.
//!
//! | what | kind | says |
//! |---|---|---|
//! | `surmise.ahead` | span | what followed a call on a predicted reply; its `outcome` |
//! | `surmise.predictions` | counter | by `outcome`: `hit`, `miss`, `late` (came after the reply), `abandoned` |
//! | `surmise.saved` | histogram, s | for how long what was right had run when the reply came |
//! | `surmise.wasted` | histogram, s | for how long what was wrong, or given up, had run |

#[cfg(not(feature = "opentelemetry"))]
mod nobody;
#[cfg(feature = "opentelemetry")]
mod opentelemetry;

#[cfg(not(feature = "opentelemetry"))]
pub use nobody::{Ahead, late};
#[cfg(feature = "opentelemetry")]
pub use opentelemetry::{Ahead, late};
