//! Every measure, defined once: for the simulator, the kernel, the live world and recomputed records alike.
//!
//! Meters are fed by packet events as they happen: a [`LinkMeter`] per queue and link, a [`FlowMeter`] per row of the
//! result. Nothing is stored per packet: histograms with a fixed relative error, and a series with a fixed number of
//! bins. Times are integer nanoseconds throughout; floats appear where a report is made.
//!
//! **Windows.** The main window is `[measure.0, measure.1)`, start-up is `[0, measure.0)`; what happens later than
//! `measure.1` is in the series only. A packet counts where its transmission ends.
//!
//! **No samples** are `None` (`null`), never NaN; only the columns of a series, which plots read, have NaN for a gap.
#![forbid(unsafe_code)]

mod departures;
pub mod distribution;
pub mod flow;
pub mod histogram;
pub mod link;
pub mod nic;
pub mod oscillation;
mod output;
pub mod pause;
mod queue;
pub mod records;
pub mod report;
pub mod responsiveness;
mod slices;
mod standing;
pub mod stats;
mod stream;
#[cfg(test)]
mod testing;
mod video;
pub mod voice;

pub use distribution::{Distribution, Standing};
pub use flow::{FlowMeter, FlowReport, FlowSeries, FlowSetup, FlowState, FlowWindow};
pub use histogram::Histogram;
pub use link::{DropCounts, LinkMeter, LinkReport, LinkSeries, LinkSetup, LinkWindow};
pub use nic::NicMeter;
pub use output::{BINS, Output, flow_setup, link_setup};
pub use pause::PauseMeter;
pub use report::{Jain, Results, RunReport};
pub use stream::StreamSetup;
pub use video::VideoWindow;
