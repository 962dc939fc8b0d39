//! What the server of a far directory sends to a client.
#![no_main]

surmise_fuzz::target!(surmise_remote::fuzzing, to_client, to_client_seeds);
