//! S42: chains that read one snapshot of a store, which is that of their first read: order `snapshot`.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;

use surmise_grpc::{Order, Scope, Stamp, Status};

use crate::store::{Client, Entry, Store, until};

fn stamp(entry: &Entry) -> Option<Stamp> {
    let at = entry.revision;
    Some(Stamp { clock: 1, at })
}

/// Reads `a`, and then `b` as of the same revision. Returns both and whether what came first had been read ahead.
async fn read(
    client: &Client,
    predicted: &Entry,
    meanwhile: impl Future<Output = ()>,
) -> (Entry, Entry, bool) {
    let was_ahead = AtomicBool::new(false);
    let scope = Scope::root();
    let first = scope.call(|| client.get("a"));
    let first = first.compared_by(|one, other| one.value == other.value);
    let first = first
        .ordered(Order::Snapshot, stamp)
        .predict(predicted.clone());
    let run = first.then(async |scope: Scope, first: Entry| {
        let is_ahead = scope.is_speculative();
        let next = scope.call(|| client.get_at("b", first.revision)).safe();
        let next = next.ordered(Order::Snapshot, stamp).value().await?;
        was_ahead.store(is_ahead, SeqCst);
        Ok::<_, Status>((first, next))
    });
    let (read, ()) = tokio::join!(run, meanwhile);
    let (first, next) = read.unwrap();
    (first, next, was_ahead.load(SeqCst))
}

/// A store at its revision 2.
async fn store() -> (Store, Client) {
    let store = Store::with(&[("a", "0"), ("b", "0")]);
    let client = store.serve().await;
    for value in ["1", "1"] {
        client.put("b", value).await.unwrap();
    }
    (store, client)
}

#[tokio::test]
async fn what_was_read_of_the_predicted_snapshot_stands_although_others_write() {
    let (store, client) = store().await;
    store.close("a");
    let predicted = Entry {
        key: "a".to_owned(),
        value: "0".to_owned(),
        revision: 2,
    };
    let meanwhile = async {
        // The first read is of revision 2. What follows it is read now, and then changed.
        until(|| store.gets.load(SeqCst) == 2 && store.running.load(SeqCst) == 1).await;
        store.let_through("a");
    };
    let (first, next, was_ahead) = read(&client, &predicted, meanwhile).await;
    assert_eq!((first.revision, next.revision), (2, 2));
    assert_eq!(next.value, "1");
    assert!(was_ahead);
    assert_eq!(store.gets.load(SeqCst), 2);
    // A later change is not in that snapshot.
    client.put("b", "2").await.unwrap();
    assert_eq!(client.get_at("b", 2).await.unwrap().value, "1");
    assert_eq!(client.get("b").await.unwrap().value, "2");
}

/// The value is as predicted, but of a later snapshot: with stamps alone the older read would be refused as well, and a
/// newer one would stand.
#[tokio::test]
async fn what_was_read_of_another_snapshot_is_read_again_of_the_right_one() {
    for predicted in [1, 3] {
        let (store, client) = store().await;
        store.close("a");
        let meanwhile = async {
            until(|| store.gets.load(SeqCst) == 2 && store.running.load(SeqCst) == 1).await;
            store.let_through("a");
        };
        let guess = Entry {
            key: "a".to_owned(),
            value: "0".to_owned(),
            revision: predicted,
        };
        let (first, next, was_ahead) = read(&client, &guess, meanwhile).await;
        assert_eq!((first.revision, next.revision), (2, 2), "{predicted}");
        assert!(!was_ahead);
        assert_eq!(store.gets.load(SeqCst), 3);
    }
}
