//! Readiness of objects. Whoever looks learns what others did, none of which is undecided here; and a wait
//! ends with a rollback, as any call does.

use super::{Meeting, Met};

pub(super) fn meet(met: &Met<'_>) -> Meeting {
    match met.name {
        "poll" | "ppoll" | "select" | "pselect6" => Meeting::Pass("events"),
        // What an edge-triggered queue has told once, it does not tell again.
        _ => Meeting::Wait,
    }
}
