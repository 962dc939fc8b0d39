//! A server that asks the warehouse, and rests on what its own caller rests on.

use std::error::Error;

use surmise_grpc::{Callers, Context, Scope, Server};
use surmise_guide::shop::shop_server::{self, ShopServer};
use surmise_guide::shop::{Item, Receipt, Stock};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::{Request, Response, Status};

use crate::ledger::Ledger;
use crate::{TAKES, serving};

#[derive(Clone)]
struct Shop {
    warehouse: Server,
    ledger: Ledger,
}

pub async fn serve(ledger: Ledger, warehouse: Server) -> Result<Server, Box<dyn Error>> {
    let shop = Shop { warehouse, ledger };
    let aware = shop.clone();
    let service = Callers::default()
        .before(ShopServer::new(shop))
        .unary("Buy", move |context, request: Request<Item>| {
            aware.clone().buy(context, request.into_inner())
        });
    serving::serve(service).await
}

impl Shop {
    async fn buy(self, context: Context<Receipt>, item: Item) -> Result<Receipt, Status> {
        // Nobody else reads this order, so it may be undone.
        self.ledger.write("ordered", &item.name);
        let (ledger, name) = (self.ledger.clone(), item.name.clone());
        context.on_abort(move || ledger.write("cancelled", &name));

        let take = PathAndQuery::from_static("/shop.Warehouse/Take");
        context
            .call_to::<_, Stock>(&self.warehouse, take, &item)
            .aware()
            .then_reply(&context, async |_: Scope, stock: Stock| {
                let (item, left) = (item.name.clone(), stock.left);
                Ok(Receipt { item, left })
            })
            .await
    }
}

#[tonic::async_trait]
impl shop_server::Shop for Shop {
    async fn look(&self, _: Request<Item>) -> Result<Response<Stock>, Status> {
        tokio::time::sleep(TAKES).await;
        Ok(Response::new(Stock { left: 4 }))
    }

    async fn buy(&self, _: Request<Item>) -> Result<Response<Receipt>, Status> {
        Err(Status::unimplemented("it is served before this"))
    }
}
