"""Callers: their tenant, their scopes, and how a service identifies them."""

from datetime import datetime
from enum import StrEnum
from typing import Protocol

import msgspec

from rota.jobs.record import DEFAULT_TENANT


class Scope(StrEnum):
    """What a caller may do; no scope contains another, so that each is given on purpose.

    ``READ`` looks; ``WRITE`` makes, changes and runs jobs; ``OPERATE`` acts on what others made:
    cancel, retry, pause, gates; ``ADMIN`` is for the whole installation: tokens, limits, metrics.
    """

    READ = "read"
    WRITE = "write"
    OPERATE = "operate"
    ADMIN = "admin"


EVERY_SCOPE = frozenset(Scope)


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody who has been identified; ``who`` is their name in the audit log.

    ``token_id`` is what rates are counted by; None for a caller that the host service vouches for.
    """

    tenant: str = DEFAULT_TENANT
    scopes: frozenset[Scope] = EVERY_SCOPE
    who: str = "host"
    token_id: str | None = None

    def may(self, scope: Scope) -> bool:
        return scope in self.scopes


class Auth(Protocol):
    """Turns a token into a caller. ``TokenBook`` is one; a host service may bring its own."""

    async def identify(self, token: str, now: datetime) -> Caller | None:
        """Who holds this token; None for every token that is not good, whatever the reason."""
        ...

    async def recall(self, token_id: str, now: datetime) -> Caller | None:
        """Who holds the token with this id, as long as it is good.

        A session on the pages asks at every request, and ends when this gives None. Where there
        are to be no sessions, always give None.
        """
        ...
