//! The only unsafe code: clone, namespaces, seccomp, descriptor passing, abilities.
