//! What a client sends to the server of a far directory.
#![no_main]

surmise_fuzz::target!(surmise_remote::fuzzing, to_server, to_server_seeds);
