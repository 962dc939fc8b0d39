//! What OpenTelemetry is told of four calls with a name: one that is predicted rightly, one wrongly, one too late, and
//! one that is dropped; of one without, and one that is named by its path.

use std::collections::BTreeMap;
use std::future::pending;
use std::time::Duration;

use opentelemetry::{KeyValue, global};
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData};
use opentelemetry_sdk::metrics::{InMemoryMetricExporter, SdkMeterProvider};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider};
use surmise_grpc::{Scope, Server, Status};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;

/// How long a reply takes; the timers of the runtime may be so much early.
const REPLY: Duration = Duration::from_millis(20);
const EARLY: Duration = Duration::from_millis(1);

async fn reply() -> Result<u32, Status> {
    tokio::time::sleep(REPLY).await;
    Ok(7)
}

async fn follow(_: Scope, value: u32) -> Result<u32, Status> {
    Ok(value + 1)
}

#[tokio::test]
async fn each_prediction_is_told_once() {
    let (metrics, spans) = (
        InMemoryMetricExporter::default(),
        InMemorySpanExporter::default(),
    );
    let meter = SdkMeterProvider::builder()
        .with_periodic_exporter(metrics.clone())
        .build();
    let tracer = SdkTracerProvider::builder()
        .with_simple_exporter(spans.clone())
        .build();
    global::set_meter_provider(meter.clone());
    global::set_tracer_provider(tracer);

    let scope = Scope::root();
    let named = || scope.call(reply).named("test.Numbers/Get");
    assert_eq!(named().predict(7).then(follow).await.unwrap(), 8);
    assert_eq!(named().predict(6).then(follow).await.unwrap(), 8);
    let never = named().predict_with(pending());
    assert_eq!(never.then(follow).await.unwrap(), 8);
    let dropped = named()
        .predict(7)
        .then(async |_, _| pending::<Result<(), Status>>().await);
    assert!(tokio::time::timeout(REPLY / 2, dropped).await.is_err());

    assert_eq!(scope.call(reply).predict(7).then(follow).await.unwrap(), 8);
    // Nobody listens there.
    let absent = Channel::from_static("http://127.0.0.1:1").connect_lazy();
    let path = PathAndQuery::from_static("/test.Absent/Get");
    let call = scope.call_to::<u32, u32>(&Server::new(absent), path, &1);
    call.predict(7).then(follow).await.unwrap_err();

    meter.force_flush().unwrap();
    let mut told = Told::default();
    for resource in metrics.get_finished_metrics().unwrap() {
        let scopes = resource.scope_metrics();
        scopes
            .flat_map(|scope| scope.metrics())
            .for_each(|metric| told.take(metric.name(), metric.data()));
    }
    let counted = [
        "outcome=abandoned rpc.method=test.Numbers/Get",
        "outcome=hit",
        "outcome=hit rpc.method=test.Numbers/Get",
        "outcome=late rpc.method=test.Numbers/Get",
        "outcome=miss rpc.method=test.Absent/Get",
        "outcome=miss rpc.method=test.Numbers/Get",
    ];
    let counted = counted.map(|labels| (labels.to_owned(), 1));
    assert_eq!(told.predictions, counted.clone().into());
    for (what, times_wanted) in [
        ("surmise.saved rpc.method=test.Numbers/Get", 1),
        ("surmise.wasted rpc.method=test.Numbers/Get", 2),
        ("surmise.saved ", 1),
    ] {
        let (times, spent) = told.seconds[what];
        let is_enough = spent >= (REPLY - EARLY).as_secs_f64();
        assert!(times == times_wanted && is_enough, "{what} {spent}");
    }

    let spans = spans.get_finished_spans().unwrap();
    let ended = spans.iter().map(|span| {
        assert_eq!(span.name, "surmise.ahead");
        labels(&span.attributes)
    });
    let in_turn = [2, 5, 0, 1, 4].map(|one| counted[one].0.clone());
    assert_eq!(ended.collect::<Vec<_>>(), in_turn);
}

/// The values of these attributes, by their names.
fn labels<'a>(attributes: impl IntoIterator<Item = &'a KeyValue>) -> String {
    let labels = attributes.into_iter();
    let mut labels: Vec<_> = labels
        .map(|one| format!("{}={}", one.key, one.value))
        .collect();
    labels.sort();
    labels.join(" ")
}

#[derive(Default)]
struct Told {
    predictions: BTreeMap<String, u64>,
    /// How often, and how long in all.
    seconds: BTreeMap<String, (u64, f64)>,
}

impl Told {
    fn take(&mut self, name: &str, data: &AggregatedMetrics) {
        match data {
            AggregatedMetrics::U64(MetricData::Sum(sum)) => {
                assert_eq!(name, "surmise.predictions");
                for point in sum.data_points() {
                    self.predictions
                        .insert(labels(point.attributes()), point.value());
                }
            }
            AggregatedMetrics::F64(MetricData::Histogram(histogram)) => {
                for point in histogram.data_points() {
                    let labels = labels(point.attributes());
                    self.seconds
                        .insert(format!("{name} {labels}"), (point.count(), point.sum()));
                }
            }
            other => panic!("{name}: {other:?}"),
        }
    }
}
