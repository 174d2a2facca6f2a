//! Namespaces, cables and addresses of the hosts. Nothing outside of the program's own namespaces is changed, and the
//! kernel takes everything down with the last process in them.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::IpAddr;

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::process::{Gid, Uid};
use rustix::thread::UnshareFlags;
use sojourn_model::scenario::Scenario;
use sojourn_traffic::job::LinkKind;
use sojourn_traffic::os::{self, Spaces};
use sojourn_traffic::run::settings;
use sojourn_traffic::topology::{self, End, Network, Place, Route, Setting, Transmit};

use crate::cable::{Cable, Feed};

/// The settings that allow user namespaces, for the error message.
const ALLOWED_BY: &str = "kernel.unprivileged_userns_clone = 1, user.max_user_namespaces above 0, and where AppArmor is \
                          used kernel.apparmor_restrict_unprivileged_userns = 0 (sysctl); or root";
/// The settings with the most namespaces, for the error message.
const LIMITED_BY: &str = "user.max_net_namespaces, user.max_pid_namespaces, user.max_mnt_namespaces and \
                          user.max_user_namespaces (sysctl)";

/// The kernel's settings of IPv6; a kernel without IPv6 has none.
const IPV6_SETTINGS: &str = "/proc/sys/net/ipv6";
/// The least MTU of a link with IPv6 in bytes.
const IPV6_MTU: u32 = 1280;
/// IPv6 in a namespace with hosts: nothing is sent to find routers, and there are no addresses but ours.
const IPV6: [(&str, &str); 5] = [
    ("default/accept_ra", "0"),
    ("default/router_solicitations", "0"),
    ("default/addr_gen_mode", "1"),
    ("default/disable_ipv6", "0"),
    ("all/disable_ipv6", "0"),
];

/// Moves the program into namespaces of its own: of users, unless it is root, of the network, of mounts, and of its
/// future children's process numbers.
///
/// # Errors
/// The host does not allow it. The error names the settings that would.
pub fn leave_the_host() -> io::Result<()> {
    let spaces = UnshareFlags::NEWNET | UnshareFlags::NEWNS | UnshareFlags::NEWPID;
    if unshare(spaces).is_ok() {
        return Ok(());
    }
    let (user, group) = (rustix::process::getuid(), rustix::process::getgid());
    unshare(spaces | UnshareFlags::NEWUSER)
        .and_then(|()| become_root_inside(user, group))
        .map_err(|error| io::Error::other(not_allowed(&error)))
}

/// Says what would allow the namespaces. The kernel reports that there are as many as it allows as a lack of space.
fn not_allowed(error: &io::Error) -> String {
    if error.raw_os_error() == Some(libc::ENOSPC) {
        format!("namespaces: {error}; one of their limits is reached: expected higher {LIMITED_BY}")
    } else {
        format!("user namespaces: {error}; allowed by {ALLOWED_BY}")
    }
}

/// Maps the user to root within the user namespace.
fn become_root_inside(user: Uid, group: Gid) -> io::Result<()> {
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("0 {} 1", user.as_raw()))?;
    fs::write("/proc/self/gid_map", format!("0 {} 1", group.as_raw()))
}

/// Shows programs their own processes in /proc. A container may not allow it; then they see those of the host.
pub fn show_own_processes() {
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    let _ = mount_change("/", private).and_then(|()| mount("proc", "/proc", "proc", flags, None));
}

#[expect(unsafe_code, reason = "rustix calls it unsafe, for the sake of shared file tables")]
fn unshare(flags: UnshareFlags) -> io::Result<()> {
    // SAFETY: no file table is unshared.
    Ok(unsafe { rustix::thread::unshare_unsafe(flags) }?)
}

/// The namespaces with hosts.
pub fn host_places(network: &Network) -> Vec<Place> {
    network.places.iter().copied().filter(|place| !matches!(place, Place::Router(_))).collect()
}

/// A port of the path: the cable to a namespace with hosts, and the Ethernet header of the frames that go there.
pub struct Port {
    /// The packet socket.
    pub cable: Cable,
    /// Destination and source address.
    pub header: [u8; 12],
}

/// Creates the namespaces of a scenario's hosts with everything in them. The ports are in the order of
/// [`host_places`].
///
/// # Errors
/// The kernel refuses something.
pub fn build(scenario: &Scenario, network: &Network) -> io::Result<(Spaces, Vec<Port>)> {
    let places = host_places(network);
    let mut spaces = Spaces::new(&places)?;
    let has_ipv6 = has_ipv6(network.mtu);
    // The kernel of the router has no part in the path: it must not send packets of its own.
    if fs::exists(IPV6_SETTINGS)? {
        spaces.set(None, "ipv6/conf/default/disable_ipv6", "1")?;
    }
    let mut ports = Vec::new();
    for &place in &places {
        settings(&mut spaces, place, scenario)?;
        if has_ipv6 {
            IPV6.iter().try_for_each(|(key, value)| spaces.set(Some(place), &format!("ipv6/conf/{key}"), value))?;
        }
        let (host, router) = ends(network, place)?;
        let devices = [host.name.clone(), router.name.clone()];
        spaces.apply(None, &Setting::Veth { devices })?;
        spaces.move_device(&host.name, host.mac, place)?;
        for (at, name) in [(Some(place), &host.name), (None, &router.name)] {
            // The frames must be those that a cable would carry: not large ones, and with their checksums.
            spaces.inside(at, || os::offloads(name, os::ALL_OFFLOADS, false))?;
        }
        let (device, mtu) = (router.name.clone(), Some(network.mtu));
        spaces.apply(None, &Setting::Device { device, mtu, gso_max_segs: None, up: true })?;
        let lo = Setting::Device { device: "lo".to_owned(), mtu: None, gso_max_segs: None, up: true };
        spaces.apply(Some(place), &lo)?;
        let cable = spaces.inside(None, || Cable::open(&router.name, network.mtu))?;
        let mut header = [0; 12];
        header[..6].copy_from_slice(&host.mac);
        header[6..].copy_from_slice(&router.mac);
        ports.push(Port { cable, header });
    }
    let mut sources = BTreeSet::new();
    for (place, mut setting) in network.routes(scenario).into_iter().filter(|(place, _)| places.contains(place)) {
        if let Setting::Route(Route { via: Some(_), source, .. }) = &mut setting {
            // Programs of the user's bind no address.
            *source = source.or_else(|| topology::first_host(place).map(IpAddr::V4));
        }
        spaces.apply(Some(place), &setting)?;
        if let Some(setting) = setting.in_ipv6().filter(|_| has_ipv6) {
            if let Setting::Route(Route { source: Some(address), .. }) = setting
                && sources.insert(address)
            {
                // IPv6 takes only an address of a device as a route's source.
                spaces.apply(Some(place), &Setting::Address { device: "lo".to_owned(), address })?;
            }
            spaces.apply(Some(place), &setting)?;
        }
    }
    Ok((spaces, ports))
}

/// The device with the discipline of a link, and with `htb`, which has the link's rate.
#[derive(Clone, Debug)]
pub struct Device {
    /// Its name.
    pub name: String,
    /// Its MTU in bytes, on which the burst of `htb` depends.
    mtu: u32,
}

impl Device {
    /// That of a link.
    pub fn of(link: usize, mtu: u32) -> Device {
        Device { name: format!("queue{link}"), mtu }
    }

    /// Returns the arguments of `tc` that change its rate, in bit/s.
    pub fn change(&self, rate: u64) -> Vec<String> {
        topology::change(&self.name, rate, LinkKind::Htb, self.mtu)
    }
}

/// The kernel's queue of a link: what goes into its discipline, and what comes out of it.
pub struct KernelQueue {
    /// The name of the link.
    pub link: String,
    /// The device with the discipline.
    pub device: Device,
    /// Passes frames to the discipline.
    pub feed: Feed,
    /// Has the frames that the discipline has released.
    pub back: Cable,
}

/// Creates a device with the discipline of each link below `htb`, in the first namespace. The queues are in the order of
/// the links.
///
/// # Errors
/// `tc` is missing, or the kernel refuses something.
pub fn build_kernel_queues(
    spaces: &mut Spaces,
    scenario: &Scenario,
    network: &Network,
) -> io::Result<Vec<KernelQueue>> {
    let build = |link| {
        let device = Device::of(link, network.mtu);
        let devices = [device.name.clone(), format!("sink{link}")];
        spaces.apply(None, &Setting::Veth { devices: devices.clone() })?;
        for device in &devices {
            let (device, mtu) = (device.clone(), Some(network.mtu));
            spaces.inside(None, || os::offloads(&device, os::ALL_OFFLOADS, false))?;
            spaces.apply(None, &Setting::Device { device, mtu, gso_max_segs: None, up: true })?;
        }
        // The other device only gives this one a carrier.
        let lines = topology::discipline(&device.name, scenario.link(link), LinkKind::Htb, network.mtu);
        spaces.tc(None, &lines)?;
        let open = || Ok((Feed::open(&device.name)?, Cable::behind_discipline(&device.name, network.mtu)?));
        let (feed, back) = spaces.inside(None, open)?;
        Ok(KernelQueue { link: scenario.link_name(link), device, feed, back })
    };
    (0..scenario.hops.len() * 2).map(build).collect()
}

/// Returns whether the hosts have IPv6: the kernel has it, and the largest packet is large enough (RFC 8200 §5).
pub fn has_ipv6(mtu: u32) -> bool {
    mtu >= IPV6_MTU && fs::exists(IPV6_SETTINGS).unwrap_or(false)
}

/// Returns the two ends of the cable between a namespace with hosts and the path.
fn ends(network: &Network, place: Place) -> io::Result<(&End, &End)> {
    let is_it = |end: &&End| end.place == place && matches!(end.transmit, Transmit::Access(..));
    let host = network.cables.iter().flatten().find(is_it);
    let host = host.ok_or_else(|| io::Error::other(format!("a bug: {place:?} has no cable")))?;
    Ok((host, network.other(host)))
}
