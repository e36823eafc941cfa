"""What a store's address says: which server, which store on it, and how to show it."""

import re
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit

from rota.errors import InvalidStoreUrlError
from rota.stores.address import masked

DEFAULT_NAME = "rota"
DEFAULT_PORT = 6379
DEFAULT_SENTINEL_PORT = 26379
MOST_REPLICAS = 8

_USUAL = {("db", "0"), ("name", DEFAULT_NAME)}
_SCHEMES = ("redis", "rediss")
_SENTINEL_SCHEMES = ("redis+sentinel", "rediss+sentinel")
_SENTINEL_EXAMPLE = "redis+sentinel://host1:26379,host2:26379/service/0"
_STORE_NAME = re.compile(r"[A-Za-z0-9_.-]{1,63}")
_SERVICE = re.compile(r"[A-Za-z0-9_.-]{1,255}")
_TLS_FILES = frozenset({"ssl_ca_certs", "ssl_certfile", "ssl_keyfile"})
_TLS_OPTIONS = _TLS_FILES | {"ssl_cert_reqs"}
_CERTIFICATES = ("none", "optional", "required")
_OPTIONS = _TLS_OPTIONS | {"db", "username", "password"}


class _RefusedPartError(ValueError):
    """What is wrong with an address, without anything that could be secret."""


class Place(NamedTuple):
    """Where a server listens."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Sentinels:
    """The Sentinels that watch over a service; each can say which server is its primary."""

    places: tuple[Place, ...]
    service: str
    is_encrypted: bool = False
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Of a connection to one of them: user, password and certificates."""


@dataclass(frozen=True, slots=True)
class RedisSettings:
    """Which server and store, and how long to wait for it."""

    url: str = field(repr=False)
    name: str = DEFAULT_NAME
    replica_count: int = 0
    """How many replicas must have a write before it is acknowledged."""
    connection_count: int = 8
    connect_for: timedelta = timedelta(seconds=10)
    answer_for: timedelta = timedelta(seconds=20)
    sentinels: Sentinels | None = None
    """If set, the host in ``url`` is the service that they watch."""
    nodes: tuple[Place, ...] = ()
    """The nodes of a cluster, if the address names several; ``url`` leads to the first."""
    address: str = field(default="", repr=False)
    """The address as it was given, without options, if ``url`` leads to a part of it."""

    @property
    def label(self) -> str:
        """The address as it may be shown, with only those options that say which store it is."""
        options = dict(parse_qsl(self.url.partition("?")[2]))
        said = {"db": options.get("db", "0"), "name": self.name}
        unusual = [each for each in said.items() if each not in _USUAL]
        shown = masked(self.address or self.url)
        return f"{shown}?{urlencode(unusual)}" if unusual else shown


def read_address(url: str) -> RedisSettings:
    """Settings from ``redis://user:password@host:6379/0?name=rota`` and similar addresses.

    ``rediss://`` encrypts, ``unix:///run/redis.sock?db=0`` is a local socket, and
    ``redis+sentinel://host1:26379,host2:26379/service/0`` is the primary that Sentinels name, and
    ``redis://host1:6379,host2:6379`` a cluster, of which any node may be asked.
    ``name`` names the store in its database; ``replicas`` is how many replicas must have a write
    before it is acknowledged. Raises InvalidStoreUrlError.
    """
    plain = url.removeprefix("redis+") if url.startswith("redis+unix://") else url
    try:
        return _read(plain)
    except _RefusedPartError as refused:
        # The cause would repeat a part of the address, which may be a part of its password.
        raise InvalidStoreUrlError(masked(plain), str(refused)) from None


def _read(url: str) -> RedisSettings:
    if "#" in url:
        raise _RefusedPartError("a # must be written as %23")
    front, _, query = url.partition("?")
    scheme, options = front.partition("://")[0], _read_options(query)
    name, replicas = options.pop("name", DEFAULT_NAME), options.pop("replicas", "0")
    server, sentinels, nodes = front, None, tuple[Place, ...]()
    if scheme in _SENTINEL_SCHEMES:
        server, sentinels = _read_sentinels(front, options)
    elif scheme in _SCHEMES:
        server, nodes = _read_nodes(front)
    _check_server(server)
    if _STORE_NAME.fullmatch(name) is None:
        raise _RefusedPartError(
            "the name must be 1 to 63 letters, digits, dots, hyphens and underscores"
        )
    if re.fullmatch(r"[0-9]", replicas) is None or int(replicas) > MOST_REPLICAS:
        raise _RefusedPartError(f"replicas must be a number from 0 to {MOST_REPLICAS}")
    _check_options(scheme, options)
    whole = f"{server}?{urlencode(options)}" if options else server
    address = "" if server == front else front
    return RedisSettings(
        whole, name, int(replicas), sentinels=sentinels, nodes=nodes, address=address
    )


def _read_options(query: str) -> dict[str, str]:
    try:
        return dict(parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query)))
    except ValueError as error:
        raise _RefusedPartError("it cannot be read as an address") from error


def _check_server(front: str) -> None:
    try:
        place = urlsplit(front)
        _ = place.port
    except ValueError as error:
        is_port = "ort" in str(error)
        reason = "the port must be a number" if is_port else "it cannot be read as an address"
        raise _RefusedPartError(reason) from error
    path = place.path.strip("/")
    if place.scheme == "unix":
        if not path:
            raise _RefusedPartError("it names no socket: unix:///run/redis.sock")
    elif not place.netloc.rpartition("@")[2]:
        raise _RefusedPartError(f"it names no server: {place.scheme}://host:6379/0")
    elif path and not path.isdigit():
        raise _RefusedPartError("a database of Redis is a number, such as /0")


def _check_options(scheme: str, options: Mapping[str, str]) -> None:
    for option, value in options.items():
        if option not in _OPTIONS:
            raise _RefusedPartError(f"{option} is not an option of it")
        if option in _TLS_OPTIONS and not scheme.startswith("rediss"):
            encrypted = "rediss+sentinel" if scheme in _SENTINEL_SCHEMES else "rediss"
            raise _RefusedPartError(f"{option} is for an encrypted connection: {encrypted}://")
        if option in _TLS_FILES and not Path(value).is_file():
            raise _RefusedPartError(f"{option} names no file: {value}")
    if options.get("ssl_cert_reqs", "required") not in _CERTIFICATES:
        raise _RefusedPartError(f"ssl_cert_reqs must be one of {', '.join(_CERTIFICATES)}")
    if not options.get("db", "0").isdigit():
        raise _RefusedPartError("a database of Redis is a number, such as db=0")


def _read_sentinels(front: str, options: MutableMapping[str, str]) -> tuple[str, Sentinels]:
    """The server's address for the driver, and the Sentinels.

    Takes those out of ``options`` that are for the Sentinels alone; certificates are for both.
    """
    scheme, _, rest = front.partition("://")
    server, _, path = rest.partition("/")
    credentials, at, hosts = server.rpartition("@")
    if not hosts:
        raise _RefusedPartError(f"it names no Sentinel: {_SENTINEL_EXAMPLE}")
    service, _, database = path.strip("/").partition("/")
    if not service:
        raise _RefusedPartError(
            f"it names no service that Sentinels watch over: {_SENTINEL_EXAMPLE}"
        )
    if _SERVICE.fullmatch(service) is None:
        raise _RefusedPartError(
            "the service must be letters, digits, dots, hyphens and underscores: /service/0"
        )
    if database and not database.isdigit():
        raise _RefusedPartError("a database of Redis is a number, such as /service/0")
    places = _read_places(hosts, "Sentinel", DEFAULT_SENTINEL_PORT)
    is_encrypted = scheme.startswith("rediss")
    sentinels = Sentinels(places, service, is_encrypted, _take_sentinel_options(options))
    return f"redis://{credentials}{at}{service}/{database or 0}", sentinels


def _take_sentinel_options(options: MutableMapping[str, str]) -> dict[str, str]:
    theirs = {name: value for name, value in options.items() if name.startswith("ssl_")}
    for name in ("username", "password"):
        if f"sentinel_{name}" in options:
            theirs[name] = options.pop(f"sentinel_{name}")
    if "username" in theirs and "password" not in theirs:
        raise _RefusedPartError("sentinel_username needs a sentinel_password")
    return theirs


def _read_nodes(front: str) -> tuple[str, tuple[Place, ...]]:
    """The address of the first node for the driver, and all nodes if there are several."""
    scheme, _, rest = front.partition("://")
    server, slash, path = rest.partition("/")
    credentials, at, hosts = server.rpartition("@")
    if "," not in hosts:
        return front, ()
    places = _read_places(hosts, "node", DEFAULT_PORT)
    if path.strip("/0"):
        raise _RefusedPartError("a cluster has only the database 0")
    first = hosts.partition(",")[0]
    return f"{scheme}://{credentials}{at}{first}{slash}{path}", places


def _read_places(hosts: str, kind: str, default_port: int) -> tuple[Place, ...]:
    places = tuple(_read_place(text, kind, default_port) for text in hosts.split(","))
    if len(set(places)) < len(places):
        raise _RefusedPartError(f"it names a {kind} twice")
    return places


def _read_place(text: str, kind: str, default_port: int) -> Place:
    try:
        split = urlsplit(f"//{text}")
        port = split.port
    except ValueError as error:
        reason = f"the port of a {kind} must be a number from 1 to 65535"
        raise _RefusedPartError(reason) from error
    if not split.hostname or port == 0 or text.endswith(":"):
        raise _RefusedPartError(f"each {kind} is a host, with a port if it is not {default_port}")
    return Place(split.hostname, port or default_port)
