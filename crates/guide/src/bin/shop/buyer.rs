//! A client that looks what there is, and buys.

use surmise_grpc::{Scope, Server};
use surmise_guide::shop::{Item, Receipt, Stock};
use tonic::Status;
use tonic::codegen::http::uri::PathAndQuery;

/// Buys one, and predicts that so many are left.
pub async fn buy(shop: &Server, expected: u32) -> Result<Receipt, Status> {
    let item = Item {
        name: "hat".to_owned(),
    };
    let look = PathAndQuery::from_static("/shop.Shop/Look");
    let scope = Scope::root();
    let receipt = scope
        .call_to::<_, Stock>(shop, look, &item)
        .safe()
        .predict(Stock { left: expected })
        .then(async |scope: Scope, stock: Stock| {
            if stock.left == 0 {
                return Err(Status::not_found("there are no hats"));
            }
            let item = Item {
                name: format!("hat {}", stock.left),
            };
            let buy = PathAndQuery::from_static("/shop.Shop/Buy");
            let receipt = scope.call_to::<_, Receipt>(shop, buy, &item).aware();
            receipt.value().await
        })
        .await?;
    scope.settled().await?;
    Ok(receipt)
}
