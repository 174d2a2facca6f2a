//! Devices, addresses, neighbours and routes over rtnetlink, without starting the program `ip`.

use std::io;
use std::net::IpAddr;
use std::os::fd::RawFd;

use netlink_packet_core::{
    ErrorMessage, NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage};
use netlink_packet_route::link::{InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage};
use netlink_packet_route::neighbour::{NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteMetric, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use rustix::net::netdevice;

use crate::topology::{Metrics, Route, Setting, pair};

/// `RTAX_FEATURE_ECN` of linux/rtnetlink.h.
const FEATURE_ECN: u32 = 1;
/// `RT_TABLE_LOCAL` of linux/rtnetlink.h.
const TABLE_LOCAL: u8 = 255;

/// An rtnetlink socket, for the network namespace in which it was opened.
pub struct Netlink {
    socket: Socket,
    sequence: u32,
}

impl Netlink {
    /// Opens a socket in the current namespace.
    ///
    /// # Errors
    /// The socket cannot be created.
    pub fn open() -> io::Result<Netlink> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Netlink { socket, sequence: 0 })
    }

    /// Applies a setting in the socket's namespace.
    ///
    /// # Errors
    /// The kernel rejects it. The error has the words of the `ip` command and the reason.
    pub fn set(&mut self, setting: &Setting) -> io::Result<()> {
        let done = self.message(setting).and_then(|(message, flags)| self.ask(message, flags));
        done.map_err(|error| io::Error::other(format!("ip {setting}: {error}")))
    }

    /// Sets a device's hardware address and moves it to the namespace given by an open file.
    ///
    /// # Errors
    /// The device does not exist, or the kernel rejects the request.
    pub fn move_to(&mut self, device: &str, mac: [u8; 6], space: RawFd) -> io::Result<()> {
        let mut message = self.link(device)?;
        message.attributes = vec![LinkAttribute::Address(mac.to_vec()), LinkAttribute::NetNsFd(space)];
        self.ask(RouteNetlinkMessage::SetLink(message), 0)
            .map_err(|error| io::Error::other(format!("ip link set dev {device} netns: {error}")))
    }

    /// Sends a request and waits for the acknowledgement.
    fn ask(&mut self, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        let mut request = NetlinkMessage::from(message);
        self.sequence += 1;
        request.header.sequence_number = self.sequence;
        request.header.flags = NLM_F_REQUEST | NLM_F_ACK | flags;
        request.finalize();
        let mut bytes = vec![0; request.buffer_len()];
        request.serialize(&mut bytes);
        self.socket.send(&bytes, 0)?;
        let (bytes, _) = self.socket.recv_from_full()?;
        let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&bytes).map_err(io::Error::other)?;
        match answer.payload {
            NetlinkPayload::Error(ErrorMessage { code: None, .. }) => Ok(()),
            NetlinkPayload::Error(error) => Err(error.to_io()),
            other => Err(io::Error::other(format!("an unexpected answer: {other:?}"))),
        }
    }

    /// Returns the request for a setting, and its flags.
    fn message(&self, setting: &Setting) -> io::Result<(RouteNetlinkMessage, u16)> {
        Ok(match setting {
            Setting::Veth { devices: [one, other] } => {
                let mut peer = LinkMessage::default();
                peer.attributes = vec![LinkAttribute::IfName(other.clone())];
                let data = LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(peer)));
                new_link(one, vec![LinkInfo::Kind(InfoKind::Veth), data])
            }
            Setting::Ifb { device } => new_link(device, vec![LinkInfo::Kind(InfoKind::Ifb)]),
            Setting::Device { device, mtu, gso_max_segs, up } => {
                let mut message = self.link(device)?;
                if *up {
                    (message.header.flags, message.header.change_mask) = (LinkFlags::Up, LinkFlags::Up);
                }
                message.attributes.extend(mtu.map(LinkAttribute::Mtu));
                message.attributes.extend(gso_max_segs.map(LinkAttribute::GsoMaxSegs));
                (RouteNetlinkMessage::SetLink(message), 0)
            }
            Setting::Address { device, address } => {
                let mut message = AddressMessage::default();
                message.header.family = family(address);
                message.header.prefix_len = pair(address);
                // An IPv6 address can be used at once, without a search for another host that has it.
                message.header.flags =
                    if address.is_ipv6() { AddressHeaderFlags::Nodad } else { AddressHeaderFlags::empty() };
                message.header.index = self.index(device)?;
                message.attributes = vec![AddressAttribute::Local(*address), AddressAttribute::Address(*address)];
                (RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE | NLM_F_EXCL)
            }
            Setting::Neighbour { device, address, mac } => {
                let mut message = NeighbourMessage::default();
                message.header.family = family(address);
                message.header.ifindex = self.index(device)?;
                message.header.state = NeighbourState::Permanent;
                message.attributes = vec![
                    NeighbourAttribute::Destination(match *address {
                        IpAddr::V4(address) => NeighbourAddress::Inet(address),
                        IpAddr::V6(address) => NeighbourAddress::Inet6(address),
                    }),
                    NeighbourAttribute::LinkLayerAddress(mac.to_vec()),
                ];
                (RouteNetlinkMessage::NewNeighbour(message), NLM_F_CREATE | NLM_F_REPLACE)
            }
            Setting::Route(route) => {
                (RouteNetlinkMessage::NewRoute(self.route_message(route)?), NLM_F_CREATE | NLM_F_EXCL)
            }
        })
    }

    fn route_message(
        &self,
        Route { to: (to, length), via, device, source, metrics }: &Route,
    ) -> io::Result<RouteMessage> {
        let (table, scope, kind) = match via {
            Some(_) => (RouteHeader::RT_TABLE_MAIN, RouteScope::Universe, RouteType::Unicast),
            None => (TABLE_LOCAL, RouteScope::Host, RouteType::Local),
        };
        let mut message = RouteMessage::default();
        message.header.address_family = family(to);
        message.header.destination_prefix_length = *length;
        message.header.table = table;
        message.header.protocol = RouteProtocol::Boot;
        message.header.scope = scope;
        message.header.kind = kind;
        let inet = |address: &IpAddr| match *address {
            IpAddr::V4(address) => RouteAddress::Inet(address),
            IpAddr::V6(address) => RouteAddress::Inet6(address),
        };
        message.attributes.extend((*length > 0).then(|| RouteAttribute::Destination(inet(to))));
        message.attributes.extend(via.as_ref().map(|via| RouteAttribute::Gateway(inet(via))));
        message.attributes.extend(source.as_ref().map(|source| RouteAttribute::PrefSource(inet(source))));
        message.attributes.push(RouteAttribute::Oif(self.index(device)?));
        message.attributes.extend(metrics.as_ref().map(|metrics| RouteAttribute::Metrics(route_metrics(metrics))));
        Ok(message)
    }

    /// Returns a message about an existing device.
    fn link(&self, device: &str) -> io::Result<LinkMessage> {
        let mut message = LinkMessage::default();
        message.header.index = self.index(device)?;
        Ok(message)
    }

    /// Returns the index of a device in the socket's namespace.
    fn index(&self, device: &str) -> io::Result<u32> {
        netdevice::name_to_index(&self.socket, device)
            .map_err(|error| io::Error::other(format!("device {device}: {error}")))
    }
}

fn family(address: &IpAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 }
}

/// Returns the request for a new device, and its flags.
fn new_link(device: &str, info: Vec<LinkInfo>) -> (RouteNetlinkMessage, u16) {
    let mut message = LinkMessage::default();
    message.attributes = vec![LinkAttribute::IfName(device.to_owned()), LinkAttribute::LinkInfo(info)];
    (RouteNetlinkMessage::NewLink(message), NLM_F_CREATE | NLM_F_EXCL)
}

fn route_metrics(metrics: &Metrics) -> Vec<RouteMetric> {
    let Metrics { initcwnd, rto_min_ms, quickack, ecn, window, congctl } = *metrics;
    let always = [RouteMetric::InitCwnd(initcwnd), RouteMetric::RtoMin(rto_min_ms)];
    let chosen = [
        quickack.then_some(RouteMetric::QuickAck(1)),
        ecn.then_some(RouteMetric::Features(FEATURE_ECN)),
        window.map(RouteMetric::Window),
        congctl.map(|name| RouteMetric::CcAlgo(name.to_owned())),
    ];
    always.into_iter().chain(chosen.into_iter().flatten()).collect()
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    /// Encodes a route's request to bytes, decodes it and returns its attributes.
    fn sent(route: &Route) -> RouteMessage {
        let socket = Netlink::open().expect("a socket");
        let mut request =
            NetlinkMessage::from(RouteNetlinkMessage::NewRoute(socket.route_message(route).expect("lo is everywhere")));
        request.finalize();
        let mut bytes = vec![0; request.buffer_len()];
        request.serialize(&mut bytes);
        let read = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&bytes).expect("what was written");
        let NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewRoute(message)) = read.payload else {
            panic!("a route: {read:?}")
        };
        message
    }

    #[test]
    fn a_route_is_sent_with_the_metrics_that_it_displays() {
        let metrics = Metrics {
            initcwnd: 3,
            rto_min_ms: 200,
            quickack: true,
            ecn: true,
            window: Some(28_960),
            congctl: Some("dctcp"),
        };
        let to = (Ipv4Addr::new(10, 101, 0, 7).into(), 32);
        let via = Some(Ipv4Addr::new(172, 16, 0, 1).into());
        let route = Route { to, via, device: "lo".to_owned(), source: None, metrics: Some(metrics) };
        assert_eq!(
            Setting::Route(route.clone()).to_string(),
            "route add 10.101.0.7 via 172.16.0.1 dev lo initcwnd 3 rto_min 200ms quickack 1 features ecn window 28960 \
             congctl dctcp"
        );
        let message = sent(&route);
        let expected = [
            RouteMetric::InitCwnd(3),
            RouteMetric::RtoMin(200),
            RouteMetric::QuickAck(1),
            RouteMetric::Features(1),
            RouteMetric::Window(28_960),
            RouteMetric::CcAlgo("dctcp".to_owned()),
        ];
        assert!(message.attributes.contains(&RouteAttribute::Metrics(expected.to_vec())), "{message:?}");
        assert!(
            message.attributes.contains(&RouteAttribute::Gateway(RouteAddress::Inet(Ipv4Addr::new(172, 16, 0, 1))))
        );
        assert_eq!((message.header.destination_prefix_length, message.header.kind), (32, RouteType::Unicast));
    }

    #[test]
    fn a_hosts_own_addresses_are_a_local_route_of_the_local_table() {
        let to = (Ipv4Addr::new(10, 1, 0, 0).into(), 16);
        let message = sent(&Route { to, via: None, device: "lo".to_owned(), source: None, metrics: None });
        let header = &message.header;
        assert_eq!((header.table, header.scope, header.kind), (TABLE_LOCAL, RouteScope::Host, RouteType::Local));
        assert!(
            message.attributes.contains(&RouteAttribute::Destination(RouteAddress::Inet(Ipv4Addr::new(10, 1, 0, 0))))
        );
    }

    #[test]
    fn a_device_that_is_not_there_is_named() {
        let setting = Setting::Device { device: "nowhere0".to_owned(), mtu: Some(1500), gso_max_segs: None, up: true };
        let error = Netlink::open()
            .and_then(|socket| socket.message(&setting))
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default();
        assert!(error.starts_with("device nowhere0: "), "{error}");
    }
}
