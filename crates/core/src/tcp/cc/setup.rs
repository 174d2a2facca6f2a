//! The settings that an algorithm gets when its connection is set up. They are a part of [`Config`](crate::tcp::Config).

/// The algorithm that ends slow start before a loss does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HyStart {
    /// None: slow start ends with a loss.
    Off,
    /// Linux's HyStart, in CUBIC.
    Linux,
    /// HyStart++ (RFC 9406), in CUBIC and Reno.
    Plus,
}

/// How the windows of Reno, CUBIC, DCTCP and Vegas are counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Windows {
    /// In whole segments. CUBIC's growth is computed as in Linux, with integers and a clock of jiffies.
    Linux,
    /// In fractions of a segment, as in the RFCs. Windows with HyStart++ and LEDBAT are always counted so.
    Rfc,
}

/// The settings of a connection that its congestion control reads.
#[derive(Clone, Copy, Debug)]
pub(in crate::tcp) struct Setup {
    /// Seeds the algorithm's random numbers.
    pub seed: u64,
    /// Payload bytes of a full segment.
    pub mss: u32,
    /// Initial window in segments.
    pub iw: u32,
    /// Ticks a second of Linux's clock.
    pub hz: u32,
    /// The algorithm that ends slow start before a loss does.
    pub hystart: HyStart,
    /// How windows are counted.
    pub windows: Windows,
    /// The window has no fraction: `windows` asks for whole segments, and the algorithm needs no fractions.
    pub is_whole: bool,
}
