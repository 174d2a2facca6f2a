//! Every key of a scenario file, defined once: name, form, default and meaning. The parser, the errors, the JSON schema
//! and the reference page all read these tables.

/// What a key's value looks like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// Any text.
    Text,
    /// A name: letters, digits, `_` and `-`.
    Name,
    /// A length of time.
    Time,
    /// A moment of the run, or `end`.
    Moment,
    /// A pair of moments.
    Window,
    /// A list of pairs of moments.
    Windows,
    /// A time, or several from given moments on.
    TimeSteps,
    /// A time, a list of them (one per flow), or a distribution.
    TimeDraw,
    /// A rate.
    Rate,
    /// A rate, steps, a square wave or a trace.
    Capacity,
    /// A `tc` line, or several from given moments on.
    Qdisc,
    /// netem's words.
    Impair,
    /// Bytes.
    Size,
    /// A whole number.
    Count,
    /// A whole number, or an expression in S or bdp.
    CountOf,
    /// Segments as a number, or bytes with a unit.
    Segments,
    /// A number.
    Number,
    /// `true` or `false`.
    Flag,
    /// A flag, or `plus`.
    HyStart,
    /// A flag over TCP, one of [`ECN_FIELDS`] for datagrams.
    Ecn,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A differentiated services code point.
    Dscp,
    /// Congestion control.
    Cc,
    /// When a receiver acknowledges.
    Acks,
    /// A list of rates.
    Rates,
    /// A jitter buffer.
    Playout,
    /// A list of hop names.
    Hops,
    /// A section with keys of its own.
    Section,
    /// Known, but not built yet.
    Later,
}

impl Form {
    /// What an error says was expected.
    pub const fn expected(self) -> &'static str {
        match self {
            Form::Text => "a text",
            Form::Name => "a name of letters, digits, '_' and '-'",
            Form::Time => "a time such as \"10ms\", at most 24h",
            Form::Moment => "a time such as \"10s\", or \"end\"",
            Form::Window => "two times such as [\"10s\", \"end\"], the first before the second",
            Form::Windows => "a list of times such as [[\"0s\", \"20s\"], [\"40s\", \"end\"]], in order",
            Form::TimeSteps => "a time such as \"10ms\", or steps such as [[\"0s\", \"10ms\"], [\"30s\", \"5ms\"]]",
            Form::TimeDraw => {
                "a time such as \"100ms\", a list of them, or a distribution: \"50ms..550ms\" or \"uniform 0s..1s\", \
                 \"exp 9.5s\", \"normal 100ms 20ms\", \"pareto 1.5 500ms\" (shape and mean)"
            }
            Form::Rate => "a rate such as \"10mbit\" (bit, kbit, mbit, gbit), above zero, at most 10tbit",
            Form::Capacity => {
                "a rate such as \"10mbit\", steps such as [[\"0s\", \"100mbit\"], [\"50s\", \"10mbit\"]], \
                 { square = [\"100mbit\", \"10mbit\"], period = \"100ms\" }, { trace = \"x.down\" } or { trace = \"x.csv\", scale = 0.5 }"
            }
            Form::Qdisc => {
                "a queue discipline in tc's words, such as \"codel limit 1000 target 5ms\", or one from each time on, such as \
                 [[\"0s\", \"cake bandwidth 20mbit\"], [\"30s\", \"cake bandwidth 8mbit\"]]"
            }
            Form::Impair => "netem's words, such as \"loss 1%\" or \"delay 10ms 2ms distribution normal\"",
            Form::Size => "a size in bytes such as 1500, \"64k\" or \"2mb\" (k is 1024), above zero",
            Form::Count => "a whole number, at least 1",
            Form::CountOf => "a whole number, 0 for none, or an expression such as \"0.036*S\" or \"2*bdp\"",
            Form::Segments => "a number of segments such as 25, or bytes with a unit such as \"64k\"",
            Form::Number => "a number above zero",
            Form::Flag => "true or false",
            Form::HyStart => "true, false or \"plus\"",
            Form::Ecn => "\"off\", \"ect0\" or \"ect1\" for datagrams, true or false over TCP",
            Form::Choice(_) => "one of the words listed",
            Form::Dscp => "a code point such as \"EF\", \"CS5\", \"AF41\" or \"LE\", or a whole number from 0 to 63",
            Form::Cc => {
                "\"reno\", \"cubic\", \"bbr\", \"bbr3\", \"ledbat\", \"vegas\", \"dctcp\" and \"prague\" (with ecn), or \"fixed 25\"; in the kernel world others of Linux, but not bbr3, ledbat and prague"
            }
            Form::Acks => "\"delayed\", \"every\", \"window\" or \"window 20\"",
            Form::Rates => "a list of rising rates, such as [\"1mbit\", \"3mbit\", \"8mbit\"]",
            Form::Playout => "a percentile from \"p50\" to \"p99\", or a time such as \"60ms\"",
            Form::Hops => "a list of names of neighbouring hops, left to right, such as [\"hop0\", \"hop1\"]",
            Form::Section => "a section",
            Form::Later => "nothing yet",
        }
    }
}

/// What holds when a key is absent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fallback {
    /// The key must be there.
    Required,
    /// Something that depends on other keys: said in words.
    Words(&'static str),
    /// This text, read like one in the file.
    Text(&'static str),
    /// This number.
    Integer(i64),
    /// This flag.
    Flag(bool),
}

/// One key of a section.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Key {
    /// As in the file.
    pub name: &'static str,
    /// What its value looks like.
    pub form: Form,
    /// The flow kinds that it belongs to; all if empty.
    pub kinds: &'static [&'static str],
    /// What holds when it is absent.
    pub fallback: Fallback,
    /// What it means.
    pub doc: &'static str,
}

/// A section of the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Section {
    /// `hop` for `[[hop]]`; empty for the top of the file.
    pub name: &'static str,
    /// What it describes.
    pub doc: &'static str,
    /// Its keys, in the order of the reference page.
    pub keys: &'static [Key],
}

const fn key(name: &'static str, form: Form, fallback: Fallback, doc: &'static str) -> Key {
    Key { name, form, kinds: &[], fallback, doc }
}

const fn of(kinds: &'static [&'static str], key: Key) -> Key {
    Key { kinds, ..key }
}

use Fallback::{Flag, Integer, Required, Text, Words};

/// The top of the file.
pub const TOP: Section = Section {
    name: "",
    doc: "The run as a whole.",
    keys: &[
        key("title", Form::Text, Words("the file's name"), "For figures and tables."),
        key("duration", Form::Time, Required, "The end of the run, at most 24h."),
        key(
            "measure",
            Form::Window,
            Words("[\"0s\", \"end\"]"),
            "The measuring window; what is before it is start-up, reported apart.",
        ),
        key("seeds", Form::Count, Integer(1), "How many seeds each combination runs with; here or in [sweep]."),
        key("hop", Form::Section, Required, "The path, left to right: [[hop]] for each."),
        key("access", Form::Section, Words("not a bottleneck, no delay"), "Each host's own link: [access]."),
        key("flow", Form::Section, Required, "The traffic: [[flow]] for each kind."),
        key("group", Form::Section, Words("no caps"), "Caps on simultaneous flows: [[group]]."),
        key("host", Form::Section, Words("a current Linux"), "The TCP of all hosts: [host]."),
        key("sweep", Form::Section, Words("one combination"), "What varies from run to run: [sweep]."),
    ],
};

/// A hop of the path, or its `reverse`.
pub const HOP: Section = Section {
    name: "hop",
    doc: "A queue and the link behind it, with another of each for the way back.",
    keys: &[
        key("name", Form::Name, Words("hop0, hop1, …"), "Sweeps and results call it so; the way back is NAME.reverse."),
        key(
            "rate",
            Form::Capacity,
            Required,
            "What the link carries: a rate, steps (of which some may be 0bit, an outage), a square wave (half the period each), or a trace, a file in the scenario's folder of at most 64 MiB. x.csv has a header and columns for the time (time and time_s in seconds, time_ms, time_us, time_ns) and the rate from then on (rate and rate_bit in bit/s, rate_kbit, rate_mbit, rate_gbit); x.json is a list of [seconds, bit/s], of objects with these names, or a RepeatedBwPatternConfig of netem-trace; other files are mahimahi's, a millisecond a line for each 1500 bytes that may leave. Each repeats at its end: mahimahi's after its last time, rates after the last one has held as long as the one before. scale multiplies the rates.",
        ),
        key(
            "delay",
            Form::TimeSteps,
            Text("0s"),
            "One-way propagation delay behind the link; steps add to the base RTT of all flows.",
        ),
        key(
            "qdisc",
            Form::Qdisc,
            Text("pfifo limit 1000"),
            "The queue discipline, as tc writes it; a whole tc qdisc add command and what tc qdisc show prints will do. Sizes also in bdp: the first rate times the longest base RTT, in packets of 1500 B IP plus overhead where the discipline counts packets. Several, each with its time: as `tc qdisc change` at that time where the discipline stays (with its queue and the parameters that the line leaves out), as `tc qdisc replace` where it becomes another (what waits is dropped).",
        ),
        key("overhead", Form::Count, Integer(14), "Bytes that the link counts on top of the IP length; may be 0."),
        key(
            "reverse",
            Form::Section,
            Words("same rate, delay, overhead and limit, pfifo"),
            "The other direction: the same keys; what is absent is as rightward, the discipline a plain fifo of the same limit.",
        ),
        key(
            "up",
            Form::Section,
            Words("as reverse"),
            "Another word for `reverse`: towards the left, where a home's uploads go. Results call it NAME.reverse all the same.",
        ),
        key(
            "down",
            Form::Section,
            Words("the hop itself"),
            "The hop itself, as a table like `up`: towards the right, where a home's downloads go.",
        ),
        key(
            "impair",
            Form::Impair,
            Words("none"),
            "What befalls packets of this direction behind the link, before the hop's delay: delay, loss, duplicate, reorder and slot in the words of tc-netem(8). Its delay is no part of a base RTT.",
        ),
        key(
            "nic",
            Form::Section,
            Words("one descriptor"),
            "The network card below the discipline, { ring = 512, bql = true, coalesce = \"50us\" }.",
        ),
        key(
            "pause",
            Form::Flag,
            Flag(false),
            "Ethernet flow control (IEEE 802.3x) towards the hop before: a queue of this direction that has room only for what is under way stops that hop's link.",
        ),
        key(
            "flush",
            Form::Flag,
            Flag(false),
            "Each fall of the rate throws away what waits in the discipline, which begins anew; not what a card's ring holds. In the simulator only: an idea to compare with.",
        ),
    ],
};

/// A hop's `nic`.
pub const NIC: Section = Section {
    name: "hop.nic",
    doc: "A network card's transmit side: a packet holds a descriptor until its completion is served, and waits there \
          beyond the discipline's reach. Without it a hop has one descriptor: the discipline is asked when the link is free.",
    keys: &[
        key("ring", Form::Count, Required, "Descriptors: packets in the card, the one in transmission included."),
        key("bql", Form::Flag, Flag(false), "Byte queue limits (dynamic_queue_limits) over the ring."),
        key(
            "coalesce",
            Form::Time,
            Text("0s"),
            "The completion interrupt comes this long after the first packet it serves.",
        ),
    ],
};

/// `[access]`.
pub const ACCESS: Section = Section {
    name: "access",
    doc: "Each host's own link, one at either end of every flow. Its delay counts four times in a base RTT there and back.",
    keys: &[
        key("rate", Form::Rate, Required, "Rate of the host's link."),
        key("delay", Form::Time, Text("0s"), "One-way delay."),
        key("limit", Form::Count, Integer(1000), "Packets that it queues."),
    ],
};

/// `[[group]]`.
pub const GROUP: Section = Section {
    name: "group",
    doc: "A cap on the simultaneous transfers of the flows that name it; the others wait.",
    keys: &[
        key("name", Form::Name, Required, "As the flows name it."),
        key("max_active", Form::Count, Required, "How many may be active at once."),
    ],
};

/// `[host]`.
pub const HOST: Section = Section {
    name: "host",
    doc: "The TCP of all hosts.",
    keys: &[
        key(
            "linux",
            Form::Choice(&["now", "3.2"]),
            Text("now"),
            "The kernel that the hosts resemble; each key below overrides.",
        ),
        key("rto_min", Form::Time, Text("200ms"), "Lower bound of the retransmission timeout; 1s in RFC 6298."),
        key("linux_rto", Form::Flag, Flag(true), "Linux's way: the bound applies to the variance term."),
        key(
            "recovery",
            Form::Choice(&["rack", "rfc6675"]),
            Words("rack; rfc6675 of linux \"3.2\""),
            "How losses are found and repaired: as today's Linux does (RACK-TLP, F-RTO, DSACK), or by three SACKed segments above.",
        ),
        key(
            "windows",
            Form::Choice(&["linux", "rfc"]),
            Text("linux"),
            "How reno, cubic, dctcp and vegas count their windows: by whole segments with Linux's integers, or with fractions as the RFCs are written (HyStart++ always has them).",
        ),
        key(
            "quickack",
            Form::Flag,
            Flag(true),
            "Quick ACKs at the start of a connection, after a pause and after what came twice.",
        ),
        key(
            "comp_sack_nr",
            Form::Count,
            Words("44; 0 of linux \"3.2\""),
            "Most ACKs of what arrives out of order that wait for each other, up to a millisecond (SACK compression, Linux's tcp_comp_sack_nr); 0: each leaves at once.",
        ),
        key(
            "hystart",
            Form::HyStart,
            Flag(true),
            "Leave slow start where the delay rises: Linux's HyStart in CUBIC; \"plus\" is HyStart++ (RFC 9406), in CUBIC and Reno.",
        ),
        key("timestamps", Form::Flag, Flag(true), "RFC 7323 timestamps: 52 bytes of headers instead of 40."),
        key(
            "rmem",
            Form::Size,
            Words("unbounded; 64 MB in the kernel world"),
            "The largest receive buffer, as tcp_rmem counts it: what a receiver offers is tuned below it as Linux does. Today's default is \"32mb\", it was \"6mb\" until 6.15.",
        ),
        key(
            "wmem",
            Form::Size,
            Words("unbounded; 64 MB in the kernel world"),
            "The largest send buffer, as tcp_wmem counts it: it is tuned below that as Linux does, and an application waits while it is full. Today's default is \"4mb\".",
        ),
        key(
            "tsq",
            Form::Size,
            Words("no bound"),
            "TCP small queues: bytes of a connection that may wait at its host's own link ([access]), or a millisecond of its pacing rate if that is less (Linux's tcp_limit_output_bytes; today's default is \"4mb\"). Simulator only: the guest's devices take each packet from its socket at once.",
        ),
        key(
            "hz",
            Form::Choice(&["100", "250", "1000"]),
            Text("250"),
            "Ticks a second of the kernel; in the simulator of TCP's timers, of cubic, bbr and a card's byte queue limits.",
        ),
        key(
            "gro_flush_timeout",
            Form::Time,
            Text("0s"),
            "How long a receiver's card waits to hand a connection's segments up together, and they are acknowledged once (GRO; Linux's gro_flush_timeout). Simulator only.",
        ),
        key("gso", Form::Flag, Flag(false), "Segmentation and receive offload (GSO, GRO): kernel world only."),
        key(
            "gso_max_segs",
            Form::Count,
            Words("the kernel's default"),
            "Most segments that TCP hands down as one packet, a burst of up to a millisecond's worth. Without gso it is cut at the host's own device and leaves as one. 1 is packet by packet, as older simulators send.",
        ),
    ],
};

/// `[sweep]`: beside these, any address of another key.
pub const SWEEP: Section = Section {
    name: "sweep",
    doc: "Each other key is the address of one above (`hop.bottleneck.qdisc`, `flow.bulk0.cc`, `duration`); its value a list, a range (\"1ms..100ms log 9\", \"lin 11\", \"step 10ms\"), or samples ({ uniform = [\"1mbit\", \"10mbit\"], samples = 20 }, or log_uniform). All combinations run, the first key outermost.",
    keys: &[
        key(
            "zip",
            Form::Text,
            Words("none"),
            "Lists of keys that move together: [[\"hop.a.rate\", \"hop.a.qdisc\"], …].",
        ),
        key("seeds", Form::Count, Integer(1), "How many seeds each combination runs with."),
    ],
};

/// Every kind of flow there is.
pub const KINDS: &[&str] =
    &["bulk", "download", "upload", "thin", "cbr", "voip", "onoff", "pings", "web", "video", "rpm", "sizes"];
/// Kinds that later issues bring.
pub const KINDS_LATER: &[&str] = &["command"];

const TCP: &[&str] = &["bulk", "download", "upload", "thin", "onoff", "web", "video", "rpm", "sizes"];
/// Kinds over TCP whose `ecn` is a flag.
const TCP_ONLY: &[&str] = &["bulk", "download", "upload", "thin", "web", "video", "rpm", "sizes"];
/// The ECN field of packets that no transport answers for.
pub const ECN_FIELDS: &[&str] = &["off", "ect0", "ect1"];
/// Which way data goes: down is right, up is left.
const DIRECTIONS: &[&str] = &["right", "left", "both", "down", "up"];
const FILES: &[&str] = &["download", "upload"];
const NOT_UPLOAD: &[&str] = &["bulk", "download", "thin", "cbr", "voip", "onoff", "pings", "web", "video", "sizes"];

/// `[[flow]]`.
pub const FLOW: Section = Section {
    name: "flow",
    doc: "Traffic of one kind.",
    keys: &[
        key(
            "kind",
            Form::Choice(KINDS),
            Required,
            "bulk: as much as TCP takes; download and upload: files one after the other, each over a new connection; thin: little writes over one connection; cbr: datagrams at a constant rate; voip: speech in datagrams; onoff: packets at a constant rate in turns with silence; pings: echo requests; web: PackMime-HTTP, or pages; video: pieces in the quality that a player chooses; rpm: a test of responsiveness under load, by a client at the right end; sizes: transfers of drawn sizes at drawn times.",
        ),
        key(
            "name",
            Form::Name,
            Words("the kind with a number: bulk0, bulk1, …"),
            "With count above 1 its flows are NAME.0, NAME.1, …",
        ),
        key(
            "count",
            Form::CountOf,
            Integer(1),
            "How many; S is the bdp plus the buffer of the slowest hop, in packets.",
        ),
        of(TCP, key("cc", Form::Cc, Text("cubic"), "Congestion control; fixed N is a window that never changes.")),
        key(
            "rtt",
            Form::TimeDraw,
            Words("the delays of the path, there and back"),
            "Total base RTT, the path's delays included. A list is dealt to the flows in turn; draws below the path's delays are raised to them.",
        ),
        key("jitter", Form::Time, Text("0s"), "Each flow's base RTT is drawn within so much of `rtt`, per seed."),
        key(
            "rtt_at",
            Form::Choice(&["split", "left", "right", "ack"]),
            Text("split"),
            "Where the base RTT beyond the path lies: a quarter in each place, at the left or right host, or before the data's sender.",
        ),
        of(TCP, key("iw", Form::Count, Integer(10), "Initial window in segments.")),
        of(TCP, key("mss", Form::Count, Words("1500 less the headers"), "Payload bytes of a full segment.")),
        of(
            TCP_ONLY,
            key(
                "ecn",
                Form::Flag,
                Flag(false),
                "ECN: RFC 3168's, DCTCP's with cc dctcp, accurate ECN with ECT(1) with cc prague.",
            ),
        ),
        of(
            &["cbr", "voip", "pings"],
            key(
                "ecn",
                Form::Choice(ECN_FIELDS),
                Text("off"),
                "The ECN field of its packets: not ECN-capable, ECT(0) or ECT(1). They are marked instead of dropped, and nothing slows down: an unresponsive flow (RFC 9332, section 4.2). The reply to a ping has the field with which the request arrived.",
            ),
        ),
        of(
            &["onoff"],
            key(
                "ecn",
                Form::Ecn,
                Words("off"),
                "Of datagrams their ECN field, as for cbr; over TCP whether it uses ECN, as for bulk.",
            ),
        ),
        of(
            TCP,
            key(
                "acks",
                Form::Acks,
                Text("delayed"),
                "When the receiver acknowledges: every second segment, each, or once a window; window N is once in N segments, whatever the sender's window.",
            ),
        ),
        of(
            TCP,
            key(
                "rwnd",
                Form::Segments,
                Words("unbounded"),
                "Receive window: a number counts segments, a text bytes (\"64k\").",
            ),
        ),
        of(FILES, key("size", Form::Size, Required, "Bytes of each file.")),
        of(&["thin"], key("size", Form::Size, Integer(150), "Payload of each write, at most a segment.")),
        of(&["pings"], key("size", Form::Size, Integer(84), "IP length of request and reply.")),
        of(
            &["cbr", "onoff"],
            key("size", Form::Size, Integer(1500), "IP length of each packet; over TCP the payload of each write."),
        ),
        of(
            &["cbr", "onoff"],
            key(
                "rate",
                Form::Rate,
                Required,
                "Of these bytes, while it sends: one packet after the other at even times.",
            ),
        ),
        of(
            &["onoff"],
            key(
                "transport",
                Form::Choice(&["udp", "tcp"]),
                Text("udp"),
                "Datagrams, or writes over one TCP connection (then with the keys of TCP).",
            ),
        ),
        of(
            &["onoff"],
            key("on", Form::TimeDraw, Text("exp 1s"), "How long it sends, drawn each time; it begins with that."),
        ),
        of(&["onoff"], key("off", Form::TimeDraw, Text("exp 1s"), "How long it is silent, drawn each time.")),
        of(
            &["voip"],
            key(
                "codec",
                Form::Choice(crate::workload::stream::Codec::WORDS),
                Text("g711"),
                "20 ms of speech in a packet: 160 bytes (g711), or 20 (g729a), and 40 of RTP, UDP and IP. g711-no-plc does not conceal losses.",
            ),
        ),
        of(
            &["voip"],
            key(
                "playout",
                Form::Playout,
                Text("p99"),
                "The jitter buffer, for the MOS: speech is played as late as this percentile of its one-way delay, or so much after the least; what comes later is lost.",
            ),
        ),
        of(FILES, key("gap", Form::TimeDraw, Text("0s"), "From the end of a file to the next SYN.")),
        of(
            &["web"],
            key("rate", Form::Number, Words("required, but not with page"), "New connections per second (PackMime)."),
        ),
        of(
            &["web"],
            key(
                "page",
                Form::Flag,
                Flag(false),
                "Pages instead of PackMime's connections (3GPP, NGMN): each of the flows is a reader; a page's main object comes first, then its embedded ones, then it is read.",
            ),
        ),
        of(
            &["web"],
            key(
                "connections",
                Form::Count,
                Integer(6),
                "With page: over so many connections at once a page comes at most.",
            ),
        ),
        of(&["video"], key("chunk", Form::Time, Text("4s"), "How long a piece plays.")),
        of(&["video"], key("buffer", Form::Time, Text("60s"), "How much the player buffers at most.")),
        of(
            &["video"],
            key(
                "ladder",
                Form::Rates,
                Text("350kbit 700kbit 1500kbit 3mbit 6mbit 12mbit"),
                "The qualities, by their bits per second of playing time.",
            ),
        ),
        of(
            &["video"],
            key(
                "rule",
                Form::Choice(&["buffer", "rate"]),
                Text("buffer"),
                "buffer: the quality follows what is buffered (BBA-0); rate: 0.8 times the harmonic mean of the last five pieces' throughput.",
            ),
        ),
        of(
            &["rpm"],
            key(
                "interval",
                Form::Time,
                Text("1s"),
                "After each one more connection carries load, and stability is judged.",
            ),
        ),
        of(&["rpm"], key("connections", Form::Count, Integer(16), "So many carry load at most.")),
        of(
            &["rpm"],
            key("tls", Form::Flag, Flag(true), "Whether a probe on a new connection has a round trip of TLS."),
        ),
        of(&["sizes"], key("rate", Form::Number, Required, "Arrivals per second, Poisson.")),
        of(
            &["sizes"],
            key(
                "file",
                Form::Text,
                Words("a lognormal body and a Pareto tail of ours"),
                "Sizes to draw from, a text file beside the scenario: one in bytes a line (of a CSV the last column).",
            ),
        ),
        of(&["thin"], key("interval", Form::Time, Text("300ms"), "Between two writes.")),
        of(&["pings"], key("interval", Form::Time, Text("1s"), "Between two requests.")),
        key("start", Form::TimeDraw, Text("0s"), "When it begins; a list is dealt to the flows in turn."),
        key("stop", Form::Moment, Text("end"), "Nothing new from then on."),
        of(&["bulk"], key("active", Form::Windows, Words("from start to stop"), "Sends in these windows only.")),
        of(
            NOT_UPLOAD,
            key(
                "direction",
                Form::Choice(DIRECTIONS),
                Text("right"),
                "Which way the data goes; down is right, up is left, and both makes two flows, NAME.right and NAME.left.",
            ),
        ),
        of(
            &["upload"],
            key(
                "direction",
                Form::Choice(DIRECTIONS),
                Text("left"),
                "Which way the data goes; down is right, up is left, and both makes two flows, NAME.right and NAME.left.",
            ),
        ),
        of(
            &["rpm"],
            key(
                "direction",
                Form::Choice(DIRECTIONS),
                Text("right"),
                "Which way the load goes: right is downloads of the client at the right end, left its uploads; both makes two tests at once, NAME.right and NAME.left.",
            ),
        ),
        key("dscp", Form::Dscp, Text("CS0"), "The DSCP of its packets, both ways."),
        key("via", Form::Hops, Words("the whole path"), "The part of the path that it takes."),
        key("tunnel", Form::Name, Words("none"), "All flows that name the same tunnel have one flow key."),
        of(
            &["sizes"],
            key("group", Form::Name, Words("no cap"), "The [[group]] that caps its simultaneous transfers."),
        ),
        key(
            "user",
            Form::Name,
            Words("each flow's own"),
            "The host at the right end: flows that name the same user are that host's, for disciplines that share among hosts (cake's dual-srchost, dual-dsthost and triple-isolate). At the left end each flow has a host of its own.",
        ),
    ],
};

/// All sections, in the order of the reference page.
pub const SECTIONS: &[&Section] = &[&TOP, &HOP, &NIC, &ACCESS, &FLOW, &GROUP, &HOST, &SWEEP];

impl Section {
    /// The key of this name that belongs to flows of this kind.
    pub fn find(&self, name: &str, kind: Option<&str>) -> Option<&'static Key> {
        let belongs = |key: &&Key| key.kinds.is_empty() || kind.is_none_or(|kind| key.kinds.contains(&kind));
        self.keys.iter().filter(|key| key.name == name).find(belongs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_one_meaning_for_each_kind() {
        for section in SECTIONS {
            for kind in KINDS {
                let mut names: Vec<&str> = section
                    .keys
                    .iter()
                    .filter(|k| k.kinds.is_empty() || k.kinds.contains(kind))
                    .map(|k| k.name)
                    .collect();
                names.sort_unstable();
                assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{}: {names:?}", section.name);
            }
        }
    }
}
