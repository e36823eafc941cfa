"""Which addresses are somebody's on the public internet, and which lead inwards.

The lists are written out: what the standard library calls global has changed between releases.
"""

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TypeAlias

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

NOT_PUBLIC_4: tuple[IPv4Network, ...] = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",  # this network, and unspecified
            "10.0.0.0/8",  # private
            "100.64.0.0/10",  # shared by the customers of a provider; a cloud's metadata
            "127.0.0.0/8",  # loopback
            "168.63.129.16/32",  # a cloud's host agent, on an address that looks public
            "169.254.0.0/16",  # link-local; the metadata of most clouds
            "172.16.0.0/12",  # private
            "192.0.0.0/24",  # protocol assignments; a cloud's metadata
            "192.0.2.0/24",  # documentation
            "192.88.99.0/24",  # relays from IPv6, which are no more
            "192.168.0.0/16",  # private
            "198.18.0.0/15",  # measuring
            "198.51.100.0/24",  # documentation
            "203.0.113.0/24",  # documentation
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, and broadcast
        ),
    )
)

PUBLIC_6 = IPv6Network("2000::/3")
"""All that is assigned to anybody. Outside of it are, among others, loopback, unspecified,
link-local, unique local, multicast, and IPv4 addresses in other clothes: mapped, compatible and
translated by NAT64."""

NOT_PUBLIC_6: tuple[IPv6Network, ...] = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",  # protocol assignments, and Teredo, which wraps IPv4
            "2001:db8::/32",  # documentation
            "2002::/16",  # 6to4, which wraps IPv4
            "3fff::/20",  # documentation
        ),
    )
)


def read_address(text: str) -> Address:
    """An address as a resolver gives it; ValueError if it is none."""
    return ip_address(text)


def read_network(text: str) -> Network:
    """A network or a single address; ValueError if it is neither."""
    return ip_network(text)


def is_public(address: Address) -> bool:
    """Whether it is somebody's on the public internet, and nobody's in here."""
    if isinstance(address, IPv4Address):
        return not any(address in network for network in NOT_PUBLIC_4)
    if address.scope_id is not None:  # a zone of this host
        return False
    return address in PUBLIC_6 and not any(address in network for network in NOT_PUBLIC_6)


def is_within(address: Address, networks: Iterable[Network]) -> bool:
    """Whether it is in one of them, as it is written: IPv4 within IPv6 is not looked through."""
    return any(address.version == network.version and address in network for network in networks)
