"""The world `live`: real hosts in network namespaces of this machine, in real time, without root."""

from sojourn.live.run import Hosts as Hosts
