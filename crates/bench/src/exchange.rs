//! A row in which a client, inside, works with a server outside, compared with the client by itself.

pub mod client;
pub mod link;
mod redis;
mod server;

use std::ffi::OsString;
use std::net::SocketAddr;

use crate::measure::{Sample, run};
use crate::place::Place;
use crate::run::{Measured, Side};
use client::Work;
use link::Link;
use redis::Redis;

/// What a client and a server do.
pub struct Exchange {
    /// What the client does.
    pub work: Work,
    /// The link between them, if there is one.
    pub link: Option<Link>,
}

/// An exchange whose server runs.
pub struct Ready<'a> {
    exchange: &'a Exchange,
    /// Where the client goes.
    address: SocketAddr,
    /// Ends with the row.
    _redis: Option<Redis>,
}

impl<'a> Ready<'a> {
    /// Starts the server, and the link before it.
    pub fn new(place: &Place, exchange: &'a Exchange) -> Result<Self, String> {
        let (server, redis) = if let Work::RedisGet { .. } = exchange.work {
            let redis = Redis::start(place)?;
            (redis.address, Some(redis))
        } else {
            let address = server::start().map_err(|error| format!("start a server: {error}"))?;
            (address, None)
        };
        let address = match exchange.link {
            None => server,
            Some(link) => {
                link::start(server, link).map_err(|error| format!("start a link: {error}"))?
            }
        };
        Ok(Self {
            exchange,
            address,
            _redis: redis,
        })
    }

    fn client(&self, place: &Place) -> Result<Vec<OsString>, String> {
        if let Work::RedisGet { clients, requests } = self.exchange.work {
            return Ok(redis::client(self.address, clients, requests));
        }
        let work = serde_json::to_string(&self.exchange.work).map_err(|error| error.to_string())?;
        Ok(place.own(&[
            "client".into(),
            work.into(),
            self.address.to_string().into(),
        ]))
    }
}

impl Measured for Ready<'_> {
    fn unit(&self) -> &'static str {
        self.exchange.work.unit()
    }

    fn peer_name(&self) -> String {
        "plain".to_owned()
    }

    fn sample(&mut self, place: &Place, side: Side) -> Result<Sample, String> {
        place.reset(None)?;
        let client = self.client(place)?;
        let line = match side {
            Side::Peer => client,
            Side::Ours => {
                let server = self.address.to_string();
                place.inside(&["--net", "allow", "--allow-net", &server], &client)
            }
        };
        let finished = run(&line, place, &place.work())?;
        let said = finished.output.trim();
        let value = match self.exchange.work {
            Work::RedisGet { .. } => redis::rate(said),
            _ => said.parse().ok(),
        };
        Ok(Sample {
            value: value.ok_or_else(|| format!("the client gave no number but {said:?}"))?,
            user_ms: finished.cost.user_ms,
            system_ms: finished.cost.system_ms,
        })
    }
}
