//! Append-only, checksummed log with recovery.
#![forbid(unsafe_code)]
