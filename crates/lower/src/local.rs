//! The file system of this host, by descriptor and name.
//!
//! Access times stay where the user may ask for that.

mod directory;
mod file;
mod watch;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::interface::{Directory, Lower, Watcher};
use directory::LocalDirectory;
use watch::LocalWatcher;

/// The tree below a directory of this host.
#[derive(Debug, Clone)]
pub struct Local {
    root: PathBuf,
}

impl Local {
    /// The tree below `root`, which is opened when it is first asked for.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }
}

impl Lower for Local {
    fn root(&self) -> io::Result<Arc<dyn Directory>> {
        let root = LocalDirectory::open(rustix::fs::CWD, self.root.as_os_str())?;
        Ok(Arc::new(root))
    }

    /// Every user may have some 128 of them.
    fn watcher(&self) -> Option<Arc<dyn Watcher>> {
        let watcher = LocalWatcher::open().ok()?;
        Some(Arc::new(watcher))
    }
}
