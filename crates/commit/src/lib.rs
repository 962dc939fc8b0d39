//! Changes of a view: listed, checked against the real files, staged and applied.
#![forbid(unsafe_code)]
