"""Where ``http.request`` may connect: the rules, and which addresses are public."""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TypeAlias

import msgspec

from rota.errors import (
    ForbiddenAddressError,
    InvalidConfigurationError,
    InvalidPayloadError,
)

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
"""All addresses that are assigned. Outside of it are, among others, loopback, unspecified,
link-local, unique local, multicast, and embedded IPv4 addresses: mapped, compatible and translated
by NAT64."""

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
    """An address as a resolver gives it; ValueError if it is not one."""
    return ip_address(text)


def read_network(text: str) -> Network:
    """A network or a single address; ValueError if it is neither."""
    return ip_network(text)


def is_public(address: Address) -> bool:
    """Whether it is an address on the public internet."""
    if isinstance(address, IPv4Address):
        return not any(address in network for network in NOT_PUBLIC_4)
    if address.scope_id is not None:  # a zone of this host
        return False
    return address in PUBLIC_6 and not any(address in network for network in NOT_PUBLIC_6)


def is_within(address: Address, networks: Iterable[Network]) -> bool:
    """Whether it is in one of them, as it is written: IPv4 within IPv6 is not looked through."""
    return any(address.version == network.version and address in network for network in networks)


ALLOW = "ROTA_HTTP_ALLOW"
PORTS = "ROTA_HTTP_PORTS"
PLAIN = "ROTA_HTTP_PLAIN"

_HOST = re.compile(r"(?=.{1,253}$)[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*", re.ASCII)
_HIGHEST_PORT = 65_535
_YES, _NO = ("1", "true", "yes"), ("", "0", "false", "no")


class HttpRules(msgspec.Struct, frozen=True, kw_only=True):
    """Where requests may go. As it is, to public addresses, by https, on the usual port.

    - ``hosts``: names that may stand for any address, also one in here.
    - ``networks``: addresses that may be reached although they are not public.
    - ``ports``: those that may be reached; 80 is among them where plain http is.
    - ``is_plain_allowed``: whether http without TLS may be used.
    """

    hosts: frozenset[str] = frozenset()
    networks: tuple[Network, ...] = ()
    ports: frozenset[int] = frozenset({443})
    is_plain_allowed: bool = False

    def check_target(self, scheme: str, port: int) -> None:
        """InvalidPayloadError when no request of the kind may be made, wherever it goes."""
        if scheme != "https" and not (scheme == "http" and self.is_plain_allowed):
            allowed = "https or http" if self.is_plain_allowed else "https"
            raise InvalidPayloadError("url", f"must begin with {allowed}")
        if port not in self.ports and not (scheme == "http" and port == 80):
            raise InvalidPayloadError("url", f"must not name port {port}")

    def check_addresses(self, host: str, addresses: Sequence[Address]) -> None:
        """ForbiddenAddressError unless every one of the host's addresses may be reached."""
        if host in self.hosts:
            return
        if not all(is_public(it) or is_within(it, self.networks) for it in addresses):
            raise ForbiddenAddressError(host, "it has an address that is not public")


def read_http_rules(environ: Mapping[str, str] | None = None) -> HttpRules:
    """What the environment says; InvalidConfigurationError names what cannot be used."""
    environ = os.environ if environ is None else environ
    problems: dict[str, str] = {}
    hosts, networks = _read_allowed(_words(environ.get(ALLOW, "")), problems)
    rules = HttpRules(
        hosts=hosts,
        networks=networks,
        ports=_read_ports(_words(environ.get(PORTS, "")), problems),
        is_plain_allowed=_read_flag(environ.get(PLAIN, ""), problems),
    )
    if problems:
        raise InvalidConfigurationError(problems)
    return rules


def _words(text: str) -> list[str]:
    return text.replace(",", " ").lower().split()


def _read_allowed(
    words: Iterable[str], problems: dict[str, str]
) -> tuple[frozenset[str], tuple[Network, ...]]:
    hosts: set[str] = set()
    networks: list[Network] = []
    for word in words:
        try:
            networks.append(read_network(word))
        except ValueError:
            if "/" in word or word.replace(".", "").isdigit() or not _HOST.fullmatch(word):
                problems[ALLOW] = f"has {word!r:.60}, which is not a host, address or network"
            hosts.add(word)
    return frozenset(hosts), tuple(networks)


def _read_ports(words: Iterable[str], problems: dict[str, str]) -> frozenset[int]:
    ports: set[int] = set()
    for word in words:
        if word.isascii() and word.isdigit() and 1 <= int(word[:6]) <= _HIGHEST_PORT:
            ports.add(int(word[:6]))
        else:
            problems[PORTS] = f"has {word!r:.60}, which is not a port"
    return frozenset(ports) or HttpRules().ports


def _read_flag(text: str, problems: dict[str, str]) -> bool:
    word = text.strip().lower()
    if word not in (*_YES, *_NO):
        problems[PLAIN] = f"must be 1 or 0, got {text!r:.40}"
    return word in _YES
