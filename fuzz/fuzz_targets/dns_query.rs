//! A query of the domain.
#![no_main]

surmise_fuzz::target!(surmise_network::names::fuzzing, query_message, query_seeds);
