//! A server that prepares for callers that may never be, and does nothing for them.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;

use surmise_grpc::{Callers, Context, Server};
use surmise_guide::shop::warehouse_server::{self, WarehouseServer};
use surmise_guide::shop::{Item, Stock};
use tonic::{Request, Response, Status};

use crate::ledger::Ledger;
use crate::{TAKES, serving};

#[derive(Clone)]
struct Warehouse {
    left: Arc<AtomicU32>,
    ledger: Ledger,
}

pub async fn serve(ledger: Ledger) -> Result<Server, Box<dyn Error>> {
    let left = Arc::new(AtomicU32::new(10));
    let warehouse = Warehouse { left, ledger };
    let aware = warehouse.clone();
    let service = Callers::default()
        .before(WarehouseServer::new(warehouse))
        .unary("Take", move |context, request: Request<Item>| {
            aware.clone().take(context, request.into_inner())
        });
    serving::serve(service).await
}

impl Warehouse {
    async fn take(self, context: Context<Stock>, item: Item) -> Result<Stock, Status> {
        let left = self.left.load(SeqCst).saturating_sub(1);
        context.predict(&Stock { left });
        tokio::time::sleep(TAKES).await;

        // Others see how many are left: it waits until the caller is confirmed.
        context.confirmed().await?;
        let one_less = |left: u32| left.checked_sub(1);
        let taken = self.left.fetch_update(SeqCst, SeqCst, one_less);
        let left = taken.map_err(|_| Status::failed_precondition("none is left"))? - 1;
        self.ledger.write("took", &item.name);
        Ok(Stock { left })
    }
}

#[tonic::async_trait]
impl warehouse_server::Warehouse for Warehouse {
    async fn take(&self, _: Request<Item>) -> Result<Response<Stock>, Status> {
        Err(Status::unimplemented("it is served before this"))
    }
}
