//! The definition of every measure. The simulator, the kernel world, the live world and recomputed records use the same
//! code.
//!
//! Meters consume packet events as they happen: there is a [`LinkMeter`] per queue and link, and a [`FlowMeter`] per
//! row of the report. Meters store nothing per packet, only histograms with a fixed relative error and a series with a
//! fixed number of bins. Times are integer nanoseconds throughout; floating point is used only in reports.
//!
//! **Windows.** The main window is `[measure.0, measure.1)` and start-up is `[0, measure.0)`. Events after `measure.1`
//! appear in the series only. A packet is counted in the window in which its transmission ends.
//!
//! **No samples.** A measure without samples is `None` (`null`), never NaN. Only columns of series use NaN, for a gap
//! in a plot.
#![forbid(unsafe_code)]

mod command;
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
mod setup;
mod slices;
mod standing;
pub mod stats;
mod stream;
#[cfg(test)]
mod testing;
mod video;
pub mod voice;

pub use command::CommandRun;
pub use distribution::{Distribution, Standing};
pub use flow::{FlowMeter, FlowReport, FlowSeries, FlowSetup, FlowState, FlowWindow};
pub use histogram::Histogram;
pub use link::{DropCounts, LinkMeter, LinkReport, LinkSeries, LinkSetup, LinkWindow};
pub use nic::NicMeter;
pub use output::{BINS, Output, flow_reports, flow_setup, link_setup, tcp_object};
pub use pause::PauseMeter;
pub use report::{Jain, Results, RunReport};
pub use stream::StreamSetup;
pub use video::VideoWindow;
