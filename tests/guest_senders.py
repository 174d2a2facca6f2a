"""A guest in which a program sends through a discipline of ours, over a path of 50 ms, in packets of several forms."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from conftest import skip_loudly
from sojourn.errors import Refusal
from sojourn.kernel import Kernel, boot, find, modules, tools

INIT = """\
#!{box} sh
{box} mount -t proc proc /proc
{box} mount -t sysfs sysfs /sys
{box} mount -t tmpfs tmpfs /run
{box} mount -t tmpfs tmpfs /mnt
{box} mkdir /run/netns /mnt/run /mnt/modules
{box} mount -t hostfs -o /proc/self/cwd/modules none /mnt/modules
{box} mount -t hostfs -o /proc/self/cwd/run none /mnt/run
cd /mnt/run
{box} insmod /mnt/modules/{module}.ko
export TC_LIB_DIR="$PWD"
{box} sh ./network.sh >said 2>&1
{box} sync
{box} poweroff -f
"""
NETWORK = """\
set -eux
ip() {{ {ip} "$@"; }}
tc() {{ {tc} "$@"; }}
ip netns add far
ip link set lo up
ip link add dut0 type veth peer name dut1 netns far
# The inner of two tags is in the packet itself.
ip link add link dut0 name dut0.4 type vlan id 4
ip link add link dut0.4 name dut0.5 type vlan id 5
ip -n far link add link dut1 name dut1.4 type vlan id 4
ip -n far link add link dut1.4 name dut1.5 type vlan id 5
ip addr add 10.9.0.1/24 dev dut0
ip addr add fd09::1/64 dev dut0 nodad
ip addr add 10.9.5.1/24 dev dut0.5
ip -n far addr add 10.9.0.2/24 dev dut1
ip -n far addr add fd09::2/64 dev dut1 nodad
ip -n far addr add 10.9.5.2/24 dev dut1.5
for device in dut0 dut0.4 dut0.5; do ip link set $device up; done
for device in lo dut1 dut1.4 dut1.5; do ip -n far link set $device up; done
tc -n far qdisc add dev dut1 root netem delay 50ms limit 10000
ip netns exec far {python} far.py &
# Neighbours learn of each other; a way that does not carry a packet is seen below, where near.py connects.
for address in 10.9.0.2 fd09::2 10.9.5.2; do ping -c 2 $address || true; done
for way in {ways}; do
    {before}
    {python} near.py "$way" {tc}
    tc qdisc del dev dut0 root
done
echo '{{"ok": true}}' >ended.json
"""
FAR = """\
import socket

listener = socket.create_server(("::", 7), family=socket.AF_INET6, dualstack_ipv6=True)
while True:
    connection, _ = listener.accept()
    while connection.recv(65536):
        pass
    connection.close()
"""
NEAR = """\
import socket, subprocess, sys, time

way, tc = sys.argv[1:]


def show():
    for name, words in (("json", "-s -j qdisc show"), ("text", "-s qdisc show"), ("classes", "-s class show")):
        with open(f"{way}.{name}", "w") as file:
            subprocess.run([tc, *words.split(), "dev", "dut0"], stdout=file, check=True)


if way == "udp":
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for _ in range(20):
            sender.sendto(b"x" * 1000, ("10.9.0.2", 9))
    time.sleep(0.1)
    show()
    sys.exit()
address = {"ipv4": "10.9.0.2", "vlan": "10.9.5.2"}.get(way, "fd09::2")
sender = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
if way == "ipv6-options":
    # Padding of four bytes in a header of destination options (59), before TCP's.
    sender.setsockopt(socket.IPPROTO_IPV6, 59, bytes([0, 0, 1, 4, 0, 0, 0, 0]))
sender.connect((address, 7))
time.sleep(0.5)
sender.sendall(b"x" * 30000)
time.sleep(0.1)
show()
sender.close()
time.sleep(1)
"""
WAYS = ("ipv4", "ipv6", "ipv6-options", "vlan", "udp")
"""The forms of packets."""


def kernel_with(module: str) -> Kernel:
    """Returns the kernel that 'make test' built or restored, with this module of ours only; otherwise skips."""
    try:
        found = find()
        modules.tc_plugins()
        tools.real("busybox", "busybox-static")
    except Refusal as error:
        skip_loudly(str(error))
        raise
    return replace(found, modules={module: found.modules[module]})


def play(kernel: Kernel, folder: Path, kind: str, before: list[str]) -> None:
    """For each way, sets up disciplines with the lines `before`, sends 30 kB (20 kB by UDP), and 100 ms later writes
    what `tc -s` prints: WAY.json and WAY.text of the disciplines, WAY.classes of the classes.
    """
    [module] = kernel.modules
    box = tools.real("busybox", "busybox-static")
    names = {"ip": tools.real("ip", "iproute2"), "tc": tools.real("tc", "iproute2"), "python": sys.executable}
    lines = "\n    ".join(before)
    (folder / "network.sh").write_text(NETWORK.format(ways=" ".join(WAYS), before=lines, **names))
    (folder / "far.py").write_text(FAR)
    (folder / "near.py").write_text(NEAR)
    (folder / f"q_{kind}.so").write_bytes((modules.tc_plugins() / f"q_{kind}.so").read_bytes())
    init = folder / "init.sh"
    init.write_text(INIT.format(box=box, module=module))
    init.chmod(0o755)
    ended = boot(kernel, "{}", folder, program=init, timeout_s=120)
    assert ended.error is None, (folder / "said").read_text() + ended.console
