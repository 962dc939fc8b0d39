//! The guide's servers: `cargo run -p surmise-guide --bin shop`.

#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "that is what it is for")]

mod buyer;
mod ledger;
mod serving;
mod shop;
mod warehouse;

use std::error::Error;
use std::time::{Duration, Instant};

use ledger::Ledger;

/// How long each server takes for what it does itself.
const TAKES: Duration = Duration::from_millis(20);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (taken, sold) = (Ledger::new("warehouse"), Ledger::new("shop"));
    let warehouse = warehouse::serve(taken.clone()).await?;
    let shop = shop::serve(sold.clone(), warehouse).await?;
    // By the first call of a method its clients learn that it is aware.
    buyer::buy(&shop, 5).await?;
    for (what, expected) in [("predicted rightly", 4), ("predicted wrongly", 9)] {
        for ledger in [&taken, &sold] {
            ledger.clear();
        }
        let begun = Instant::now();
        let receipt = buyer::buy(&shop, expected).await?;
        let ms = begun.elapsed().as_millis();
        println!("{what}: {} are left, after {ms} ms", receipt.left);
        for line in [&taken, &sold].map(Ledger::lines).concat() {
            println!("  {line}");
        }
    }
    Ok(())
}
