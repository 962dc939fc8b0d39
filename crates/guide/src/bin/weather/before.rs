//! One call after the other.

use surmise_guide::weather::weather_client::WeatherClient;
use surmise_guide::weather::{Measured, Place, Profile, User};
use tonic::Status;
use tonic::transport::Channel;

pub async fn find(client: &WeatherClient<Channel>, user: u32) -> Result<Profile, Status> {
    let user = User { number: user };
    Ok(client.clone().find(user).await?.into_inner())
}

pub async fn measure(client: &WeatherClient<Channel>, city: &str) -> Result<Measured, Status> {
    let city = city.to_owned();
    Ok(client.clone().measure(Place { city }).await?.into_inner())
}

pub async fn temperature(client: &WeatherClient<Channel>, user: u32) -> Result<i32, Status> {
    let profile = find(client, user).await?;
    let weather = measure(client, &profile.city).await?;
    Ok(weather.celsius)
}
