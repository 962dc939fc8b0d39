//! OpenTelemetry is told, by the providers that the program has set for all its libraries.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use opentelemetry::KeyValue;
use opentelemetry::global::{self, BoxedSpan};
use opentelemetry::metrics::{Counter, Histogram};
use opentelemetry::trace::{Span, Tracer};

const LIBRARY: &str = "surmise-grpc";

struct Instruments {
    predictions: Counter<u64>,
    saved: Histogram<f64>,
    wasted: Histogram<f64>,
}

/// Those of the provider that was there when the first was asked for.
fn instruments() -> &'static Instruments {
    static INSTRUMENTS: OnceLock<Instruments> = OnceLock::new();
    INSTRUMENTS.get_or_init(|| {
        let meter = global::meter(LIBRARY);
        let seconds = |name| meter.f64_histogram(name).with_unit("s").build();
        Instruments {
            predictions: meter.u64_counter("surmise.predictions").build(),
            saved: seconds("surmise.saved"),
            wasted: seconds("surmise.wasted"),
        }
    })
}

/// What follows a call, run ahead. To drop it is to abandon it.
pub struct Ahead {
    begun: Instant,
    method: Option<KeyValue>,
    span: BoxedSpan,
    outcome: Outcome,
}

/// As far as it is known.
#[derive(Clone, Copy)]
enum Outcome {
    /// It had run for so long when the reply came.
    Hit(Duration),
    Miss,
    Abandoned,
}

impl Ahead {
    pub fn begin(method: Option<&str>) -> Self {
        Self {
            begun: Instant::now(),
            method: method.map(named),
            span: global::tracer(LIBRARY).start("surmise.ahead"),
            outcome: Outcome::Abandoned,
        }
    }

    /// The reply has come, and it was right.
    pub fn hit(&mut self) {
        self.outcome = Outcome::Hit(self.begun.elapsed());
    }

    /// It is discarded.
    pub fn miss(mut self) {
        self.outcome = Outcome::Miss;
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        let Instruments {
            predictions,
            saved,
            wasted,
        } = instruments();
        let (name, spent, of) = match self.outcome {
            Outcome::Hit(ahead) => ("hit", ahead, saved),
            Outcome::Miss => ("miss", self.begun.elapsed(), wasted),
            Outcome::Abandoned => ("abandoned", self.begun.elapsed(), wasted),
        };
        of.record(spent.as_secs_f64(), self.method.as_slice());
        let told = told(name, self.method.take());
        predictions.add(1, &told);
        self.span.set_attributes(told);
        self.span.end();
    }
}

/// So many predictions of a method came after the reply.
pub fn late(count: usize, method: Option<&str>) {
    if count > 0 {
        let told = told("late", method.map(named));
        instruments().predictions.add(count as u64, &told);
    }
}

/// By its full name, as OpenTelemetry's conventions for RPC have it.
fn named(method: &str) -> KeyValue {
    KeyValue::new("rpc.method", method.to_owned())
}

fn told(outcome: &'static str, method: Option<KeyValue>) -> Vec<KeyValue> {
    let outcome = KeyValue::new("outcome", outcome);
    std::iter::once(outcome).chain(method).collect()
}
