//! Ten reads of etcd, each of a key that the read before it has found, by an ordinary client and by a
//! speculative one.
//!
//! Three unmodified nodes run on this machine, as far from each other as `--delay` says. A linearizable read
//! has to ask other nodes whether it is up to date. A serializable read answers at once with what the nearest
//! node has, which may be old: so it makes no result, but a very good prediction.
//!
//! ```text
//! make demo-rpc
//! ```
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an example shows what it does"
)]

mod chain;
mod cluster;
mod kv;
mod proxy;
mod shown;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;

use chain::Reads;
use cluster::{Cluster, ClusterError};
use kv::Kv;

/// Read a chain of keys from three nodes of etcd, plainly and with what follows running ahead
#[derive(Parser)]
struct Arguments {
    /// The program
    #[arg(long, default_value = "etcd")]
    etcd: PathBuf,

    /// How far the nodes are from each other: the time there and back, in ms
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u64).range(..=1000))]
    delay: u64,

    /// How many reads depend on each other
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=16))]
    reads: u32,

    /// How often each chain is read
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// Print the milliseconds of each chain, and how many reads there were, as a JSON object
    #[arg(long)]
    json: bool,
}

/// The times of one way to read, in ms, and how many reads it sent.
#[derive(Clone, Debug, Default, serde::Serialize)]
struct Way {
    ms: Vec<f64>,
    reads: u64,
}

#[tokio::main]
async fn main() -> ExitCode {
    match compare(&Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("Error: {error}");
            if let Some(ClusterError::Start { .. }) = error.downcast_ref() {
                eprintln!("Hint: `make demo-rpc` fetches it; --etcd says where it is");
            }
            ExitCode::FAILURE
        }
    }
}

async fn compare(arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    if !arguments.json {
        println!(
            "Starting three nodes, {} ms from each other ...",
            arguments.delay
        );
    }
    let one_way = Duration::from_micros(arguments.delay * 500);
    let cluster = Cluster::start(&arguments.etcd, one_way).await?;
    let kv = Kv::connect(cluster.follower()).await?;
    for step in 0..arguments.reads {
        kv.put(&chain::key(step), &chain::key(step + 1)).await?;
    }
    let (mut plain, mut ahead) = (Way::default(), Way::default());
    // The first pair warms the connection and does not count.
    for round in 0..=arguments.rounds {
        for (reads, way) in [(Reads::OneByOne, &mut plain), (Reads::Ahead, &mut ahead)] {
            let (begun, before) = (Instant::now(), kv.reads());
            let found = reads.follow(&kv, chain::key(0), arguments.reads).await?;
            let ms = begun.elapsed().as_secs_f64() * 1e3;
            if found != chain::key(arguments.reads) {
                return Err(format!("{found} is not the end of the chain").into());
            }
            if round > 0 {
                way.ms.push(ms);
                way.reads += kv.reads() - before;
            }
        }
    }
    shown::show(&plain, &ahead, arguments.json);
    Ok(())
}
