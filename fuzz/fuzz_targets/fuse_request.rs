//! A request of the kernel.
#![no_main]

surmise_fuzz::target!(surmise_fuse::fuzzing, request, seeds);
