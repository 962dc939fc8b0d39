//! The FUSE wire protocol: requests decoded, replies encoded, one device loop.
#![forbid(unsafe_code)]
