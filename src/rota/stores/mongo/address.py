"""The address of a store: which database, and how to show it."""

import re
from dataclasses import dataclass, field
from datetime import timedelta

from pymongo.errors import PyMongoError
from pymongo.uri_parser import parse_uri

from rota.errors import InvalidStoreUrlError
from rota.stores.address import masked

DEFAULT_DATABASE = "rota"
_SRV = "mongodb+srv://"


@dataclass(frozen=True, slots=True)
class MongoSettings:
    """Which database, and how long to wait for it.

    ``connect_for`` is longer than an election, which takes a replica set about ten seconds.
    """

    url: str = field(repr=False)
    database: str = DEFAULT_DATABASE
    connect_for: timedelta = timedelta(seconds=30)
    answer_for: timedelta = timedelta(seconds=20)

    @property
    def label(self) -> str:
        """The address without password and options, fit to be shown."""
        return masked(self.url)


def read_address(url: str) -> MongoSettings:
    """Settings from ``mongodb://user@host/database``; without a database it is ``rota``.

    Options are those of MongoDB itself. Raises InvalidStoreUrlError.
    """
    settings = MongoSettings(url, _database_of(url))
    if url.startswith(_SRV):  # resolved when the store is opened
        return settings
    try:
        parse_uri(url)
    except (PyMongoError, ValueError) as error:
        raise InvalidStoreUrlError(masked(url), _without(url, str(error))) from None
    return settings


def _database_of(url: str) -> str:
    _, _, path = url.partition("://")[2].partition("?")[0].partition("/")
    name = path or DEFAULT_DATABASE
    if re.fullmatch(r"[A-Za-z0-9_-]{1,63}", name) is None:
        reason = "the name of a database is 1 to 63 letters, digits, _ and -"
        raise InvalidStoreUrlError(masked(url), reason)
    return name


def _without(url: str, reason: str) -> str:
    """The reason, unless it repeats the address, which may hold a password."""
    credentials, at, _ = url.partition("://")[2].rpartition("@")
    secret = credentials.partition(":")[2] if at else ""
    return "it is not an address of MongoDB" if secret and secret in reason else reason
