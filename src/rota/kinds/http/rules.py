"""Where requests may go, as the operator says."""

import os
import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from rota.errors import ForbiddenAddressError, InvalidConfigurationError, InvalidPayloadError
from rota.kinds.http.addresses import Address, Network, is_public, is_within, read_network

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
                problems[ALLOW] = f"has {word!r:.60}, which is no host, address or network"
            hosts.add(word)
    return frozenset(hosts), tuple(networks)


def _read_ports(words: Iterable[str], problems: dict[str, str]) -> frozenset[int]:
    ports: set[int] = set()
    for word in words:
        if word.isascii() and word.isdigit() and 1 <= int(word[:6]) <= _HIGHEST_PORT:
            ports.add(int(word[:6]))
        else:
            problems[PORTS] = f"has {word!r:.60}, which is no port"
    return frozenset(ports) or HttpRules().ports


def _read_flag(text: str, problems: dict[str, str]) -> bool:
    word = text.strip().lower()
    if word not in (*_YES, *_NO):
        problems[PLAIN] = f"must be 1 or 0, got {text!r:.40}"
    return word in _YES
