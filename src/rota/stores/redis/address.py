"""What a store's address says: which server, which store on it, and how to name it to people."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit

from rota.errors import InvalidStoreUrlError

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

    @property
    def label(self) -> str:
        """The address as it may be shown: of its options only those that say which store it is."""
        options = dict(parse_qsl(self.url.partition("?")[2]))
        said = {"db": options.get("db", "0"), "name": self.name}
        unusual = [each for each in said.items() if each not in _USUAL]
        return f"{masked(self.url)}?{urlencode(unusual)}" if unusual else masked(self.url)


def read_address(url: str) -> RedisSettings:
    """Settings from ``redis://user:password@host:6379/0?name=rota`` and its like.

    ``rediss://`` encrypts; ``unix:///run/redis.sock?db=0`` is a socket of this machine. ``name`` is
    that of the store among others in the same database, and ``replicas`` how many must have a
    write before it is acknowledged. Raises InvalidStoreUrlError.
    """
    plain = url.removeprefix("redis+") if url.startswith("redis+unix://") else url
    if "#" in plain:
        raise InvalidStoreUrlError(masked(plain), "a # must be written as %23")
    front, _, query = plain.partition("?")
    try:
        place = urlsplit(plain)
        _ = place.port
        options = dict(parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query)))
    except ValueError as error:
        raise InvalidStoreUrlError(masked(plain), _told(error)) from error
    name, replicas = options.pop("name", DEFAULT_NAME), options.pop("replicas", "0")
    reasons = (
        _refuse_place(place.scheme, place.path, place.netloc),
        _refuse_own(name, replicas),
        _refuse_option(place.scheme, options),
    )
    for reason in filter(None, reasons):
        raise InvalidStoreUrlError(masked(plain), reason)
    return RedisSettings(f"{front}?{urlencode(options)}" if options else front, name, int(replicas))


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


def _told(error: ValueError) -> str:
    """Why an address cannot be read, unless that would repeat a part of it."""
    return "the port must be a number" if "ort" in str(error) else "it cannot be read as an address"


def _refuse_place(scheme: str, path: str, server: str) -> str | None:
    if scheme == "unix":
        return None if len(path) > 1 else "it names no socket: unix:///run/redis.sock"
    if not server.rpartition("@")[2]:
        return f"it names no server: {scheme}://host:6379/0"
    if path.strip("/") and not path.strip("/").isdigit():
        return "a database of Redis is a number, such as /0"
    return None


def _refuse_own(name: str, replicas: str) -> str | None:
    if _STORE_NAME.fullmatch(name) is None:
        return "the name must be 1 to 63 letters, digits, dots, hyphens and underscores"
    if re.fullmatch(r"[0-9]", replicas) is None or int(replicas) > MOST_REPLICAS:
        return f"replicas must be a number from 0 to {MOST_REPLICAS}"
    return None


def _refuse_option(scheme: str, options: Mapping[str, str]) -> str | None:
    for option, value in options.items():
        if option not in _OPTIONS:
            return f"{option} is not an option of it"
        if option in _TLS_OPTIONS and scheme != "rediss":
            return f"{option} is for an encrypted connection: rediss://"
        if option in _TLS_FILES and not Path(value).is_file():
            return f"{option} names no file: {value}"
    if options.get("ssl_cert_reqs", "required") not in _CERTIFICATES:
        return f"ssl_cert_reqs must be one of {', '.join(_CERTIFICATES)}"
    if not options.get("db", "0").isdigit():
        return "a database of Redis is a number, such as db=0"
    return None
