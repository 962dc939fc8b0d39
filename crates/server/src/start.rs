//! From the log of the server before to one that can serve.

use surmise_remote::server::{Config, Record, Server};

use crate::clock::now;
use crate::directory::{Directory, Earlier};
use crate::error::ServeError;
use crate::limits::limits;
use crate::log::{self, Begins, Contents, Log, LogError};
use crate::probe::{Abilities, probe};
use crate::serve::Options;
use crate::state::State;

/// What a server begins with.
pub(crate) struct Started {
    pub(crate) server: Server,
    pub(crate) directory: Directory,
    pub(crate) log: Log,
    pub(crate) begins: Begins,
}

/// Makes all that the log of the server before says, and begins a new one.
pub(crate) fn start(state: &State, options: Options) -> Result<Started, ServeError> {
    let io = |error| ServeError::at(state.path())(error);
    let stuck = |source| ServeError::Stuck {
        path: state.path().to_owned(),
        source,
    };
    let failed = |error| ServeError::log(state.path().join("log"), error);
    let (progress, _) = state.progress().map_err(io)?;
    log::remove_unfinished(state.directory()).map_err(io)?;
    let ended = log::ended(state.directory()).map_err(io)?;
    let opened = Log::open(state.directory()).map_err(failed)?;
    let contents = opened.map(|(_, contents)| contents);
    let starts = contents.as_ref().map_or(0, |log| log.begins.starts) + 1;
    let made = progress.get().map_err(io)?;
    let roots = state.roots().map_err(io)?;
    let export = roots.export.try_clone().map_err(io)?;
    let abilities = abilities_of(state)?;
    let mut directory =
        Directory::new(roots, progress, starts << 32).map_err(|errno| stuck(errno.into()))?;
    let root = directory.identity();
    let own = state.identity().map_err(io)?;
    let contents = contents.unwrap_or_else(|| Contents::empty(root, own, made));
    if (contents.begins.root, contents.begins.state) != (root, own) {
        return Err(failed(LogError::Other));
    }
    let Some(root_id) = directory.root() else {
        return Err(failed(LogError::Other));
    };
    let config = Config {
        root: root_id,
        lease_ms: u64::try_from(options.lease.as_millis()).unwrap_or(u64::MAX / 4),
        limits: limits(export, root_id, &abilities).map_err(|errno| stuck(errno.into()))?,
    };
    let known = Server::new(config.clone(), contents.records.iter().cloned(), now());
    let condensed = known.condensed();
    let earlier = Earlier {
        base: contents.begins.operations,
        pairs: contents.pairs,
        operations: operations_of(&contents.records),
        has_clients: known.knows_clients(),
        ended,
    };
    directory.redo(&earlier).map_err(stuck)?;
    directory.sync().map_err(|errno| stuck(errno.into()))?;
    // That may have taken long. The clients have their time to come again from now on.
    let server = Server::new(config, condensed.iter().cloned(), now());
    if !server.knows_clients() {
        directory.forget_makers();
    }
    let pairs = directory.pairs();
    let begins = Begins {
        root,
        state: own,
        operations: directory.made(),
        starts,
    };
    let log = Log::replace(state.directory(), begins, &pairs, &condensed).map_err(failed)?;
    let mut begun = directory.log_begins();
    if !server.knows_clients() {
        begun = begun.and_then(|()| directory.empty_nameless());
    }
    begun.map_err(|errno| stuck(errno.into()))?;
    Ok(Started {
        server,
        directory,
        log,
        begins,
    })
}

/// What the file system can, which has to be enough.
fn abilities_of(state: &State) -> Result<Abilities, ServeError> {
    let found = probe(state.directory());
    let found = found.map_err(|errno| ServeError::at(state.path())(errno.into()))?;
    match found.lacks {
        None => Ok(found),
        Some(lacks) => Err(ServeError::Unfit {
            path: state.path().to_owned(),
            lacks,
        }),
    }
}

fn operations_of(records: &[Record]) -> Vec<&surmise_remote::operation::Operation> {
    let operations = records.iter().map(|record| match record {
        Record::Made { operations, .. } => &operations[..],
        _ => &[],
    });
    operations.flatten().collect()
}
