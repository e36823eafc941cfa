"""What a store's address says: which server, which store on it, and how to name it to people."""

import re
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from urllib.parse import parse_qsl, urlencode, urlsplit

from rota.errors import InvalidStoreUrlError

DEFAULT_NAME = "rota"

_STORE_NAME = re.compile(r"[A-Za-z0-9_.-]{1,63}")
_TLS_OPTIONS = frozenset({"ssl_ca_certs", "ssl_cert_reqs", "ssl_certfile", "ssl_keyfile"})
_OPTIONS = _TLS_OPTIONS | {"db", "username", "password"}


@dataclass(frozen=True, slots=True)
class RedisSettings:
    """Which server and store, and how patient to be with it."""

    url: str
    name: str = DEFAULT_NAME
    connection_count: int = 8
    connect_for: timedelta = timedelta(seconds=10)
    answer_for: timedelta = timedelta(seconds=20)

    @property
    def label(self) -> str:
        """The address as it may be shown: without password and options, but with the name."""
        shown = masked(self.url)
        return shown if self.name == DEFAULT_NAME else f"{shown}?name={self.name}"


def read_address(url: str) -> RedisSettings:
    """Settings from ``redis://user:password@host:6379/0?name=rota`` and its like.

    ``rediss://`` encrypts; ``unix:///run/redis.sock?db=0`` is a socket of this machine. ``name`` is
    that of the store among others in the same database. Raises InvalidStoreUrlError.
    """
    plain = url.removeprefix("redis+") if url.startswith("redis+unix://") else url
    if "#" in plain:
        raise InvalidStoreUrlError(masked(plain), "a # must be written as %23")
    front, _, query = plain.partition("?")
    try:
        place = urlsplit(plain)
        _ = place.port
        options = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))
    except ValueError as error:
        raise InvalidStoreUrlError(masked(plain), str(error)) from error
    _check_place(plain, place.scheme, place.path, place.netloc)
    name = dict(options).get("name", DEFAULT_NAME)
    if _STORE_NAME.fullmatch(name) is None:
        raise InvalidStoreUrlError(
            masked(plain), "the name must be 1 to 63 letters, digits, dots, hyphens and underscores"
        )
    others = [option for option in options if option[0] != "name"]
    for option, _value in others:
        if option not in _OPTIONS:
            raise InvalidStoreUrlError(masked(plain), f"{option} is not an option of it")
    return RedisSettings(f"{front}?{urlencode(others)}" if others else front, name)


@lru_cache(maxsize=32)
def masked(url: str) -> str:
    """The address without what must not be shown: it may hold passwords in two places."""
    scheme, _, rest = url.partition("://")
    server = re.split(r"[?#]", rest, maxsplit=1)[0]
    credentials, at, place = server.rpartition("@")
    user = credentials.partition(":")[0]
    return f"{scheme}://{user}{at}{place}"


def _check_place(url: str, scheme: str, path: str, server: str) -> None:
    if scheme == "unix":
        if len(path) < 2:
            raise InvalidStoreUrlError(masked(url), "it names no socket: unix:///run/redis.sock")
    elif not server:
        raise InvalidStoreUrlError(masked(url), f"it names no server: {scheme}://host:6379/0")
    elif path.strip("/") and not path.strip("/").isdigit():
        raise InvalidStoreUrlError(masked(url), "a database of Redis is a number, such as /0")
