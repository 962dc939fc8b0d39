//! The caller's standard streams and terminal, proxied.
//!
//! No descriptor of the caller reaches a command, unless it is asked for ([`KeptDescriptors`]): a
//! file or a directory would be a way around the view, and what is written to a terminal or a pipe
//! could not be held. Instead, each of the caller's open descriptions becomes one **channel**: a pipe,
//! a socket pair or a terminal of the domain's own, whose outer end a thread of the relay process
//! pumps.
//!
//! 1. [`Streams`] says what each of the three standard streams is, before anything is started.
//! 2. [`Streams::open`] makes the channels: [`Outer`] ends for the relay process, [`Inner`] ones for
//!    the command.
//! 3. The relay process gives its ends to [`Channels`], which starts a thread for each, so that a slow
//!    or dead reader stalls its channel only.
//! 4. pid 1 opens the [`InnerTerminal`], the command's process makes the inner ends its streams.
#![forbid(unsafe_code)]

mod channels;
mod ends;
mod input;
mod keep;
mod output;
mod release;
mod sink;
mod streams;
mod terminal;

pub use channels::{Channels, Event, Held, block_signals};
pub use ends::{Inner, Outer, let_go};
pub use keep::{KeepError, KeepRefusal, KeptDescriptors};
pub use sink::Sink;
pub use streams::{Stream, StreamError, Streams};
pub use terminal::inner::{InnerTerminal, TERMINAL, TerminalSetup};
