//! Every key of a scenario file, defined once with its name, form, default and meaning. The parser, the error messages,
//! the JSON schema and the reference page are all generated from these tables.

use sojourn_core::qdisc::LinkLayer;

/// The form of a key's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// Arbitrary text.
    Text,
    /// A name: letters, digits, `_` and `-`.
    Name,
    /// A duration.
    Time,
    /// A time since the start of the run, or `end`.
    Moment,
    /// A start time and an end time.
    Window,
    /// A list of windows.
    Windows,
    /// A duration, or a list of steps with one duration from each time on.
    TimeSteps,
    /// A duration, a list of durations (one per flow), or a distribution.
    TimeDraw,
    /// A rate.
    Rate,
    /// A rate, a list of steps, a square wave or a trace.
    Capacity,
    /// A `tc` line, or a list of steps with one line from each time on.
    Qdisc,
    /// Options of tc-netem(8).
    Impair,
    /// A number of bytes.
    Size,
    /// A positive integer.
    Count,
    /// An integer of zero or more.
    CountOrZero,
    /// An integer, or an expression in S or bdp.
    CountOf,
    /// A number of segments, or bytes with a unit.
    Segments,
    /// A number.
    Number,
    /// `true` or `false`.
    Flag,
    /// `true`, `false` or `plus`.
    HyStart,
    /// `true` or `false` over TCP, one of [`ECN_FIELDS`] for datagrams.
    Ecn,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A differentiated services code point.
    Dscp,
    /// A congestion control.
    Cc,
    /// An acknowledgement policy of the receiver.
    Acks,
    /// A list of rates.
    Rates,
    /// A jitter buffer of a speech receiver.
    Playout,
    /// A list of hop names.
    Hops,
    /// A program and its arguments.
    Command,
    /// A section with its own keys.
    Section,
    /// A key that is known, but not built yet.
    Later,
}

impl Form {
    /// Describes the form for the error message "expected …".
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
            Form::CountOrZero => "a whole number, 0 or more",
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
            Form::Command => {
                "a program and its arguments, such as \"iperf3 -c {server}\" (words as in a shell, but there is no shell), or a \
                 list of them such as [\"iperf3\", \"-c\", \"{server}\"]"
            }
            Form::Section => "a section",
            Form::Later => "nothing yet",
        }
    }
}

/// The meaning of an absent key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fallback {
    /// The key is mandatory.
    Required,
    /// The default depends on other keys; this text describes it.
    Words(&'static str),
    /// The default as text, parsed like a value in the file.
    Text(&'static str),
    /// The default number.
    Integer(i64),
    /// The default flag.
    Flag(bool),
}

/// One key of a section.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Key {
    /// The name in the file.
    pub name: &'static str,
    /// The form of its value.
    pub form: Form,
    /// The flow kinds that have this key; all if empty.
    pub kinds: &'static [&'static str],
    /// The meaning of the absent key.
    pub fallback: Fallback,
    /// Documentation for the reference page and the schema.
    pub doc: &'static str,
    /// Whether a later version may change or drop it.
    pub experimental: bool,
}

/// A section of the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Section {
    /// `hop` for `[[hop]]`; empty for the top of the file.
    pub name: &'static str,
    /// Documentation for the reference page and the schema.
    pub doc: &'static str,
    /// Its keys, in the order of the reference page.
    pub keys: &'static [Key],
}

const fn key(name: &'static str, form: Form, fallback: Fallback, doc: &'static str) -> Key {
    Key { name, form, kinds: &[], fallback, doc, experimental: false }
}

const fn experimental(key: Key) -> Key {
    Key { experimental: true, ..key }
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
        key("title", Form::Text, Words("the file's name"), "The title in figures and tables."),
        key("duration", Form::Time, Required, "The duration of the run, at most 24h."),
        key(
            "measure",
            Form::Window,
            Words("[\"0s\", \"end\"]"),
            "The measuring window. The time before it is start-up, which is reported separately.",
        ),
        key(
            "seeds",
            Form::Count,
            Integer(1),
            "The number of seeds that each combination runs with, here or in [sweep].",
        ),
        key("hop", Form::Section, Required, "The path, left to right: one [[hop]] for each hop."),
        key("access", Form::Section, Words("not a bottleneck, no delay"), "The access links of the hosts: [access]."),
        key("flow", Form::Section, Required, "The traffic: one [[flow]] for each kind of flow."),
        key("group", Form::Section, Words("no caps"), "Limits on simultaneous transfers: [[group]]."),
        key("host", Form::Section, Words("a current Linux"), "The TCP of all hosts: [host]."),
        key("sweep", Form::Section, Words("one combination"), "The keys that vary from run to run: [sweep]."),
    ],
};

/// A hop of the path, or its `reverse`.
pub const HOP: Section = Section {
    name: "hop",
    doc: "A queue and the link that it feeds, in either direction.",
    keys: &[
        key(
            "name",
            Form::Name,
            Words("hop0, hop1, …"),
            "The name in sweeps and results; the other direction is NAME.reverse.",
        ),
        key(
            "rate",
            Form::Capacity,
            Required,
            "The capacity of the link: a rate, steps (some of which may be 0bit, an outage), a square wave (half a period for each rate), or a trace, a file of at most 64 MiB in the scenario's folder. x.csv has a header with columns for the time (time and time_s in seconds, time_ms, time_us, time_ns) and for the rate from then on (rate and rate_bit in bit/s, rate_kbit, rate_mbit, rate_gbit). x.json is a list of [seconds, bit/s], a list of objects with these keys, or a RepeatedBwPatternConfig of netem-trace. Other files are mahimahi traces: one line with a time in milliseconds for each opportunity to send 1500 bytes. Traces repeat: mahimahi's after its last time, rates after the last one has lasted as long as the one before. scale multiplies the rates.",
        ),
        key(
            "delay",
            Form::TimeSteps,
            Text("0s"),
            "One-way propagation delay of the link. Steps of the delay change the base RTT of all flows.",
        ),
        key(
            "qdisc",
            Form::Qdisc,
            Text("pfifo limit 1000"),
            "The queue discipline, as tc writes it. A whole tc qdisc add command and the output of tc qdisc show are accepted too. Sizes may be given in bdp: the first rate times the longest base RTT, in packets of 1500 B IP plus overhead where the discipline counts packets. A list of steps changes the discipline during the run: as by `tc qdisc change` if the discipline stays (its queue is kept, and so are the parameters that the line does not give), as by `tc qdisc replace` if another discipline follows (the queue is dropped).",
        ),
        key(
            "overhead",
            Form::CountOrZero,
            Integer(14),
            "Bytes per packet that the link counts in addition to the IP length.",
        ),
        key(
            "linklayer",
            Form::Choice(LinkLayer::WORDS),
            Text("ethernet"),
            "How the link frames packets. `atm`, for ADSL: a packet and its overhead fill cells of 53 bytes, of which each carries 48.",
        ),
        key(
            "reverse",
            Form::Section,
            Words("same rate, delay, overhead and limit, pfifo"),
            "The other direction, with the same keys. Absent keys are as rightward; the discipline is then a plain FIFO of the same limit.",
        ),
        key(
            "up",
            Form::Section,
            Words("as reverse"),
            "Alias of `reverse`: towards the left, the direction of a home's uploads. Results call it NAME.reverse.",
        ),
        key(
            "down",
            Form::Section,
            Words("the hop itself"),
            "Alias of the hop itself, as a table like `up`: towards the right, the direction of a home's downloads.",
        ),
        key(
            "impair",
            Form::Impair,
            Words("none"),
            "Impairments of packets in this direction, after the link and before the hop's delay: delay, loss, duplicate, reorder and slot, with the options of tc-netem(8). The delay of an impairment is not part of the base RTT.",
        ),
        key(
            "nic",
            Form::Section,
            Words("one descriptor"),
            "The network card after the discipline: { ring = 512, bql = true, coalesce = \"50us\" }.",
        ),
        key(
            "pause",
            Form::Flag,
            Flag(false),
            "Ethernet flow control (IEEE 802.3x) towards the previous hop: when the queue of this direction has room only for the data in flight between the two, it pauses the link of the previous hop.",
        ),
        key(
            "flush",
            Form::Flag,
            Flag(false),
            "Flushes the discipline at each decrease of the rate: queued packets are dropped and its state is reset. The ring of a card is not flushed. Simulator only, for comparisons.",
        ),
    ],
};

/// A hop's `nic`.
pub const NIC: Section = Section {
    name: "hop.nic",
    doc: "A network card's transmit side: a packet holds a descriptor until its completion is served, and waits there \
          beyond the discipline's reach. Without it a hop has one descriptor: the discipline is asked when the link is free.",
    keys: &[
        key(
            "ring",
            Form::Count,
            Required,
            "Number of descriptors: packets in the card, including the one in transmission.",
        ),
        key("bql", Form::Flag, Flag(false), "Byte queue limits (dynamic_queue_limits) on the ring."),
        key(
            "coalesce",
            Form::Time,
            Text("0s"),
            "Delay of the completion interrupt after the first completed packet that it reports.",
        ),
    ],
};

/// `[access]`.
pub const ACCESS: Section = Section {
    name: "access",
    doc: "The access links: each flow has one at either end. The delay counts four times in a base RTT.",
    keys: &[
        key("rate", Form::Rate, Required, "The rate of the link."),
        key("delay", Form::Time, Text("0s"), "One-way delay."),
        key("limit", Form::Count, Integer(1000), "Queue limit in packets."),
    ],
};

/// `[[group]]`.
pub const GROUP: Section = Section {
    name: "group",
    doc: "A limit on the simultaneous transfers of the flows that name this group; further transfers wait.",
    keys: &[
        key("name", Form::Name, Required, "The name that flows refer to."),
        key("max_active", Form::Count, Required, "The maximum number of simultaneous transfers."),
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
            "The kernel version that the hosts resemble. Each key below overrides it.",
        ),
        key("rto_min", Form::Time, Text("200ms"), "Lower bound of the retransmission timeout; 1s in RFC 6298."),
        key(
            "recovery",
            Form::Choice(&["rack", "rfc6675"]),
            Words("rack; rfc6675 of linux \"3.2\""),
            "Loss detection and recovery: rack is that of a current Linux (RACK-TLP, F-RTO, DSACK); rfc6675 retransmits a segment once three segments above it are SACKed.",
        ),
        key(
            "windows",
            Form::Choice(&["linux", "rfc"]),
            Text("linux"),
            "The arithmetic of the window in reno, cubic, dctcp and vegas: whole segments with Linux's integers, or fractions as in the RFCs (HyStart++ always uses fractions).",
        ),
        key(
            "quickack",
            Form::Flag,
            Flag(true),
            "Quick ACKs at the start of a connection, after a pause and after duplicate segments.",
        ),
        key(
            "hystart",
            Form::HyStart,
            Flag(true),
            "Leaving slow start when the delay rises: true is Linux's HyStart in CUBIC; \"plus\" is HyStart++ (RFC 9406) in CUBIC and Reno.",
        ),
        key(
            "rmem",
            Form::Size,
            Words("unbounded; 64 MB in the kernel world"),
            "The maximum receive buffer, counted as in tcp_rmem. The advertised window is tuned below it as in Linux. The default of a current Linux is \"32mb\", and \"6mb\" before 6.15.",
        ),
        key(
            "wmem",
            Form::Size,
            Words("unbounded; 64 MB in the kernel world"),
            "The maximum send buffer, counted as in tcp_wmem. It is tuned below that as in Linux, and the application blocks while it is full. The default of a current Linux is \"4mb\".",
        ),
        key(
            "tsq",
            Form::Size,
            Words("no bound"),
            "TCP small queues: the maximum number of bytes of a connection that may be queued at its host's own link ([access]), or a millisecond at its pacing rate if that is less (Linux's tcp_limit_output_bytes; the default of a current Linux is \"4mb\"). Simulator only: the guest's devices take each packet from its socket at once.",
        ),
        key(
            "hz",
            Form::Choice(&["100", "250", "1000"]),
            Text("250"),
            "Timer ticks per second of the kernel. In the simulator it applies to the timers of TCP, to cubic and bbr, and to a card's byte queue limits.",
        ),
        key("gso", Form::Flag, Flag(false), "Segmentation and receive offload (GSO, GRO). Kernel world only."),
        key(
            "gso_max_segs",
            Form::Count,
            Words("the kernel's default"),
            "The maximum number of segments that TCP passes down as one packet, a burst of at most a millisecond. Without gso the packet is segmented at the host's own device and leaves as a burst. 1 sends each segment by itself, as older simulators do.",
        ),
        experimental(key(
            "comp_sack_nr",
            Form::CountOrZero,
            Words("44; 0 of linux \"3.2\""),
            "SACK compression (Linux's tcp_comp_sack_nr): the maximum number of ACKs for out-of-order segments that are merged, for at most a millisecond. 0 sends each ACK at once.",
        )),
        experimental(key(
            "timestamps",
            Form::Flag,
            Flag(true),
            "RFC 7323 timestamps: 52 bytes of headers instead of 40.",
        )),
        experimental(key(
            "gro_flush_timeout",
            Form::Time,
            Text("0s"),
            "How long a receiver's card holds segments of a connection to pass them on together, acknowledged once (GRO; Linux's gro_flush_timeout). Simulator only.",
        )),
    ],
};

/// `[sweep]`: these keys, and any address of a key of another section.
pub const SWEEP: Section = Section {
    name: "sweep",
    doc: "Each other key is the address of a key above (`hop.bottleneck.qdisc`, `flow.bulk0.cc`, `duration`). Its value is a list, a range (\"1ms..100ms log 9\", \"lin 11\", \"step 10ms\"), or samples ({ uniform = [\"1mbit\", \"10mbit\"], samples = 20 }, or log_uniform). All combinations run; the first key is outermost.",
    keys: &[
        key(
            "zip",
            Form::Text,
            Words("none"),
            "Lists of keys that vary together: [[\"hop.a.rate\", \"hop.a.qdisc\"], …].",
        ),
        key("seeds", Form::Count, Integer(1), "The number of seeds that each combination runs with."),
    ],
};

/// Every kind of flow that is built.
pub const KINDS: &[&str] =
    &["bulk", "download", "upload", "thin", "cbr", "voip", "onoff", "pings", "web", "video", "rpm", "sizes", "command"];
/// The kinds whose applications are ours: all but `command`, the last one.
const OURS: &[&str] = KINDS.split_at(KINDS.len() - 1).0;

const TCP: &[&str] = &["bulk", "download", "upload", "thin", "onoff", "web", "video", "rpm", "sizes"];
/// Kinds over TCP whose `ecn` is a flag.
const TCP_ONLY: &[&str] = &["bulk", "download", "upload", "thin", "web", "video", "rpm", "sizes"];
/// Values of `ecn` for packets without a congestion-controlled transport.
pub const ECN_FIELDS: &[&str] = &["off", "ect0", "ect1"];
/// Directions in which data flows: down is right, up is left.
const DIRECTIONS: &[&str] = &["right", "left", "both", "down", "up"];
const FILES: &[&str] = &["download", "upload"];
/// Kinds whose flows can be pooled: what their meters count can be added up.
const POOLED: &[&str] = &["download", "upload", "web", "video", "sizes"];
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
            "bulk: an unlimited transfer; download and upload: files in sequence, each over a new connection; thin: small writes over one connection; cbr: datagrams at a constant rate; voip: speech in datagrams; onoff: packets at a constant rate, alternating with silence; pings: echo requests; web: PackMime-HTTP, or pages; video: segments in the quality that a player chooses; rpm: a test of responsiveness under load, by a client at the right end; sizes: transfers of random sizes at random times; command: a program of yours, in the live world only.",
        ),
        key(
            "name",
            Form::Name,
            Words("the kind with a number: bulk0, bulk1, …"),
            "The name in sweeps and results. With a count above 1 the flows are NAME.0, NAME.1, …",
        ),
        key(
            "count",
            Form::CountOf,
            Integer(1),
            "The number of flows, per direction. S is the bdp plus the buffer of the slowest hop, in packets.",
        ),
        of(
            POOLED,
            key(
                "pool",
                Form::Flag,
                Flag(false),
                "Whether the results have one row for all of these flows (per direction) instead of one for each. Each remains a flow with its own host, start and base RTT; counts and samples of all are in the row.",
            ),
        ),
        of(TCP, key("cc", Form::Cc, Text("cubic"), "Congestion control; fixed N is a constant window of N segments.")),
        key(
            "rtt",
            Form::TimeDraw,
            Words("the delays of the path, there and back"),
            "The base RTT, including the path's delays. A list is assigned to the flows in turn; random values below the path's delays are raised to them.",
        ),
        key(
            "jitter",
            Form::Time,
            Text("0s"),
            "The base RTT of each flow is drawn from `rtt` plus or minus this, per seed.",
        ),
        key(
            "rtt_at",
            Form::Choice(&["split", "left", "right", "ack"]),
            Text("split"),
            "The location of the base RTT beyond the path: a quarter at each end and in each direction, at the left or right host, or on the way of the ACKs.",
        ),
        of(TCP, key("iw", Form::Count, Integer(10), "Initial window in segments.")),
        of(TCP, key("mss", Form::Count, Words("1500 less the headers"), "Payload of a full segment, in bytes.")),
        of(
            TCP_ONLY,
            key(
                "ecn",
                Form::Flag,
                Flag(false),
                "ECN: that of RFC 3168, of DCTCP with cc dctcp, or accurate ECN with ECT(1) with cc prague.",
            ),
        ),
        of(
            &["cbr", "voip", "pings"],
            key(
                "ecn",
                Form::Choice(ECN_FIELDS),
                Text("off"),
                "The ECN field of the packets: not ECN-capable, ECT(0) or ECT(1). ECN-capable packets are marked instead of dropped, but the sender does not react: an unresponsive flow (RFC 9332, section 4.2). The reply to a ping has the ECN field with which the request arrived.",
            ),
        ),
        of(
            &["onoff"],
            key(
                "ecn",
                Form::Ecn,
                Words("off"),
                "For datagrams their ECN field, as for cbr; over TCP whether it uses ECN, as for bulk.",
            ),
        ),
        of(
            TCP,
            key(
                "acks",
                Form::Acks,
                Text("delayed"),
                "When the receiver acknowledges: every second segment, each segment, or once per window; window N is once per N segments, independent of the sender's window.",
            ),
        ),
        of(
            TCP,
            key(
                "rwnd",
                Form::Segments,
                Words("unbounded"),
                "The receive window: a number is in segments, a text in bytes (\"64k\").",
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
                "The rate while sending, counted in bytes of `size`; packets are evenly spaced.",
            ),
        ),
        of(
            &["onoff"],
            key(
                "transport",
                Form::Choice(&["udp", "tcp"]),
                Text("udp"),
                "Datagrams, or writes over one TCP connection (which then has the keys of TCP).",
            ),
        ),
        of(
            &["onoff"],
            key(
                "on",
                Form::TimeDraw,
                Text("exp 1s"),
                "The duration of each burst, drawn anew each time; the flow begins with a burst.",
            ),
        ),
        of(
            &["onoff"],
            key("off", Form::TimeDraw, Text("exp 1s"), "The duration of each silence, drawn anew each time."),
        ),
        of(
            &["voip"],
            key(
                "codec",
                Form::Choice(crate::workload::stream::Codec::WORDS),
                Text("g711"),
                "The codec. A packet has 20 ms of speech: 160 bytes (g711) or 20 bytes (g729a), and 40 bytes of RTP, UDP and IP headers. g711-no-plc does not conceal losses.",
            ),
        ),
        of(
            &["voip"],
            key(
                "playout",
                Form::Playout,
                Text("p99"),
                "The jitter buffer, for the MOS: speech is played at this percentile of its one-way delay, or at the smallest delay plus this time. Later packets are lost.",
            ),
        ),
        of(FILES, key("gap", Form::TimeDraw, Text("0s"), "The time from the end of a file to the next SYN.")),
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
                "Pages (3GPP, NGMN) instead of PackMime's connections. Each flow is a client: it requests a page's main object, then the embedded objects, and then reads.",
            ),
        ),
        of(
            &["web"],
            key(
                "connections",
                Form::Count,
                Integer(6),
                "With page: the maximum number of simultaneous connections for a page.",
            ),
        ),
        of(
            &["web"],
            key(
                "objects",
                Form::CountOrZero,
                Words("drawn"),
                "With page: the number of embedded objects of each page.",
            ),
        ),
        of(&["web"], key("size", Form::Size, Words("drawn"), "With page: bytes of each embedded object.")),
        of(
            &["web"],
            key("reading", Form::Time, Words("drawn"), "With page: the time from a page's last byte to the next page."),
        ),
        of(&["video"], key("chunk", Form::Time, Text("4s"), "The playing time of a segment.")),
        of(&["video"], key("buffer", Form::Time, Text("60s"), "The maximum playing time in the player's buffer.")),
        of(
            &["video"],
            key(
                "ladder",
                Form::Rates,
                Text("350kbit 700kbit 1500kbit 3mbit 6mbit 12mbit"),
                "The available qualities, as bit rates.",
            ),
        ),
        of(
            &["video"],
            key(
                "rule",
                Form::Choice(&["buffer", "rate"]),
                Text("buffer"),
                "buffer: the quality depends on the buffer level (BBA-0); rate: 0.8 times the harmonic mean of the throughput of the last five segments.",
            ),
        ),
        of(
            &["rpm"],
            key(
                "interval",
                Form::Time,
                Text("1s"),
                "The length of an interval. After each one another connection carries load, and stability is judged.",
            ),
        ),
        of(
            &["rpm"],
            key("connections", Form::Count, Integer(16), "The maximum number of load-generating connections."),
        ),
        of(
            &["rpm"],
            key("tls", Form::Flag, Flag(true), "Whether a probe on a new connection includes a TLS round trip."),
        ),
        of(&["sizes"], key("rate", Form::Number, Required, "Arrivals per second, a Poisson process.")),
        of(
            &["sizes"],
            key(
                "file",
                Form::Text,
                Words("a lognormal body and a Pareto tail of ours"),
                "Sizes to draw from: a text file in the scenario's folder with one size in bytes per line (the last column of a CSV).",
            ),
        ),
        of(
            &["command"],
            key(
                "command",
                Form::Command,
                Required,
                "The program and its arguments. A text is split into words as a shell would do it, but no shell runs it: for pipes and variables write sh -c '…'. In each word {server} and {client} are replaced by the addresses of the flow's hosts, which the program finds in SOJOURN_SERVER and SOJOURN_CLIENT too.",
            ),
        ),
        of(
            &["command"],
            key(
                "at",
                Form::Choice(&["client", "server"]),
                Text("client"),
                "The host on which the program runs: the client is right of the path, where packets of the downlink arrive; the server is left of it.",
            ),
        ),
        of(&["thin"], key("interval", Form::Time, Text("300ms"), "The time between two writes.")),
        of(&["pings"], key("interval", Form::Time, Text("1s"), "The time between two requests.")),
        key("start", Form::TimeDraw, Text("0s"), "The start of the flow; a list is assigned to the flows in turn."),
        of(OURS, key("stop", Form::Moment, Text("end"), "The time after which the application sends nothing new.")),
        of(
            &["command"],
            key(
                "stop",
                Form::Moment,
                Text("end"),
                "The time at which the program is ended, if it still runs: by SIGTERM, and a second later by SIGKILL.",
            ),
        ),
        of(
            &["bulk"],
            key("active", Form::Windows, Words("from start to stop"), "The flow sends in these windows only."),
        ),
        of(
            NOT_UPLOAD,
            key(
                "direction",
                Form::Choice(DIRECTIONS),
                Text("right"),
                "The direction of the data: down is right, up is left, and both makes two flows, NAME.right and NAME.left.",
            ),
        ),
        of(
            &["upload"],
            key(
                "direction",
                Form::Choice(DIRECTIONS),
                Text("left"),
                "The direction of the data: down is right, up is left, and both makes two flows, NAME.right and NAME.left.",
            ),
        ),
        of(
            &["rpm"],
            key(
                "direction",
                Form::Choice(DIRECTIONS),
                Text("right"),
                "The direction of the load: right is downloads of the client at the right end, left is its uploads; both makes two tests at once, NAME.right and NAME.left.",
            ),
        ),
        of(OURS, key("dscp", Form::Dscp, Text("CS0"), "The DSCP of the packets in both directions.")),
        key("via", Form::Hops, Words("the whole path"), "The part of the path that the flow takes."),
        of(
            OURS,
            key("tunnel", Form::Name, Words("none"), "A tunnel: all flows with the same tunnel have one flow key."),
        ),
        of(
            &["sizes"],
            key("group", Form::Name, Words("no cap"), "The [[group]] that limits its simultaneous transfers."),
        ),
        of(
            OURS,
            key(
                "user",
                Form::Name,
                Words("each flow its own"),
                "The host at the right end. Flows with the same user belong to one host, which matters to disciplines that are fair between hosts (cake's dual-srchost, dual-dsthost and triple-isolate). At the left end each flow has a host of its own.",
            ),
        ),
    ],
};

/// All sections, in the order of the reference page.
pub const SECTIONS: &[&Section] = &[&TOP, &HOP, &NIC, &ACCESS, &FLOW, &GROUP, &HOST, &SWEEP];

impl Section {
    /// Returns the key with this name that flows of this kind have.
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
