//! Numbers with units as `tc` writes them. Decimal numbers become exact integers without floating point.

use sojourn_core::units::{Rate, Span};

/// The longest time that a scenario may contain.
pub const LONGEST: Span = Span::from_secs(24 * 3600);
/// The highest rate. A packet of 1250 bytes then takes 1 ns, the resolution of time.
pub const FASTEST: Rate = Rate(10_000_000_000_000);

/// A decimal number as written: `mantissa` / 10^`scale`, and the text after it.
struct Decimal<'a> {
    mantissa: u128,
    scale: u32,
    unit: &'a str,
}

/// Parses `1.5mbit` as 15 / 10¹ and `mbit`. No sign, no exponent, at most 27 digits.
fn decimal(text: &str) -> Option<Decimal<'_>> {
    let (mut mantissa, mut scale, mut digits, mut point) = (0u128, 0u32, 0u32, false);
    let mut end = text.len();
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'0'..=b'9' => {
                digits += 1;
                scale += u32::from(point);
                if digits > 27 {
                    return None;
                }
                mantissa = mantissa * 10 + u128::from(byte - b'0');
            }
            b'.' if !point && digits > 0 => point = true,
            _ => {
                end = at;
                break;
            }
        }
    }
    (digits > 0 && !text[..end].ends_with('.')).then(|| Decimal { mantissa, scale, unit: text[end..].trim_start() })
}

impl Decimal<'_> {
    /// Returns the number times `factor`, rounded to nearest; `None` on overflow.
    fn times(&self, factor: u64) -> Option<u64> {
        let divisor = 10u128.pow(self.scale);
        let product = self.mantissa.checked_mul(u128::from(factor))?;
        u64::try_from((product + divisor / 2) / divisor).ok()
    }
}

/// Parses a time: `5ms`, `100us`, `0.25s`, `17ns`, `2min`, `1h`. A bare `0` needs no unit. Other bare numbers, which
/// are microseconds in `tc`, are rejected, as they are mostly mistakes.
pub fn span(text: &str) -> Option<Span> {
    let number = decimal(text.trim())?;
    let factor = match number.unit {
        "ns" | "nsec" | "nsecs" => 1,
        "us" | "usec" | "usecs" | "µs" => 1_000,
        "ms" | "msec" | "msecs" => 1_000_000,
        "s" | "sec" | "secs" => 1_000_000_000,
        "min" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "" if number.mantissa == 0 => 1,
        _ => return None,
    };
    number.times(factor).map(Span)
}

/// Parses a plain number, optionally with an exponent, and multiplies it by `factor`, rounded to nearest. `None` for
/// other text, negative numbers and overflow.
pub fn times(text: &str, factor: u64) -> Option<u64> {
    let text = text.trim();
    if let Some(number) = decimal(text)
        && number.unit.is_empty()
    {
        return number.times(factor);
    }
    let digits = |c: char| c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E' | '+' | '-');
    let number: f64 = text.parse().ok().filter(|_| text.chars().all(digits))?;
    let product = libm::round(number * factor as f64);
    (0.0..u64::MAX as f64).contains(&product).then_some(product as u64)
}

/// A rate that has been parsed.
pub struct ReadRate {
    /// Bits per second; may be zero.
    pub rate: Rate,
    /// Whether the text used `tc`'s units of bytes per second, often by mistake.
    pub in_bytes: bool,
}

/// Parses a rate: `10mbit`, `1.5gbit`, `512kbit`, `9600bit`, `8mibit`; `mbps` means megabytes per second, as in `tc`.
pub fn rate(text: &str) -> Option<ReadRate> {
    let number = decimal(text.trim())?;
    let unit = number.unit.to_ascii_lowercase();
    let (prefix, in_bytes) = match (unit.strip_suffix("bit"), unit.strip_suffix("bps")) {
        (Some(prefix), _) => (prefix, false),
        (_, Some(prefix)) => (prefix, true),
        _ => return None,
    };
    let factor: u64 = match prefix {
        "" => 1,
        "k" => 1_000,
        "m" => 1_000_000,
        "g" => 1_000_000_000,
        "t" => 1_000_000_000_000,
        "ki" => 1 << 10,
        "mi" => 1 << 20,
        "gi" => 1 << 30,
        "ti" => 1 << 40,
        _ => return None,
    };
    let rate = Rate(number.times(if in_bytes { factor * 8 } else { factor })?);
    Some(ReadRate { rate, in_bytes })
}

/// Parses a size in bytes: `1500`, `64k`, `120kb`, `2mb`; `k` is 1024, as in `tc`.
pub fn bytes(text: &str) -> Option<u64> {
    let number = decimal(text.trim())?;
    let factor = match number.unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" => 1 << 10,
        "m" | "mb" => 1 << 20,
        "g" | "gb" => 1 << 30,
        _ => return None,
    };
    number.times(factor)
}

/// Code points with names: class selectors (RFC 2474), assured and expedited forwarding (RFC 2597, RFC 3246), admitted
/// voice (RFC 5865), lower effort (RFC 8622).
pub const DSCPS: [(&str, u8); 23] = [
    ("CS0", 0),
    ("CS1", 8),
    ("CS2", 16),
    ("CS3", 24),
    ("CS4", 32),
    ("CS5", 40),
    ("CS6", 48),
    ("CS7", 56),
    ("AF11", 10),
    ("AF12", 12),
    ("AF13", 14),
    ("AF21", 18),
    ("AF22", 20),
    ("AF23", 22),
    ("AF31", 26),
    ("AF32", 28),
    ("AF33", 30),
    ("AF41", 34),
    ("AF42", 36),
    ("AF43", 38),
    ("EF", 46),
    ("VOICE-ADMIT", 44),
    ("LE", 1),
];

/// Parses the name of a code point, in upper or lower case.
pub fn dscp(text: &str) -> Option<u8> {
    DSCPS.iter().find(|(name, _)| name.eq_ignore_ascii_case(text.trim())).map(|(_, dscp)| *dscp)
}

/// Parses a plain number without sign; `None` if it is not finite.
pub fn number(text: &str) -> Option<f64> {
    let number = decimal(text.trim())?;
    number.unit.is_empty().then(|| text.trim().parse().ok())?
}

/// Parses the number in `0.5bdp` or `8 bdp`, if it is followed by `unit`.
pub fn number_of(text: &str, unit: &str) -> Option<f64> {
    number(text.trim().strip_suffix(unit)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_exact() {
        assert_eq!(span("0.1s"), Some(Span(100_000_000)));
        assert_eq!(span("8.333333333ms"), Some(Span(8_333_333)));
        assert_eq!(rate("1.5mbit").map(|r| r.rate), Some(Rate(1_500_000)));
        assert_eq!(bytes("1.5k"), Some(1536));
    }

    #[test]
    fn code_points_have_the_numbers_of_their_rfcs() {
        assert_eq!(["EF", "cs5", "AF41", "LE", " CS0 "].map(dscp), [Some(46), Some(40), Some(34), Some(1), Some(0)]);
        for class in 0..8u8 {
            assert_eq!(dscp(&format!("CS{class}")), Some(class * 8));
            for drop in 1..4u8 {
                let known = (1..5).contains(&class).then_some(class * 8 + drop * 2);
                assert_eq!(dscp(&format!("AF{class}{drop}")), known);
            }
        }
        assert_eq!(dscp("46"), None);
    }

    #[test]
    fn mbps_means_megabytes_as_in_tc() {
        let read = rate("2mbps").expect("a rate");
        assert!(read.in_bytes);
        assert_eq!(read.rate, Rate(16_000_000));
    }

    #[test]
    fn plain_numbers_are_scaled_and_others_refused() {
        assert_eq!(times("1.5", 1_000_000_000), Some(1_500_000_000));
        assert_eq!(times(" 4e3 ", 1_000), Some(4_000_000));
        for text in ["", "-1", "1s", "nan", "inf", "1e400", "99999999999999999999"] {
            assert_eq!(times(text, 1), None, "{text}");
        }
    }

    #[test]
    fn what_is_no_number_with_its_unit_is_refused() {
        for text in ["", "ms", "5", "-5ms", "1e3ms", "5.ms", "nan", "inf", "5 m s", "1..2s", ".5s"] {
            assert_eq!(span(text), None, "{text}");
        }
        for text in ["10mb/s", "10", "10m", "-1mbit", "mbit", "NaNmbit"] {
            assert!(rate(text).is_none(), "{text}");
        }
    }

    #[test]
    fn what_overflows_is_refused_and_does_not_wrap() {
        assert_eq!(span("99999999999999999999h"), None);
        assert_eq!(span("18446744073709551615ns"), Some(Span(u64::MAX)));
        assert_eq!(span("18446744073709551616ns"), None);
        assert!(rate("99999999999tbps").is_none());
        assert_eq!(span(&"9".repeat(400)), None);
    }
}
