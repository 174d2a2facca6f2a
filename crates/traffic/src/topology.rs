//! The guest's network: namespaces, cables, addresses, routes and the lines for `tc`.
//!
//! This module is pure: it turns a scenario into lists, which `run.rs` executes. The path is a row of routers, each in
//! its own namespace. Hosts are attached on the left and on the right, at the router where a flow enters or leaves the
//! path. All left hosts at a router are addresses of one namespace: 10.(1 + router).x.y. The right hosts after a hop
//! have the addresses 10.(101 + hop).x.y. The number x.y is 1 + the flow's index in the results. A cable connects two
//! namespaces. Each end of a cable is a transmitter: its rate, queue and delay apply to the packets that it sends.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use sojourn_core::qdisc::LinkLayer;
use sojourn_core::qdisc::tc::Spec;
use sojourn_core::tcp::{AckPolicy, Cc};
use sojourn_core::units::{Span, Time};
use sojourn_model::scenario::{self, Access, Capacity, Impair, Link, Nic, Pause, QdiscChange, Scenario};
use sojourn_model::workload::{App, Delays, Direction, Entry};

use crate::flows::socket;
use crate::job::LinkKind;
use crate::tc_tree::{self, Slot};

/// IP MTU of every device in bytes, unless a flow has larger packets.
pub const MTU: u32 = 1500;
/// Limit of netem in packets if the scenario has none.
const ENDLESS: u32 = 10_000_000;
/// Bytes that a device adds to the IP length, an Ethernet header. Other overheads are set with `tc` (`stab`).
const ETHERNET: i64 = 14;
/// Second byte of the addresses of left hosts at the first router.
pub const LEFT: usize = 1;
/// Second byte of the addresses of right hosts after the first hop.
pub const RIGHT: usize = 101;
/// The first bytes of all IPv6 addresses, a prefix for local use (RFC 4193), and the length of the prefix that contains
/// them all.
const IPV6: [u16; 3] = [0xfd73, 0x6f6a, 0x6f75];
const IPV6_PREFIX: u8 = 96;

/// A namespace.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Place {
    /// Left hosts whose flows enter the path at this hop.
    Left(usize),
    /// The router in front of this hop; the last router is after the last hop.
    Router(usize),
    /// Right hosts whose flows leave the path after this hop.
    Right(usize),
}

/// The packets of one host pair on an access cable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Class {
    /// The low sixteen bits of the left host's address.
    pub host: u16,
    /// One-way delay, in addition to the host's own link.
    pub delay: Span,
}

/// The treatment of packets that an end of a cable sends.
#[derive(Clone, Debug)]
pub enum Transmit {
    /// A link of the path: its index and its parameters.
    Hop(usize, Box<Link>),
    /// Access links, by host, with a rate and a limit if the scenario has them.
    Access(Option<Access>, Vec<Class>),
}

/// An end of a cable.
#[derive(Clone, Debug)]
pub struct End {
    /// The device's name, unique in the guest.
    pub name: String,
    /// The namespace that it is in.
    pub place: Place,
    /// Its address. The address of the other end differs in the last bit only.
    pub address: Ipv4Addr,
    /// Its hardware address.
    pub mac: [u8; 6],
    /// The treatment of packets that it sends.
    pub transmit: Transmit,
}

impl End {
    /// Returns the network card, if the end is a hop that has one.
    pub fn nic(&self) -> Option<&Nic> {
        match &self.transmit {
            Transmit::Hop(_, link) => link.nic.as_ref(),
            Transmit::Access(..) => None,
        }
    }
}

/// The two ends of a cable.
pub type Cable = [End; 2];

/// A change of a namespace's devices, addresses, neighbours or routes. It is displayed as arguments of `ip`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Setting {
    /// Creates a pair of virtual Ethernet devices: what one sends, the other receives.
    Veth {
        /// Names of both.
        devices: [String; 2],
    },
    /// Creates an ifb device. It passes packets that are redirected to it through its discipline, and then returns them
    /// to the device from which they came.
    Ifb {
        /// Name of the device.
        device: String,
    },
    /// Changes a device.
    Device {
        /// Name of the device.
        device: String,
        /// New IP MTU in bytes.
        mtu: Option<u32>,
        /// New maximum number of segments of a GSO packet.
        gso_max_segs: Option<u32>,
        /// Whether to set the device up.
        up: bool,
    },
    /// Gives a device an address. Its prefix contains only the addresses of the two ends of the cable.
    Address {
        /// Name of the device.
        device: String,
        /// Address of the device.
        address: IpAddr,
    },
    /// Adds a permanent neighbour entry with a hardware address.
    Neighbour {
        /// The device that leads to the neighbour.
        device: String,
        /// Address of the neighbour.
        address: IpAddr,
        /// Hardware address of the neighbour.
        mac: [u8; 6],
    },
    /// Adds a route.
    Route(Route),
}

/// A route.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Route {
    /// Address and prefix length.
    pub to: (IpAddr, u8),
    /// The next router; `None` makes all addresses of the prefix local.
    pub via: Option<IpAddr>,
    /// Name of the outgoing device.
    pub device: String,
    /// The source address of packets whose socket has none; `None` for that of the device.
    pub source: Option<IpAddr>,
    /// Metrics of the path.
    pub metrics: Option<Metrics>,
}

/// Metrics of a route that TCP uses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Metrics {
    /// Initial window in segments.
    pub initcwnd: u32,
    /// Minimum retransmission timeout in milliseconds.
    pub rto_min_ms: u32,
    /// Whether every packet is acknowledged.
    pub quickack: bool,
    /// Whether connections request and accept ECN.
    pub ecn: bool,
    /// Maximum advertised window in bytes.
    pub window: Option<u32>,
    /// Congestion control of accepted connections.
    pub congctl: Option<&'static str>,
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Setting::Veth { devices: [one, other] } => write!(f, "link add {one} type veth peer name {other}"),
            Setting::Ifb { device } => write!(f, "link add {device} type ifb"),
            Setting::Device { device, mtu, gso_max_segs, up } => {
                write!(f, "link set dev {device}")?;
                mtu.map_or(Ok(()), |mtu| write!(f, " mtu {mtu}"))?;
                gso_max_segs.map_or(Ok(()), |most| write!(f, " gso_max_segs {most}"))?;
                f.write_str(if *up { " up" } else { "" })
            }
            Setting::Address { device, address } => write!(f, "address add {address}/{} dev {device}", pair(address)),
            Setting::Neighbour { device, address, mac: [a, b, c, d, e, g] } => write!(
                f,
                "neighbour replace {address} lladdr {a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x} dev {device} \
                 nud permanent"
            ),
            Setting::Route(Route { to: (to, length), via, device, source, metrics }) => {
                f.write_str(if via.is_some() { "route add " } else { "route add local " })?;
                match (to, length) {
                    (_, 0) => f.write_str("default")?,
                    (IpAddr::V4(_), 32) | (IpAddr::V6(_), 128) => write!(f, "{to}")?,
                    _ => write!(f, "{to}/{length}")?,
                }
                via.map_or(Ok(()), |via| write!(f, " via {via}"))?;
                write!(f, " dev {device}")?;
                source.map_or(Ok(()), |source| write!(f, " src {source}"))?;
                metrics.map_or(Ok(()), |metrics| write!(f, " {metrics}"))
            }
        }
    }
}

/// Returns the length of a prefix that contains only the addresses of the two ends of a cable.
pub fn pair(address: &IpAddr) -> u8 {
    if address.is_ipv4() { 31 } else { 127 }
}

/// Returns the IPv6 address of the host or device that has this IPv4 address: its last four bytes.
pub fn ipv6(address: Ipv4Addr) -> Ipv6Addr {
    let [a, b, c, d] = address.octets().map(u16::from);
    Ipv6Addr::new(IPV6[0], IPV6[1], IPV6[2], 0, 0, 0, a << 8 | b, c << 8 | d)
}

impl Setting {
    /// Returns the same setting for IPv6; `None` if it has no addresses.
    pub fn in_ipv6(&self) -> Option<Setting> {
        let turned = |address: IpAddr| match address {
            IpAddr::V4(address) => IpAddr::V6(ipv6(address)),
            IpAddr::V6(_) => address,
        };
        let mut setting = self.clone();
        match &mut setting {
            Setting::Address { address, .. } | Setting::Neighbour { address, .. } => *address = turned(*address),
            Setting::Route(Route { to: (to, length), via, source, .. }) => {
                (*to, *length) = (turned(*to), *length + IPV6_PREFIX);
                (*via, *source) = (via.map(turned), source.map(turned));
            }
            Setting::Veth { .. } | Setting::Ifb { .. } | Setting::Device { .. } => return None,
        }
        Some(setting)
    }
}

impl fmt::Display for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "initcwnd {} rto_min {}ms", self.initcwnd, self.rto_min_ms)?;
        f.write_str(if self.quickack { " quickack 1" } else { "" })?;
        f.write_str(if self.ecn { " features ecn" } else { "" })?;
        self.window.map_or(Ok(()), |window| write!(f, " window {window}"))?;
        self.congctl.map_or(Ok(()), |name| write!(f, " congctl {name}"))
    }
}

/// The whole network.
#[derive(Clone, Debug)]
pub struct Network {
    /// Namespaces, in the order of creation.
    pub places: Vec<Place>,
    /// Cables, in the order of creation.
    pub cables: Vec<Cable>,
    /// IP MTU of all devices, in bytes.
    pub mtu: u32,
}

/// Returns the address of the host on this side of a flow, whose index in the results is `row`.
pub fn address(side: Direction, entry: &Entry, row: usize) -> Ipv4Addr {
    // `Right` is the side towards which rightward data flows. All flows of a user end at one host there.
    let (second, row) = match side {
        Direction::Left => (LEFT + entry.via.0, row),
        Direction::Right => (RIGHT + entry.via.1, entry.user.map_or(row, |user| user.first)),
    };
    let [x, y] = host(row).to_be_bytes();
    Ipv4Addr::new(10, second as u8, x, y)
}

/// Returns the low 16 bits of the addresses of a flow's hosts.
pub fn host(entry: usize) -> u16 {
    (entry + 1) as u16
}

/// Returns the index in the results of the flow between these hosts. The left host decides, as the right one may have
/// several flows.
pub fn entry_of(hosts: [Ipv4Addr; 2]) -> Option<usize> {
    let left = hosts.iter().find(|host| usize::from(host.octets()[1]) < RIGHT)?;
    let [first, _, x, y] = left.octets();
    let host = u16::from_be_bytes([x, y]);
    (first == 10 && host > 0).then(|| usize::from(host) - 1)
}

impl Network {
    /// Iterates over pairs of devices with flow control: the device whose queue acts, the one that it pauses, and the
    /// thresholds.
    pub fn pauses(&self) -> impl Iterator<Item = (&str, &str, Pause)> {
        let hops = || {
            self.cables.iter().flatten().filter_map(|end| match &end.transmit {
                Transmit::Hop(index, link) => Some((*index, end.name.as_str(), link.pause)),
                Transmit::Access(..) => None,
            })
        };
        let last = hops().map(|hop| hop.0 / 2).max().unwrap_or(0);
        hops().filter_map(move |(index, name, pause)| {
            let before = scenario::before(index, last + 1)?;
            let (_, stopped, _) = hops().find(|hop| hop.0 == before)?;
            Some((name, stopped, pause?))
        })
    }

    /// Builds the network of a scenario.
    pub fn new(scenario: &Scenario) -> Network {
        let entries = &scenario.workload.entries;
        let lefts: BTreeSet<usize> = entries.iter().map(|entry| entry.via.0).collect();
        let rights: BTreeSet<usize> = entries.iter().map(|entry| entry.via.1).collect();
        let mut places: Vec<Place> = lefts.iter().map(|&hop| Place::Left(hop)).collect();
        places.extend((0..=scenario.hops.len()).map(Place::Router));
        places.extend(rights.iter().map(|&hop| Place::Right(hop)));

        let mut cables = Vec::new();
        for (hop, both) in scenario.hops.iter().enumerate() {
            let ends = [(Place::Router(hop), "r", &both.right, 0), (Place::Router(hop + 1), "l", &both.left, 1)];
            let number = cables.len();
            cables.push(ends.map(|(place, letter, link, which)| {
                end(
                    number,
                    which,
                    format!("hop{hop}{letter}"),
                    place,
                    Transmit::Hop(hop * 2 + which, Box::new(link.clone())),
                )
            }));
        }
        let access = |outward: bool, chosen: &dyn Fn(&Entry) -> bool, side: Direction| {
            let classes = entries.iter().enumerate().filter(|(_, entry)| chosen(entry));
            let class = |(row, entry): (usize, &Entry)| Class { host: host(row), delay: beside(entry, side, outward) };
            Transmit::Access(scenario.access.clone(), classes.map(class).collect())
        };
        for &hop in &lefts {
            let chosen = |entry: &Entry| entry.via.0 == hop;
            let number = cables.len();
            cables.push([
                end(number, 0, format!("left{hop}"), Place::Left(hop), access(true, &chosen, Direction::Left)),
                end(number, 1, format!("toleft{hop}"), Place::Router(hop), access(false, &chosen, Direction::Left)),
            ]);
        }
        for &hop in &rights {
            let chosen = |entry: &Entry| entry.via.1 == hop;
            let number = cables.len();
            cables.push([
                end(
                    number,
                    0,
                    format!("toright{hop}"),
                    Place::Router(hop + 1),
                    access(false, &chosen, Direction::Right),
                ),
                end(number, 1, format!("right{hop}"), Place::Right(hop), access(true, &chosen, Direction::Right)),
            ]);
        }
        Network { places, cables, mtu: mtu(entries) }
    }

    /// Returns addresses, neighbours and routes, each with its namespace. The cables must exist already.
    pub fn routes(&self, scenario: &Scenario) -> Vec<(Place, Setting)> {
        let mut settings = Vec::new();
        for end in self.cables.iter().flatten() {
            let (at, device, other) = (end.place, end.name.clone(), self.other(end));
            let (mtu, gso_max_segs) = (Some(self.mtu), scenario.host.gso_max_segs);
            settings.push((at, Setting::Device { device: device.clone(), mtu, gso_max_segs, up: true }));
            settings.push((at, Setting::Address { device: device.clone(), address: end.address.into() }));
            settings.push((at, Setting::Neighbour { device, address: other.address.into(), mac: other.mac }));
        }
        for &place in &self.places {
            let routes = match place {
                Place::Router(number) => self.router_routes(number),
                Place::Left(hop) => self.host_routes(scenario, place, |entry| entry.via.0 == hop),
                Place::Right(hop) => self.host_routes(scenario, place, |entry| entry.via.1 == hop),
            };
            settings.extend(routes.into_iter().map(|route| (place, Setting::Route(route))));
        }
        settings
    }

    /// Returns the other end of the cable.
    pub fn other(&self, end: &End) -> &End {
        let cable = self.cables.iter().find(|cable| cable.iter().any(|one| one.name == end.name));
        cable.and_then(|cable| cable.iter().find(|one| one.name != end.name)).unwrap_or(&self.cables[0][0])
    }

    /// Returns the device in `place` whose cable leads to `to`, and the address of its other end.
    fn towards(&self, place: Place, to: Place) -> Option<(&str, Ipv4Addr)> {
        self.cables.iter().find_map(|[a, b]| match (a.place == place, b.place == place) {
            (true, _) if b.place == to => Some((a.name.as_str(), b.address)),
            (_, true) if a.place == to => Some((b.name.as_str(), a.address)),
            _ => None,
        })
    }

    /// Returns a router's routes: to the left hosts at it and further left, and to the right hosts at it and further
    /// right.
    fn router_routes(&self, number: usize) -> Vec<Route> {
        let here = Place::Router(number);
        let mut routes = Vec::new();
        for &place in &self.places {
            let (second, next) = match place {
                Place::Left(hop) if hop == number => (LEFT + hop, place),
                Place::Left(hop) if hop < number => (LEFT + hop, Place::Router(number - 1)),
                Place::Right(hop) if hop + 1 == number => (RIGHT + hop, place),
                Place::Right(hop) if hop + 1 > number => (RIGHT + hop, Place::Router(number + 1)),
                _ => continue,
            };
            if let Some((device, gateway)) = self.towards(here, next) {
                let (to, device) = (hosts_behind(second), device.to_owned());
                routes.push(Route { to, via: Some(gateway.into()), device, source: None, metrics: None });
            }
        }
        routes
    }

    /// Returns the routes of a host namespace. All addresses of its prefix are local. Outgoing routes carry the metrics
    /// that Linux takes from a route: initial window, ECN, minimum RTO and quick ACKs. The default route has the
    /// metrics of most flows.
    fn host_routes(&self, scenario: &Scenario, place: Place, chosen: impl Fn(&Entry) -> bool) -> Vec<Route> {
        let (second, router, [near, far]) = match place {
            Place::Left(hop) => (LEFT + hop, Place::Router(hop), [Direction::Left, Direction::Right]),
            Place::Right(hop) => (RIGHT + hop, Place::Router(hop + 1), [Direction::Right, Direction::Left]),
            Place::Router(_) => return Vec::new(),
        };
        let Some((device, gateway)) = self.towards(place, router) else { return Vec::new() };
        let own = Route { to: hosts_behind(second), via: None, device: "lo".to_owned(), source: None, metrics: None };
        let mut routes = vec![own];
        let flows: Vec<(usize, &Entry)> =
            scenario.workload.entries.iter().enumerate().filter(|(_, entry)| chosen(entry) && routed(entry)).collect();
        let mut counts: BTreeMap<Metrics, usize> = BTreeMap::new();
        for (_, entry) in &flows {
            *counts.entry(metrics(entry)).or_default() += 1;
        }
        let common = counts.iter().max_by_key(|(_, count)| **count).map(|(metrics, _)| *metrics);
        let out = |(to, length): (Ipv4Addr, u8), source: Option<Ipv4Addr>, metrics| Route {
            to: (to.into(), length),
            via: Some(gateway.into()),
            device: device.to_owned(),
            source: source.map(IpAddr::V4),
            metrics,
        };
        routes.push(out((Ipv4Addr::UNSPECIFIED, 0), None, common));
        let mut known = BTreeSet::new();
        for (row, entry) in flows {
            let (own, to) = (metrics(entry), address(far, entry, row));
            // A program of the user's binds no address: its packets must leave with that of its row.
            let source = matches!(entry.app, App::Command(_)).then(|| address(near, entry, row));
            if (source.is_some() || Some(own) != common) && known.insert(to) {
                routes.push(out((to, 32), source, Some(own)));
            }
        }
        routes
    }
}

/// Returns the first address of the hosts in a namespace, which stands for it; `None` for a router.
pub fn first_host(place: Place) -> Option<Ipv4Addr> {
    let second = match place {
        Place::Left(hop) => LEFT + hop,
        Place::Right(hop) => RIGHT + hop,
        Place::Router(_) => return None,
    };
    Some(Ipv4Addr::new(10, second as u8, 0, 1))
}

/// Returns the prefix of the hosts at a router, given by the second byte.
fn hosts_behind(second: usize) -> (IpAddr, u8) {
    (Ipv4Addr::new(10, second as u8, 0, 0).into(), 16)
}

/// Returns whether a flow sets metrics on the route to its hosts. Datagram flows of a user do not, because a TCP flow
/// of the same user may set them.
fn routed(entry: &Entry) -> bool {
    entry.has_tcp() || entry.user.is_none()
}

/// Returns the route metrics of a flow.
pub fn metrics(entry: &Entry) -> Metrics {
    let tcp = &entry.tcp;
    Metrics {
        initcwnd: tcp.iw,
        rto_min_ms: (tcp.rto_min.0 / 1_000_000) as u32,
        quickack: tcp.acks == AckPolicy::Every,
        ecn: tcp.ecn,
        // Linux chooses the window of a SYN-ACK before the accepted socket exists, so only the route can limit it.
        window: socket::window(tcp),
        // DCTCP's SYN is ECT(0). A listener accepts ECN on it only if the congestion control of its route is dctcp.
        congctl: (tcp.cc == Cc::Dctcp).then_some("dctcp"),
    }
}

fn end(cable: usize, which: usize, name: String, place: Place, transmit: Transmit) -> End {
    let number = (cable * 2 + which) as u32;
    let address = Ipv4Addr::from(u32::from(Ipv4Addr::new(172, 16, 0, 0)) + number);
    let [.., a, b] = number.to_be_bytes();
    End { name, place, address, mac: [2, 0, 0, 0, a, b], transmit }
}

/// Returns the delay between a flow's host on this side and the path, outward or towards the host.
fn beside(entry: &Entry, side: Direction, outward: bool) -> Span {
    let Delays { data_in, data_out, ack_in, ack_out } = entry.delays;
    let sends = entry.direction != side; // the data goes towards the other side
    match (sends, outward) {
        (true, true) => data_in,
        (true, false) => ack_out,
        (false, true) => ack_in,
        (false, false) => data_out,
    }
}

fn mtu(entries: &[Entry]) -> u32 {
    let largest = entries.iter().map(|entry| match entry.app {
        App::Pings { bytes, .. } => bytes,
        App::Stream(ref stream) if !entry.has_tcp() => stream.bytes,
        _ => entry.tcp.mss + entry.tcp.header,
    });
    largest.max().unwrap_or(MTU).max(MTU)
}

/// Returns the lines for `tc` that attach a hop's discipline to a device.
pub fn discipline(device: &str, link: &Link, kind: LinkKind, mtu: u32) -> Vec<String> {
    let stab = stab(link);
    let add = format!("qdisc add dev {device}");
    let (Capacity::Steps(steps), LinkKind::Htb | LinkKind::Tbf) = (&link.rate, kind) else {
        // noqueue keeps no statistics and takes no size table.
        let stab = if matches!(link.qdisc, Spec::Noqueue(_)) { "" } else { &stab };
        return tc_tree::commands("add", Slot { device, parent: "root", handle: 1, stab }, &link.qdisc);
    };
    let (rate, burst) = (steps[0].1, mtu + 100);
    let mut all = match kind {
        LinkKind::Htb => vec![
            format!("{add} root handle 1:{stab} htb default 1"),
            format!("class add dev {device} {}", htb_class(rate.0, burst)),
        ],
        _ => vec![format!("{add} root handle 1:{stab} tbf rate {}bit burst {burst} limit 1000000000", rate.0)],
    };
    all.extend(tc_tree::commands("add", Slot { device, parent: "parent 1:1", handle: 0x10, stab: "" }, &link.qdisc));
    all
}

/// Returns the link's overhead as `stab` option of `tc`.
fn stab(link: &Link) -> String {
    let overhead = i64::from(link.overhead) - ETHERNET;
    match (link.linklayer, overhead) {
        (LinkLayer::Ethernet, 0) => String::new(),
        (LinkLayer::Ethernet, _) => format!(" stab overhead {overhead}"),
        (LinkLayer::Atm, _) => format!(" stab linklayer atm overhead {overhead}"),
    }
}

/// Returns the `tc` commands that change a hop's discipline, each with its time. A new discipline gets a new handle:
/// with the old one, Linux would treat the line as a change of the old discipline.
pub fn qdisc_changes(device: &str, link: &Link, kind: LinkKind) -> Vec<(Time, Vec<String>)> {
    let shaped = is_below_a_shaper(link, kind);
    let (parent, stab) = if shaped { ("parent 1:1", String::new()) } else { ("root", stab(link)) };
    let mut slot = Slot { device, parent, handle: if shaped { 0x10 } else { 1 }, stab: &stab };
    let mut lines = |change: &QdiscChange| match change {
        QdiscChange::Parameters(change) => {
            vec![format!("qdisc change dev {device} {parent} handle {:x}: {}", slot.handle, change.line)]
        }
        QdiscChange::Discipline(spec) => {
            slot.handle += 1;
            tc_tree::commands("replace", slot, spec)
        }
    };
    link.changes.iter().flat_map(|(at, change)| lines(change).into_iter().map(|line| (*at, words(&line)))).collect()
}

/// Returns whether a hop's discipline is the child of a Linux shaper, rather than the root of the device.
pub fn is_below_a_shaper(link: &Link, kind: LinkKind) -> bool {
    matches!((&link.rate, kind), (Capacity::Steps(_), LinkKind::Htb | LinkKind::Tbf))
}

/// Returns the settings, followed by the lines for `tc`, that add a hop's impairments at the arrival of its packets.
/// netem runs on a separate device, to which arriving packets are redirected, so that it does not interfere with any
/// discipline.
pub fn impairments(hop: &str, arrival: &str, impair: &Impair, mtu: u32) -> ([Setting; 2], [String; 3]) {
    let detour = detour(hop);
    // Without this option tc would set a limit of 1000.
    let limit = if impair.limit == u32::MAX { format!("limit {ENDLESS} ") } else { String::new() };
    let lines = [
        format!("qdisc add dev {detour} root handle 1: netem {limit}{impair}"),
        format!("qdisc add dev {arrival} handle ffff: ingress"),
        format!("filter add dev {arrival} parent ffff: matchall action mirred egress redirect dev {detour}"),
    ];
    let up = Setting::Device { device: detour.clone(), mtu: Some(mtu), gso_max_segs: None, up: true };
    ([Setting::Ifb { device: detour }, up], lines)
}

/// Returns the name of the device that impairs a hop's packets.
pub fn detour(hop: &str) -> String {
    format!("{hop}i")
}

/// Returns the arguments of `tc` that change a shaper's rate.
pub fn change(device: &str, rate: u64, kind: LinkKind, mtu: u32) -> Vec<String> {
    let burst = mtu + 100;
    words(&match kind {
        LinkKind::Htb => format!("class change dev {device} {}", htb_class(rate, burst)),
        _ => format!("qdisc change dev {device} root handle 1: tbf rate {rate}bit burst {burst} limit 1000000000"),
    })
}

fn htb_class(rate: u64, burst: u32) -> String {
    format!("parent 1: classid 1:1 htb rate {rate}bit ceil {rate}bit burst {burst} cburst {burst}")
}

/// Returns the steps of a link's rate after its start.
pub fn rate_steps(link: &Link) -> Vec<(Time, u64)> {
    match &link.rate {
        Capacity::Steps(steps) => steps.iter().skip(1).map(|(at, rate)| (*at, rate.0)).collect(),
        Capacity::Trace(_) => Vec::new(),
    }
}

fn words(line: &str) -> Vec<String> {
    line.split_ascii_whitespace().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sojourn_model::plan::{LoadOptions, Plan};
    use sojourn_model::workload::User;

    fn scenario(text: &str) -> Scenario {
        let plan = Plan::load("test.toml", text.as_bytes(), &LoadOptions::default()).expect("a sound file");
        plan.scenario(0).expect("a sound run")
    }

    const TWO_HOPS: &str = r#"
        duration = "1s"
        [[hop]]
        name = "a"
        rate = "10mbit"
        delay = "1ms"
        qdisc = "fq_codel limit 100"
        [[hop]]
        name = "b"
        rate = "1mbit"
        overhead = 0
        qdisc = "codel"
        [[flow]]
        kind = "bulk"
        rtt = "42ms"
        rtt_at = "left"
        [[flow]]
        kind = "thin"
        via = ["b"]
        rtt = "10ms"
        iw = 3
        ecn = true
        direction = "left"
    "#;

    fn said(network: &Network, scenario: &Scenario, place: Place) -> Vec<String> {
        let all = network.routes(scenario).into_iter();
        all.filter(|(at, one)| *at == place && matches!(one, Setting::Route(_)))
            .map(|(_, one)| one.to_string())
            .collect()
    }

    #[test]
    fn hosts_hang_where_their_flows_enter_and_leave_the_path() {
        let scenario = scenario(TWO_HOPS);
        let network = Network::new(&scenario);
        use Place::{Left, Right, Router};
        assert_eq!(network.places, [Left(0), Left(1), Router(0), Router(1), Router(2), Right(1)]);
        let cables: Vec<(&str, &str)> =
            network.cables.iter().map(|[a, b]| (a.name.as_str(), b.name.as_str())).collect();
        let hops = [("hop0r", "hop0l"), ("hop1r", "hop1l")];
        assert_eq!(cables, [&hops[..], &[("left0", "toleft0"), ("left1", "toleft1"), ("toright1", "right1")]].concat());
    }

    #[test]
    fn a_flow_has_a_host_pair_whose_addresses_name_its_row() {
        let two = scenario(TWO_HOPS);
        let entry = |via, user| Entry { via, user, ..two.workload.entries[0].clone() };
        assert_eq!(address(Direction::Left, &entry((1, 1), None), 299).to_string(), "10.2.1.44");
        assert_eq!(address(Direction::Right, &entry((0, 1), None), 0).to_string(), "10.102.0.1");
        let hosts = |left, right| [Ipv4Addr::from(left), Ipv4Addr::from(right)];
        assert_eq!(entry_of(hosts([10, 2, 1, 44], [10, 102, 1, 44])), Some(299));
        assert_eq!(entry_of(hosts([172, 16, 0, 1], [10, 102, 1, 44])), None);
        // All flows of a user end at one address; the address of the other end distinguishes them.
        let user = Some(User { number: 0, flow: 1, first: 4 });
        let of_user = entry((0, 1), user);
        let [left, right] = [Direction::Left, Direction::Right].map(|side| address(side, &of_user, 299));
        assert_eq!((left.to_string().as_str(), right.to_string().as_str()), ("10.1.1.44", "10.102.0.5"));
        assert_eq!((entry_of([left, right]), entry_of([right, left])), (Some(299), Some(299)));
    }

    #[test]
    fn a_queue_that_stops_another_knows_its_device() {
        let queue = "qdisc = \"pfifo limit 50\", pause = true";
        let (right, left) = (queue.replace(", ", "\n"), format!("reverse = {{ {queue} }}"));
        let hop = |keys: &str| format!("[[hop]]\nrate = \"1mbit\"\n{keys}\n");
        let text = hop(&left) + &hop(&format!("{right}\n{left}")) + &hop(&right);
        let scenario = scenario(&format!("duration = \"1s\"\n{text}[[flow]]\nkind = \"bulk\"\nrtt = \"9ms\"\n"));
        let network = Network::new(&scenario);
        let mut pairs: Vec<_> = network.pauses().map(|(end, stopped, _)| (end, stopped)).collect();
        pairs.sort_unstable();
        assert_eq!(pairs, [("hop0l", "hop1l"), ("hop1l", "hop2l"), ("hop1r", "hop0r"), ("hop2r", "hop1r")]);
        assert!(network.pauses().all(|(.., pause)| (pause.stop.packets, pause.go.packets) == (48, 46)));
    }

    #[test]
    fn every_router_knows_the_way_to_every_host_that_it_serves() {
        let scenario = scenario(TWO_HOPS);
        let network = Network::new(&scenario);
        assert_eq!(
            said(&network, &scenario, Place::Router(0)),
            ["route add 10.1.0.0/16 via 172.16.0.4 dev toleft0", "route add 10.102.0.0/16 via 172.16.0.1 dev hop0r"]
        );
        assert_eq!(
            said(&network, &scenario, Place::Router(2)),
            [
                "route add 10.1.0.0/16 via 172.16.0.2 dev hop1l",
                "route add 10.2.0.0/16 via 172.16.0.2 dev hop1l",
                "route add 10.102.0.0/16 via 172.16.0.9 dev toright1",
            ]
        );
    }

    #[test]
    fn what_differs_between_flows_stands_on_routes_of_their_own() {
        let scenario = scenario(TWO_HOPS);
        let network = Network::new(&scenario);
        let lines = said(&network, &scenario, Place::Right(1));
        assert_eq!(lines[0], "route add local 10.102.0.0/16 dev lo");
        assert_eq!(lines.len(), 3);
        assert!(lines.iter().any(|line| line.contains("initcwnd 3 rto_min 200ms features ecn")), "{lines:?}");
        assert!(lines.iter().any(|line| line.contains("initcwnd 10 rto_min 200ms")), "{lines:?}");
    }

    #[test]
    fn packets_of_a_program_leave_with_the_address_of_its_row() {
        let program = TWO_HOPS.replace("kind = \"bulk\"", "kind = \"command\"\ncommand = \"ls\"");
        let scenario = scenario(&program);
        for (place, line) in [
            (Place::Left(0), "route add 10.102.0.1 via 172.16.0.5 dev left0 src 10.1.0.1 "),
            (Place::Right(1), "route add 10.1.0.1 via 172.16.0.8 dev right1 src 10.102.0.1 "),
        ] {
            let lines = said(&Network::new(&scenario), &scenario, place);
            assert!(lines.iter().any(|one| one.starts_with(line)), "{lines:?}");
        }
    }

    #[test]
    fn a_route_says_what_a_host_offers_before_its_socket_is_there() {
        let scenario = scenario(&TWO_HOPS.replace("iw = 3", "iw = 3\nrwnd = 20"));
        let lines = said(&Network::new(&scenario), &scenario, Place::Left(1));
        assert_eq!(lines.iter().filter(|line| line.ends_with("ecn window 28960")).count(), 1, "{lines:?}");
    }

    #[test]
    fn a_route_says_that_dctcp_answers() {
        let scenario = scenario(&TWO_HOPS.replace("ecn = true", "ecn = true\ncc = \"dctcp\""));
        for place in [Place::Left(1), Place::Right(1)] {
            let lines = said(&Network::new(&scenario), &scenario, place);
            assert_eq!(
                lines.iter().filter(|line| line.ends_with("features ecn congctl dctcp")).count(),
                1,
                "{lines:?}"
            );
        }
    }

    #[test]
    fn the_rtt_beyond_the_path_lies_where_the_scenario_puts_it() {
        let scenario = scenario(TWO_HOPS);
        let network = Network::new(&scenario);
        let delay = |name: &str, host: u16| {
            let end = network.cables.iter().flatten().find(|end| end.name == name).expect("an end");
            let Transmit::Access(_, classes) = &end.transmit else { panic!("a host's cable") };
            classes.iter().find(|class| class.host == host).map(|class| class.delay)
        };
        // The first flow: 42 ms minus the hop's 2 ms, both halves at its left host.
        assert_eq!(delay("left0", 1), Some(Span::from_millis(20)));
        assert_eq!(delay("toleft0", 1), Some(Span::from_millis(20)));
        assert_eq!(delay("right1", 1), Some(Span::ZERO));
        // The second flow: a quarter in each place, and no host at the first router.
        assert_eq!(delay("left0", 2), None);
        assert_eq!(delay("left1", 2), Some(Span::from_micros(2500)));
    }

    #[test]
    fn impairments_stand_on_a_detour_where_packets_arrive() {
        let joined = |words: &str| -> Vec<String> {
            let impair = words.parse().expect("netem's words");
            let (settings, lines) = impairments("hop0r", "hop0l", &impair, MTU);
            let settings = settings.iter().map(|one| format!("ip {one}"));
            settings.chain(lines.iter().map(|line| format!("tc {line}"))).collect()
        };
        assert_eq!(
            joined("loss 1% delay 10ms 2ms"),
            [
                "ip link add hop0ri type ifb",
                "ip link set dev hop0ri mtu 1500 up",
                "tc qdisc add dev hop0ri root handle 1: netem limit 10000000 delay 10ms 2ms loss 1%",
                "tc qdisc add dev hop0l handle ffff: ingress",
                "tc filter add dev hop0l parent ffff: matchall action mirred egress redirect dev hop0ri",
            ]
        );
        assert!(joined("limit 50 loss 1%")[2].ends_with("netem limit 50 loss 1%"));
    }

    #[test]
    fn a_discipline_changes_under_its_handle_and_another_gets_a_handle_of_its_own() {
        let steps =
            r#"[["0s", "codel"], ["1s", "codel target 9ms"], ["2s", "pfifo limit 5"], ["3s", "pfifo limit 7"]]"#;
        let text = TWO_HOPS.replacen("\"fq_codel limit 100\"", steps, 1);
        let scenario = scenario(&text);
        let joined = |kind| -> Vec<String> {
            let link = &scenario.hops[0].right;
            qdisc_changes("hop0r", link, kind).iter().map(|(at, words)| format!("{at} {}", words.join(" "))).collect()
        };
        assert_eq!(
            joined(LinkKind::Device),
            [
                "1s qdisc change dev hop0r root handle 1: codel target 9ms",
                "2s qdisc replace dev hop0r root handle 2: pfifo limit 5",
                "3s qdisc change dev hop0r root handle 2: pfifo limit 7",
            ]
        );
        assert_eq!(joined(LinkKind::Htb)[1], "2s qdisc replace dev hop0r parent 1:1 handle 11: pfifo limit 5");
    }

    #[test]
    fn tc_gets_words_and_the_lengths_that_the_scenario_counts() {
        let scenario = scenario(TWO_HOPS);
        let joined = |link: &Link, kind| -> Vec<String> { discipline("hop0r", link, kind, MTU) };
        let [a, b] = [&scenario.hops[0].right, &scenario.hops[1].right];
        assert_eq!(joined(a, LinkKind::Device), ["qdisc add dev hop0r root handle 1: fq_codel limit 100"]);
        assert!(
            joined(b, LinkKind::Device)[0].starts_with("qdisc add dev hop0r root handle 1: stab overhead -14 codel")
        );
        assert_eq!(
            joined(a, LinkKind::Htb),
            [
                "qdisc add dev hop0r root handle 1: htb default 1",
                "class add dev hop0r parent 1: classid 1:1 htb rate 10000000bit ceil 10000000bit burst 1600 cburst 1600",
                "qdisc add dev hop0r parent 1:1 handle 10: fq_codel limit 100",
            ]
        );
    }
}
