//! One domain: state directory, namespaces, pid 1, supervision.
#![forbid(unsafe_code)]
