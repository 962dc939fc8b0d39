//! A packet of the domain.
#![no_main]

surmise_fuzz::target!(surmise_network::packet::fuzzing, packet, seeds);
