"""Callers: their tenant, their scopes, and how a service identifies them."""

from datetime import datetime
from enum import StrEnum
from typing import Protocol

import msgspec

from rota.jobs.record import DEFAULT_TENANT


class Scope(StrEnum):
    """What a caller may do. No scope includes another.

    ``READ`` reads; ``WRITE`` creates, changes and runs jobs; ``OPERATE`` acts on jobs of others:
    cancel, retry, pause, gates; ``ADMIN`` is for the whole installation: tokens, limits, metrics.
    """

    READ = "read"
    WRITE = "write"
    OPERATE = "operate"
    ADMIN = "admin"


EVERY_SCOPE = frozenset(Scope)


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """An identified caller. ``who`` is its name in the audit log.

    Rate limits count by ``token_id``; it is None for a caller that the host service identified.
    """

    tenant: str = DEFAULT_TENANT
    scopes: frozenset[Scope] = EVERY_SCOPE
    who: str = "host"
    token_id: str | None = None

    def may(self, scope: Scope) -> bool:
        return scope in self.scopes


class Auth(Protocol):
    """Identifies callers by token. ``TokenBook`` does; a host service may bring its own."""

    async def identify(self, token: str, now: datetime) -> Caller | None:
        """The holder of this token; None when it is not valid, for any reason."""
        ...

    async def recall(self, token_id: str, now: datetime) -> Caller | None:
        """The holder of the token with this id; None when it is no longer valid.

        A session of the pages calls this for every request and ends when it returns None. To allow
        no sessions, always return None.
        """
        ...
