//! Quality of speech by the E-model (ITU-T G.107). All parameters that do not concern the network have their defaults.
//!
//! The rating is R = Ro − Is − Id − Ie,eff. Ro − Is is the quality of an undisturbed call. Id is the impairment by
//! delay and by the echo that comes with it (Idte, Idle, Idd), and Ie,eff that by codec and packet loss. Without delay
//! and loss R is 93.2.
//!
//! Deviations: losses are assumed to be random (BurstR = 1), although queues drop in bursts; with a codec that conceals
//! losses, real speech then sounds somewhat worse than reported here. Both directions of the call are assumed to have
//! the same delay.

use sojourn_model::workload::stream::Codec;

/// Defaults of G.107 table 2: loudness ratings and echo losses (dB).
const SLR: f64 = 8.0;
const RLR: f64 = 2.0;
const TELR: f64 = 65.0;
const WEPL: f64 = 110.0;
/// Sum of all noise sources at the 0 dBr point, computed from the defaults (dBm0p).
const NO: f64 = -61.18;
/// The simultaneous impairment factor Is, computed from the defaults.
const IS: f64 = 1.41;

/// Equipment impairment factor Ie and packet-loss robustness factor Bpl of a codec (G.113 appendix I).
fn equipment(codec: Codec) -> (f64, f64) {
    match codec {
        Codec::G711 => (0.0, 25.1),
        Codec::G711NoPlc => (0.0, 4.3),
        Codec::G729a => (11.0, 19.0),
    }
}

/// The rating R of speech with a mouth-to-ear delay of `delay_ms` milliseconds, of which a fraction `lost` is lost.
pub fn rating(codec: Codec, delay_ms: f64, lost: f64) -> f64 {
    let (ie, bpl) = equipment(codec);
    let ppl = lost * 100.0;
    // G.107 §7.5, with BurstR = 1.
    let ie_eff = ie + (95.0 - ie) * ppl / (ppl + bpl);
    ro() - IS - delay_impairment(delay_ms) - ie_eff
}

/// Ro, the basic signal-to-noise ratio (G.107 §7.2).
fn ro() -> f64 {
    15.0 - 1.5 * (SLR + NO)
}

/// Id, the delay impairment for a one-way delay in milliseconds: talker echo, listener echo and absolute delay (G.107
/// §7.4).
fn delay_impairment(delay_ms: f64) -> f64 {
    let half = |a: f64, b: f64, c: f64| (a - b) / 2.0 + libm::sqrt((a - b) * (a - b) / 4.0 + c);
    // The mean one-way delay of the echo path is the delay; the round trip of the four-wire loop is twice that.
    let growth = libm::log10((1.0 + delay_ms / 10.0) / (1.0 + delay_ms / 150.0));
    let terv = TELR - 40.0 * growth + 6.0 * libm::exp(-0.3 * delay_ms * delay_ms);
    let (roe, re) = (-1.5 * (NO - RLR), 80.0 + 2.5 * (terv - 14.0));
    let talker = (half(roe, re, 100.0) - 1.0) * (1.0 - libm::exp(-delay_ms));
    let rle = 10.5 * (WEPL + 7.0) * libm::pow(2.0 * delay_ms + 1.0, -0.25);
    let listener = half(ro(), rle, 169.0);
    talker + listener + absolute_delay(delay_ms)
}

/// Idd, the impairment by absolute delay without echo.
fn absolute_delay(delay_ms: f64) -> f64 {
    if delay_ms <= 100.0 {
        return 0.0;
    }
    let x = libm::log2(delay_ms / 100.0);
    let sixth = |x: f64| libm::pow(1.0 + libm::pow(x, 6.0), 1.0 / 6.0);
    25.0 * (sixth(x) - 3.0 * sixth(x / 3.0) + 2.0)
}

/// The mean opinion score of a rating, from 1 (bad) to 4.5 (G.107 annex B).
pub fn mos(rating: f64) -> f64 {
    match rating {
        r if r <= 0.0 => 1.0,
        r if r >= 100.0 => 4.5,
        // The cubic falls below 1 for the lowest ratings.
        r => (1.0 + 0.035 * r + r * (r - 60.0) * (100.0 - r) * 7e-6).max(1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_undisturbed_call_is_rated_93_2_and_scored_4_41() {
        let r = rating(Codec::G711, 0.0, 0.0);
        assert!((r - 93.2).abs() < 0.05, "{r}");
        assert!((mos(r) - 4.41).abs() < 0.005, "{}", mos(r));
    }

    #[test]
    fn scores_are_those_of_g_107s_table_of_ratings() {
        // G.107 table B.1: lower limits of the categories of user satisfaction. (For 80 its formula gives 4.024.)
        for (r, score) in [(90.0, 4.34), (80.0, 4.03), (70.0, 3.60), (60.0, 3.10), (50.0, 2.58)] {
            assert!((mos(r) - score).abs() < 0.0065, "{r}: {}", mos(r));
        }
        assert_eq!((mos(-5.0), mos(0.0), mos(100.0), mos(120.0)), (1.0, 1.0, 4.5, 4.5));
        assert!((0..=100).all(|r| (1.0..=4.5).contains(&mos(f64::from(r)))));
    }

    #[test]
    fn the_delay_itself_takes_nothing_up_to_100_ms_and_as_much_as_stated_beyond() {
        assert_eq!(absolute_delay(100.0), 0.0);
        // For 200 ms x = 1 and 25 (2^(1/6) - 3 (1 + 1/729)^(1/6) + 2); for 400 ms x = 2.
        assert!((absolute_delay(200.0) - 3.044).abs() < 0.005, "{}", absolute_delay(200.0));
        assert!((absolute_delay(400.0) - 24.07).abs() < 0.02, "{}", absolute_delay(400.0));
    }

    #[test]
    fn the_impairment_of_delay_is_near_its_usual_approximation() {
        // Cole and Rosenbluth 2001: 0.024 d + 0.11 (d - 177.3) beyond 177.3 ms.
        for delay in (0..=400).step_by(10).map(f64::from) {
            let approximation = 0.024 * delay + 0.11 * (delay - 177.3).max(0.0);
            let ours = delay_impairment(delay) - delay_impairment(0.0);
            assert!((ours - approximation).abs() < 4.0, "{delay} ms: {ours} instead of {approximation}");
        }
    }

    #[test]
    fn loss_takes_what_the_codec_lets_it() {
        let drop = |codec, lost| rating(codec, 0.0, 0.0) - rating(codec, 0.0, lost);
        // 95 Ppl / (Ppl + Bpl).
        assert!((drop(Codec::G711, 0.02) - 95.0 * 2.0 / 27.1).abs() < 1e-9);
        assert!((drop(Codec::G711NoPlc, 0.02) - 95.0 * 2.0 / 6.3).abs() < 1e-9);
        assert!((rating(Codec::G711, 0.0, 0.0) - rating(Codec::G729a, 0.0, 0.0) - 11.0).abs() < 1e-9);
        assert!((drop(Codec::G729a, 0.02) - 84.0 * 2.0 / 21.0).abs() < 1e-9);
    }
}
