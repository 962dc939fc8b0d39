//! A frame of an aware server's reply.
#![no_main]

surmise_fuzz::target!(surmise_grpc::fuzzing, frame, frame_seeds);
