"""The address of a store: which database on which server, and how to show it."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from rota.errors import InvalidStoreUrlError

_SHAPE = "write mysql://user:password@host:3306/database"


@dataclass(frozen=True, slots=True)
class MysqlSettings:
    """Which database, how many connections, and how long to wait for it."""

    host: str
    port: int
    user: str
    password: str = field(repr=False)
    database: str
    connection_count: int = 8
    connect_for: timedelta = timedelta(seconds=10)
    answer_for: timedelta = timedelta(seconds=20)

    @property
    def label(self) -> str:
        """The address to show: without the password."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"mysql://{self.user}@{host}:{self.port}/{self.database}"

    @property
    def driver_arguments(self) -> dict[str, Any]:
        """How the driver connects."""
        return {
            "host": self.host,
            "port": self.port,
            "user": self.user,
            "password": self.password,
            "db": self.database,
            "charset": "utf8mb4",
            "autocommit": True,
            "connect_timeout": self.connect_for.total_seconds(),
        }


def read_address(url: str) -> MysqlSettings:
    """Settings from ``mysql://user:password@host:port/database``; raises InvalidStoreUrlError."""
    try:
        parts = urlsplit(url)
        port = parts.port or 3306
    except ValueError:
        raise InvalidStoreUrlError(url, f"it cannot be read as an address; {_SHAPE}") from None
    fault = _find_fault(parts)
    if fault is not None:
        raise InvalidStoreUrlError(url, f"{fault}; {_SHAPE}")
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    return MysqlSettings(
        parts.hostname or "", port, user, password, unquote(parts.path.removeprefix("/"))
    )


def _find_fault(parts: SplitResult) -> str | None:
    if parts.query or parts.fragment:
        return "it has no options, and a ? or # in a password must be written as %3F or %23"
    if not parts.hostname or not parts.username:
        return "the host or the user is missing"
    if parts.path.strip("/") == "" or parts.path.count("/") > 1:
        return "the name of one database is needed"
    return None
