//! `tc`'s numbers: decimals with a unit, and sizes written in a form that `tc` accepts.
//!
//! The parameters of disciplines are read as `tc` reads them ([`truncated`]): the decimal number as a double, times the
//! unit, truncated. So `1.001ms` is 1000 µs here too, because the product is just below 1001. The words of netem, which
//! this module reads as well, must be exact ([`scaled`]).

use alloc::format;
use alloc::string::{String, ToString};

/// Why a number could not be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// It does not begin with digits.
    NotANumber,
    /// The text after the digits is not a unit of this kind.
    UnknownUnit,
    /// It is not a multiple of the smallest step.
    NotWhole,
    /// It does not fit in 64 bits.
    TooLarge,
    /// A leading zero, which `tc` takes for octal.
    Octal,
}

/// A unit's name, and its size in base units.
pub(crate) type Unit = (&'static str, u64);

/// Units of time in nanoseconds; a number without a unit counts `bare` ns. `tc` does not know `ns` where a bare number
/// is microseconds.
const fn times(bare: u64) -> [Unit; 13] {
    [
        ("", bare),
        ("s", 1_000_000_000),
        ("sec", 1_000_000_000),
        ("secs", 1_000_000_000),
        ("ms", 1_000_000),
        ("msec", 1_000_000),
        ("msecs", 1_000_000),
        ("us", 1_000),
        ("usec", 1_000),
        ("usecs", 1_000),
        ("ns", 1),
        ("nsec", 1),
        ("nsecs", 1),
    ]
}

/// Times: a bare number is microseconds.
pub(crate) const TIME: &[Unit] = &times(1_000);

/// Times of the few parameters that `tc` hands over in nanoseconds: a bare number is nanoseconds.
pub(crate) const TIME_NS: &[Unit] = &times(1);

/// Sizes in bits, so that `kbit` (1024 bits, `tc`'s rule for sizes) is whole; a bare number is bytes.
pub(crate) const SIZE: &[Unit] = &[
    ("", 8),
    ("b", 8),
    ("k", 8 << 10),
    ("kb", 8 << 10),
    ("m", 8 << 20),
    ("mb", 8 << 20),
    ("g", 8 << 30),
    ("gb", 8 << 30),
    ("kbit", 1 << 10),
    ("mbit", 1 << 20),
    ("gbit", 1 << 30),
];

/// Rates in bits per second; a bare number is bits per second.
pub(crate) const RATE: &[Unit] = &[
    ("", 1),
    ("bit", 1),
    ("kbit", 1_000),
    ("mbit", 1_000_000),
    ("gbit", 1_000_000_000),
    ("tbit", 1_000_000_000_000),
    ("kibit", 1 << 10),
    ("mibit", 1 << 20),
    ("gibit", 1 << 30),
    ("tibit", 1 << 40),
    ("bps", 8),
    ("kbps", 8_000),
    ("mbps", 8_000_000),
    ("gbps", 8_000_000_000),
    ("tbps", 8_000_000_000_000),
    ("kibps", 8 << 10),
    ("mibps", 8 << 20),
    ("gibps", 8 << 30),
    ("tibps", 8 << 40),
];

/// Percentages, in hundredths of a percent.
pub(crate) const SHARE: &[Unit] = &[("", 100), ("%", 100)];

/// Splits a text into its number and the unit after it, where `strtod` would. Signs, hexadecimal fractions and infinity
/// are not recognized.
fn split(text: &str) -> (&str, &str) {
    if let Some(hex) = hexadecimal(text) {
        let digits = hex.bytes().take_while(u8::is_ascii_hexdigit).count();
        return text.split_at(if digits > 0 { 2 + digits } else { 1 });
    }
    let digits = |from: usize| text[from..].bytes().take_while(u8::is_ascii_digit).count();
    let whole = digits(0);
    let mut end = whole;
    if text[end..].starts_with('.') {
        let fraction = digits(end + 1);
        end += if whole + fraction > 0 { 1 + fraction } else { 0 };
    }
    if end > 0 && text[end..].starts_with(['e', 'E']) {
        let sign = usize::from(text[end + 1..].starts_with(['+', '-']));
        let exponent = digits(end + 1 + sign);
        end += if exponent > 0 { 1 + sign + exponent } else { 0 };
    }
    text.split_at(end)
}

/// The text after `0x`.
fn hexadecimal(text: &str) -> Option<&str> {
    text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"))
}

/// Reads a number with a unit of `units` (in any case) as `tc` does, in steps of `step` base units, rounded towards zero.
pub(crate) fn truncated(text: &str, units: &[Unit], step: u64) -> Result<u64, Fault> {
    let (number, suffix) = split(text);
    let number: f64 = match hexadecimal(number) {
        Some(hex) => u64::from_str_radix(hex, 16).map_err(|_| Fault::TooLarge)? as f64,
        None => number.parse().map_err(|_| Fault::NotANumber)?,
    };
    let (_, unit) = units.iter().find(|(name, _)| name.eq_ignore_ascii_case(suffix)).ok_or(Fault::UnknownUnit)?;
    // tc multiplies the number by a single factor, so we do too: the last bit of the product can decide the rounding.
    let steps = number * (*unit as f64 / step as f64);
    // The unit is finer than the step that tc sends to the kernel (only ours are): the value must be a multiple of the
    // step.
    if *unit < step && libm::floor(steps) != steps {
        return Err(Fault::NotWhole);
    }
    if steps >= u64::MAX as f64 { Err(Fault::TooLarge) } else { Ok(steps as u64) }
}

/// Suggests a number for a text whose unit is unknown, such as `5mbits` or `5Mbit/s`: the number in a unit that `tc` knows.
pub(crate) fn suggestion(text: &str, units: &[Unit]) -> Option<String> {
    let (number, suffix) = split(text);
    if number.is_empty() {
        return None;
    }
    unit_meant(suffix, units).map(|unit| format!("{number}{unit}"))
}

/// The unit that a misspelt one probably means.
pub(crate) fn unit_meant(word: &str, units: &[Unit]) -> Option<&'static str> {
    let word = word.trim().to_lowercase().replace('µ', "u");
    let rates = units.iter().any(|(name, _)| *name == "bps");
    let bare = ["/second", "/sec", "/s", "ps"].iter().find_map(|end| word.strip_suffix(end)).unwrap_or(&word);
    let per_second = bare.len() < word.len();
    let meant = match bare {
        "k" | "m" | "g" | "t" if rates => format!("{bare}bit"),
        "b" | "kb" | "mb" | "gb" | "tb" if rates => {
            format!("{}{}", bare.trim_end_matches('b'), if per_second { "bps" } else { "bit" })
        }
        "milliseconds" | "millisecond" | "millis" => "ms".to_string(),
        "microseconds" | "microsecond" | "micros" => "us".to_string(),
        "seconds" | "second" => "s".to_string(),
        "bytes" | "byte" => "b".to_string(),
        "kib" | "kbyte" | "kbytes" | "mib" | "mbyte" | "mbytes" | "gib" | "gbyte" | "gbytes" => {
            format!("{}b", &bare[..1])
        }
        other => other.strip_suffix('s').filter(|stem| stem.ends_with("bit")).unwrap_or(other).to_string(),
    };
    units.iter().map(|(name, _)| *name).find(|name| !name.is_empty() && *name == meant)
}

/// Reads a decimal with a unit of `units` (in any case), in base units; it must be a multiple of `step`.
pub(crate) fn scaled(text: &str, units: &[Unit], step: u64) -> Result<u64, Fault> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return Err(Fault::NotANumber);
    }
    let (_, unit) = units.iter().find(|(name, _)| name.eq_ignore_ascii_case(suffix)).ok_or(Fault::UnknownUnit)?;
    let fraction = fraction.trim_end_matches('0');
    if fraction.len() > 15 {
        return Err(Fault::NotWhole); // no unit here has as many places
    }
    let mut value = 0u128;
    for digit in whole.bytes().chain(fraction.bytes()) {
        value = value.checked_mul(10).and_then(|v| v.checked_add(u128::from(digit - b'0'))).ok_or(Fault::TooLarge)?;
    }
    let divisor = 10u128.pow(fraction.len() as u32);
    let scaled = value.checked_mul(u128::from(*unit)).ok_or(Fault::TooLarge)?;
    if scaled % (divisor * u128::from(step)) != 0 {
        return Err(Fault::NotWhole);
    }
    u64::try_from(scaled / divisor).map_err(|_| Fault::TooLarge)
}

/// Reads a decimal number that may be negative.
pub(super) fn signed(text: &str) -> Result<i64, Fault> {
    let magnitude = |digits| i64::try_from(whole(digits, "")?).map_err(|_| Fault::TooLarge);
    match text.strip_prefix('-') {
        Some(digits) => magnitude(digits).map(|n| -n),
        None => magnitude(text),
    }
}

/// Reads a whole number, decimal or `0x…`, with an optional `suffix` as `tc` prints it (`1000p`, `1514b`).
pub(crate) fn whole(text: &str, suffix: &str) -> Result<u64, Fault> {
    if let Some(hex) = hexadecimal(text) {
        if hex.is_empty() || !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(Fault::NotANumber);
        }
        return u64::from_str_radix(hex, 16).map_err(|_| Fault::TooLarge);
    }
    let digits = if suffix.is_empty() { text } else { text.strip_suffix(suffix).unwrap_or(text) };
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(Fault::NotANumber);
    }
    if digits.len() > 1 && digits.starts_with('0') {
        return Err(Fault::Octal);
    }
    digits.parse().map_err(|_| Fault::TooLarge)
}

/// Reads a size as `tc` prints it where it accepts a bare number only: `64Kb`, `1.5Mb`.
pub(crate) fn printed_size(text: &str) -> Option<u64> {
    let is_printed = ["Kb", "Mb", "Gb"].iter().any(|unit| text.ends_with(unit));
    if is_printed { truncated(text, SIZE, 8).ok() } else { None }
}

/// Writes a size in the largest unit that divides it: `32Mb`, `64Kb`, `1514`.
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        0 => "0".to_string(),
        n if n % (1 << 20) == 0 => format!("{}Mb", n >> 20),
        n if n % (1 << 10) == 0 => format!("{}Kb", n >> 10),
        n => n.to_string(),
    }
}

/// Writes a percentage that is given in hundredths of a percent: `1%`, `0.5%`, `0.25%`.
pub(crate) fn share(hundredths: u64) -> String {
    let decimals = format!("{:02}", hundredths % 100);
    match decimals.trim_end_matches('0') {
        "" => format!("{}%", hundredths / 100),
        decimals => format!("{}.{decimals}%", hundredths / 100),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_time_is_in_microseconds() {
        assert_eq!(scaled("5000", TIME, 1_000), Ok(5_000_000));
        assert_eq!(scaled("5ms", TIME, 1_000), Ok(5_000_000));
        assert_eq!(scaled("4.99ms", TIME, 1_000), Ok(4_990_000));
        assert_eq!(scaled("1.0001ms", TIME, 1_000), Err(Fault::NotWhole));
        assert_eq!(scaled("17ns", TIME, 1), Ok(17));
        assert_eq!(scaled("1minute", TIME, 1), Err(Fault::UnknownUnit));
        assert_eq!(scaled("ms", TIME, 1), Err(Fault::NotANumber));
        assert_eq!(scaled(".", TIME, 1), Err(Fault::NotANumber));
        assert_eq!(scaled("1.2.3s", TIME, 1), Err(Fault::NotANumber));
        assert_eq!(scaled("99999999999999999999999999999999999999999s", TIME, 1), Err(Fault::TooLarge));
        assert_eq!(scaled("340282366920938463463374607431768211456", TIME, 1), Err(Fault::TooLarge)); // 2^128
        assert_eq!(scaled("0.00000000000000000000000000000000000001s", TIME, 1_000), Err(Fault::NotWhole));
        assert_eq!(scaled("5.000000000000000000000000000000000000000ms", TIME, 1_000), Ok(5_000_000));
    }

    #[test]
    fn a_share_is_written_as_it_is_read() {
        for hundredths in [0, 1, 5, 10, 25, 50, 99, 100, 110, 5_000] {
            assert_eq!(scaled(&share(hundredths), SHARE, 1), Ok(hundredths));
        }
        assert_eq!((share(100), share(50), share(205)), ("1%".into(), "0.5%".into(), "2.05%".into()));
        assert_eq!(scaled("0.005%", SHARE, 1), Err(Fault::NotWhole));
    }

    #[test]
    fn parameters_are_read_as_tc_reads_them() {
        assert_eq!(truncated("4.99ms", TIME, 1_000), Ok(4_990));
        assert_eq!(truncated("0.3333ms", TIME, 1_000), Ok(333));
        assert_eq!(truncated("1.001ms", TIME, 1_000), Ok(1_000), "as the double 1.001 times 1000 is below 1001");
        assert_eq!(truncated("1e3", TIME, 1_000), Ok(1_000));
        assert_eq!(truncated(".5s", TIME, 1_000), Ok(500_000));
        assert_eq!(truncated("5.", TIME, 1_000), Ok(5));
        assert_eq!(truncated("100", TIME_NS, 1), Ok(100), "get_time64 has nanoseconds where there is no unit");
        assert_eq!(truncated("2Kb", SIZE, 8), Ok(2048));
        assert_eq!(truncated("1.5", SIZE, 8), Ok(1));
        assert_eq!(truncated("3kbit", SIZE, 8), Ok(384));
        assert_eq!(truncated("1.5Mbit", RATE, 1), Ok(1_500_000));
        assert_eq!(truncated("0x10kb", SIZE, 8), Ok(16 << 10));
        assert_eq!(truncated("0X1fb", SIZE, 8), Ok(0x1fb), "the b is a digit");
        assert_eq!(truncated("0x", SIZE, 8), Err(Fault::UnknownUnit));
        assert_eq!(truncated("0x1234567890abcdef1", SIZE, 8), Err(Fault::TooLarge));
        for (text, fault) in [("ms", Fault::NotANumber), (".", Fault::NotANumber), ("-1", Fault::NotANumber)] {
            assert_eq!(truncated(text, TIME, 1_000), Err(fault), "{text}");
        }
        assert_eq!(truncated("1.2.3s", TIME, 1_000), Err(Fault::UnknownUnit));
        assert_eq!(truncated("1e99s", TIME, 1_000), Err(Fault::TooLarge));
        assert_eq!(truncated("1ex", TIME, 1_000), Err(Fault::UnknownUnit));
    }

    #[test]
    fn a_misspelt_unit_gets_a_suggestion() {
        let rates = ["5mbits", "5Mbit/s", "5Mbps/s", "5mb", "5M", "5kbits/sec", "5MB/s", "5parsec", "mbit", "5mbitps"];
        let meant = rates.map(|text| suggestion(text, RATE));
        let some = |text: &str| Some(text.to_string());
        let first = [some("5mbit"), some("5mbit"), some("5mbps"), some("5mbit"), some("5mbit"), some("5kbit")];
        assert_eq!(meant[..6], first);
        assert_eq!(meant[6..], [some("5mbps"), None, None, some("5mbit")]);
        assert_eq!(suggestion("5µs", TIME), some("5us"));
        assert_eq!(suggestion("5millis", TIME), some("5ms"));
        assert_eq!(suggestion("5bytes", SIZE), some("5b"));
        assert_eq!(suggestion("5MiB", SIZE), some("5mb"));
    }

    #[test]
    fn sizes_count_in_1024_and_rates_in_1000() {
        assert_eq!(scaled("32Mb", SIZE, 8), Ok((8 * 32) << 20));
        assert_eq!(scaled("1k", SIZE, 8), Ok(8 * 1024));
        assert_eq!(scaled("1kbit", SIZE, 8), Ok(1024));
        assert_eq!(scaled("550Kbit", RATE, 1), Ok(550_000));
        assert_eq!(scaled("1.5mbit", RATE, 1), Ok(1_500_000));
        assert_eq!(scaled("1mbps", RATE, 1), Ok(8_000_000));
        assert_eq!(scaled("1Kibit", RATE, 1), Ok(1024));
    }

    #[test]
    fn whole_numbers_take_the_suffix_that_tc_prints() {
        assert_eq!(whole("1000p", "p"), Ok(1000));
        assert_eq!(whole("1000", "p"), Ok(1000));
        assert_eq!((whole("0x3ff", ""), whole("0X3FF", "p")), (Ok(1023), Ok(1023)));
        assert_eq!(whole("010", ""), Err(Fault::Octal));
        assert_eq!(whole("-1", "p"), Err(Fault::NotANumber));
        assert_eq!(whole("+1", "p"), Err(Fault::NotANumber));
        assert_eq!(whole("p", "p"), Err(Fault::NotANumber));
        assert_eq!(whole("99999999999999999999", ""), Err(Fault::TooLarge));
    }

    #[test]
    fn sizes_print_in_the_largest_unit_that_divides() {
        assert_eq!((size(32 << 20), size(65536), size(1514)), ("32Mb".into(), "64Kb".into(), "1514".into()));
    }
}
