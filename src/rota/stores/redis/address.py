"""What a store's address says: which server, which store on it, and how to name it to people."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit

from rota.errors import InvalidStoreUrlError
from rota.stores.redis.sentinel.settings import SCHEMES, RefusedPartError, Sentinels, read_watched

DEFAULT_NAME = "rota"
MOST_REPLICAS = 8

_USUAL = {("db", "0"), ("name", DEFAULT_NAME)}

_STORE_NAME = re.compile(r"[A-Za-z0-9_.-]{1,63}")
_TLS_FILES = frozenset({"ssl_ca_certs", "ssl_certfile", "ssl_keyfile"})
_TLS_OPTIONS = _TLS_FILES | {"ssl_cert_reqs"}
_CERTIFICATES = ("none", "optional", "required")
_OPTIONS = _TLS_OPTIONS | {"db", "username", "password"}


@dataclass(frozen=True, slots=True)
class RedisSettings:
    """Which server and store, and how patient to be with it."""

    url: str = field(repr=False)
    name: str = DEFAULT_NAME
    replica_count: int = 0
    """How many replicas must have a write before it is acknowledged."""
    connection_count: int = 8
    connect_for: timedelta = timedelta(seconds=10)
    answer_for: timedelta = timedelta(seconds=20)
    sentinels: Sentinels | None = None
    """Whom to ask where the server is; the host in ``url`` stands for the service then."""

    @property
    def label(self) -> str:
        """The address as it may be shown: of its options only those that say which store it is."""
        options = dict(parse_qsl(self.url.partition("?")[2]))
        said = {"db": options.get("db", "0"), "name": self.name}
        unusual = [each for each in said.items() if each not in _USUAL]
        shown = masked(self.url if self.sentinels is None else self.sentinels.address)
        return f"{shown}?{urlencode(unusual)}" if unusual else shown


def read_address(url: str) -> RedisSettings:
    """Settings from ``redis://user:password@host:6379/0?name=rota`` and its like.

    ``rediss://`` encrypts; ``unix:///run/redis.sock?db=0`` is a socket of this machine, and
    ``redis+sentinel://host1:26379,host2:26379/service/0`` whoever Sentinels name as the primary of
    a service. ``name`` is that of the store among others in the same database, and ``replicas`` how
    many must have a write before it is acknowledged. Raises InvalidStoreUrlError.
    """
    plain = url.removeprefix("redis+") if url.startswith("redis+unix://") else url
    try:
        return _read(plain)
    except RefusedPartError as refused:
        # What led to it would repeat a part of the address, which may be one of its password.
        raise InvalidStoreUrlError(masked(plain), str(refused)) from None


@lru_cache(maxsize=32)
def masked(url: str) -> str:
    """The address without what must not be shown: it may hold passwords in two places."""
    scheme, _, rest = url.partition("://")
    server, *options = re.split(r"[?#]", rest, maxsplit=1)
    if "@" not in server and "@" in "".join(options):
        # A password may hold a ? or a # that was not written as it must be: then all of this is it.
        return f"{scheme}://{re.split('[:/]', server, maxsplit=1)[0]}"
    credentials, at, place = server.rpartition("@")
    user = credentials.partition(":")[0]
    return f"{scheme}://{user}{at}{place}"


def _read(url: str) -> RedisSettings:
    if "#" in url:
        raise RefusedPartError("a # must be written as %23")
    front, _, query = url.partition("?")
    scheme, options = front.partition("://")[0], _read_options(query)
    name, replicas = options.pop("name", DEFAULT_NAME), options.pop("replicas", "0")
    server, sentinels = front, None
    if scheme in SCHEMES:
        server, sentinels = read_watched(front, options)
    _check_server(server)
    _check_own(name, replicas)
    _check_options(scheme, options)
    whole = f"{server}?{urlencode(options)}" if options else server
    return RedisSettings(whole, name, int(replicas), sentinels=sentinels)


def _read_options(query: str) -> dict[str, str]:
    try:
        return dict(parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query)))
    except ValueError as error:
        raise RefusedPartError("it cannot be read as an address") from error


def _check_server(front: str) -> None:
    try:
        place = urlsplit(front)
        _ = place.port
    except ValueError as error:
        is_port = "ort" in str(error)
        reason = "the port must be a number" if is_port else "it cannot be read as an address"
        raise RefusedPartError(reason) from error
    path = place.path.strip("/")
    if place.scheme == "unix":
        if not path:
            raise RefusedPartError("it names no socket: unix:///run/redis.sock")
    elif not place.netloc.rpartition("@")[2]:
        raise RefusedPartError(f"it names no server: {place.scheme}://host:6379/0")
    elif path and not path.isdigit():
        raise RefusedPartError("a database of Redis is a number, such as /0")


def _check_own(name: str, replicas: str) -> None:
    if _STORE_NAME.fullmatch(name) is None:
        raise RefusedPartError(
            "the name must be 1 to 63 letters, digits, dots, hyphens and underscores"
        )
    if re.fullmatch(r"[0-9]", replicas) is None or int(replicas) > MOST_REPLICAS:
        raise RefusedPartError(f"replicas must be a number from 0 to {MOST_REPLICAS}")


def _check_options(scheme: str, options: Mapping[str, str]) -> None:
    for option, value in options.items():
        if option not in _OPTIONS:
            raise RefusedPartError(f"{option} is not an option of it")
        if option in _TLS_OPTIONS and not scheme.startswith("rediss"):
            encrypted = "rediss+sentinel" if scheme in SCHEMES else "rediss"
            raise RefusedPartError(f"{option} is for an encrypted connection: {encrypted}://")
        if option in _TLS_FILES and not Path(value).is_file():
            raise RefusedPartError(f"{option} names no file: {value}")
    if options.get("ssl_cert_reqs", "required") not in _CERTIFICATES:
        raise RefusedPartError(f"ssl_cert_reqs must be one of {', '.join(_CERTIFICATES)}")
    if not options.get("db", "0").isdigit():
        raise RefusedPartError("a database of Redis is a number, such as db=0")
