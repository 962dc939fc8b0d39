//! What operations come to, for programs: the objects that `--json` prints and that the protocol carries.
//!
//! All are plain data. A member that an earlier version did not have is added at the end and is never required of
//! who reads. Paths are absolute. Where a member is text for people, a path byte that is no UTF-8 is replaced;
//! an exact form is beside it.

mod aborted;
mod change;
mod committed;
mod failed;
mod held;
mod progress;
mod refused;
mod run;
mod speculation;
mod summary;
mod synchrony;

pub use aborted::{AbortOutcome, AbortedDomain, AbortedList};
pub use change::ChangeRow;
pub use committed::{CommitLine, CommitResult, Sent, Undone, Unsent};
pub use failed::{ConflictRow, Failed, FailedLine};
pub use held::HeldRow;
pub use progress::{Pace, ProgressLine, ProgressRow};
pub use refused::RefusedRow;
pub use run::{Fate, ProcessRow, RunResult};
pub use speculation::{CallRow, SpeculationResult, Work};
pub(crate) use summary::status_text;
pub use summary::{DomainSummary, State};
pub use synchrony::{SyncLine, SyncResult};
