//! The descriptors of a server's methods.
#![no_main]

surmise_fuzz::target!(surmise_grpc::fuzzing, descriptors, descriptor_seeds);
