//! What a domain changed, as its directory has it; and by which of its files it shows to be damaged.

use std::path::Path;

use surmise_changes::Changes;
use surmise_commit::CommitError;
use surmise_diff::Diff;
use surmise_view::{Map, Salvaged};

use crate::domain::Domain;
use crate::error::{DecideError, StateError};
use crate::seal::Depth;

impl Domain {
    /// What the domain changed so far. It may be running.
    ///
    /// # Errors
    /// When the view's log cannot be read, or is damaged.
    pub fn changes(&self) -> Result<Changes, DecideError> {
        if self.is_committed() {
            return Ok(Changes::default());
        }
        self.check_seal(Depth::Records)?;
        self.read_changes()
    }

    /// As [`Self::changes`], where the seal has been looked at.
    pub(crate) fn read_changes(&self) -> Result<Changes, DecideError> {
        if self.is_committed() {
            return Ok(Changes::default());
        }
        Ok(Changes::of(&self.read_map()?))
    }

    /// As [`Self::changes`], with notes: what each change means for who may do what.
    ///
    /// # Errors
    /// As [`Self::changes`], and when the real file system cannot be looked at.
    pub fn noted_changes(&self) -> Result<Diff, DecideError> {
        let map = self.map(Depth::Records)?;
        Diff::of(&map, Path::new("/")).map_err(DecideError::Real)
    }

    /// The name map of what the domain changed so far, whose data are as they were written as far as
    /// `depth` goes.
    fn map(&self, depth: Depth) -> Result<Map, DecideError> {
        self.check_seal(depth)?;
        self.read_map()
    }

    /// As [`Self::contents`], where the seal has been looked at.
    pub(crate) fn read_map(&self) -> Result<Map, DecideError> {
        surmise_view::load(self.directory()).map_err(|error| self.told(error))
    }

    /// As [`Self::changes`], with the map from which to read what files hold.
    ///
    /// # Errors
    /// As [`Self::changes`], also when the data of files are damaged.
    pub fn contents(&self) -> Result<Map, DecideError> {
        self.map(Depth::Data)
    }

    /// What can be read of what the domain changed, damaged or not.
    ///
    /// # Errors
    /// When there is a log that cannot be read at all.
    pub fn salvage(&self) -> Result<Salvaged, DecideError> {
        Ok(surmise_view::salvage(self.directory())?)
    }

    /// Whether nothing of the domain is damaged. What else may be wrong with it is told when it is used.
    ///
    /// # Errors
    /// [`StateError::Seal`].
    pub(crate) fn check_whole(&self) -> Result<(), StateError> {
        self.check_seal(Depth::Data)?;
        for found in [
            self.read_map().map(drop),
            self.read_holdings().map(drop),
            self.notes(),
        ] {
            if let Err(DecideError::State(error)) = found {
                return Err(error);
            }
        }
        Ok(())
    }

    fn notes(&self) -> Result<(), DecideError> {
        surmise_commit::check_notes(self.directory()).map_err(|error| self.told(error))
    }

    /// Everything by which the domain shows to be damaged, a line each.
    pub fn damages(&self) -> Vec<String> {
        let pending = surmise_commit::pending(self.directory()).map_err(CommitError::from);
        let found = [
            self.contents().err(),
            self.holdings().err(),
            self.notes().err(),
            pending.err().map(|error| self.told(error)),
        ];
        let mut lines: Vec<_> = found.iter().flatten().map(ToString::to_string).collect();
        lines.dedup();
        lines
    }
}
