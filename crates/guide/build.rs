//! Clients and servers, as any user of tonic has them generated.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let includes = ["proto", "../grpc/proto"];
    let files = protox::compile(["proto/weather.proto", "proto/shop.proto"], includes)?;
    tonic_prost_build::configure().compile_fds(files)?;
    Ok(())
}
