//! What a client of `surmise api` sends.
#![no_main]

surmise_fuzz::target!(surmise_api::fuzzing, requests, seeds);
