"""The address of a store: which database, which schema in it, and how to show it."""

import re
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from rota.errors import InvalidStoreUrlError
from rota.stores import address

DEFAULT_SCHEMA = "rota"
_PLACES = re.compile(r"([^:/]*:[0-9]+,?)+/[^:/]*")
"""Hosts, ports and a database; a user and the start of a password look different."""
_SCHEMA_NAME = re.compile(r"(?!pg_)[a-z_][a-z0-9_]{0,62}")
_PLACE = re.compile(r"(?P<host>\[[^\]]+\]|[^:]*)(:(?P<port>[0-9]+))?")
_DEFAULT_PORT = 5432
_OWN_OPTIONS = frozenset({"schema", "pooler", "listen"})


class Pooling(Enum):
    """What is between this program and the server.

    ``TRACKED`` is a pooler that sends a prepared statement again where a server connection lacks
    it; PgBouncer does so from version 1.21.
    """

    UNKNOWN = "unknown"
    NONE = "none"
    TRANSACTION = "transaction"
    TRACKED = "tracked"

    @property
    def is_pooled(self) -> bool:
        """Whether each transaction may have another session of the server."""
        return self in (Pooling.TRANSACTION, Pooling.TRACKED)


_POOLERS = {"detect": Pooling.UNKNOWN, "none": Pooling.NONE, "transaction": Pooling.TRANSACTION}


@dataclass(frozen=True, slots=True)
class PostgresSettings:
    """Which database, how many connections, and how long to wait for it.

    ``places`` has host and port of each server, if the address names several. ``listen_url`` is an
    address for wake-ups that leads past the pooler. ``sets_locally`` if every transaction must make
    its own settings, because the pooler's connections lack them.
    """

    url: str = field(repr=False)
    schema: str = DEFAULT_SCHEMA
    connection_count: int = 8
    connect_for: timedelta = timedelta(seconds=10)
    answer_for: timedelta = timedelta(seconds=20)
    pooling: Pooling = Pooling.UNKNOWN
    sets_locally: bool = False
    listen_url: str | None = field(default=None, repr=False)
    places: tuple[tuple[str, int], ...] = ()

    @property
    def label(self) -> str:
        """The address to show: without password and options."""
        return masked(self.url)


def read_address(url: str) -> PostgresSettings:
    """Settings from ``postgresql://user@host/database?schema=rota``.

    Options other than ``schema``, ``pooler`` and ``listen`` are those of PostgreSQL itself. Raises
    InvalidStoreUrlError.
    """
    if "#" in url:
        raise InvalidStoreUrlError(masked(url), "a # must be written as %23")
    front, _, query = url.partition("?")
    options = _read_options(url, query)
    schema = dict(options).get("schema", DEFAULT_SCHEMA)
    if _SCHEMA_NAME.fullmatch(schema) is None:
        raise InvalidStoreUrlError(
            masked(url),
            "the schema must be named in lower case letters, digits and _, with at most 63 of "
            "them, and not begin with a digit or pg_",
        )
    others = [option for option in options if option[0] not in _OWN_OPTIONS]
    places = _read_places(url, front)
    if places and "target_session_attrs" not in dict(others):
        others.append(("target_session_attrs", "read-write"))
    return PostgresSettings(
        f"{front}?{urlencode(others)}" if others else front,
        schema,
        pooling=_read_pooler(url, dict(options)),
        listen_url=_read_listen(url, dict(options)),
        places=places,
    )


def _read_pooler(url: str, options: dict[str, str]) -> Pooling:
    name = options.get("pooler", "detect")
    if name not in _POOLERS:
        known = ", ".join(_POOLERS)
        raise InvalidStoreUrlError(masked(url), f"pooler must be one of {known}, got {name!r}")
    return _POOLERS[name]


def _read_listen(url: str, options: dict[str, str]) -> str | None:
    direct = options.get("listen")
    if direct is not None and not direct.startswith(("postgresql://", "postgres://")):
        reason = "listen must be an address of PostgreSQL, with each & written as %26"
        raise InvalidStoreUrlError(masked(url), reason)
    return direct


def _read_places(url: str, front: str) -> tuple[tuple[str, int], ...]:
    """The hosts before the name of the database, if there are several."""
    places: list[tuple[str, int]] = []
    for each in urlsplit(front).netloc.rpartition("@")[2].split(","):
        place = _PLACE.fullmatch(each)
        if place is None:
            raise InvalidStoreUrlError(masked(url), "its port must be a number")
        places.append((unquote(place["host"].strip("[]")), int(place["port"] or _DEFAULT_PORT)))
    return tuple(places) if len(places) > 1 else ()


def _read_options(url: str, query: str) -> list[tuple[str, str]]:
    """Names and values. Errors do not show the cause, because it repeats a part of the address."""
    try:
        urlsplit(url)
    except ValueError:
        raise InvalidStoreUrlError(masked(url), "it cannot be read as an address") from None
    try:
        return parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))
    except ValueError:
        reason = "its options are written as name=value, with & in between"
        raise InvalidStoreUrlError(masked(url), reason) from None


def masked(url: str) -> str:
    """The address to show; hosts, ports and a database hold no password."""
    return address.masked(url, _PLACES)
