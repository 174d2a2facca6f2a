"""A benchmark for ns-3: run_ns3.py RATE_BIT DELAY_MS FLOWS SECONDS LIMIT STARTS_S CC IW.

Two nodes and a link between them, with as little overhead as possible and without callbacks into Python. Prints the
number of received segments and the CPU time of the run alone."""

import json
import sys
import time

from ns import ns

rate, delay, flows, seconds, limit, starts, cc, iw = sys.argv[1:]
kind = {"cubic": "TcpCubic", "reno": "TcpNewReno"}[cc]
for name, value in {
    "TcpL4Protocol::SocketType": ns.TypeIdValue(ns.TypeId.LookupByName(f"ns3::{kind}")),
    "TcpSocket::SegmentSize": ns.UintegerValue(1448),
    "TcpSocket::InitialCwnd": ns.UintegerValue(int(iw)),
    "TcpSocket::SndBufSize": ns.UintegerValue(1 << 29),
    "TcpSocket::RcvBufSize": ns.UintegerValue(1 << 29),
    "TcpSocket::DelAckCount": ns.UintegerValue(2),
}.items():
    ns.Config.SetDefault(f"ns3::{name}", value)
nodes = ns.NodeContainer()
nodes.Create(2)
link = ns.PointToPointHelper()
link.SetDeviceAttribute("DataRate", ns.StringValue(f"{rate}bps"))
link.SetDeviceAttribute("Mtu", ns.UintegerValue(1500))
link.SetChannelAttribute("Delay", ns.StringValue(f"{float(delay) / 2}ms"))
link.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", ns.QueueSizeValue(ns.QueueSize(f"{limit}p")))
devices = link.Install(nodes)
ns.InternetStackHelper().Install(nodes)
addresses = ns.Ipv4AddressHelper()
addresses.SetBase(ns.Ipv4Address("10.0.0.0"), ns.Ipv4Mask("255.255.255.0"))
interfaces = addresses.Assign(devices)
# The queue is that of the device, a FIFO, without a queue discipline.
ns.TrafficControlHelper().Uninstall(devices)
sinks = []
for i in range(int(flows)):
    port = 5000 + i
    there = ns.InetSocketAddress(interfaces.GetAddress(1), port).ConvertTo()
    here = ns.InetSocketAddress(ns.Ipv4Address.GetAny(), port).ConvertTo()
    sink = ns.PacketSinkHelper("ns3::TcpSocketFactory", here).Install(nodes.Get(1))
    sender = ns.BulkSendHelper("ns3::TcpSocketFactory", there)
    sender.SetAttribute("SendSize", ns.UintegerValue(65_536))
    sending = sender.Install(nodes.Get(0))
    sending.Start(ns.Seconds(float(starts) * (i + 0.5) / int(flows)))
    sinks.append(sink)
ns.Simulator.Stop(ns.Seconds(float(seconds)))
before = time.process_time()
ns.Simulator.Run()
cpu_s = time.process_time() - before
received = sum(sink.Get(0).__deref__().GetTotalRx() for sink in sinks)
print(json.dumps({"packets": received // 1448, "cpu_s": cpu_s}))
