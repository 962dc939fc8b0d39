//! Figures 1 and 3 of the paper (SpecRPC, Middleware 2018), one step after the other and run ahead:
//! `cargo run --release -p surmise-grpc --example figures`.

#![expect(clippy::print_stdout, reason = "that is what it is for")]

mod service;

use std::error::Error;
use std::time::{Duration, Instant};

use service::Client;
use surmise_grpc::{Scope, Status};

/// What is computed with an answer takes as long as the answer.
const COMPUTING: Duration = Duration::from_millis(50);

async fn compute<T>(value: T) -> T {
    tokio::time::sleep(COMPUTING).await;
    value
}

/// Figure 1: a server adds, and what is computed with the sum begins with a predicted one.
async fn sum(client: &Client, predicted: Option<&str>) -> Result<String, Status> {
    let scope = Scope::root();
    let mut call = scope.call(|| client.ask("1 + 2"));
    if let Some(sum) = predicted {
        call = call.predict(sum.to_owned());
    }
    call.then(async |_: Scope, sum: String| {
        let sum: u32 = sum.parse().map_err(|_| Status::internal("no number"))?;
        Ok(compute(sum + 1).await.to_string())
    })
    .await
}

/// Figure 3: who somebody is, what is advertised to such people, and a page of that. `predicted`: the first two.
async fn page(client: &Client, predicted: Option<[&str; 2]>) -> Result<String, Status> {
    let [likes, offers] = predicted.map_or([None, None], |predicted| predicted.map(Some));
    let scope = Scope::root();
    let mut who = scope.call(|| client.ask("personal information of Ann"));
    if let Some(likes) = likes {
        who = who.predict(likes.to_owned());
    }
    who.then(async |scope: Scope, likes: String| {
        let question = format!("advertisements for {likes}");
        let mut what = scope.call(|| client.ask(&question)).safe();
        if let Some(offers) = offers {
            what = what.predict(offers.to_owned());
        }
        what.then(async |_: Scope, offers: String| Ok(compute(format!("Ann sees {offers}")).await))
            .await
    })
    .await
}

/// What comes of it, and how long that takes.
async fn timed(
    steps: impl Future<Output = Result<String, Status>>,
) -> Result<(String, u128), Status> {
    let begun = Instant::now();
    let outcome = steps.await?;
    Ok((outcome, begun.elapsed().as_millis()))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let client = Client::start().await?;
    let rows = [
        (
            "Figure 1, one step after the other",
            timed(sum(&client, None)).await?,
        ),
        (
            "          predicted rightly",
            timed(sum(&client, Some("3"))).await?,
        ),
        (
            "          predicted wrongly",
            timed(sum(&client, Some("4"))).await?,
        ),
        (
            "Figure 3, one step after the other",
            timed(page(&client, None)).await?,
        ),
        (
            "          predicted rightly",
            timed(page(&client, Some(["hats", "red hats"]))).await?,
        ),
        (
            "          the second wrongly",
            timed(page(&client, Some(["hats", "blue hats"]))).await?,
        ),
        (
            "          both wrongly",
            timed(page(&client, Some(["shoes", "boots"]))).await?,
        ),
    ];
    for (what, (outcome, ms)) in rows {
        println!("{what:36} {ms:4} ms  {outcome}");
    }
    Ok(())
}
