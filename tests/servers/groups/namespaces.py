"""Hosts of one machine: network namespaces on a bridge, which can be cut off from each other.

Only root can make them.
"""

import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

NETWORK = "10.77.18"
BRIDGE = "rota-fo"


@contextmanager
def namespaces(count: int) -> Iterator[list[tuple[str, Sequence[str]]]]:
    """The address of each host, and the command that runs programs there."""
    hosts = [f"{NETWORK}.{number}" for number in range(1, count + 1)]
    with ExitStack() as stack:
        _ip("link", "add", BRIDGE, "type", "bridge")
        stack.callback(_ip, "link", "del", BRIDGE)
        _ip("address", "add", f"{NETWORK}.254/24", "dev", BRIDGE)
        _ip("link", "set", BRIDGE, "up")
        for host in hosts:
            stack.enter_context(_host(host))
        yield [(host, ("ip", "netns", "exec", _name_of(host))) for host in hosts]


@contextmanager
def cut_off(host: str, others: Iterable[str]) -> Iterator[None]:
    """Nothing passes between a host and these others; all other ways stay open."""
    routes = [f"{other}/32" for other in others]
    for route in routes:
        _ip("-n", _name_of(host), "route", "add", "blackhole", route)
    try:
        yield
    finally:
        for route in routes:
            _ip("-n", _name_of(host), "route", "del", "blackhole", route)


@contextmanager
def _host(host: str) -> Iterator[None]:
    name = _name_of(host)
    _ip("netns", "add", name)
    try:
        _ip("link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
        _ip("link", "set", name, "master", BRIDGE, "up")
        _ip("-n", name, "address", "add", f"{host}/24", "dev", "eth0")
        for device in ("eth0", "lo"):
            _ip("-n", name, "link", "set", device, "up")
        yield
    finally:
        _ip("netns", "del", name)


def _name_of(host: str) -> str:
    return f"{BRIDGE}-{host.rpartition('.')[2]}"


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)
