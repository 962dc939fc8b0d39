//! What errors say beside their text: a code for programs, details, a hint, what is left.

use std::error::Error;

use surmise_commit::{CommitError, ConflictKind};
use surmise_kept::{DecideError, DeliveryError, SealError, StateError};
use surmise_launch::LaunchError;
use surmise_sync::volume::VolumeError;

use crate::results::ConflictRow;

/// An error of an operation. Its text says what, where and which value.
pub trait Explained: Error {
    /// What went wrong, for programs. A code keeps its meaning from version to version; `docs/api.md` lists them.
    fn code(&self) -> &'static str;

    /// What, where and which value, for people.
    fn text(&self) -> String {
        self.to_string()
    }

    /// A line each, for people.
    fn details(&self) -> Vec<String> {
        Vec::new()
    }

    /// The fix, for people.
    fn hint(&self) -> Option<String> {
        None
    }

    /// The domain that is left, to go on with.
    fn domain(&self) -> Option<String> {
        None
    }

    /// The status for a command to exit with, where it is not the command's usual one for failures.
    fn status(&self) -> Option<u8> {
        None
    }

    /// Where a domain and what is outside are at odds.
    fn conflicts(&self) -> Vec<ConflictRow> {
        Vec::new()
    }
}

impl Explained for StateError {
    fn code(&self) -> &'static str {
        match self {
            Self::NoHome => "no_state_home",
            Self::Foreign { .. } => "foreign_state",
            Self::Name { .. } => "bad_name",
            Self::Exists { .. } => "name_taken",
            Self::Unknown { .. } => "unknown_domain",
            Self::Running { .. } => "in_use",
            Self::Committing { .. } => "commit_unfinished",
            Self::NotTakenBack { .. } => "commit_not_taken_back",
            Self::Version { .. } => "newer_format",
            Self::Unsent { .. } => "unsent_left",
            Self::Seal {
                source: SealError::Damaged { .. },
                ..
            } => "damaged",
            Self::Seal {
                source: SealError::Version { .. },
                ..
            } => "newer_format",
            Self::Seal { .. } | Self::File { .. } => "state_io",
        }
    }

    fn hint(&self) -> Option<String> {
        Some(Self::hint(self))
    }
}

impl Explained for LaunchError {
    fn code(&self) -> &'static str {
        match self {
            Self::Nested { .. } => "inside_domain",
            Self::NoCommand => "no_command",
            Self::FewDescriptors { .. } => "few_descriptors",
            Self::Stream(_) => "bad_stream",
            Self::Descriptor(_) => "bad_descriptor",
            Self::State(error) => error.code(),
            Self::IdMap(_) => "no_id_map",
            Self::Directory { .. } => "bad_directory",
            Self::NotFound { .. } => "command_not_found",
            Self::NotExecutable { .. } => "command_not_executable",
            Self::Speculation { .. } => "kernel_differs",
            Self::Step { .. } => "step_failed",
            Self::Stalled { .. } => "stalled",
            Self::Aborted => "aborted_elsewhere",
            Self::Killed { .. } => "role_killed",
            Self::Bug { .. } => "bug",
        }
    }

    fn hint(&self) -> Option<String> {
        Self::hint(self)
    }

    fn domain(&self) -> Option<String> {
        Self::domain(self).map(Into::into)
    }

    fn status(&self) -> Option<u8> {
        Some(Self::code(self))
    }
}

impl Explained for CommitError {
    fn code(&self) -> &'static str {
        match self {
            Self::Conflicts(_) => "conflicts",
            Self::ReadsUnknown(_) => "reads_unknown",
            Self::Obstacles(_) => "obstacles",
            Self::NoConflict(_) => "no_conflict",
            Self::Unforceable(_) => "unforceable",
            Self::Stage { .. } => "not_prepared",
            Self::Apply { .. } => "not_finished",
            Self::Changes { .. } => "changes_unreadable",
            Self::Changed(_) => "changed_since_commit",
            Self::Undo { .. } => "not_taken_back",
            Self::NothingToUndo => "nothing_to_undo",
            Self::Elsewhere(_) => "file_system_missing",
            Self::TooLate => "too_late",
            Self::Journal(_) => "journal",
            Self::Preimage { .. } => "damaged",
            Self::UnderWay => "commit_unfinished",
            Self::Stopped => "stopped",
        }
    }

    fn details(&self) -> Vec<String> {
        match self {
            Self::Conflicts(conflicts)
            | Self::Changed(conflicts)
            | Self::Unforceable(conflicts) => conflicts.iter().map(ToString::to_string).collect(),
            Self::Obstacles(obstacles) => obstacles.iter().map(ToString::to_string).collect(),
            _ => Vec::new(),
        }
    }

    fn hint(&self) -> Option<String> {
        Some(Self::hint(self).to_string())
    }

    fn conflicts(&self) -> Vec<ConflictRow> {
        let (Self::Conflicts(found) | Self::Changed(found) | Self::Unforceable(found)) = self
        else {
            return Vec::new();
        };
        let row = |conflict: &surmise_commit::Conflict| ConflictRow {
            path: conflict.path.as_path().into(),
            what: conflict_code(conflict.what).to_owned(),
        };
        found.iter().map(row).collect()
    }
}

fn conflict_code(kind: ConflictKind) -> &'static str {
    match kind {
        ConflictKind::Created => "created",
        ConflictKind::Removed => "removed",
        ConflictKind::Replaced => "replaced",
        ConflictKind::Changed => "changed",
        ConflictKind::CreatedInRemoved => "created_in_removed",
        ConflictKind::CreatedInMade => "created_in_made",
        ConflictKind::Linked => "linked",
        ConflictKind::NotKept => "not_kept",
        ConflictKind::DirectoryMoved => "directory_moved",
        ConflictKind::ReadChanged => "read_changed",
        ConflictKind::ReadRemoved => "read_removed",
        ConflictKind::ReadReplaced => "read_replaced",
        ConflictKind::ReadHidden => "read_hidden",
    }
}

impl Explained for DecideError {
    fn text(&self) -> String {
        match self {
            // Its own text is its targets, which are details here.
            Self::Delivery(DeliveryError::Unreachable(_)) => "held output has nowhere to go".into(),
            _ => self.to_string(),
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::State(error) => error.code(),
            Self::View(_) => "changes_unreadable",
            Self::Commit(error) => error.code(),
            Self::Outbox(_) | Self::Delivery(DeliveryError::Outbox(_)) => "held_unreadable",
            Self::Real(_) => "root_unreadable",
            Self::Delivery(DeliveryError::Unreachable(_)) => "unreachable",
            Self::Refused(_) => "refused_by_domain",
            Self::NotRunning { .. } => "not_running",
            Self::Ended { .. } => "ended_meanwhile",
            Self::Stopped { .. } => "domain_stopped",
            Self::Link(_) => "domain_unheard",
        }
    }

    fn details(&self) -> Vec<String> {
        match self {
            Self::Commit(error) => error.details(),
            Self::Refused(refusal) => refusal.details.clone(),
            Self::Delivery(DeliveryError::Unreachable(targets)) => {
                targets.iter().map(ToString::to_string).collect()
            }
            _ => Vec::new(),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::State(error) => Explained::hint(error),
            Self::Commit(error) => Explained::hint(error),
            Self::Refused(refusal) => refusal.hint.clone(),
            Self::Delivery(DeliveryError::Unreachable(_)) => {
                Some("nothing has changed; commit again when it can be reached".into())
            }
            Self::Ended { .. } => Some("`surmise list` shows what has become of it".into()),
            Self::NotRunning { .. } => Some("`surmise list` shows which domains run".into()),
            Self::Stopped { pid, .. } => Some(format!(
                "nothing has changed; `fg` in its shell, or `kill -CONT {pid}`, lets it go on"
            )),
            _ => None,
        }
    }

    fn conflicts(&self) -> Vec<ConflictRow> {
        match self {
            Self::Commit(error) => error.conflicts(),
            _ => Vec::new(),
        }
    }
}

impl Explained for VolumeError {
    fn code(&self) -> &'static str {
        "volume"
    }

    fn hint(&self) -> Option<String> {
        Self::hint(self)
    }
}
