//! The second call ahead of the first one's reply.

use std::num::NonZeroUsize;

use surmise_grpc::{Known, Scope};
use surmise_guide::weather::Profile;
use surmise_guide::weather::weather_client::WeatherClient;
use surmise_predict::{Cache, Switched, Thresholds, User};
use tonic::Status;
use tonic::transport::Channel;

use crate::before::{find, measure};

pub type Profiles = Known<Switched<Cache<u32, u32, Profile>, Profile>>;

pub fn profiles() -> Profiles {
    let entries_max = NonZeroUsize::new(10_000).expect("it is not zero");
    let ttl_ms = 600_000;
    let cache = Cache::new(entries_max, ttl_ms, |user: &u32| *user);
    Known::new(Switched::new(cache, Thresholds::default()))
}

pub async fn temperature(
    client: &WeatherClient<Channel>,
    profiles: &Profiles,
    user: u32,
) -> Result<i32, Status> {
    Scope::root()
        .call(|| find(client, user))
        .predict_by(profiles, User::program(), user)
        .then(async |scope: Scope, profile: Profile| {
            let weather = scope.call(|| measure(client, &profile.city)).safe();
            Ok(weather.value().await?.celsius)
        })
        .await
}
