//! Files that hold nodes' data, open.

use std::fs::File;
use std::sync::Arc;

use surmise_lower::OpenFile;

/// The file that holds a node's data.
#[derive(Debug, Clone)]
pub(super) enum Data {
    /// Of the object store.
    Object(Arc<File>),
    /// Of the lower side.
    Real(Arc<dyn OpenFile>),
}

impl Data {
    /// What both can: be read.
    pub(super) fn reader(&self) -> &dyn OpenFile {
        match self {
            Self::Object(file) => &**file,
            Self::Real(file) => &**file,
        }
    }
}
