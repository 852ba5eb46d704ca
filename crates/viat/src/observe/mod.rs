//! What an engine tells of itself to those who watch many: metrics that are asked for, spans that are sent.

mod bounded;
mod export;
mod histogram;
pub mod metrics;
mod otlp;
pub mod settings;
mod text;

use std::sync::Arc;
use std::time::Duration;

use viat_engine::Run;
use viat_engine::facts::Fact;
use viat_runner::driver::Witness;

pub use export::Exporter;
pub use metrics::Metrics;
pub use otlp::Sent;

/// Hears the facts for both.
pub struct Ear {
    /// Counts and times, if anybody can ask for them.
    pub metrics: Option<Arc<Metrics>>,
    /// Sends spans, if somebody wants them.
    pub exporter: Option<Exporter>,
}

impl Witness for Ear {
    fn facts(&self, run: &Run, facts: &[Fact]) {
        if let Some(metrics) = &self.metrics {
            metrics.facts(&run.created.workflow, facts);
        }
        if let Some(exporter) = &self.exporter {
            for fact in facts {
                if let Some(sent) = Sent::new(run, fact) {
                    exporter.send(sent);
                }
            }
        }
    }

    fn traces(&self) -> bool {
        self.exporter.is_some()
    }

    fn durable(&self, took: Duration) {
        if let Some(metrics) = &self.metrics {
            metrics.durable(took);
        }
    }
}
