//! What happens, each at its moment.

use surmise_remote::client::Token;
use surmise_remote::frame::{ToClient, ToServer};
use surmise_remote::lease::ClientId;
use surmise_remote::locks::Attempt;
use surmise_remote::object::ObjectId;
use surmise_remote::piece::{Digest, Piece};
use surmise_remote::server::Link;

#[derive(Debug)]
pub enum What {
    ToServer(Link, ToServer),
    ToClient(Link, ToClient),
    /// That a connection has ended.
    ServerSees(Link),
    ClientSees(Link),
    Connect(usize),
    Cut(usize),
    Program(usize),
    Signal(usize, Token),
    Lift(usize, u64, ObjectId, Attempt),
    KernelForgets(usize, u64, u64, ObjectId),
    /// The disk has been asked for a piece that was kept.
    Restores(usize, u64, u64, Piece),
    /// To the server of this start.
    OnServer(u64, OnServer),
    ServerCrashes,
    ServerStarts,
    ClientCrashes(usize),
    ClientTick(usize),
    /// Others change something in the directory, and the server learns of that.
    OthersChange,
    OthersAreSeen(u64),
}

#[derive(Debug)]
pub enum OnServer {
    Flush,
    Apply,
    Load(ObjectId),
    Read(ClientId, u64, ObjectId, (u64, u32), Option<Digest>),
    Space(ClientId, u64),
    Tick,
}
