//! Web pages as 3GPP and NGMN define them: a main object, then its embedded objects over parallel connections, then the reading time
//! (3GPP2 C.R1002, NGMN "Radio access performance evaluation methodology"; values as in ns-3's model).
//!
//! Deviations: the scenario sets the MSS, which the documents draw. The documents leave open how long a server takes, and whether
//! connections are kept from page to page. Here servers respond at once, and each page has new connections.

use sojourn_core::rng::Rng;
use sojourn_core::units::{Span, Time};

use super::Exchange;
use super::dist::{above_zero, exponential, normal, seconds};

/// Size of a request in bytes.
pub const REQUEST: u32 = 328;
/// Mean times of reading a page and of parsing its main object, in seconds.
const READING: f64 = 30.0;
const PARSING: f64 = 0.13;
/// Longest time of reading or parsing.
const LONGEST: Span = Span::from_secs(3600);

/// A lognormal distribution of sizes in bytes. A draw outside the bounds is repeated.
struct Size {
    mean: f64,
    sd: f64,
    least: f64,
    largest: f64,
}

const MAIN: Size = Size { mean: 10_710.0, sd: 25_032.0, least: 100.0, largest: 2e6 };
const EMBEDDED: Size = Size { mean: 7_758.0, sd: 126_168.0, least: 50.0, largest: 2e6 };

/// Shape of the bounded Pareto distribution from which the number of embedded objects is drawn. The number is the integer part of
/// the draw, minus the scale.
const NUMBER_SHAPE: f64 = 1.1;
const NUMBER_SCALE: f64 = 2.0;
const NUMBER_BOUND: f64 = 55.0;

impl Size {
    /// Mean and standard deviation of the logarithm, before the bounds apply.
    fn logarithm(&self) -> (f64, f64) {
        let variance = libm::log(1.0 + (self.sd / self.mean) * (self.sd / self.mean));
        (libm::log(self.mean) - variance / 2.0, libm::sqrt(variance))
    }

    fn draw(&self, rng: &mut Rng) -> u64 {
        let (mu, sigma) = self.logarithm();
        loop {
            let bytes = libm::exp(mu + sigma * normal(rng));
            if (self.least..=self.largest).contains(&bytes) {
                return libm::round(bytes) as u64;
            }
        }
    }
}

fn number(rng: &mut Rng) -> usize {
    loop {
        let value = NUMBER_SCALE * libm::pow(above_zero(rng), -1.0 / NUMBER_SHAPE);
        if value < NUMBER_BOUND {
            return (libm::floor(value) - NUMBER_SCALE) as usize;
        }
    }
}

/// A web page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Page {
    /// The size of the main object in bytes.
    pub main: u64,
    /// The time from the arrival of the main object to the requests for the embedded objects.
    pub parsing: Span,
    /// The sizes of the embedded objects in bytes, in the order of their requests.
    pub embedded: Vec<u64>,
    /// The time from the page's last byte to the next page.
    pub reading: Span,
}

/// Properties of a reader's pages that the scenario sets, and that are not drawn then.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Fixed {
    /// The number of embedded objects.
    pub objects: Option<usize>,
    /// The size of each embedded object in bytes.
    pub size: Option<u64>,
    /// The time of reading a page.
    pub reading: Option<Span>,
}

/// The pages of a reader, one after the other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Browsing {
    /// The time of the first SYN.
    pub start: Time,
    /// No page starts at or after this time.
    pub stop: Time,
    /// Enough pages to outlast the run.
    pub pages: Vec<Page>,
    /// The largest number of simultaneous connections of a page.
    pub connections: usize,
}

/// Draws the pages of a reader between start and end. Loading a page takes at least `least`.
pub(crate) fn pages(seed: u64, name: &str, fixed: Fixed, least: Span, (start, end): (Time, Time)) -> Vec<Page> {
    let mut rng = Rng::stream(seed, &format!("pages {name}"));
    let (mut at, mut pages) = (start, Vec::new());
    while at < end {
        let main = MAIN.draw(&mut rng);
        let objects = fixed.objects.unwrap_or_else(|| number(&mut rng));
        let embedded = (0..objects).map(|_| fixed.size.unwrap_or_else(|| EMBEDDED.draw(&mut rng))).collect();
        let parsing = seconds(PARSING * exponential(&mut rng), LONGEST);
        let reading = fixed.reading.unwrap_or_else(|| seconds(READING * exponential(&mut rng), LONGEST));
        at += reading + parsing + least.max(Span(1));
        pages.push(Page { main, parsing, embedded, reading });
    }
    pages
}

/// The state of a browser. The driver asks it what to do when an object has arrived, when a page is due, and when a main object has
/// been parsed.
#[derive(Clone, Default, Debug)]
pub struct Browser {
    /// The index of the current page.
    at: usize,
    started: Time,
    /// The index of the next embedded object to request, and the number of objects that have not arrived.
    next: usize,
    missing: usize,
    parsed: bool,
}

/// The next step of a browser when an object has arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Then {
    /// The browser sends this request at once, over the same connection.
    Ask(Exchange),
    /// The browser parses the main object until this time. Then [`Browser::parsed`] returns the requests.
    Parse(Time),
    /// The browser closes the connection.
    Close,
    /// The browser closes the connection, because the page is complete. Loading took this long. The next page, if there is one, starts
    /// at this time.
    Loaded(Span, Option<Time>),
}

fn ask(response: u64) -> Exchange {
    Exchange { gap: Span::ZERO, request: REQUEST, server_delay: Span::ZERO, response }
}

impl Browser {
    /// Starts the next page. Returns what to request over a new connection, or nothing if there are no more pages.
    pub fn open(&mut self, now: Time, browsing: &Browsing) -> Option<Exchange> {
        let page = browsing.pages.get(self.at)?;
        (self.started, self.next, self.parsed) = (now, 0, false);
        self.missing = 1 + page.embedded.len();
        Some(ask(page.main))
    }

    /// Ends the parsing of the main object. Returns the first requests for embedded objects, one for each connection; the first of
    /// them uses the connection of the main object.
    pub fn parsed(&mut self, browsing: &Browsing) -> Vec<Exchange> {
        let embedded = &browsing.pages[self.at].embedded;
        self.next = embedded.len().min(browsing.connections);
        self.parsed = true;
        embedded[..self.next].iter().map(|&bytes| ask(bytes)).collect()
    }

    /// Returns whether the current page waits for its main object or for the parser.
    pub fn is_parsing(&self) -> bool {
        !self.parsed && self.missing > 0
    }

    /// Handles the arrival of an object of the current page. Returns what the browser does next.
    pub fn arrived(&mut self, now: Time, browsing: &Browsing) -> Then {
        let page = &browsing.pages[self.at];
        self.missing -= 1;
        if self.missing == 0 {
            self.at += 1;
            let next = Some(now + page.reading).filter(|&at| at < browsing.stop && self.at < browsing.pages.len());
            return Then::Loaded(now.since(self.started), next);
        }
        if !self.parsed {
            return Then::Parse(now + page.parsing);
        }
        let next = page.embedded.get(self.next).map(|&bytes| ask(bytes));
        self.next += 1;
        next.map_or(Then::Close, Then::Ask)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The normal distribution's share below `z`.
    fn below(z: f64) -> f64 {
        0.5 * libm::erfc(-z / core::f64::consts::SQRT_2)
    }

    /// The quantile of a lognormal distribution between bounds, found by bisection.
    fn quantile(size: &Size, p: f64) -> f64 {
        let (mu, sigma) = size.logarithm();
        let share = |bytes: f64| below((libm::log(bytes) - mu) / sigma);
        let (from, to) = (share(size.least), share(size.largest));
        let (mut low, mut high) = (size.least, size.largest);
        for _ in 0..100 {
            let middle = (low * high).sqrt();
            if (share(middle) - from) / (to - from) < p { low = middle } else { high = middle }
        }
        low
    }

    #[test]
    fn sizes_have_the_quantiles_of_their_distributions_within_2_percent() {
        for (size, seed) in [(&MAIN, 1), (&EMBEDDED, 2)] {
            let mut rng = Rng::stream(seed, "test");
            let mut draws: Vec<u64> = (0..1_000_000).map(|_| size.draw(&mut rng)).collect();
            draws.sort_unstable();
            for p in [0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99] {
                let (drawn, stated) = (draws[(p * 1e6) as usize] as f64, quantile(size, p));
                assert!((drawn / stated - 1.0).abs() < 0.02, "at {p}: {drawn} instead of {stated}");
            }
        }
    }

    #[test]
    fn pages_have_as_many_embedded_objects_as_stated_within_2_percent() {
        let mut rng = Rng::stream(3, "test");
        let mut counts = [0u32; 60];
        (0..1_000_000).for_each(|_| counts[number(&mut rng)] += 1);
        let up_to = |x: f64| 1.0 - libm::pow(NUMBER_SCALE / x, NUMBER_SHAPE);
        let share = |k: usize| (up_to(k as f64 + 3.0) - up_to(k as f64 + 2.0)) / up_to(NUMBER_BOUND);
        for (k, &count) in counts.iter().enumerate().take(10) {
            let (drawn, stated) = (f64::from(count) / 1e6, share(k));
            assert!((drawn / stated - 1.0).abs() < 0.02, "{k} objects: {drawn} instead of {stated}");
        }
        let drawn: f64 = counts.iter().enumerate().map(|(k, &count)| k as f64 * f64::from(count) / 1e6).sum();
        let stated: f64 = (0..53).map(|k| k as f64 * share(k)).sum();
        assert!((drawn / stated - 1.0).abs() < 0.02, "mean {drawn} instead of {stated}");
        assert_eq!(counts[53..].iter().sum::<u32>(), 0);
    }

    #[test]
    fn pages_outlast_the_run_and_are_read_for_half_a_minute() {
        let end = Time(1_000_000 * 1_000_000_000);
        let pages = pages(1, "web0", Fixed::default(), Span::from_millis(10), (Time::ZERO, end));
        let mean =
            |of: fn(&Page) -> Span| pages.iter().map(|page| of(page).as_secs_f64()).sum::<f64>() / pages.len() as f64;
        assert!((mean(|page| page.reading) - 30.0).abs() < 0.6, "{}", mean(|page| page.reading));
        assert!((mean(|page| page.parsing) - 0.13).abs() < 0.003, "{}", mean(|page| page.parsing));
        assert!(pages.iter().map(|page| page.reading.as_secs_f64() + 0.5).sum::<f64>() > end.as_secs_f64());
    }

    #[test]
    fn what_the_scenario_sets_is_not_drawn() {
        let end = Time(1_000_000_000_000);
        let least = Span::from_millis(10);
        let fixed = Fixed { objects: Some(50), size: Some(8000), reading: Some(Span::from_secs(1)) };
        let found = pages(1, "web0", fixed, least, (Time::ZERO, end));
        assert!(found.len() > 500);
        for page in &found {
            assert_eq!((&page.embedded[..], page.reading), (&[8000; 50][..], Span::from_secs(1)));
        }
        let drawn = pages(1, "web0", Fixed { size: Some(8000), ..Fixed::default() }, least, (Time::ZERO, end));
        assert!(drawn.iter().any(|page| page.embedded.len() != drawn[0].embedded.len()));
        assert!(drawn.iter().any(|page| page.reading != drawn[0].reading));
    }

    #[test]
    fn embedded_objects_come_over_as_many_connections_as_allowed_and_the_last_one_ends_the_page() {
        let page = Page { main: 1000, parsing: Span(5), embedded: vec![10, 20, 30], reading: Span(100) };
        let empty = Page { main: 500, embedded: vec![], ..page.clone() };
        let pages = vec![page, empty];
        let browsing = Browsing { start: Time(0), stop: Time(1000), pages, connections: 2 };
        let mut browser = Browser::default();
        assert_eq!(browser.open(Time(1), &browsing), Some(ask(1000)));
        assert_eq!(browser.arrived(Time(3), &browsing), Then::Parse(Time(8)));
        assert!(browser.is_parsing());
        assert_eq!(browser.parsed(&browsing), [ask(10), ask(20)]);
        assert!(!browser.is_parsing());
        assert_eq!(browser.arrived(Time(11), &browsing), Then::Ask(ask(30)));
        assert_eq!(browser.arrived(Time(12), &browsing), Then::Close);
        assert_eq!(browser.arrived(Time(21), &browsing), Then::Loaded(Span(20), Some(Time(121))));
        assert_eq!(browser.open(Time(121), &browsing), Some(ask(500)));
        assert_eq!(browser.arrived(Time(130), &browsing), Then::Loaded(Span(9), None));
        assert_eq!(browser.open(Time(200), &browsing), None);
    }
}
