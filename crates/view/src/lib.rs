//! The copy-on-write view: name map, object store, FUSE shell.
#![forbid(unsafe_code)]
