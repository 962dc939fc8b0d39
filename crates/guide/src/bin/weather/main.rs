//! The guide's client, before and after: `cargo run -p surmise-guide --bin weather`.

#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "that is what it is for")]

mod after;
mod before;
mod server;

use std::error::Error;
use std::time::{Duration, Instant};

use tonic::Code;

const CALLS: u32 = 20;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let client = server::start().await?;
    let profiles = after::profiles();
    let (mut before, mut after) = (Duration::ZERO, Duration::ZERO);
    for user in (0..CALLS).map(|call| call % 2) {
        let begun = Instant::now();
        let celsius = before::temperature(&client, user).await?;
        let middle = Instant::now();
        let same = after::temperature(&client, &profiles, user).await?;
        before += middle - begun;
        after += middle.elapsed();
        assert_eq!(celsius, same);
    }
    let nobody = after::temperature(&client, &profiles, 2).await;
    assert_eq!(nobody.unwrap_err().code(), Code::NotFound);
    let ms = |total: Duration| (total / CALLS).as_secs_f64() * 1e3;
    println!("before {:5.1} ms a temperature", ms(before));
    println!("after  {:5.1} ms", ms(after));
    Ok(())
}
