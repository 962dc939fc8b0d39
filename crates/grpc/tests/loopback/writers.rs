//! Chains of reads, while others write: each read is predicted rightly by its value, and may have been served
//! before the one that it follows.

use std::future::Future;
use std::pin::Pin;
use std::sync::Mutex;
use std::time::Duration;

use surmise_grpc::{Order, Scope, Stamp, Status};

use crate::store::{Client, Entry, Store, entry};

const KEYS: [&str; 4] = ["a", "b", "c", "d"];

/// How many chains are run in each order, unless `SURMISE_CHAINS` says.
const CHAINS: usize = 200;

/// S42.
#[tokio::test]
async fn by_stamps_no_read_is_older_than_the_one_before_it() {
    let chains = std::env::var("SURMISE_CHAINS").ok();
    let chains = chains.map_or(CHAINS, |count| count.parse().expect("a number"));
    let store = Store::with(&[("a", "b"), ("b", "c"), ("c", "d"), ("d", "end")]);
    let (client, writer) = (store.serve().await, store.serve().await);
    let writer = tokio::spawn(async move {
        for turn in 0.. {
            let key = KEYS[turn % KEYS.len()];
            let next = KEYS.get(turn % KEYS.len() + 1).unwrap_or(&"end");
            writer.put(key, next).await.unwrap();
        }
    });
    let mut violations = [0; 2];
    for number in 0..chains {
        for (order, count) in [Order::None, Order::Stamp].into_iter().zip(&mut violations) {
            let read = Mutex::new([0; KEYS.len()]);
            let chain = Chain {
                client: &client,
                order,
                number,
                read: &read,
            };
            chain.from(Scope::root(), 0).await.unwrap();
            *count += usize::from(!read.into_inner().unwrap().is_sorted());
        }
    }
    writer.abort();
    let [without, with] = violations;
    #[expect(clippy::print_stdout, reason = "the counts are a result")]
    {
        println!("of {chains} chains out of order: {without} without stamps, {with} with them");
    }
    // The hole is there, or this would show nothing.
    assert!(without > 0);
    assert_eq!(with, 0);
}

#[derive(Clone, Copy)]
struct Chain<'a> {
    client: &'a Client,
    order: Order,
    number: usize,
    /// The revisions that the keys were read at last. What follows a read sees that of the prediction.
    read: &'a Mutex<[u64; KEYS.len()]>,
}

impl<'a> Chain<'a> {
    /// Reads this key and those behind it.
    fn from(
        self,
        scope: Scope,
        at: usize,
    ) -> Pin<Box<dyn Future<Output = Result<(), Status>> + Send + 'a>> {
        let same = |one: &Entry, other: &Entry| one.value == other.value;
        let stamp = |entry: &Entry| {
            Some(Stamp {
                clock: 1,
                at: entry.revision,
            })
        };
        Box::pin(async move {
            let Some(key) = KEYS.get(at) else {
                return Ok(());
            };
            let read = scope.call(|| self.read(key, at)).safe();
            let read = read.compared_by(same).ordered(self.order, stamp);
            let read = read.predict(entry(key, KEYS.get(at + 1).unwrap_or(&"end")));
            read.then(async |scope: Scope, _| self.from(scope, at + 1).await)
                .await
        })
    }

    async fn read(self, key: &str, at: usize) -> Result<Entry, Status> {
        // Some are served late.
        let late = (self.number * 7 + (KEYS.len() - at) * 3) % 4;
        tokio::time::sleep(Duration::from_millis(late as u64)).await;
        let entry = self.client.get(key).await?;
        self.read.lock().unwrap()[at] = entry.revision;
        Ok(entry)
    }
}
