//! Every x86-64 system call as one row of data: number, dispositions, handler.
#![forbid(unsafe_code)]
