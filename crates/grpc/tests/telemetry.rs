//! What OpenTelemetry is told of four calls: one that is predicted rightly, one wrongly, one too late, and one that
//! is dropped.

use std::collections::BTreeMap;
use std::future::pending;
use std::time::Duration;

use opentelemetry::global;
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData};
use opentelemetry_sdk::metrics::{InMemoryMetricExporter, SdkMeterProvider};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider};
use surmise_grpc::{Scope, Status};

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
    assert_eq!(scope.call(reply).predict(7).then(follow).await.unwrap(), 8);
    assert_eq!(scope.call(reply).predict(6).then(follow).await.unwrap(), 8);
    let never = scope.call(reply).predict_with(pending());
    assert_eq!(never.then(follow).await.unwrap(), 8);
    let dropped = scope
        .call(reply)
        .predict(7)
        .then(async |_, _| pending::<Result<(), Status>>().await);
    assert!(tokio::time::timeout(REPLY / 2, dropped).await.is_err());

    meter.force_flush().unwrap();
    let mut told = Told::default();
    for resource in metrics.get_finished_metrics().unwrap() {
        let scopes = resource.scope_metrics();
        scopes
            .flat_map(|scope| scope.metrics())
            .for_each(|metric| told.take(metric.name(), metric.data()));
    }
    let counted = ["abandoned", "hit", "late", "miss"].map(|outcome| (outcome.to_owned(), 1));
    assert_eq!(told.predictions, counted.into());
    let (times, saved) = told.seconds["surmise.saved"];
    assert!(
        times == 1 && saved >= (REPLY - EARLY).as_secs_f64(),
        "{saved}"
    );
    let (times, wasted) = told.seconds["surmise.wasted"];
    assert!(
        times == 2 && wasted >= (REPLY - EARLY).as_secs_f64(),
        "{wasted}"
    );

    let spans = spans.get_finished_spans().unwrap();
    let outcomes = spans.iter().map(|span| {
        assert_eq!(span.name, "surmise.ahead");
        span.attributes[0].value.to_string()
    });
    assert_eq!(outcomes.collect::<Vec<_>>(), ["hit", "miss", "abandoned"]);
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
                    let outcome = point.attributes().next().expect("an outcome");
                    self.predictions
                        .insert(outcome.value.to_string(), point.value());
                }
            }
            AggregatedMetrics::F64(MetricData::Histogram(histogram)) => {
                for point in histogram.data_points() {
                    self.seconds
                        .insert(name.to_owned(), (point.count(), point.sum()));
                }
            }
            other => panic!("{name}: {other:?}"),
        }
    }
}
